"""Which run of the schedule each graph launch stands for.

The kernels of one graph launch are, as a set, the launches of a known run of instructions: its
frame. The runs that XLA makes under its default flags are known from the schedule; where the
placed kernels contradict them (other flags, another era), frames are learned: ranges of places
that overlap belong to one graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.alignment import Scores
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.scores import STRONG
from explane.analysis.attribution.windows import Places, ProgramKernels
from explane.analysis.distinct import Ints, distinct

_MIN_INSIDE: Final = 0.8
_DENSE: Final = 0.98
_REACH: Final = 6
_BLOCK: Final = 1 << 16
"""Kernel types of launches that are worked on at once: each is set against every graph."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of graph launches.

    Attributes:
        of_kernel: Frame of each kernel, or -1: not in a graph, or its launch fits no single run.
        ranges: (first, end) of each frame in the schedule.
        span: (first, end) of the places that each kernel's launch took; the launch's frame where
            kernels of this program were lost, since then its ends may be missing.
        dense: Nothing is missing between the first and the last place of launches.
    """

    of_kernel: Ints
    ranges: Sequence[tuple[int, int]]
    span: tuple[Ints, Ints]
    dense: bool = True


def find_frames(
    schedule: Schedule, scores: Scores, kernels: ProgramKernels, places: Places
) -> Frames:
    """Frames of all graph launches of one program, from the places found so far."""
    rows = np.flatnonzero(kernels.in_graph & (kernels.fixed < 0))
    if not len(rows):
        none = np.broadcast_to(np.int32(-1), len(kernels))
        return Frames(none, (), (none, none))
    of_kernel = np.full(len(kernels), -1, dtype=np.int32)
    local = _numbered(kernels.group[rows])
    n_groups = int(local[-1]) + 1
    fits, found = _fits(schedule, scores, kernels.types[rows], places.position[rows], local)
    named = np.full(n_groups, -1, dtype=np.int64)
    np.maximum.at(named, local, kernels.graph[rows])
    known = _known_range(fits, found, named)
    orderly = ~_walks_back(kernels, places, rows, local)
    spread = _n_streams(local, kernels.stream[rows]) > 1
    frame = np.where(orderly | (spread & (fits.sum(axis=1) == 1)), known, -1)
    extent = _extent(places.position[rows], local, n_groups)
    usable = (orderly | (spread & (fits.sum(axis=1) == 1))) & (extent[1] >= 0)
    dense = _is_dense(schedule, places.position[rows], local, usable, extent)
    frame, ranges = _cluster(schedule, known, usable, extent, dense)
    room = _Room(scores, kernels.types[rows], local, frame)
    ranges = [room.extend(i, r, schedule.graphs) for i, r in enumerate(ranges)]
    of_kernel[rows] = frame[local]
    first, end = np.full_like(of_kernel, -1), np.full_like(of_kernel, -1)
    bounds = np.array([*ranges, (-1, -1)], dtype=np.int64)[frame]
    own = dense & ~spread
    first[rows] = np.where(own, extent[0], bounds[:, 0])[local]
    end[rows] = np.where(own, extent[1] + 1, bounds[:, 1])[local]
    return Frames(of_kernel, ranges, (first, end), dense)


def _is_dense(
    schedule: Schedule,
    position: Ints,
    local: Ints,
    usable: npt.NDArray[np.bool_],
    extent: tuple[Ints, Ints],
) -> bool:
    """Whether nothing is missing between the first and the last place of launches.

    So it is in a capture without loss, also where a launch holds only a part of what could be
    one graph.
    """
    required = np.array([not launch.optional for launch in schedule.launches], dtype=np.int64)
    passed = np.concatenate(([0], np.cumsum(required)))
    expected = passed[extent[1][usable] + 1] - passed[extent[0][usable]]
    placed = position >= 0
    pairs = distinct(local[placed], position[placed]).columns
    found = np.bincount(pairs[0], required[pairs[1]], len(usable))[usable]
    return bool(found.sum() >= _DENSE * expected.sum())


def _cluster(
    schedule: Schedule,
    known: Ints,
    usable: npt.NDArray[np.bool_],
    extent: tuple[Ints, Ints],
    dense: bool,
) -> tuple[Ints, list[tuple[int, int]]]:
    """Frame of each launch and the frames' ranges.

    Launches of one default graph whose places overlap share a frame. Its range is what they took,
    or the whole default graph where kernels were lost, since then its ends may be missing.
    """
    low, high = extent
    frame = np.full(len(known), -1, dtype=np.int64)
    ranges: list[tuple[int, int]] = []
    graph = -2
    rows = np.flatnonzero(usable)
    for row in rows[np.lexsort((low[rows], known[rows]))]:
        first, end = int(low[row]), int(high[row]) + 1
        whole = graph >= 0 and not dense
        if known[row] == graph and ranges and (whole or first < ranges[-1][1]):
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((first, end))
        graph = int(known[row])
        frame[row] = len(ranges) - 1
    if not dense:
        of_range = dict(zip(frame[rows].tolist(), known[rows].tolist(), strict=True))
        ranges = [
            schedule.graphs[of_range[i]] if of_range[i] >= 0 else r for i, r in enumerate(ranges)
        ]
    return frame, ranges


class _Room:
    """Widens frames that have fewer places for a name than its launches have kernels."""

    def __init__(self, scores: Scores, types: Ints, local: Ints, frame: Ints) -> None:
        self.scores = scores
        inside = frame[local] >= 0
        pairs = distinct(local[inside], types[inside])
        launch, kind = pairs.columns
        most = distinct(frame[launch], kind, pairs.counts)
        self.needed: dict[int, dict[int, int]] = {}
        for f, t, count in most.rows():
            of_frame = self.needed.setdefault(f, {})
            of_frame[t] = max(count, of_frame.get(t, 0))

    def extend(
        self, frame: int, bounds: tuple[int, int], graphs: Sequence[tuple[int, int]]
    ) -> tuple[int, int]:
        """The range, widened to the nearest fitting places, inside its default graph if any."""
        first, end = bounds
        outer = next((g for g in graphs if g[0] <= first and end <= g[1]), None)
        low, high = outer if outer is not None else (first - _REACH, end + _REACH)
        for kind, count in self.needed.get(frame, {}).items():
            places = np.flatnonzero(self.scores.first[kind] >= STRONG)
            lacking = count - int(np.count_nonzero((places >= first) & (places < end)))
            near = [p for p in places.tolist() if low <= p < first or end <= p < high]
            near.sort(key=lambda p: max(bounds[0] - p, p - bounds[1]))
            for p in near[: max(lacking, 0)]:
                first, end = min(first, p), max(end, p + 1)
        return first, end


def _extent(position: Ints, local: Ints, n: int) -> tuple[Ints, Ints]:
    """Lowest and highest place of each launch; (large, -1) where it has none."""
    low = np.full(n, np.iinfo(np.int64).max)
    high = np.full(n, -1, dtype=np.int64)
    placed = position >= 0
    np.minimum.at(low, local[placed], position[placed])
    np.maximum.at(high, local[placed], position[placed])
    return low, high


def _numbered(group: Ints) -> Ints:
    """Launches counted from 0; equal ones are adjacent."""
    new = np.zeros(len(group), dtype=np.int64)
    new[1:] = np.diff(group) != 0
    return np.cumsum(new)


def _walks_back(
    kernels: ProgramKernels, places: Places, rows: Ints, local: Ints
) -> npt.NDArray[np.bool_]:
    """Launches whose places run backwards, or repeat, in their agreed order.

    No single run of the schedule holds them.
    """
    n_groups = int(local[-1]) + 1
    row_of_rank = np.full(len(kernels), -1, dtype=np.int64)
    row_of_rank[places.rank[rows]] = np.arange(len(rows))
    by_rank = row_of_rank[row_of_rank >= 0]
    by_rank = by_rank[places.position[rows[by_rank]] >= 0]
    placed, group = rows[by_rank], local[by_rank]
    position = places.position[placed]
    step = np.diff(position)
    back = (np.diff(group) == 0) & ((step < 0) | ((step == 0) & ~places.follows[placed][1:]))
    return np.bincount(group[1:], back, n_groups) > 0


def _n_streams(local: Ints, stream: Ints) -> Ints:
    """On how many streams each launch ran."""
    return np.bincount(distinct(local, stream).columns[0])


def _fits(
    schedule: Schedule, scores: Scores, types: Ints, position: Ints, local: Ints
) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Which default graphs hold nearly all kernels of a launch, as a set.

    Returns:
        (launches, graphs) flags, and how many kernels of each launch were placed in each graph.
    """
    n_groups, n_graphs = int(local.max()) + 1, len(schedule.graphs)
    room = np.zeros((len(scores.leave_cost), n_graphs), dtype=np.int32)
    inside = np.zeros((n_groups, n_graphs), dtype=np.int32)
    for i, (first, end) in enumerate(schedule.graphs):
        room[:, i] = (scores.first[:, first:end] >= STRONG).sum(axis=1)
        here = (position >= first) & (position < end)
        inside[:, i] = np.bincount(local[here], minlength=n_groups)
    named = (scores.first.max(axis=1) >= STRONG)[types]
    pairs = distinct(local[named], types[named])
    group, kind = pairs.columns
    fitting = np.zeros((n_groups, n_graphs), dtype=np.int32)
    counts = pairs.counts.astype(np.int32)
    for first in range(0, len(pairs), _BLOCK):
        some = slice(first, first + _BLOCK)
        np.add.at(fitting, group[some], np.minimum(counts[some, None], room[kind[some]]))
    total = np.bincount(local[named], minlength=n_groups)
    enough = np.maximum(_MIN_INSIDE * total, 1)[:, None]
    best = fitting.max(axis=1, initial=0)[:, None]
    return np.asarray((fitting == best) & (fitting >= enough)), inside


def _known_range(fits: npt.NDArray[np.bool_], inside: Ints, named: Ints) -> Ints:
    """The fitting default graph that a launch's label names, else the fullest, or -1."""
    if not fits.shape[1]:
        return np.full(len(fits), -1, dtype=np.int64)
    best = np.where(fits, inside, -1).argmax(axis=1)
    by_label = (named >= 0) & fits[np.arange(len(fits)), named]
    return np.where(by_label, named, np.where(fits.any(axis=1), best, -1))
