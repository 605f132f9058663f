"""GPUs that compute longer than the others at the same work, and what that costs the step.

GPU 0   ├ a ┤├ b ┤├─ all-reduce ─────┤
GPU 1   ├ a ┤├ b ┤├─ all-reduce ─────┤        delay: the straggler's start less the latest
GPU 2   ├── a ──┤├── b ──┤├ all-red. ┤        start of the others, over all collectives
                          |-delay-|
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.step_facts import StepFacts
from explane.capture.model import I64, Kind

_SLOWER_RATIO: Final = 1.01
"""A GPU this much slower than the lower median of all GPUs is a straggler; noise is less."""


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Slow GPUs of one step.

    Attributes:
        devices: Their ordinals.
        kernels: Indices (in the step's kernels) of their compute kernels that other GPUs have too.
        usual_ps: Median duration of the same work on the other GPUs; shape of `kernels`.
        delay_ps: How much later collectives start because of them, summed.
        n_operations: Collectives for which one of them is the last to join.
    """

    devices: tuple[int, ...]
    kernels: I64
    usual_ps: I64
    delay_ps: int
    n_operations: int


def find_stragglers(facts: StepFacts, rows: I64) -> Stragglers:
    """Stragglers among the GPUs of one step.

    Args:
        facts: The capture and what is known of it.
        rows: Rows in `Capture.kernels` of the step's kernels, by start.
    """
    work = _same_work(facts, rows)
    totals = work.group_by("device").agg(pl.col("duration_ps").sum()).sort("duration_ps")
    slow: tuple[int, ...] = ()
    if totals.height > 1:
        usual = totals["duration_ps"][(totals.height - 1) // 2]
        late = totals.filter(pl.col("duration_ps") > _SLOWER_RATIO * usual)
        slow = tuple(sorted(late["device"].to_list()))
    others = work.filter(~pl.col("device").is_in(slow))
    medians = others.group_by("program", "instruction", "occurrence").agg(
        pl.col("duration_ps").median().cast(pl.Int64).alias("usual_ps")
    )
    mine = work.filter(pl.col("device").is_in(slow)).join(
        medians, on=["program", "instruction", "occurrence"], how="inner"
    )
    delay_ps, n_operations = _delay(facts, rows, slow)
    return Stragglers(
        slow, mine["index"].to_numpy(), mine["usual_ps"].to_numpy(), delay_ps, n_operations
    )


def _same_work(facts: StepFacts, rows: I64) -> pl.DataFrame:
    """Attributed compute kernels with the occurrence of their instruction on their GPU."""
    kernels, attribution = facts.capture.kernels, facts.attribution
    frame = pl.DataFrame(
        {
            "index": np.arange(len(rows)),
            "device": kernels.device[rows].astype(np.int64),
            "program": attribution.program_id[rows],
            "instruction": attribution.instruction[rows],
            "duration_ps": kernels.duration_ps[rows],
            "kind": kernels.kind[rows],
        }
    )
    known = (pl.col("instruction") >= 0) & (pl.col("kind") == int(Kind.COMPUTE))
    keys = ["device", "program", "instruction"]
    return frame.filter(known).with_columns(pl.int_range(pl.len()).over(keys).alias("occurrence"))


def _delay(facts: StepFacts, rows: I64, slow: tuple[int, ...]) -> tuple[int, int]:
    """How much earlier collectives would start without slow GPUs, and how many they delay."""
    matched, kernels = facts.collectives, facts.capture.kernels
    inside = np.isin(matched.row, rows)
    frame = pl.DataFrame(
        {
            "operation": matched.operation[inside],
            "start": kernels.start_ps[matched.row[inside]],
            "slow": np.isin(kernels.device[matched.row[inside]], slow),
        }
    )
    by_operation = frame.group_by("operation").agg(
        pl.col("start").max().alias("latest"),
        pl.col("start").filter(~pl.col("slow")).max().alias("others"),
    )
    late = by_operation.filter(pl.col("latest") > pl.col("others"))
    return int((late["latest"] - late["others"]).sum()), late.height
