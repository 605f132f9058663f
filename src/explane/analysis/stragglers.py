"""What slow GPUs cost one step.

GPU 0   ├ a ┤├ b ┤├─ all-reduce ─────┤
GPU 1   ├ a ┤├ b ┤├─ all-reduce ─────┤        delay: the straggler's start less the latest
GPU 2   ├── a ──┤├── b ──┤├ all-red. ┤        start of the others, over all collectives
                          |-delay-|
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from explane.analysis.step_facts import StepFacts
from explane.capture.model import I64


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Slow GPUs of one step.

    Attributes:
        devices: Their ordinals.
        kernels: Indices (in the step's kernels) of their compute kernels that other GPUs have too.
        usual_ps: What each of them would take if its GPU were as fast as the others: its own
            duration, with what is special of this run, times the usual ratio of its instruction;
            shape of `kernels`.
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
    slow, kernels = facts.slow_gpus, facts.capture.kernels
    ratio = slow.usual_ratio[rows]
    mine = np.flatnonzero(~np.isnan(ratio))
    usual_ps = np.rint(kernels.duration_ps[rows[mine]] * ratio[mine]).astype(np.int64)
    devices = tuple(np.unique(kernels.device[rows[mine]]).tolist())
    return Stragglers(devices, mine, usual_ps, *_delay(facts, rows, devices))


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
