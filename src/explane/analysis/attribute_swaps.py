"""Gives the kernels of one type in a graph launch their slots, where order alone can't.

For every launch, kernels (by start) stand against slots (by schedule). What speaks for a choice:

- a kernel starts after the settled kernels of earlier places on its stream and before the later
  ones (strong: a stream is serial), near the times of its neighbours on the main stream (weak);
- kernels of one stream keep the schedule's order among themselves (strong);
- one slot's kernels last about equally long in every launch of the graph.

All launches of a frame are improved together by swapping the contents of two slots as long as that
lowers the cost; an empty slot (its kernel was lost) can be swapped too. Costs are in units of
half a squared standard deviation, so a difference of 3 stands for odds of about 20 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.attribute_profile import assign_in_order, deviation_cost, learn_durations

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ORDER_COST: Final = 8.0
_WEAK_CAP: Final = 3.0
_DURATION_CAP: Final = 12.0
_MIN_SPREAD: Final = 0.02
_FEW_SPREAD: Final = 0.15
_MAX_LEARNED: Final = 12
_FEW: Final = 4
_ROUNDS: Final = 3
_SWEEPS: Final = 6
_MAX_DISTANCE: Final = 8


@dataclass(frozen=True, slots=True)
class Candidates:
    """Kernels of one type in U launches of one frame, and their g slots.

    Shapes: U launches, at most n kernels each (padded), g slots.

    Attributes:
        present: (U, n): False for padding. Kernels are sorted by start.
        start_ps: (U, n).
        stream: (U, n).
        log_duration: (U, n), with the device's own speed taken out.
        after, before: (U, n): places of the nearest settled kernels on the same stream.
        slots: (g,): places, ascending.
        neighbour_low_ps, neighbour_high_ps: (U, g): times between which a slot's kernel would
            start on the main stream.
        timed: Whether durations tell anything (a collective's duration includes waiting).
        weak_scale_ps: Time by which a start may be off before it counts.
    """

    present: npt.NDArray[np.bool_]
    start_ps: Ints
    stream: Ints
    log_duration: Floats
    after: Ints
    before: Ints
    slots: Ints
    neighbour_low_ps: Ints
    neighbour_high_ps: Ints
    timed: bool
    weak_scale_ps: float


@dataclass(frozen=True, slots=True)
class Assignment:
    """Kernels in slots.

    Attributes:
        kernel: (U, g): index of the kernel in each slot, or -1.
        margin: (U, g): how much worse the best other choice for that slot is.
    """

    kernel: Ints
    margin: Floats


def assign(candidates: Candidates, initial: Ints, sure: Flags, complete: Flags) -> Assignment:
    """Assigns the kernels of all launches.

    Args:
        candidates: The kernels and slots.
        initial: (U, g): kernel index per slot or -1; every present kernel stands once.
        sure: (U,): launches whose initial assignment is beyond doubt.
        complete: (U,): launches with a kernel for each slot that they can have.
    """
    order = _order_costs(candidates)
    pair = _pair_costs(candidates)
    held = _first_assignment(candidates, initial, order, sure, complete)
    for round_ in range(_ROUNDS):
        teach = sure if round_ == 0 and sure.any() else complete
        cost = order + _duration_costs(candidates, held, teach)
        if not _improve(cost, pair, held) and round_ > 0:
            break
    return Assignment(held, _margins(cost, pair, held))


def _first_assignment(
    c: Candidates, initial: Ints, order: Floats, sure: Flags, complete: Flags
) -> Ints:
    """Launches that lost kernels are assigned by durations learned from all of them."""
    held = initial.copy()
    lossy = ~complete
    if not c.timed or not lossy.any() or len(c.slots) > _MAX_LEARNED:
        return held
    if (complete & sure).sum() >= _FEW:
        values = np.take_along_axis(c.log_duration, np.maximum(held, 0), axis=1)
        profile = np.median(values[complete & sure], axis=0)
    else:
        profile = learn_durations(c.log_duration, c.present, order)
    cost = order + deviation_cost(c.log_duration, profile, np.full(len(profile), 0.1))
    held[lossy] = assign_in_order(cost[lossy], c.present[lossy])
    return held


def _order_costs(c: Candidates) -> Floats:
    """(U, n, g): cost of each kernel in each slot from its neighbours."""
    slots = c.slots[None, None, :]
    strong = (slots < c.after[:, :, None]).astype(np.float64)
    strong += slots > c.before[:, :, None]
    start = c.start_ps[:, :, None]
    early = c.neighbour_low_ps[:, None, :] - start
    late = start - c.neighbour_high_ps[:, None, :]
    weak = np.maximum(np.maximum(early, late), 0) / c.weak_scale_ps
    return np.asarray(ORDER_COST * strong + np.minimum(weak, _WEAK_CAP))


def _pair_costs(c: Candidates) -> Floats:
    """(U, n + 1, n + 1): cost of kernel i standing in an earlier slot than kernel j.

    Only pairs against the order of starts cost; the last index stands for an empty slot.
    """
    n_launches, n = c.present.shape
    against = np.arange(n)[:, None] > np.arange(n)[None, :]
    same = c.stream[:, :, None] == c.stream[:, None, :]
    apart = (c.start_ps[:, :, None] - c.start_ps[:, None, :]) / c.weak_scale_ps
    cost = np.where(same, ORDER_COST, np.clip(apart, 0, 4) / 8)
    table = np.zeros((n_launches, n + 1, n + 1))
    table[:, :n, :n] = np.where(against & c.present[:, :, None] & c.present[:, None, :], cost, 0)
    return table


def _duration_costs(c: Candidates, held: Ints, teach: Flags) -> Floats:
    """(U, n, g): half the squared deviation from a slot's usual duration."""
    n_launches, n = c.present.shape
    if not c.timed:
        return np.zeros((n_launches, n, len(c.slots)))
    filled = held >= 0
    taught = filled & teach[:, None]
    if not taught.any(axis=0).all():
        taught = filled
    values = np.take_along_axis(c.log_duration, np.maximum(held, 0), axis=1)
    centre, spread = _robust(np.where(taught, values, np.nan))
    deviation = (c.log_duration[:, :, None] - centre) / spread
    cost = np.minimum(deviation**2 / 2, _DURATION_CAP)
    return np.asarray(np.where(np.isnan(cost), 0.0, cost))


def _robust(values: Floats) -> tuple[Floats, Floats]:
    """Median and spread (scaled median absolute deviation) of each column, ignoring NaN."""
    count = (~np.isnan(values)).sum(axis=0)
    safe = np.where(count > 0, values, 0.0)
    centre = np.nanmedian(safe, axis=0)
    deviation = np.nanmedian(np.abs(safe - centre), axis=0) * 1.4826
    spread = np.where(count >= _FEW, np.maximum(deviation, _MIN_SPREAD), _FEW_SPREAD)
    return np.where(count > 0, centre, np.nan), spread


def _total(cost: Floats, pair: Floats, held: Ints) -> Floats:
    """(U,): cost of whole assignments."""
    n_launches, g = held.shape
    rows = np.arange(n_launches)
    index = np.where(held >= 0, held, cost.shape[1])
    padded = np.concatenate((cost, np.zeros((n_launches, 1, g))), axis=1)
    total = padded[rows[:, None], index, np.arange(g)].sum(axis=1)
    first, second = np.triu_indices(g, 1)
    return np.asarray(total + pair[rows[:, None], index[:, first], index[:, second]].sum(axis=1))


def _pairs(g: int) -> list[tuple[int, int]]:
    reach = g if g <= 2 * _MAX_DISTANCE else _MAX_DISTANCE
    return [(a, b) for a in range(g) for b in range(a + 1, min(g, a + reach + 1))]


def _swapped(held: Ints, a: int, b: int) -> Ints:
    other = held.copy()
    other[:, a], other[:, b] = held[:, b], held[:, a]
    return other


def _improve(cost: Floats, pair: Floats, held: Ints) -> bool:
    """Swaps in place while it helps; True when anything changed."""
    changed = False
    best = _total(cost, pair, held)
    for _ in range(_SWEEPS):
        moved = False
        for a, b in _pairs(held.shape[1]):
            other = _swapped(held, a, b)
            total = _total(cost, pair, other)
            better = total < best - 1e-9
            if better.any():
                held[better], best[better] = other[better], total[better]
                moved = True
        changed |= moved
        if not moved:
            break
    return changed


def _margins(cost: Floats, pair: Floats, held: Ints) -> Floats:
    """(U, g): least cost of giving a slot's content away."""
    margin = np.full(held.shape, np.inf)
    best = _total(cost, pair, held)
    for a, b in _pairs(held.shape[1]):
        gap = _total(cost, pair, _swapped(held, a, b)) - best
        both_empty = (held[:, a] < 0) & (held[:, b] < 0)
        gap[both_empty] = np.inf
        margin[:, a] = np.minimum(margin[:, a], gap)
        margin[:, b] = np.minimum(margin[:, b], gap)
    return margin
