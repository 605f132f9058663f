"""What order, streams and dependencies say against a kernel in a slot (see `swaps`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.neighbours import FAR_PS, Neighbours
from explane.analysis.attribution.swaps import ORDER_COST
from explane.analysis.distinct import Ints

Floats = npt.NDArray[np.float64]

_CAP: Final = 3.0
_SLACK_PS: Final = 200_000
_PROMPT_PS: Final = 4_000_000.0
"""Time within which a kernel starts once its stream and its inputs are free."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """(U, n) kernels of one type in U launches.

    Attributes:
        rows: Index into the program's kernels (any valid one for padding).
        group: (U,) the launches.
        start_ps, end_ps: (U, n).
        first, end: (U, n) bounds of the places that the launch may have taken.
    """

    rows: Ints
    group: Ints
    start_ps: Ints
    end_ps: Ints
    first: Ints
    end: Ints


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What each place reads, and who reads it."""

    reads: Sequence[Sequence[int]]
    read_by: Sequence[Sequence[int]]


def evidence(
    kernels: Kernel, slots: Ints, around: Neighbours, needs: Dependencies, scale_ps: float
) -> Floats:
    """(U, n, g): what speaks against each kernel in each slot, but for durations.

    Args:
        kernels: The kernels.
        slots: (g,) places, ascending.
        around: Settled kernels around them.
        needs: Dependencies between places.
        scale_ps: Time by which a start may be off its neighbours before it counts.
    """
    after = np.maximum(around.after[kernels.rows], kernels.first)[:, :, None]
    before = np.minimum(around.before[kernels.rows], kernels.end - 1)[:, :, None]
    strong = (slots < after).astype(np.float64) + (slots > before)
    if around.waits:
        return np.asarray(ORDER_COST * strong + _waiting(kernels, slots, around, needs))
    low, high = around.main.around(kernels.group, slots)
    start = kernels.start_ps[:, :, None]
    off = np.maximum(np.maximum(low[:, None, :] - start, start - high[:, None, :]), 0)
    return np.asarray(ORDER_COST * strong + np.minimum(off / scale_ps, _CAP))


def _waiting(kernels: Kernel, slots: Ints, around: Neighbours, needs: Dependencies) -> Floats:
    """Costs where kernels wait for what they read."""
    ready = np.full((len(kernels.group), len(slots)), -FAR_PS)
    wanted = np.full((len(kernels.group), len(slots)), FAR_PS)
    for i, place in enumerate(slots.tolist()):
        for source in needs.reads[place]:
            ready[:, i] = np.maximum(ready[:, i], around.everywhere.end_of(kernels.group, source))
        for user in needs.read_by[place]:
            start = around.everywhere.start_of(kernels.group, user)
            wanted[:, i] = np.minimum(wanted[:, i], start)
    start, end = kernels.start_ps[:, :, None], kernels.end_ps[:, :, None]
    free = np.maximum(around.free_ps[kernels.rows][:, :, None], ready[:, None, :])
    broken = (start < ready[:, None, :] - _SLACK_PS).astype(np.float64)
    broken += end > wanted[:, None, :] + _SLACK_PS
    late = np.clip((start - free) / _PROMPT_PS, 0, _CAP)
    return np.asarray(ORDER_COST * broken + late)
