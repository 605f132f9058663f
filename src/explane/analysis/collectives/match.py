"""Which collective kernels on different GPUs are the same operation.

    GPU 0   ├──── all-reduce.1 ────────┤      wait      latest start - own start
    GPU 1           ├─ all-reduce.1 ───┤      transfer  own end - latest start
                    ^ latest start            exposed   time without any compute on that GPU

A collective kernel runs from the moment its own GPU is ready; it can only move data once the last
GPU of its group has joined. So the kernel's duration is never called transfer time.

Kernels of one instruction are matched by occurrence: the n-th on one GPU with the n-th on the
others. Where the counts differ (cut windows, lost records) they are matched by overlap in time,
since all parts of one collective are active together at its end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from explane.analysis.attribution.result import Attribution
from explane.analysis.intervals import covered_in_windows, intervals, union
from explane.capture.model import I64, Capture, Kind


@dataclass(frozen=True, slots=True)
class MatchedCollectives:
    """Collective kernels with their operation; one entry per kernel, sorted by operation.

    Attributes:
        row: Row in `Capture.kernels`.
        operation: Number of the operation (instruction and occurrence), 0 upwards.
        occurrence: Occurrence of the instruction on the GPUs, 0 upwards.
        latest_start_ps: Latest start among the kernels of the operation.
        n_devices: GPUs that take part, as seen.
        exposed_ps: Time of the kernel during which its GPU computes nothing.
    """

    row: I64
    operation: I64
    occurrence: I64
    latest_start_ps: I64
    n_devices: I64
    exposed_ps: I64

    def __len__(self) -> int:
        return len(self.row)

    def wait_ps(self, capture: Capture) -> I64:
        """Time from each kernel's start until the last GPU joined, at most its duration."""
        kernels = capture.kernels
        waited = self.latest_start_ps - kernels.start_ps[self.row]
        wait: I64 = np.minimum(waited, kernels.duration_ps[self.row])
        return wait

    def transfer_ps(self, capture: Capture) -> I64:
        """The rest of each kernel's duration."""
        return capture.kernels.duration_ps[self.row] - self.wait_ps(capture)


def match_collectives(
    capture: Capture, attribution: Attribution, group_of: I64
) -> MatchedCollectives:
    """Match the collective kernels of all GPUs.

    Args:
        capture: The capture.
        attribution: Aligned with its kernels; kernels without an instruction are matched by name.
        group_of: Group (of the replica groups) in which each kernel's GPU takes part; shape
            (n_kernels,). GPUs of different groups don't wait for each other.
    """
    kernels = capture.kernels
    rows = np.flatnonzero((kernels.kind == Kind.COLLECTIVE) & kernels.time_ok)
    frame = pl.DataFrame(
        {
            "row": rows,
            "program": attribution.program_id[rows],
            "instruction": attribution.instruction[rows].astype(np.int64),
            "name": np.where(attribution.instruction[rows] < 0, kernels.name[rows], -1),
            "group": group_of[rows],
            "device": kernels.device[rows].astype(np.int64),
            "start": kernels.start_ps[rows],
            "end": kernels.ends(rows),
            "part": _parts(attribution, rows),
        }
    )
    keys = ["program", "instruction", "name", "part", "group"]
    numbered = pl.concat(
        [_occurrences(part) for _, part in frame.group_by(keys, maintain_order=True)]
        or [frame.with_columns(pl.lit(0, dtype=pl.Int64).alias("occurrence"))]
    )
    ordered = numbered.with_columns(
        pl.col("start").max().over([*keys, "occurrence"]).alias("latest"),
        pl.len().over([*keys, "occurrence"]).cast(pl.Int64).alias("n_devices"),
        pl.struct([*keys, "occurrence"]).rank("dense").cast(pl.Int64).alias("operation"),
    ).sort("operation", "device", "start")
    row = ordered["row"].to_numpy()
    return MatchedCollectives(
        row=row,
        operation=ordered["operation"].to_numpy() - 1,
        occurrence=ordered["occurrence"].to_numpy(),
        latest_start_ps=ordered["latest"].to_numpy(),
        n_devices=ordered["n_devices"].to_numpy(),
        exposed_ps=exposed_by_kernel(capture, row),
    )


def _parts(attribution: Attribution, rows: I64) -> I64:
    """Number of each kernel among those of its instruction in one execution and iteration.

    A grouped collective may launch several kernels; the first of one GPU belongs to the first of
    the others.
    """
    frame = pl.DataFrame(
        {
            "execution": attribution.execution[rows],
            "iteration": attribution.iteration[rows],
            "instruction": attribution.instruction[rows],
        }
    )
    known = pl.col("execution") >= 0
    number = pl.int_range(pl.len()).over("execution", "iteration", "instruction")
    return frame.select(pl.when(known).then(number).otherwise(0)).to_series().to_numpy()


def _occurrences(part: pl.DataFrame) -> pl.DataFrame:
    """Occurrence of each kernel of one instruction."""
    ordered = part.sort("device", "start")
    counts = ordered.group_by("device").len()["len"]
    if counts.n_unique() == 1:
        number = pl.int_range(pl.len(), dtype=pl.Int64).over("device")
        return ordered.with_columns(number.alias("occurrence"))
    by_time = part.sort("start", "device")
    start, end = by_time["start"].to_numpy(), by_time["end"].to_numpy()
    reach = np.maximum.accumulate(end)
    fresh = np.concatenate([[True], start[1:] >= reach[:-1]])
    return by_time.with_columns(pl.Series("occurrence", np.cumsum(fresh) - 1, dtype=pl.Int64))


def exposed_by_kernel(capture: Capture, rows: I64) -> I64:
    """Time of each kernel during which no compute kernel of its GPU runs; shape of `rows`."""
    kernels = capture.kernels
    compute = (kernels.kind == Kind.COMPUTE) & kernels.time_ok
    busy = union(
        intervals(kernels.start_ps[compute], kernels.ends(compute), kernels.device[compute])
    )
    hidden_ps = np.zeros(len(rows), np.int64)
    device = kernels.device[rows]
    for ordinal in np.unique(device):
        asked, mine = device == ordinal, busy.take(busy.group == ordinal)
        starts, ends = kernels.start_ps[rows[asked]], kernels.ends(rows[asked])
        hidden_ps[asked] = covered_in_windows(mine, starts, ends)
    exposed: I64 = kernels.duration_ps[rows] - hidden_ps
    return exposed
