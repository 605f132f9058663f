"""Steps in host order, before their windows on the devices are known, and helpers to find them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explane.analysis.steps.launches import LaunchJoin
from explane.capture.model import I32, I64, Capture


@dataclass(frozen=True, slots=True)
class StepGuess:
    """Steps in host order, before their windows on the devices are known.

    Attributes:
        source: `marker`, `inferred_execution`, `inferred_repetition` or `unknown`.
        number: Number shown for each step (`step_num`, else 0, 1, …); shape (n_steps,).
        host_start_ps, host_end_ps: The marker, or first launch to end of last launch.
        kernel_index: Step of each kernel (0 … n_steps - 1) or -1; shape (n_kernels,).
        notes: What the reader of the steps has to know.
    """

    source: str
    number: I64
    host_start_ps: I64
    host_end_ps: I64
    kernel_index: I32
    notes: tuple[str, ...]

    @property
    def n_steps(self) -> int:
        """How many steps there are."""
        return len(self.number)


def launch_moments(capture: Capture, join: LaunchJoin) -> I64:
    """Start of each kernel's launch call, or its own start where it has none."""
    moment = capture.kernels.start_ps.copy()
    joined = join.kernel_launch >= 0
    moment[joined] = capture.launches.start_ps[join.kernel_launch[joined]]
    return moment


def fill_between(capture: Capture, index: I32) -> I32:
    """Give kernels without a step the step that surrounds them on their stream.

    Kernels without a launch, and launches between two of the same step, take the step when the
    neighbours before and after agree; elsewhere they stay without one.
    """
    kernels = capture.kernels
    order = np.lexsort((kernels.start_ps, kernels.stream, kernels.device))
    known = index[order] >= 0
    if not known.any():
        return index
    place = np.arange(len(order))
    before = np.maximum.accumulate(np.where(known, place, -1))
    after = np.minimum.accumulate(np.where(known, place, len(order))[::-1])[::-1]
    inner = ~known & (before >= 0) & (after < len(order))
    left, right = order[before[inner]], order[after[inner]]
    same = (
        (index[left] == index[right])
        & (kernels.device[left] == kernels.device[right])
        & (kernels.stream[left] == kernels.stream[right])
    )
    target = order[inner]
    same &= kernels.device[target] == kernels.device[left]
    same &= kernels.stream[target] == kernels.stream[left]
    result = index.copy()
    result[target[same]] = index[left[same]]
    return result
