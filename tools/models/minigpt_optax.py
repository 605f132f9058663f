"""MiniGPT trained with optax: many of its instructions end in library frames."""

from __future__ import annotations

from typing import Any

import jax
import minigpt
import optax


def make_train_step(config: minigpt.Config) -> tuple[Any, Any]:
    """The function `train_step(params, state, tokens)` and its optimizer."""
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(3e-4, b2=0.95, weight_decay=0.1)
    )

    def train_step(params: Any, state: Any, tokens: jax.Array) -> Any:
        loss, grads = jax.value_and_grad(minigpt.loss_fn)(params, tokens, config)
        with jax.named_scope("optimizer"):
            updates, state = optimizer.update(grads, state, params)
            params = optax.apply_updates(params, updates)
        return params, state, loss

    return train_step, optimizer
