"""Usual durations of the slots of one kernel type, learned from launches that lost kernels.

When every launch lacks some kernels, none shows all slots. The slots' durations are then found
together with the assignments: a launch with most of its kernels is taken as a start, with every
choice of which slots are missing; all launches are assigned in order to the slots that fit best,
the slots' durations are estimated again, and the start that explains all launches best wins.
"""

from __future__ import annotations

from itertools import combinations, islice
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.distinct import Ints

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_SEEDS: Final = 4
_MAX_STARTS: Final = 40
_MAX_CHOICES: Final = 1000
_FAIR: Final = 4.0
_ITERATIONS: Final = 4
_UNKNOWN_COST: Final = 2.0
_CAP: Final = 12.0
_MIN_SPREAD: Final = 0.04
_IMPOSSIBLE: Final = 1e6


def assign_in_order(cost: Floats, present: Flags) -> Ints:
    """Cheapest assignment of kernels to slots that keeps their order.

    Args:
        cost: (U, n, g) cost of each kernel in each slot.
        present: (U, n) real kernels; they come before the padding.

    Returns:
        (U, g) kernel in each slot, or -1.
    """
    n_launches, n, g = cost.shape
    best = np.zeros((n_launches, g + 1))
    taken = np.zeros((n, n_launches, g + 1), dtype=np.bool_)
    for i in range(n):
        here = np.full_like(best, _IMPOSSIBLE)
        for s in range(1, g + 1):
            take = best[:, s - 1] + cost[:, i, s - 1]
            taken[i, :, s] = take <= here[:, s - 1]
            here[:, s] = np.minimum(take, here[:, s - 1])
        best = np.where(present[:, i, None], here, best)
    held = np.full((n_launches, g), -1, dtype=np.int64)
    state = np.full(n_launches, g, dtype=np.int64)
    rows = np.arange(n_launches)
    for i in range(n - 1, -1, -1):
        live = present[:, i]
        for _ in range(g):
            passed = live & ~taken[i, rows, state] & (state > 1)
            state = np.where(passed, state - 1, state)
        held[rows[live], state[live] - 1] = i
        state = np.where(live, np.maximum(state - 1, 1), state)
    return held


def learn_durations(log_duration: Floats, present: Flags, order_cost: Floats) -> Floats:
    """(g,) usual log duration of each slot; NaN where no launch tells.

    Args:
        log_duration: (U, n), sorted by start within each launch.
        present: (U, n) real kernels.
        order_cost: (U, n, g) what else speaks against a kernel in a slot.
    """
    best_score, best = np.inf, np.full(order_cost.shape[2], np.nan)
    for start in _starts(log_duration, present, order_cost):
        profile, score = _refine(start, log_duration, present, order_cost)
        if score < best_score - 1e-9:
            best_score, best = score, profile
    return best


def _starts(log_duration: Floats, present: Flags, order_cost: Floats) -> list[Floats]:
    """First guesses from the fullest launches, with each possible choice of missing slots."""
    counts = present.sum(axis=1)
    g = order_cost.shape[2]
    starts: list[Floats] = []
    for launch in np.argsort(-counts, kind="stable")[:_SEEDS]:
        n = int(counts[launch])
        choices = np.array(list(islice(combinations(range(g), n), _MAX_CHOICES)))
        speaks_against = order_cost[launch, np.arange(n), choices].sum(axis=1)
        fair = choices[speaks_against <= speaks_against.min() + _FAIR]
        for kept in fair[:_MAX_STARTS]:
            profile = np.full(g, np.nan)
            profile[kept] = log_duration[launch, :n]
            starts.append(profile)
    return starts


def _refine(
    profile: Floats, log_duration: Floats, present: Flags, order_cost: Floats
) -> tuple[Floats, float]:
    score = np.inf
    for _ in range(_ITERATIONS):
        cost = order_cost + deviation_cost(log_duration, profile, np.full(len(profile), 0.1))
        held = assign_in_order(cost, present)
        filled = held >= 0
        rows = np.arange(len(held))[:, None]
        now = float(cost[rows, np.maximum(held, 0), np.arange(len(profile))][filled].sum())
        values = np.take_along_axis(log_duration, np.maximum(held, 0), axis=1)
        profile = _column_medians(values, filled, profile)
        if now >= score - 1e-9:
            break
        score = now
    return profile, score


def deviation_cost(log_duration: Floats, profile: Floats, spread: Floats) -> Floats:
    """(U, n, g) half the squared deviation from each slot's usual duration, bounded."""
    deviation = (log_duration[:, :, None] - profile) / np.maximum(spread, _MIN_SPREAD)
    cost = np.minimum(deviation**2 / 2, _CAP)
    return np.asarray(np.where(np.isnan(cost), _UNKNOWN_COST, cost))


def _column_medians(values: Floats, filled: Flags, otherwise: Floats) -> Floats:
    """Median of the filled values of each column."""
    result = otherwise.copy()
    for column in np.flatnonzero(filled.any(axis=0)):
        result[column] = np.median(values[filled[:, column], column])
    return result
