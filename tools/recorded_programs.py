"""Small jax programs that `record_captures.py` runs: what a step does, without any recording.

Each maker returns a `Workload`: a state, and a step from one state to the next. They need jax
only (no optax, no flax), so that a machine with a GPU and jax can run them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

State = Any


@dataclass(frozen=True)
class Workload:
    """A program to record.

    Attributes:
        state: What the first step starts from.
        step: One step: takes a state, returns the next. It may leave work running on the GPU.
    """

    state: State
    step: Callable[[State], State]


@dataclass(frozen=True)
class GptSizes:
    """Sizes of the GPT: layers, model width, heads, vocabulary, tokens, sequences."""

    n_layers: int = 4
    width: int = 512
    n_heads: int = 8
    vocabulary: int = 8192
    n_tokens: int = 512
    n_sequences: int = 8


def gpt(small: bool) -> Workload:
    """A GPT train step: scan over layers, remat, bfloat16 compute, Adam, donated state."""
    sizes = GptSizes(2, 64, 2, 256, 64, 2) if small else GptSizes()
    parameters = _gpt_parameters(jax.random.key(0), sizes)
    tokens = jax.random.randint(
        jax.random.key(1), (sizes.n_sequences, sizes.n_tokens), 0, sizes.vocabulary
    )

    def loss(parameters: State, tokens: jax.Array) -> jax.Array:
        return _gpt_loss(parameters, tokens, sizes)

    step = jax.jit(_adam_step(loss), donate_argnums=0)
    moments = jax.tree.map(jnp.zeros_like, parameters)
    state = (parameters, moments, jax.tree.map(jnp.zeros_like, parameters), jnp.zeros((), "int32"))
    return Workload(state, lambda state: step(state, tokens))


def host_bound(small: bool) -> Workload:
    """Many tiny launches, and a value read back on the host in every step."""
    width = 32 if small else 256

    @jax.jit
    def scale(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) * 1.01

    @jax.jit
    def residual(x: jax.Array) -> jax.Array:
        return jnp.abs(x @ x.T).mean()

    def step(x: jax.Array) -> jax.Array:
        for _ in range(16):
            x = scale(x)
        return x / (1.0 + float(residual(x)))  # float() waits for the GPU

    return Workload(jax.random.normal(jax.random.key(0), (width, width)), step)


def convolution(small: bool) -> Workload:
    """A train step of a small convolutional network: library convolutions and reductions."""
    n_images, side, width = (2, 16, 8) if small else (32, 64, 64)
    keys = jax.random.split(jax.random.key(0), 5)
    images = jax.random.normal(keys[0], (n_images, side, side, 3))
    labels = jax.random.randint(keys[1], (n_images,), 0, 10)
    parameters = {
        "first": jax.random.normal(keys[2], (3, 3, 3, width)) * 0.1,
        "second": jax.random.normal(keys[3], (3, 3, width, width)) * 0.1,
        "head": jax.random.normal(keys[4], (width, 10)) * 0.1,
    }

    def loss(parameters: State, images: jax.Array) -> jax.Array:
        x = jax.nn.relu(_convolved(images, parameters["first"]))
        x = jax.nn.relu(_convolved(x, parameters["second"]))
        return _cross_entropy(x.mean((1, 2)) @ parameters["head"], labels)

    step = jax.jit(_adam_step(loss), donate_argnums=0)
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    state = (parameters, zeros, jax.tree.map(jnp.zeros_like, parameters), jnp.zeros((), "int32"))
    return Workload(state, lambda state: step(state, images))


#: Makers by the name that the recorder takes.
PROGRAMS: dict[str, Callable[[bool], Workload]] = {
    "gpt": gpt,
    "host_bound": host_bound,
    "convolution": convolution,
}


def _gpt_parameters(key: jax.Array, sizes: GptSizes) -> State:
    keys = iter(jax.random.split(key, 8))
    width, n_layers = sizes.width, sizes.n_layers

    def matrix(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape) * 0.02

    return {
        "embedding": matrix(sizes.vocabulary, width),
        "position": matrix(sizes.n_tokens, width),
        "layers": {
            "scale_attention": jnp.ones((n_layers, width)),
            "scale_mlp": jnp.ones((n_layers, width)),
            "qkv": matrix(n_layers, width, 3 * width),
            "out": matrix(n_layers, width, width),
            "up": matrix(n_layers, width, 4 * width),
            "down": matrix(n_layers, 4 * width, width),
        },
    }


def _gpt_loss(parameters: State, tokens: jax.Array, sizes: GptSizes) -> jax.Array:
    with jax.named_scope("embed"):
        x = (parameters["embedding"][tokens] + parameters["position"]).astype(jnp.bfloat16)

    @jax.checkpoint
    def layer(x: jax.Array, weights: State) -> tuple[jax.Array, None]:
        weights = jax.tree.map(lambda w: w.astype(x.dtype), weights)
        x = x + _attention(_normalised(x, weights["scale_attention"]), weights, sizes.n_heads)
        with jax.named_scope("mlp"):
            hidden = jax.nn.gelu(_normalised(x, weights["scale_mlp"]) @ weights["up"])
            return x + hidden @ weights["down"], None

    x, _ = lax.scan(layer, x, parameters["layers"])
    with jax.named_scope("loss"):
        logits = x @ parameters["embedding"].T.astype(x.dtype)
        return _cross_entropy(logits[:, :-1].astype(jnp.float32), tokens[:, 1:])


def _attention(x: jax.Array, weights: State, n_heads: int) -> jax.Array:
    with jax.named_scope("attention"):
        n_sequences, n_tokens, width = x.shape
        shape = (n_sequences, n_tokens, n_heads, width // n_heads)
        q, k, v = (part.reshape(shape) for part in jnp.split(x @ weights["qkv"], 3, axis=-1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // n_heads) ** 0.5
        mask = jnp.tril(jnp.ones((n_tokens, n_tokens), bool))
        probability = jax.nn.softmax(jnp.where(mask, scores, -1e9).astype(jnp.float32))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", probability.astype(x.dtype), v)
        return mixed.reshape(x.shape) @ weights["out"]


def _normalised(x: jax.Array, scale: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    mean_square = (wide**2).mean(-1, keepdims=True)
    return (wide * lax.rsqrt(mean_square + 1e-6)).astype(x.dtype) * scale


def _convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -chosen.mean()


def _adam_step(loss: Callable[[State, jax.Array], jax.Array]) -> Callable[..., State]:
    """A train step on (parameters, first moments, second moments, count) with Adam."""

    def train_step(state: State, batch: jax.Array) -> State:
        parameters, first, second, count = state
        gradients = jax.grad(loss)(parameters, batch)
        with jax.named_scope("adam"):
            first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
            second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
            rate = 1e-3 * jnp.sqrt(1 - 0.999 ** (count + 1.0)) / (1 - 0.9 ** (count + 1.0))
            parameters = jax.tree.map(
                lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), parameters, first, second
            )
        return parameters, first, second, count + 1

    return train_step
