"""MiniGPT: a small decoder-only transformer and its training step, the model of our own captures.

The line numbers of this file stand in the HLO of the compiled programs in
`src/explane/data/programs/`: change it and make them again (`tools/compile_programs.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Params = dict[str, Any]


class Config(NamedTuple):
    """Sizes of the model and of one device's batch."""

    n_layers: int = 4
    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    vocabulary: int = 16384
    sequence: int = 512
    batch_per_device: int = 8
    scan: bool = True
    remat: bool = True


class Adam(NamedTuple):
    """State of the optimizer: step count and both moments of every parameter."""

    count: jax.Array
    mean: Params
    variance: Params


def init_params(key: jax.Array, config: Config) -> Params:
    """Random parameters; per-layer weights are stacked along a first axis."""
    keys = iter(jax.random.split(key, 8))
    layers, width, inner = config.n_layers, config.d_model, config.d_ff

    def normal(*shape: int) -> jax.Array:
        return 0.02 * jax.random.normal(next(keys), shape)

    return {
        "embedding": normal(config.vocabulary, width),
        "position": normal(config.sequence, width),
        "final_scale": jnp.ones((width,)),
        "layers": {
            "attention_scale": jnp.ones((layers, width)),
            "mlp_scale": jnp.ones((layers, width)),
            "qkv": normal(layers, width, 3 * width),
            "out": normal(layers, width, width),
            "up": normal(layers, width, inner),
            "down": normal(layers, inner, width),
        },
    }


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Root-mean-square normalisation, computed in float32."""
    with jax.named_scope("rms_norm"):
        wide = x.astype(jnp.float32)
        mean_square = jnp.mean(wide * wide, axis=-1, keepdims=True)
        return (wide * lax.rsqrt(mean_square + 1e-6) * scale).astype(x.dtype)


def attention(x: jax.Array, weights: Params, config: Config) -> jax.Array:
    """Causal self-attention with all heads."""
    with jax.named_scope("attention"):
        batch, length, width = x.shape
        head = width // config.n_heads
        qkv = x @ weights["qkv"].astype(x.dtype)
        q, k, v = jnp.split(qkv.reshape(batch, length, 3 * config.n_heads, head), 3, axis=2)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * head**-0.5
        mask = jnp.tril(jnp.ones((length, length), dtype=bool))
        scores = jnp.where(mask, scores.astype(jnp.float32), -1e9)
        probabilities = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", probabilities, v)
        return mixed.reshape(batch, length, width) @ weights["out"].astype(x.dtype)


def feed_forward(x: jax.Array, weights: Params) -> jax.Array:
    """Two dense layers with a GELU between them."""
    with jax.named_scope("feed_forward"):
        hidden = jax.nn.gelu(x @ weights["up"].astype(x.dtype))
        return hidden @ weights["down"].astype(x.dtype)


def block(x: jax.Array, weights: Params, config: Config) -> jax.Array:
    """One transformer layer."""
    with jax.named_scope("block"):
        x = x + attention(rms_norm(x, weights["attention_scale"]), weights, config)
        return x + feed_forward(rms_norm(x, weights["mlp_scale"]), weights)


def logits(params: Params, tokens: jax.Array, config: Config, pin: Any = None) -> jax.Array:
    """Scores of the next token; `pin` is the sharding that activations are held to."""
    pinned = (lambda x: x) if pin is None else (lambda x: lax.with_sharding_constraint(x, pin))
    with jax.named_scope("embed"):
        length = tokens.shape[1]
        x = params["embedding"].astype(jnp.bfloat16)[tokens]
        x = pinned(x + params["position"].astype(jnp.bfloat16)[:length])

    def layer(x: jax.Array, weights: Params) -> tuple[jax.Array, None]:
        return pinned(block(x, weights, config)), None

    step = jax.checkpoint(layer) if config.remat else layer
    if config.scan:
        x, _ = lax.scan(step, x, params["layers"])
    else:
        for i in range(config.n_layers):
            x, _ = step(x, jax.tree.map(lambda a, i=i: a[i], params["layers"]))
    with jax.named_scope("head"):
        x = rms_norm(x, params["final_scale"])
        return (x @ params["embedding"].astype(x.dtype).T).astype(jnp.float32)


def loss_fn(params: Params, tokens: jax.Array, config: Config, pin: Any = None) -> jax.Array:
    """Mean cross-entropy of predicting each token from those before it."""
    with jax.named_scope("loss"):
        scores = logits(params, tokens, config, pin)[:, :-1]
        target = tokens[:, 1:]
        log_total = jax.nn.logsumexp(scores, axis=-1)
        picked = jnp.take_along_axis(scores, target[..., None], axis=-1)[..., 0]
        return jnp.mean(log_total - picked)


def adam_update(params: Params, grads: Params, state: Adam) -> tuple[Params, Adam]:
    """Adam with decoupled weight decay, gradients clipped to a global norm of 1."""
    with jax.named_scope("optimizer"):
        squares = [jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)]
        norm = jnp.sqrt(sum(squares))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / norm), grads)
        count = state.count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
        variance = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, state.variance, grads)

        def moved(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            m_hat, v_hat = m / (1 - 0.9**count), v / (1 - 0.95**count)
            return p - 3e-4 * (m_hat / (jnp.sqrt(v_hat) + 1e-8) + 0.1 * p)

        return jax.tree.map(moved, params, mean, variance), Adam(count, mean, variance)


def make_train_step(config: Config, pin: Any = None) -> Any:
    """The function `train_step(params, state, tokens)` of a configuration."""

    def train_step(params: Params, state: Adam, tokens: jax.Array) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens, config, pin)
        params, state = adam_update(params, grads, state)
        return params, state, loss

    return train_step


def fsdp_sharding(mesh: Mesh, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
    """Last axis that divides among the devices is split; small leaves are replicated."""
    for axis in reversed(range(leaf.ndim)):
        if leaf.shape[axis] % mesh.size == 0 and leaf.shape[axis] >= 64:
            return NamedSharding(mesh, PartitionSpec(*[None] * axis, "data"))
    return NamedSharding(mesh, PartitionSpec())
