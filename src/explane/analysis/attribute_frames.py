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

from explane.analysis.alignment import Scores
from explane.analysis.attribute_distinct import distinct
from explane.analysis.attribute_scores import STRONG
from explane.analysis.attribute_windows import Places, ProgramKernels
from explane.analysis.schedule import Schedule

Ints = npt.NDArray[np.int64]

_MIN_INSIDE: Final = 0.8
_DENSE: Final = 0.98


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
    of_kernel = np.full(len(kernels), -1, dtype=np.int64)
    rows = np.flatnonzero(kernels.in_graph & (kernels.fixed < 0))
    if not len(rows):
        return Frames(of_kernel, (), (of_kernel, of_kernel))
    local = _numbered(kernels.group[rows])
    n_groups = int(local[-1]) + 1
    fits, found = _fits(schedule, scores, kernels.types[rows], places.position[rows], local)
    named = np.full(n_groups, -1, dtype=np.int64)
    np.maximum.at(named, local, kernels.graph[rows])
    known = _known_range(fits, found, named)
    orderly = ~_walks_back(kernels, places, rows, local)
    spread = _n_streams(local, kernels.stream[rows]) > 1
    frame = np.where(orderly | (spread & (fits.sum(axis=1) == 1)), known, -1)
    ranges = list(schedule.graphs)
    learn = orderly & (known < 0)
    frame[learn], learned = _learn(places.position[rows], local, learn, len(ranges))
    of_kernel[rows] = frame[local]
    ranges += learned
    low, high, dense = _spans(schedule, places.position[rows], local, frame, ranges)
    first, end = np.full_like(of_kernel, -1), np.full_like(of_kernel, -1)
    first[rows], end[rows] = low[local], high[local]
    return Frames(of_kernel, ranges, (first, end), dense)


def _spans(
    schedule: Schedule,
    position: Ints,
    local: Ints,
    frame: Ints,
    ranges: Sequence[tuple[int, int]],
) -> tuple[Ints, Ints, bool]:
    """(first, end) of the places of each launch, or of its frame where kernels are missing.

    Graph launches of a lossless capture are dense: between their first and last place nothing is
    missing, also where a launch holds only a part of what could be one graph.
    """
    low, high = _extent(position, local, len(frame))
    required = np.array([not launch.optional for launch in schedule.launches], dtype=np.int64)
    passed = np.concatenate(([0], np.cumsum(required)))
    framed = (frame >= 0) & (high >= 0)
    expected = passed[high[framed] + 1] - passed[low[framed]]
    placed = position >= 0
    pairs = distinct(local[placed], position[placed]).columns
    found = np.bincount(pairs[0], required[pairs[1]], len(frame))[framed]
    if found.sum() >= _DENSE * expected.sum():
        return low, high + 1, True
    bounds = np.array([*ranges, (-1, -1)], dtype=np.int64)
    return bounds[frame, 0], bounds[frame, 1], False


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
    room = np.zeros((len(scores.leave_cost), n_graphs), dtype=np.int64)
    inside = np.zeros((n_groups, n_graphs), dtype=np.int64)
    for i, (first, end) in enumerate(schedule.graphs):
        room[:, i] = (scores.first[:, first:end] >= STRONG).sum(axis=1)
        here = (position >= first) & (position < end)
        inside[:, i] = np.bincount(local[here], minlength=n_groups)
    named = (scores.first.max(axis=1) >= STRONG)[types]
    pairs = distinct(local[named], types[named])
    group, kind = pairs.columns
    fitting = np.zeros((n_groups, n_graphs), dtype=np.int64)
    np.add.at(fitting, group, np.minimum(pairs.counts[:, None], room[kind]))
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


def _learn(
    position: Ints, local: Ints, wanted: npt.NDArray[np.bool_], offset: int
) -> tuple[Ints, list[tuple[int, int]]]:
    """Frames of the wanted launches: connected ranges of their places."""
    n = len(wanted)
    low, high = _extent(position, local, n)
    rows = np.flatnonzero(wanted & (high >= 0))
    frame = np.full(n, -1, dtype=np.int64)
    ranges: list[tuple[int, int]] = []
    for row in rows[np.argsort(low[rows], kind="stable")]:
        first, end = int(low[row]), int(high[row]) + 1
        if ranges and first < ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((first, end))
        frame[row] = offset + len(ranges) - 1
    return frame[wanted], ranges
