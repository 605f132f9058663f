"""Arithmetic on half-open intervals of integer picoseconds, by group, without a loop over them.

An interval is `[start, end)`; an empty or negative one (`end <= start`) covers nothing. A *group*
is any small integer (a stream, a device, a thread): intervals of different groups never meet.
All operations sort once and sweep, so their cost is n log n in the number of intervals; what is
sorted already is not sorted again. Sets are swept together in slices of time, so that what a sweep
needs beside its sets stays small.

    events     ├──────┤   ├───┤        ├──┤
                  ├─────┤     ├──┤            (touching and overlapping ones are one)
    union      ├────────┤ ├──────┤     ├──┤
    gaps                ├─┤      ├─────┤      (what is left of a window)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.capture.growing import is_constant
from explane.capture.model import I32, I64, Bools

_SLICE: Final = 1 << 18
"""Intervals of the longest set that are swept at once."""

_FIRST_PS, _LAST_PS = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Intervals:
    """Columns of intervals; the same length each. One group throughout is stored once.

    Attributes:
        group: Group of each interval, 0 or more.
        start_ps, end_ps: Half-open.
    """

    group: I32 | I64
    start_ps: I64
    end_ps: I64

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def duration_ps(self) -> I64:
        """Length of each interval; negative where an end lies before its start."""
        return self.end_ps - self.start_ps

    def take(self, rows: Bools | I64 | npt.NDArray[np.intp] | slice) -> Intervals:
        """The intervals of a mask, of row numbers or of a slice, which is not copied."""
        start = self.start_ps[rows]
        if is_constant(self.group) and len(start):
            return Intervals(np.broadcast_to(self.group[0], len(start)), start, self.end_ps[rows])
        return Intervals(self.group[rows], start, self.end_ps[rows])


def intervals(start_ps: I64, end_ps: I64, group: npt.ArrayLike = 0) -> Intervals:
    """Intervals from columns; `group` may be one number for all."""
    codes = np.broadcast_to(np.asarray(group, dtype=np.int64), np.shape(start_ps))
    return Intervals(codes, np.asarray(start_ps, np.int64), np.asarray(end_ps, np.int64))


def concatenate(sets: Iterable[Intervals]) -> Intervals:
    """All intervals of several sets as one; nothing gives an empty set."""
    none = np.zeros(0, dtype=np.int64)
    every = [s for s in sets if len(s)] or [Intervals(none, none, none)]
    start = np.concatenate([s.start_ps for s in every])
    end = np.concatenate([s.end_ps for s in every])
    groups = {int(s.group[0]) if is_constant(s.group) else None for s in every}
    if len(groups) == 1 and None not in groups:
        return Intervals(np.broadcast_to(every[0].group[0], len(start)), start, end)
    return Intervals(np.concatenate([s.group for s in every]), start, end)


def union(parts: Intervals) -> Intervals:
    """Disjoint intervals that cover the same time, sorted by group and start.

        ├────┤              ├────┤
           ├────┤├──┤  ->
        ├──────────┤        ├──────────┤

    Empty intervals vanish; touching ones become one.
    """
    parts = _sorted(_lasting(parts))
    if not len(parts):
        return parts
    reach = running_end(parts)
    begins = np.ones(len(parts), dtype=bool)
    begins[1:] = (parts.group[1:] != parts.group[:-1]) | (parts.start_ps[1:] > reach[:-1])
    if begins.all():
        return parts
    last = np.append(np.flatnonzero(begins)[1:] - 1, len(parts) - 1)
    return replace(parts.take(begins), end_ps=reach[last])


def _lasting(parts: Intervals) -> Intervals:
    """The intervals that are not empty."""
    lasts = parts.end_ps > parts.start_ps
    return parts if lasts.all() else parts.take(lasts)


def _sorted(parts: Intervals) -> Intervals:
    """The intervals by group and start."""
    group, start = parts.group, parts.start_ps
    same = group[1:] == group[:-1]
    in_order = (group[1:] > group[:-1]) | (same & (start[1:] >= start[:-1]))
    return parts if in_order.all() else parts.take(np.lexsort((start, group)))


def running_end(parts: Intervals) -> I64:
    """The latest end so far within its group, for intervals sorted by group.

    Groups are laid side by side by an offset of each. Where that could overflow, ends are
    replaced by their ranks first.
    """
    n, end = len(parts), parts.end_ps
    if not n or parts.group[0] == parts.group[-1]:  # one group, as groups are sorted
        alone: I64 = np.maximum.accumulate(end)
        return alone
    block = np.zeros(n, dtype=np.int64)
    np.cumsum(parts.group[1:] != parts.group[:-1], out=block[1:])
    low, high = int(end.min()), int(end.max())
    reach = high - low + 1
    if (int(block[-1]) + 1) * reach + max(abs(low), abs(high)) < np.iinfo(np.int64).max:
        offset = block * reach
        shifted: I64 = np.maximum.accumulate(end + offset) - offset
        return shifted
    order = np.argsort(end, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    highest = np.maximum.accumulate(block * n + rank) - block * n
    return end[order[highest]]


def length_by_group(parts: Intervals, n_groups: int) -> I64:
    """Summed length of each group's intervals; for a union this is the covered time.

    Returns:
        Shape (n_groups,), 0 for a group without intervals.
    """
    total = np.zeros(n_groups, dtype=np.int64)
    np.add.at(total, parts.group, parts.duration_ps)
    return total


def hull(parts: Intervals, n_groups: int) -> tuple[I64, I64]:
    """First start and last end of each group; (0, 0) for a group without intervals."""
    low = np.full(n_groups, np.iinfo(np.int64).max, dtype=np.int64)
    high = np.full(n_groups, np.iinfo(np.int64).min, dtype=np.int64)
    np.minimum.at(low, parts.group, parts.start_ps)
    np.maximum.at(high, parts.group, parts.end_ps)
    empty = low > high
    low[empty] = high[empty] = 0
    return low, high


def _swept(
    sets: Sequence[Intervals], choose: Callable[[list[Bools]], Sequence[Bools]]
) -> list[Intervals]:
    """Time that is chosen by which of several sets cover it.

    Args:
        sets: Intervals in any order.
        choose: Gets, for stretches of time, whether each set covers them, and gives one mask of
            them per result.

    Returns:
        One union per result.
    """
    found: list[list[Intervals]] = []
    for part in _slices([union(s) for s in sets]):
        group, time, covers = _edges(part)
        pieces = [_pieces(group, time, wanted) for wanted in choose(covers)]
        found.append(pieces)
    return [_joined(pieces) for pieces in zip(*found, strict=True)]


def _joined(pieces: Sequence[Intervals]) -> Intervals:
    """Unions of one slice of time after the other as one; what touches at a cut is joined."""
    kept: list[Intervals] = []
    for piece in pieces:
        if not len(piece):
            continue
        last = kept[-1] if kept else None
        if last and last.group[-1] == piece.group[0] and last.end_ps[-1] == piece.start_ps[0]:
            start = piece.start_ps.copy()
            start[0] = last.start_ps[-1]
            kept[-1], piece = last.take(slice(-1)), replace(piece, start_ps=start)
        kept.append(piece)
    return concatenate(kept)


def _slices(unions: list[Intervals]) -> Iterator[list[Intervals]]:
    """Several unions cut into slices of time of one group each, where there is much to sweep."""
    if max(map(len, unions)) <= _SLICE:
        yield unions
        return
    for group in np.unique(np.concatenate([np.unique(s.group) for s in unions])).tolist():
        own = [s.take(slice(*np.searchsorted(s.group, (group, group + 1)))) for s in unions]
        longest = max(own, key=len)
        cuts = longest.start_ps[_SLICE::_SLICE].tolist()
        for begin, end in pairwise((_FIRST_PS, *cuts, _LAST_PS)):
            yield [_between(s, begin, end) for s in own]


def _between(parts: Intervals, begin_ps: int, end_ps: int) -> Intervals:
    """What a union of one group covers between two moments."""
    first = int(np.searchsorted(parts.end_ps, begin_ps, side="right"))
    last = int(np.searchsorted(parts.start_ps, end_ps, side="left"))
    parts = parts.take(slice(first, last))
    return Intervals(
        parts.group, np.maximum(parts.start_ps, begin_ps), np.minimum(parts.end_ps, end_ps)
    )


def _edges(unions: list[Intervals]) -> tuple[I64, I64, list[Bools]]:
    """Sorted edges of several unions, and which of them cover the time after each edge.

    Returns:
        group and time of each edge, and one column per set: whether it covers.
    """
    time = np.concatenate([edge for s in unions for edge in (s.start_ps, s.end_ps)])
    groups = {int(s.group[at]) for s in unions if len(s) for at in (0, -1)}
    if len(groups) <= 1:  # each set is sorted by group
        order = np.argsort(time, kind="stable")
        group: I64 = np.broadcast_to(np.int64(min(groups, default=0)), len(time))
    else:
        group = np.concatenate([s.group for s in unions for _ in range(2)])
        order = np.lexsort((time, group))
        group = group[order]
    coverage, first = [], 0
    for part in unions:
        delta = np.zeros(len(time), dtype=np.int8)
        delta[first : first + len(part)] = 1
        delta[first + len(part) : first + 2 * len(part)] = -1
        coverage.append(np.cumsum(delta[order], dtype=np.int8) > 0)
        first += 2 * len(part)
    return group, time[order], coverage


def _pieces(group: I64, time: I64, wanted: Bools) -> Intervals:
    """The stretches between neighbouring edges that are wanted, touching ones joined."""
    if len(time) < 2:
        return Intervals(group[:0], time[:0], time[:0])
    real = wanted[:-1] & (group[1:] == group[:-1]) & (time[1:] > time[:-1])
    return union(Intervals(group[:-1][real], time[:-1][real], time[1:][real]))


def intersect(left: Intervals, right: Intervals) -> Intervals:
    """Time that both sets cover, as a union.

    left       ├──────┤    ├─────┤
    right          ├─────────┤
    result         ├──┤    ├─┤
    """
    return _swept((left, right), lambda covers: [covers[0] & covers[1]])[0]


def cover(sets: Sequence[Intervals]) -> Intervals:
    """Time that at least one of several sets covers: `union` of all of them.

    first      ├──────┤    ├─────┤
    second         ├──────┤
    result     ├──────────┤├─────┤
    """
    if not sets:
        return concatenate(())
    return _swept(sets, lambda covers: [np.logical_or.reduce(covers)])[0]


def subtract(left: Intervals, right: Intervals) -> Intervals:
    """Time that `left` covers and `right` does not: the exposed part of `left`, as a union.

    left       ├──────┤    ├─────┤
    right          ├─────────┤
    result     ├───┤         ├───┤
    """
    return _swept((left, right), lambda covers: [covers[0] & ~covers[1]])[0]


def gaps(parts: Intervals, windows: Intervals) -> Intervals:
    """Time inside the windows that no interval of the same group covers.

    parts        ├──┤    ├───┤
    window     ├────────────────┤
    result     ├─┤  ├────┤   ├──┤
    """
    return subtract(windows, parts)


def clip(parts: Intervals, windows: Intervals) -> Intervals:
    """The intervals cut to their group's window, one to one; empty ones where none is left.

    Args:
        parts: Intervals, in any order; kept in that order.
        windows: Exactly one window per group, row g being the window of group g.
    """
    start = np.maximum(parts.start_ps, windows.start_ps[parts.group])
    end = np.minimum(parts.end_ps, windows.end_ps[parts.group])
    return Intervals(parts.group, start, np.maximum(start, end))


def priority_layers(sets: tuple[Intervals, ...]) -> tuple[Intervals, ...]:
    """Covered time divided among the sets so that no moment is counted twice.

    Where several sets cover the same time, the first of them has it:

        first      ├─────┤                 ├─────┤
        second        ├──────┤    ->             ├───┤

    Returns:
        One union per set; they are disjoint, and together they are the union of all sets.
    """

    def first_that_covers(covers: list[Bools]) -> list[Bools]:
        free = np.ones_like(covers[0])
        layers = []
        for covered in covers:
            layers.append(free & covered)
            free &= ~covered
        return layers

    return tuple(_swept(sets, first_that_covers))


def covered_in_windows(parts: Intervals, start_ps: I64, end_ps: I64) -> I64:
    """How much of each window the intervals of one group cover.

    Args:
        parts: A union (disjoint, sorted) of a single group; the group number is not looked at.
        start_ps: Starts of the windows, in any order, overlapping or not; shape (n,).
        end_ps: Their ends; a window that ends before it starts counts as empty.

    Returns:
        Shape (n,), picoseconds.
    """
    if not len(parts):
        return np.zeros(len(start_ps), dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(parts.duration_ps)))

    until_end = _covered_until(parts, before, end_ps)
    covered: I64 = np.maximum(until_end - _covered_until(parts, before, start_ps), 0)
    return covered


def _covered_until(parts: Intervals, before: I64, time_ps: I64) -> I64:
    """Covered time before given moments; `before` is the covered time before each interval."""
    index = np.searchsorted(parts.start_ps, time_ps, side="right")
    last = np.maximum(index - 1, 0)
    part = np.clip(time_ps - parts.start_ps[last], 0, parts.duration_ps[last])
    covered: I64 = np.where(index > 0, before[last] + part, 0)
    return covered
