"""The steps of a capture as a result: rows per step and device, the median step, the table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from explane.analysis.intervals import Intervals
from explane.capture.model import I32, I64, Bools

#: Above this ratio of longest to shortest complete step, a median alone would mislead.
SPREAD_LIMIT = 1.5
#: Below this share of kernel time in them, inferred steps don't stand for the workload.
LEAST_COVERED_RATIO = 0.75


@dataclass(frozen=True)
class Steps:
    """Steps of one capture; row columns have one entry per step and device.

    Attributes:
        host: Host of the capture.
        source: `marker`, `inferred_execution`, `inferred_repetition` or `unknown`.
        device: Device ordinal of each row.
        index: Number of the step in the capture (0, 1, …): equal on all devices.
        step: Number shown (`step_num` of the marker); may repeat when the markers repeat.
        start_ps, end_ps: Window of the step on the device, half-open.
        first_kernel_ps: Start of its first kernel.
        n_kernels: Its kernels with good times.
        complete: True when the step may enter aggregates.
        reason: Why not; empty when complete.
        host_start_ps, host_end_ps: Marker, or first launch to end of last launch, per row.
        ahead: How many later steps the host had begun when the first kernel started.
        compile_ps: Compilation on the host between the dispatch of the step before and its own.
        kernel_index: `index` of each kernel of the capture, or -1.
        covered_ratio: Share of the kernel time that lies in steps, 0 to 1.
        notes: What has to be said about the steps.
    """

    host: str
    source: str
    device: I32
    index: I32
    step: I64
    start_ps: I64
    end_ps: I64
    first_kernel_ps: I64
    n_kernels: I64
    complete: Bools
    reason: tuple[str, ...]
    host_start_ps: I64
    host_end_ps: I64
    ahead: I64
    compile_ps: I64
    kernel_index: I32
    covered_ratio: float
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.device)

    @property
    def duration_ps(self) -> I64:
        """Length of each window."""
        return self.end_ps - self.start_ps

    @property
    def inferred(self) -> bool:
        """True when the steps don't come from markers."""
        return self.source != "marker"

    @property
    def kernel_step(self) -> I64:
        """Number shown of each kernel's step, or -1; aligned with the kernels."""
        return self.numbers(self.kernel_index)

    def numbers(self, index: I32) -> I64:
        """The numbers shown of some steps by their `index`; -1 stays -1."""
        numbers = np.full(int(self.index.max(initial=-1)) + 2, -1, dtype=np.int64)
        numbers[self.index] = self.step
        return numbers[index]

    def windows(self, device: int) -> Intervals:
        """Windows of the complete steps of a device, all in group 0."""
        rows = np.flatnonzero((self.device == device) & self.complete)
        return Intervals(np.zeros(len(rows), np.int64), self.start_ps[rows], self.end_ps[rows])

    @cached_property
    def median_row(self) -> int:
        """Row of the median step, or -1 without a complete step.

        It is the step whose length is the lower median over the complete steps of the slowest
        device: the one with the longest such median, the lower ordinal at a tie.
        """
        best, best_ps = -1, -1
        for device in np.unique(self.device).tolist():
            rows = np.flatnonzero((self.device == device) & self.complete)
            if not len(rows):
                continue
            order = rows[np.argsort(self.duration_ps[rows], kind="stable")]
            row = int(order[(len(order) - 1) // 2])
            if self.duration_ps[row] > best_ps:
                best, best_ps = row, int(self.duration_ps[row])
        return best

    @cached_property
    def spread_ratio(self) -> float:
        """Longest over shortest complete step of the slowest device; 1 without a complete step."""
        if self.median_row < 0:
            return 1.0
        mine = (self.device == self.device[self.median_row]) & self.complete
        lengths = self.duration_ps[mine]
        return float(lengths.max() / max(int(lengths.min()), 1))

    @property
    def withheld(self) -> str:
        """Why aggregates over steps can't stand for the workload; empty when they can."""
        if self.median_row < 0:
            return "no complete step"
        if self.inferred and self.covered_ratio < LEAST_COVERED_RATIO:
            return f"steps hold only {self.covered_ratio:.0%} of the kernel time"
        return self.uneven

    @property
    def uneven(self) -> str:
        """How much the complete steps differ; empty when one can stand for all."""
        if self.spread_ratio > SPREAD_LIMIT:
            return f"complete steps differ by a factor of {self.spread_ratio:.2f}"
        return ""

    @property
    def median_ahead(self) -> int:
        """Steps that the host is ahead of the devices: lower median over complete steps."""
        values = np.sort(self.ahead[self.complete])
        return int(values[(len(values) - 1) // 2]) if len(values) else 0

    @property
    def table(self) -> pl.DataFrame:
        """`steps.csv`: one row per step and device."""
        return pl.DataFrame(
            {
                "host": pl.Series([self.host] * len(self), dtype=pl.String),
                "device": self.device,
                "step": self.step,
                "start_ps": self.start_ps,
                "end_ps": self.end_ps,
                "complete": self.complete,
                "source": pl.Series([self.source] * len(self), dtype=pl.String),
                "duration_ps": self.duration_ps,
                "n_kernels": self.n_kernels,
                "reason_incomplete": pl.Series(self.reason, dtype=pl.String),
                "index": self.index,
                "first_kernel_ps": self.first_kernel_ps,
                "host_start_ps": self.host_start_ps,
                "host_end_ps": self.host_end_ps,
                "steps_ahead": self.ahead,
                "compile_ps": self.compile_ps,
            }
        )
