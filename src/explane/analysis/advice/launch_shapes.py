"""How much of the GPU a kernel can use, from the shape of its launch.

A kernel of fewer blocks than the GPU has multiprocessors leaves the others idle, whatever it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.capture.model import Capture

_GRID: Final = re.compile(r"\bgrid:(\d+),(\d+),(\d+)")
_OCCUPANCY: Final = re.compile(r"\bocc_pct:(\d+(?:\.\d+)?)")

Floats = npt.NDArray[np.float64]


def filled_ratio(capture: Capture) -> Floats:
    """Share of the multiprocessors that each kernel has a block for, at most 1; NaN if unknown.

    Collectors for AMD may state the grid in threads, which is more: then nothing is claimed that
    is not so.
    """
    blocks = _from_details(capture, _n_blocks)
    cores = {d.ordinal: d.stats.get("core_count") for d in capture.devices}
    n_cores = np.full(len(capture.kernels), np.nan)
    for ordinal, count in cores.items():
        if isinstance(count, int) and count > 0:
            n_cores[capture.kernels.device == ordinal] = count
    ratio: Floats = np.minimum(blocks / n_cores, 1.0)
    return ratio


def occupancy_ratio(capture: Capture) -> Floats:
    """Threads that fit on a multiprocessor at once, of those possible; NaN where not stated."""
    return _from_details(capture, _occupancy)


def _from_details(capture: Capture, read: Callable[[str], float]) -> Floats:
    """A number read from the details of each kernel; each distinct text is read once."""
    codes, inverse = np.unique(capture.kernels.details, return_inverse=True)
    texts = [capture.text(int(code)) if code >= 0 else "" for code in codes]
    numbers = np.array([read(text) for text in texts], np.float64)
    found: Floats = numbers[inverse]
    return found


def _n_blocks(details: str) -> float:
    grid = _GRID.search(details)
    if grid is None:
        return np.nan
    n_blocks = 1
    for size in grid.groups():
        n_blocks *= int(size)
    return float(n_blocks) if n_blocks else np.nan


def _occupancy(details: str) -> float:
    """`occ_pct`; 0 is what collectors write that don't know it."""
    found = _OCCUPANCY.search(details)
    percent = float(found.group(1)) if found else 0.0
    return percent / 100.0 if 0.0 < percent <= 100.0 else np.nan
