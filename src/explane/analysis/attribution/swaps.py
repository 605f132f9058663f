"""Gives the kernels of one type in a graph launch their slots, where order alone can't.

For every launch, kernels (by start) stand against slots (by schedule). What speaks for a choice:

- a kernel starts after the settled kernels of earlier places on its stream and before the later
  ones (strong: a stream is serial);
- where kernels are seen to wait for what they read: it starts after its inputs are there and ends
  before its results are read (strong), and soon after stream and inputs are free (weak); else it
  starts near its neighbours on the main stream (weak);
- kernels of one stream keep the schedule's order among themselves (strong);
- one slot's kernels are of one type and last about equally long in every launch of the graph.

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

from explane.analysis.attribution.profile import assign_in_order, deviation_cost, learn_durations
from explane.analysis.distinct import Ints

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ORDER_COST: Final = 8.0
SURE_MARGIN: Final = 3.0
"""Least advantage over the best other choice that counts as certain."""

_WEAK_CAP: Final = 3.0
_PAIR_CAP: Final = 0.5
_DURATION_CAP: Final = 12.0
_MIN_SPREAD: Final = 0.03
_FEW_SPREAD: Final = 0.2
_TYPE_COST: Final = 6.0
_MOST: Final = 0.6
_MAX_LEARNED: Final = 12
_FEW: Final = 4
_ROUNDS: Final = 4
_MAX_SWAPS: Final = 4


@dataclass(frozen=True, slots=True)
class Candidates:
    """Kernels of one type in U launches of one frame, and their g slots.

    Shapes: U launches, at most n kernels each (padded), g slots.

    Attributes:
        present: (U, n): False for padding. Kernels are sorted by start.
        start_ps: (U, n).
        stream: (U, n).
        log_duration: (U, n), with the device's own speed taken out.
        types: (U, n): kernel types; they differ only among library kernels, copies and fills.
        evidence: (U, n, g): what speaks against a kernel in a slot, but for durations.
        timed: Whether durations tell anything (a collective's duration includes waiting).
        scale_ps: Time by which starts on different streams may be apart before it counts.
    """

    present: Flags
    start_ps: Ints
    stream: Ints
    log_duration: Floats
    types: Ints
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

    def of(self, launches: Flags) -> Assignment:
        """The same for some of the launches."""
        return Assignment(self.kernel[launches], self.margin[launches])


def assign(candidates: Candidates, initial: Ints, complete: Flags, certain: Flags) -> Assignment:
    """Assigns the kernels of all launches.

    Args:
        candidates: The kernels and slots.
        initial: (U, g): kernel index per slot or -1; every present kernel stands once.
        complete: (U,): launches with a kernel for each slot that they can have.
        certain: (U,): launches whose initial assignment stays: they only teach.
    """
    pair = _pair_costs(candidates)
    evidence = candidates.evidence
    held = initial.copy()
    _improve(evidence, pair, held, ~certain)
    sure = (certain[:, None] | (_margins(evidence, pair, held) >= SURE_MARGIN)) & (held >= 0)
    held = _fill_lossy(candidates, held, sure, complete | certain)
    cost = evidence
    for _ in range(_ROUNDS):
        taught = _teaching(held, sure)
        cost = evidence + _duration_costs(candidates, held, taught)
        cost += _type_costs(candidates, held, taught)
        changed = _improve(cost, pair, held, ~certain)
        sure = (certain[:, None] | (_margins(cost, pair, held) >= SURE_MARGIN)) & (held >= 0)
        if not changed:
            break
    return Assignment(held, _margins(cost, pair, held))


def _fill_lossy(c: Candidates, held: Ints, sure: Flags, complete: Flags) -> Ints:
    """Launches that lost kernels are assigned by habits learned from all of them."""
    lossy = ~complete
    if not lossy.any():
        return held
    taught = _teaching(held, sure)
    cost = c.evidence + _type_costs(c, held, taught)
    if not c.timed or held.shape[1] > _MAX_LEARNED or (sure.sum(axis=0) >= _FEW).all():
        cost += _duration_costs(c, held, taught)
    else:
        profile = learn_durations(c.log_duration, c.present, cost)
        cost += deviation_cost(c.log_duration, profile, np.full(len(profile), 0.1))
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


def _teaching(held: Ints, sure: Flags) -> Flags:
    """(U, g): what teaches a slot's habits: sure kernels, where there are any, else all."""
    filled = held >= 0
    known = np.logical_or.reduce(sure, axis=0)
    return np.where(known[None, :], filled & sure, filled)


def _duration_costs(c: Candidates, held: Ints, taught: Flags) -> Floats:
    """(U, n, g): half the squared deviation from a slot's usual duration."""
    n_launches, n = c.present.shape
    if not c.timed:
        return np.zeros((n_launches, n, held.shape[1]))
    values = np.take_along_axis(c.log_duration, np.maximum(held, 0), axis=1)
    centre, spread = _robust(np.where(taught, values, np.nan))
    deviation = (c.log_duration[:, :, None] - centre) / spread
    cost = np.minimum(deviation**2 / 2, _DURATION_CAP)
    return np.asarray(np.where(np.isnan(cost), 0.0, cost))


def _type_costs(c: Candidates, held: Ints, taught: Flags) -> Floats:
    """(U, n, g): cost of a kernel of another type than most of a slot's."""
    cost = np.zeros((*c.present.shape, held.shape[1]))
    if np.all((c.types == c.types[0, 0]) | ~c.present):
        return cost
    values = np.take_along_axis(c.types, np.maximum(held, 0), axis=1)
    for slot in range(held.shape[1]):
        known, counts = np.unique(values[taught[:, slot], slot], return_counts=True)
        if len(known) and counts.max() >= _MOST * counts.sum():
            cost[:, :, slot] = _TYPE_COST * (c.types != known[counts.argmax()])
    return cost


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


def _deltas(cost: Floats, pair: Floats, held: Ints) -> Floats:
    """(U, g, g): change of the whole cost when the contents of slots a < b are swapped.

    Infinite elsewhere, and where both are empty. Between a and b only the order against the
    contents in between changes:

        slots    a  ..c..  b        after   b  ..c..  a
        costs    ac, cb, ab                 bc, ca, ba
    """
    n_launches, g = held.shape
    rows = np.arange(n_launches)[:, None, None]
    index = np.where(held >= 0, held, cost.shape[1])
    padded = np.concatenate((cost, np.zeros((n_launches, 1, g))), axis=1)
    moved = padded[rows, index[:, :, None], np.arange(g)[None, None, :]]
    own = np.diagonal(moved, axis1=1, axis2=2)
    delta = moved + moved.transpose(0, 2, 1) - own[:, :, None] - own[:, None, :]
    ordered = pair[rows, index[:, :, None], index[:, None, :]]
    before = np.concatenate((np.zeros((n_launches, g, 1)), np.cumsum(ordered, axis=2)), axis=2)
    behind = np.concatenate((np.zeros((n_launches, 1, g)), np.cumsum(ordered, axis=1)), axis=1)
    a, b = np.triu_indices(g, 1)
    change = ordered[:, b, a] - ordered[:, a, b]
    change += before[:, b, b] - before[:, b, a + 1] - before[:, a, b] + before[:, a, a + 1]
    change += behind[:, b, a] - behind[:, a + 1, a] - behind[:, b, b] + behind[:, a + 1, b]
    result = np.full((n_launches, g, g), np.inf)
    result[:, a, b] = delta[:, a, b] + change
    empty = held < 0
    result[empty[:, :, None] & empty[:, None, :]] = np.inf
    return result


def _improve(cost: Floats, pair: Floats, held: Ints, open_: Flags) -> bool:
    """Applies each launch's best swap, in place, while one helps; True when anything changed."""
    g = held.shape[1]
    live = np.flatnonzero(open_)
    changed = False
    for _ in range(_MAX_SWAPS * g):
        deltas = _deltas(cost[live], pair[live], held[live]).reshape(len(live), -1)
        best = deltas.argmin(axis=1)
        helps = deltas[np.arange(len(live)), best] < -1e-9
        live, best = live[helps], best[helps]
        if not len(live):
            break
        a, b = best // g, best % g
        held[live, a], held[live, b] = held[live, b], held[live, a]
        changed = True
    return changed


def _margins(cost: Floats, pair: Floats, held: Ints) -> Floats:
    """(U, g): least cost of giving a slot's content away."""
    deltas = _deltas(cost, pair, held)
    return np.asarray(np.minimum(deltas.min(axis=1), deltas.min(axis=2)))
