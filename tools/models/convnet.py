"""A small residual convolution network and its training step with momentum."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Params = dict[str, Any]


def init_params(key: jax.Array) -> Params:
    """Filters (height, width, in, out) and the classifier."""
    keys = iter(jax.random.split(key, 8))

    def normal(*shape: int) -> jax.Array:
        return 0.05 * jax.random.normal(next(keys), shape)

    return {
        "stem": normal(5, 5, 3, 32),
        "first": [normal(3, 3, 32, 32), normal(3, 3, 32, 32)],
        "second": [normal(3, 3, 32, 96), normal(3, 3, 96, 96)],
        "shortcut": normal(1, 1, 32, 96),
        "classes": normal(96, 1000),
    }


def convolution(x: jax.Array, filters: jax.Array, stride: int = 1) -> jax.Array:
    """A 2-D convolution, channels last, padded to the same size."""
    with jax.named_scope("convolution"):
        return lax.conv_general_dilated(
            x,
            filters.astype(x.dtype),
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )


def normalise(x: jax.Array) -> jax.Array:
    """Batch normalisation without learned scale."""
    with jax.named_scope("batch_norm"):
        wide = x.astype(jnp.float32)
        mean = wide.mean((0, 1, 2))
        variance = wide.var((0, 1, 2))
        return ((wide - mean) * lax.rsqrt(variance + 1e-5)).astype(x.dtype)


def residual(x: jax.Array, filters: list[jax.Array], shortcut: jax.Array | None) -> jax.Array:
    """Two convolutions and the way around them."""
    stride = 1 if shortcut is None else 2
    inner = jax.nn.relu(normalise(convolution(x, filters[0], stride)))
    inner = normalise(convolution(inner, filters[1]))
    around = x if shortcut is None else convolution(x, shortcut, stride)
    return jax.nn.relu(inner + around)


def loss_fn(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of the classes."""
    with jax.named_scope("convnet"):
        x = jax.nn.relu(normalise(convolution(images, params["stem"], 2)))
        with jax.named_scope("pool"):
            window, stride = (1, 2, 2, 1), (1, 2, 2, 1)
            x = lax.reduce_window(x, -jnp.inf, lax.max, window, stride, "VALID")
        x = residual(x, params["first"], None)
        x = residual(x, params["second"], params["shortcut"])
        scores = x.mean((1, 2)).astype(jnp.float32) @ params["classes"]
        picked = jnp.take_along_axis(scores, labels[:, None], axis=-1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(scores, axis=-1) - picked)


def train_step(params: Params, speed: Params, images: jax.Array, labels: jax.Array) -> Any:
    """One step of gradient descent with momentum."""
    loss, grads = jax.value_and_grad(loss_fn)(params, images, labels)
    speed = jax.tree.map(lambda v, g: 0.9 * v + g, speed, grads)
    params = jax.tree.map(lambda p, v: p - 0.05 * v, params, speed)
    return params, speed, loss
