"""Numerical work with control flow that the compiler can't count: loops, branches, sorting."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def power_iteration(matrix: jax.Array, tolerance: jax.Array) -> jax.Array:
    """Largest eigenvector; how many iterations it takes is known only on the device."""
    start = jnp.ones((matrix.shape[0],), matrix.dtype)

    def unfinished(state: Any) -> jax.Array:
        return (state[1] > tolerance) & (state[2] < 1000)

    def improve(state: Any) -> Any:
        vector, _, count = state
        new = matrix @ vector
        new = new / jnp.linalg.norm(new)
        return new, jnp.max(jnp.abs(new - vector)), count + 1

    with jax.named_scope("power_iteration"):
        return lax.while_loop(unfinished, improve, (start, jnp.float32(1.0), 0))[0]


def smooth(x: jax.Array, n_rounds: int) -> jax.Array:
    """A fixed number of relaxation rounds, each with a product and element-wise work."""

    def relax(_: int, x: jax.Array) -> jax.Array:
        mixed = jnp.tanh(x @ x) * 0.5 + x * 0.5
        centred = mixed - mixed.mean(axis=0)
        return centred / (1e-3 + jnp.abs(centred).max(axis=1, keepdims=True))

    with jax.named_scope("smooth"):
        return lax.fori_loop(0, n_rounds, relax, x)


def solve(matrix: jax.Array, tolerance: jax.Array, key: jax.Array) -> Any:
    """A bit of everything: loops, a branch, Fourier transform, sorting, random numbers."""
    vector = power_iteration(matrix, tolerance)
    with jax.named_scope("choose"):
        matrix = lax.cond(
            vector[0] > 0, lambda m: jnp.sin(m) @ m.T, lambda m: jnp.cumsum(m, axis=0), matrix
        )
    matrix = smooth(matrix, 6)
    with jax.named_scope("spectrum"):
        power = jnp.abs(jnp.fft.rfft(matrix, axis=-1))
    with jax.named_scope("rank"):
        ranked = jnp.sort(power, axis=-1)
        best = lax.top_k(vector, 8)[0]
    with jax.named_scope("noise"):
        noise = jax.random.normal(key, matrix.shape)
    return matrix + noise, ranked, best.sum()
