"""MiniGPT writing text: one token for every sequence, keys and values kept in a cache."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import minigpt
from jax import lax


def cached_attention(x: Any, weights: Any, cache: Any, position: Any, config: Any) -> Any:
    """Attention of one new token to all that are in the cache."""
    with jax.named_scope("cached_attention"):
        batch, width = x.shape
        head = width // config.n_heads
        qkv = (x @ weights["qkv"].astype(x.dtype)).reshape(batch, 3, config.n_heads, head)
        keys = lax.dynamic_update_slice_in_dim(cache[0], qkv[:, None, 1], position, axis=1)
        values = lax.dynamic_update_slice_in_dim(cache[1], qkv[:, None, 2], position, axis=1)
        scores = jnp.einsum("bhd,bkhd->bhk", qkv[:, 0], keys).astype(jnp.float32)
        seen = jnp.arange(keys.shape[1]) <= position
        weight = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1).astype(x.dtype)
        mixed = jnp.einsum("bhk,bkhd->bhd", weight, values).reshape(batch, width)
        return mixed @ weights["out"].astype(x.dtype), (keys, values)


def make_decode_step(config: minigpt.Config) -> Any:
    """The function `decode_step(params, caches, token, position)`."""

    def decode_step(params: Any, caches: Any, token: Any, position: Any) -> Any:
        x = params["embedding"].astype(jnp.bfloat16)[token]
        x = x + params["position"].astype(jnp.bfloat16)[position]
        new_caches = []
        for i in range(config.n_layers):
            weights = jax.tree.map(lambda a, i=i: a[i], params["layers"])
            normed = minigpt.rms_norm(x, weights["attention_scale"])
            mixed, cache = cached_attention(normed, weights, caches[i], position, config)
            x = x + mixed
            x = x + minigpt.feed_forward(minigpt.rms_norm(x, weights["mlp_scale"]), weights)
            new_caches.append(cache)
        scores = minigpt.rms_norm(x, params["final_scale"]) @ params["embedding"].astype(x.dtype).T
        with jax.named_scope("pick"):
            return new_caches, jnp.argmax(scores, axis=-1), position + 1

    return decode_step
