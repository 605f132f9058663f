"""Gives the kernels of one type in a graph launch their slots, where order alone can't.

For every launch, kernels (by start) stand against slots (by schedule). What speaks for a choice:

- a kernel starts after the settled kernels of earlier places on its stream and before the later
  ones (strong: a stream is serial);
- where kernels are seen to wait for what they read: it starts after its inputs are there and ends
  before its results are read (strong), and soon after stream and inputs are free (weak); else it
  starts near its neighbours on the main stream (weak);
- kernels of one stream keep the schedule's order among themselves (strong);
- one slot's kernels last about equally long in every launch of the graph.

All launches of a frame are improved together by swapping the contents of two slots as long as that
lowers the cost; an empty slot (its kernel was lost) can be swapped too. Durations are learned from
kernels whose slot the other evidence settles. Costs are in units of half a squared standard
deviation, so a difference of 3 stands for odds of about 20 to 1.
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
SURE_MARGIN: Final = 3.0
"""Least advantage over the best other choice that counts as certain."""

_WEAK_CAP: Final = 3.0
_PAIR_CAP: Final = 0.5
_DURATION_CAP: Final = 12.0
_MIN_SPREAD: Final = 0.02
_FEW_SPREAD: Final = 0.15
_MAX_LEARNED: Final = 12
_FEW: Final = 4
_ROUNDS: Final = 4
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
        evidence: (U, n, g): what speaks against a kernel in a slot, but for durations.
        timed: Whether durations tell anything (a collective's duration includes waiting).
        scale_ps: Time by which starts on different streams may be apart before it counts.
    """

    present: Flags
    start_ps: Ints
    stream: Ints
    log_duration: Floats
    evidence: Floats
    timed: bool
    scale_ps: float


@dataclass(frozen=True, slots=True)
class Assignment:
    """Kernels in slots.

    Attributes:
        kernel: (U, g): index of the kernel in each slot, or -1.
        margin: (U, g): how much worse the best other choice for that slot is.
    """

    kernel: Ints
    margin: Floats


def assign(candidates: Candidates, initial: Ints, complete: Flags) -> Assignment:
    """Assigns the kernels of all launches.

    Args:
        candidates: The kernels and slots.
        initial: (U, g): kernel index per slot or -1; every present kernel stands once.
        complete: (U,): launches with a kernel for each slot that they can have.
    """
    pair = _pair_costs(candidates)
    evidence = candidates.evidence
    held = initial.copy()
    _improve(evidence, pair, held)
    sure = (_margins(evidence, pair, held) >= SURE_MARGIN) & (held >= 0)
    held = _fill_lossy(candidates, held, sure, complete)
    cost = evidence
    for _ in range(_ROUNDS):
        cost = evidence + _duration_costs(candidates, held, sure)
        changed = _improve(cost, pair, held)
        margins = _margins(cost, pair, held)
        sure = (margins >= SURE_MARGIN) & (held >= 0)
        if not changed:
            break
    return Assignment(held, _margins(cost, pair, held))


def _fill_lossy(c: Candidates, held: Ints, sure: Flags, complete: Flags) -> Ints:
    """Launches that lost kernels are assigned by durations learned from all of them."""
    lossy = ~complete
    if not c.timed or not lossy.any() or held.shape[1] > _MAX_LEARNED:
        return held
    if (sure.sum(axis=0) >= _FEW).all():
        values = np.take_along_axis(c.log_duration, np.maximum(held, 0), axis=1)
        profile = _robust(np.where(sure, values, np.nan))[0]
    else:
        profile = learn_durations(c.log_duration, c.present, c.evidence)
    cost = c.evidence + deviation_cost(c.log_duration, profile, np.full(len(profile), 0.1))
    result = held.copy()
    result[lossy] = assign_in_order(cost[lossy], c.present[lossy])
    return result


def _pair_costs(c: Candidates) -> Floats:
    """(U, n + 1, n + 1): cost of kernel i standing in an earlier slot than kernel j.

    Only pairs against the order of starts cost; the last index stands for an empty slot.
    """
    n_launches, n = c.present.shape
    against = np.arange(n)[:, None] > np.arange(n)[None, :]
    same = c.stream[:, :, None] == c.stream[:, None, :]
    apart = (c.start_ps[:, :, None] - c.start_ps[:, None, :]) / (8 * c.scale_ps)
    cost = np.where(same, ORDER_COST, np.clip(apart, 0, _PAIR_CAP))
    table = np.zeros((n_launches, n + 1, n + 1))
    table[:, :n, :n] = np.where(against & c.present[:, :, None] & c.present[:, None, :], cost, 0)
    return table


def _duration_costs(c: Candidates, held: Ints, sure: Flags) -> Floats:
    """(U, n, g): half the squared deviation from a slot's usual duration.

    A slot's usual duration comes from sure kernels, where there are any, else from all.
    """
    n_launches, n = c.present.shape
    if not c.timed:
        return np.zeros((n_launches, n, held.shape[1]))
    filled = held >= 0
    taught = np.where(sure.any(axis=0)[None, :], filled & sure, filled)
    values = np.take_along_axis(c.log_duration, np.maximum(held, 0), axis=1)
    centre, spread = _robust(np.where(taught, values, np.nan))
    deviation = (c.log_duration[:, :, None] - centre) / spread
    cost = np.minimum(deviation**2 / 2, _DURATION_CAP)
    return np.asarray(np.where(np.isnan(cost), 0.0, cost))


def _robust(values: Floats) -> tuple[Floats, Floats]:
    """Median and spread (scaled median absolute deviation) of each column, ignoring NaN."""
    n_columns = values.shape[1]
    centre, spread = np.full(n_columns, np.nan), np.full(n_columns, _FEW_SPREAD)
    for column in range(n_columns):
        known = values[~np.isnan(values[:, column]), column]
        if not len(known):
            continue
        centre[column] = np.median(known)
        if len(known) >= _FEW:
            deviation = float(np.median(np.abs(known - centre[column]))) * 1.4826
            spread[column] = max(deviation, _MIN_SPREAD)
    return centre, spread


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
