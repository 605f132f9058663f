"""How well a kernel fits an expected launch: one score for each (kernel type, launch).

A kernel type is what kernels share that matters for matching: name, and for library kernels their
launch shape. Scores are whole numbers; what counts is their order and rough distance:

    exact label  >  own name  >  name of an equal body  >  fitting family  >  possible family
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.analysis.attribution.alignment import FORBIDDEN, Scores
from explane.analysis.attribution.names import KernelClass, base_name, stem_of
from explane.analysis.attribution.schedule import Launch, LaunchKind, Schedule
from explane.capture.classify import collective_of_name

EXACT: Final = 1000
LEARNED: Final = 6
"""Added where the very kernel was seen with its label."""
OWN_NAME: Final = 20
SHARED_NAME: Final = 18
SAME_STEM: Final = 5
STRONG: Final = SHARED_NAME
"""Least score of a match that a name supports."""

UNLIKELY: Final = 8
"""Taken off where exact kernels show another launch shape."""

FITTING: Final = 8
"""Least score of a kernel whose family is just what the launch runs."""

SKIP_COST: Final = 2
LEAVE_COST: Final = 6
LEAVE_LOOSE_COST: Final = 3
_LEAVE_EXACT_COST: Final = 50

_K = KernelClass
_ANYTHING: Final = frozenset({_K.COPY, _K.MEMSET, _K.OTHER, _K.HOST_COPY})
_FIRST: Final[Mapping[LaunchKind, Mapping[KernelClass, int]]] = {
    LaunchKind.CUSTOM: {},
    LaunchKind.COPY: {_K.COPY: 10, _K.MEMSET: 1},
    LaunchKind.MEMSET: {_K.MEMSET: 10, _K.COPY: 1},
    LaunchKind.GEMM: {_K.GEMM: 10, _K.OTHER: 4, _K.CONVOLUTION: 3, _K.GEMM_TAIL: 1},
    LaunchKind.CONVOLUTION: {
        _K.CONVOLUTION: 10,
        _K.GEMM: 9,
        _K.OTHER: 4,
        _K.CONVOLUTION_HEAD: 2,
    },
    LaunchKind.LIBRARY: {
        _K.ATTENTION: 10,
        _K.OTHER: 9,
        _K.GEMM: 5,
        _K.CONVOLUTION: 5,
        _K.COPY: 4,
        _K.SORT: 4,
        _K.MEMSET: 3,
    },
    LaunchKind.FFT: {_K.FFT: 10, _K.OTHER: 3},
    LaunchKind.SORT: {_K.SORT: 10, _K.OTHER: 3},
    LaunchKind.COLLECTIVE: {_K.COLLECTIVE: 10, _K.COPY: 2, _K.OTHER: 1},
    LaunchKind.HOST_COPY: {_K.HOST_COPY: 10, _K.COPY: 8, _K.MEMSET: 6},
}
"""The main kernel of a launch."""
_BEFORE: Final[Mapping[LaunchKind, Mapping[KernelClass, int]]] = {
    LaunchKind.GEMM: {_K.MEMSET: 5},
    LaunchKind.CONVOLUTION: {_K.CONVOLUTION_HEAD: 8, _K.MEMSET: 5, _K.OTHER: 3, _K.COPY: 1},
    LaunchKind.LIBRARY: {_K.MEMSET: 6, _K.COPY: 2},
    LaunchKind.SORT: {_K.COPY: 2, _K.MEMSET: 2},
}
"""Kernels in front of it: a cleared workspace, a changed layout."""
_FOLLOW: Final[Mapping[LaunchKind, Mapping[KernelClass, int]]] = {
    LaunchKind.GEMM: {_K.GEMM_TAIL: 9, _K.OTHER: 2, _K.GEMM: 1},
    LaunchKind.CONVOLUTION: {
        _K.GEMM_TAIL: 7,
        _K.CONVOLUTION_HEAD: 5,
        _K.CONVOLUTION: 3,
        _K.OTHER: 3,
        _K.GEMM: 2,
    },
    LaunchKind.LIBRARY: {
        _K.ATTENTION: 9,
        _K.OTHER: 8,
        _K.GEMM: 5,
        _K.CONVOLUTION: 5,
        _K.GEMM_TAIL: 5,
        _K.MEMSET: 4,
        _K.COPY: 3,
        _K.SORT: 4,
    },
    LaunchKind.FFT: {_K.FFT: 9, _K.OTHER: 2},
    LaunchKind.SORT: {_K.SORT: 9, _K.OTHER: 2},
    LaunchKind.COLLECTIVE: {_K.COLLECTIVE: 1},
}
"""Kernels behind it."""
_COLLECTIVE_WORDS: Final = {
    "all-to-all": ("all-to-all", "send-recv"),
    "ragged-all-to-all": ("all-to-all", "send-recv"),
    "collective-permute": ("send-recv", "peer-copy"),
    "send": ("send-recv", "peer-copy"),
    "recv": ("send-recv", "peer-copy"),
    "collective-broadcast": ("broadcast",),
}


@dataclass(frozen=True, slots=True)
class KernelType:
    """What kernels of one type share.

    Attributes:
        name: Kernel name as stored.
        family: Its family by name.
        launches: Launches that the tracer's label allows (exact or alias); empty: no label.
        is_exact: The label names the instruction itself.
        preferred: Among `launches`, those whose name fits the label's best.
        learned: Launches under which this very kernel was seen with its label.
        unlikely: Launches seen only with kernels of the same name but another launch shape.
        is_loose: Nothing ties the kernel to the program but its surroundings, so only a launch
            that runs just such kernels will do.
    """

    name: str
    family: KernelClass
    launches: tuple[int, ...] = ()
    is_exact: bool = False
    preferred: tuple[int, ...] = ()
    learned: tuple[int, ...] = ()
    unlikely: tuple[int, ...] = ()
    is_loose: bool = False


def score_types(schedule: Schedule, types: Sequence[KernelType]) -> Scores:
    """Scores of every kernel type for every launch of a schedule."""
    shape = (len(types), len(schedule))
    first = np.full(shape, FORBIDDEN, dtype=np.int64)
    before = np.full(shape, FORBIDDEN, dtype=np.int64)
    follow = np.full(shape, FORBIDDEN, dtype=np.int64)
    leave = np.empty(len(types), dtype=np.int64)
    families = _family_tables(schedule)
    stems = _launches_by_stem(schedule)
    for i, kernel in enumerate(types):
        leave[i] = _leave_cost(kernel)
        if kernel.launches:
            _score_label(schedule, kernel, first[i], follow[i])
            continue
        named = schedule.by_kernel_name.get(base_name(kernel.name), ())
        if named:
            _score_name(schedule, kernel, named, first[i], follow[i])
        elif kernel.family is KernelClass.XLA:
            near = list(stems.get(stem_of(base_name(kernel.name)), ()))
            first[i, near] = SAME_STEM
        else:
            first[i], before[i], follow[i] = families[:, kernel.family]
            _score_collective(schedule, kernel, first[i])
        if kernel.is_loose:
            first[i, first[i] < FITTING] = FORBIDDEN
            if kernel.family in _ANYTHING:
                before[i] = follow[i] = FORBIDDEN
        learned = [p for p in kernel.learned if first[i, p] > FORBIDDEN]
        first[i, learned] += LEARNED
        follow[i, learned] += LEARNED
        first[i, list(kernel.unlikely)] -= UNLIKELY
    return Scores(first, before, follow, leave)


def skip_costs(schedule: Schedule) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Cost of passing each launch without a kernel; nothing for those that may launch none."""
    return np.array([0 if x.optional else SKIP_COST for x in schedule.launches], dtype=np.int64)


def _leave_cost(kernel: KernelType) -> int:
    if kernel.is_exact:
        return _LEAVE_EXACT_COST
    return LEAVE_LOOSE_COST if kernel.family in _ANYTHING else LEAVE_COST


def _score_label(schedule: Schedule, kernel: KernelType, first: _Row, follow: _Row) -> None:
    """A labelled kernel can only be one of the launches that its label allows."""
    allowed = list(kernel.launches)
    first[allowed] = EXACT if kernel.is_exact else OWN_NAME
    if kernel.is_exact:
        follow[allowed] = EXACT
    first[list(kernel.preferred)] += SAME_STEM


def _score_name(
    schedule: Schedule, kernel: KernelType, named: tuple[int, ...], first: _Row, follow: _Row
) -> None:
    """A kernel named after an instruction: its own first, then those with an equal body."""
    base = base_name(kernel.name)
    for p in named:
        launch = schedule.launches[p]
        first[p] = OWN_NAME if launch.names[0] == base else SHARED_NAME
        if launch.kind is LaunchKind.SORT:
            follow[p] = first[p]


def _score_collective(schedule: Schedule, kernel: KernelType, first: _Row) -> None:
    """A collective kernel that names another operation than a launch's fits it only loosely.

    It may still be right: a grouped call may run as another operation.
    """
    word = collective_of_name(base_name(kernel.name))
    if kernel.family is not KernelClass.COLLECTIVE or not word:
        return
    for p, launch in enumerate(schedule.launches):
        if launch.collective and word not in _words_of(launch.collective):
            first[p] = 2


def _words_of(collective: str) -> tuple[str, ...]:
    return _COLLECTIVE_WORDS.get(collective, (collective,))


_Row = np.ndarray[tuple[int], np.dtype[np.int64]]


def _family_tables(schedule: Schedule) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
    """(3, families, launches): scores as main, preparing and following kernel."""
    tables = np.full((3, len(KernelClass), len(schedule)), FORBIDDEN, dtype=np.int64)
    for p, launch in enumerate(schedule.launches):
        for family, score in _first_scores(launch).items():
            tables[0, family, p] = score
        if launch.max_kernels > 1:
            for family, score in _before_scores(launch).items():
                tables[1, family, p] = score
            for family, score in _follow_scores(launch).items():
                tables[2, family, p] = score
    return tables


def _first_scores(launch: Launch) -> Mapping[KernelClass, int]:
    scores = dict(_FIRST[launch.kind])
    for other in launch.alternatives:
        scores |= _FIRST[other]
    return scores


def _follow_scores(launch: Launch) -> Mapping[KernelClass, int]:
    if LaunchKind.COPY in launch.alternatives:
        return {KernelClass.COPY: 8}
    return _FOLLOW.get(launch.kind, {})


def _before_scores(launch: Launch) -> Mapping[KernelClass, int]:
    if launch.kind is LaunchKind.CUSTOM and not launch.alternatives:
        return {KernelClass.MEMSET: 3, KernelClass.COPY: 3}
    return _BEFORE.get(launch.kind, {})


def _launches_by_stem(schedule: Schedule) -> Mapping[str, Sequence[int]]:
    found: dict[str, list[int]] = {}
    for p, launch in enumerate(schedule.launches):
        if launch.names:
            found.setdefault(stem_of(launch.names[0]), []).append(p)
    return found
