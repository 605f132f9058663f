"""A multi-layer perceptron and its training step: few large kernels, many small ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

SIZES = (512, 2048, 2048, 1024, 64)


def init_params(key: jax.Array) -> list[dict[str, jax.Array]]:
    """Weights and biases of every layer."""
    keys = jax.random.split(key, len(SIZES))
    pairs = zip(keys, SIZES, SIZES[1:], strict=False)
    return [
        {"w": jax.random.normal(k, (a, b)) * a**-0.5, "b": jnp.zeros((b,))} for k, a, b in pairs
    ]


def predict(params: Any, x: jax.Array) -> jax.Array:
    """The network's output."""
    for i, layer in enumerate(params):
        with jax.named_scope(f"dense_{i}"):
            x = x @ layer["w"] + layer["b"]
            if i + 1 < len(params):
                x = jax.nn.silu(x)
    return x


def loss_fn(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error."""
    with jax.named_scope("loss"):
        return jnp.mean(jnp.square(predict(params, x) - y))


def train_step(params: Any, x: jax.Array, y: jax.Array) -> Any:
    """One step of plain gradient descent; gradients with a norm above 1 are scaled down."""
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    with jax.named_scope("clip"):
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        scale = jnp.minimum(1.0, 1.0 / norm)
    with jax.named_scope("update"):
        params = jax.tree.map(lambda p, g: p - 0.01 * scale * g, params, grads)
    return params, loss
