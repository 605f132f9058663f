"""What slow GPUs cost one step.

GPU 0   ├ a ┤├ b ┤├─ all-reduce ─────┤
GPU 1   ├ a ┤├ b ┤├─ all-reduce ─────┤        delay: the straggler's start less the latest
GPU 2   ├── a ──┤├── b ──┤├ all-red. ┤        start of the others, over all collectives
                          |-delay-|
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from explane.analysis.replay.facts import StepFacts
from explane.capture.model import I64, Kind

_MUCH_RATIO: Final = 0.05
"""A GPU is late in one step when its work there takes this much longer; noise is less."""


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Slow GPUs of one step.

    Attributes:
        devices: Their ordinals.
        kernels: Indices (in the step's kernels) of their kernels that other GPUs have too,
            collectives apart.
        usual_ps: What each of them would take if its GPU were as fast as the others, at most what
            it takes; shape of `kernels`. On a GPU that is always slow its own duration, with what
            is special of this run, times the usual ratio of its instruction; on one that is late
            in this step the median of the others.
        delay_ps: How much later collectives start because of them, summed; at most what they take
            longer, since collectives that run side by side are late by the same delay.
        n_operations: Collectives for which one of them is the last to join.
    """

    devices: tuple[int, ...]
    kernels: I64
    usual_ps: I64
    delay_ps: int
    n_operations: int


def find_stragglers(facts: StepFacts, rows: I64) -> Stragglers:
    """Stragglers among the GPUs of one step.

    GPUs that are slow over the whole capture, and those that take much longer in this step alone
    (uneven input makes work whose time depends on the data late now on one, now on another).

    Args:
        facts: The capture and what is known of it.
        rows: Rows in `Capture.kernels` of the step's kernels, by start.
    """
    kernels = facts.capture.kernels
    always = kernels.duration_ps[rows] * facts.slow_gpus.usual_ratio[rows]
    usual = np.where(np.isnan(always), _usual_here(facts, rows), always)
    mine = np.flatnonzero(~np.isnan(usual))
    own_ps = kernels.duration_ps[rows[mine]]
    usual_ps = np.minimum(np.rint(usual[mine]).astype(np.int64), own_ps)
    devices = tuple(np.unique(kernels.device[rows[mine]]).tolist())
    delay_ps, n_operations = _delay(facts, rows, devices)
    longer_ps = int((own_ps - usual_ps).sum())
    return Stragglers(devices, mine, usual_ps, min(delay_ps, longer_ps), n_operations)


def _usual_here(facts: StepFacts, rows: I64) -> npt.NDArray[np.float64]:
    """What the others take in this step for each kernel of a GPU that is late in it alone.

    NaN for all other kernels. Only instructions that all GPUs run equally often are compared.
    """
    kernels, attribution = facts.capture.kernels, facts.attribution
    work = pl.DataFrame(
        {
            "index": np.arange(len(rows)),
            "device": kernels.device[rows].astype(np.int64),
            "instruction": attribution.instruction[rows],
            "duration": kernels.duration_ps[rows],
        }
    ).filter(
        pl.Series((kernels.kind[rows] != Kind.COLLECTIVE) & (attribution.instruction[rows] >= 0))
    )
    occurrence = pl.int_range(pl.len()).over("device", "instruction")
    group = ["instruction", "occurrence"]
    n_devices = work["device"].n_unique()
    common = work.with_columns(occurrence.alias("occurrence")).filter(
        pl.len().over(group) == n_devices
    )
    totals = common.group_by("device").agg(pl.col("duration").sum()).sort("duration", "device")
    usual = np.full(len(rows), np.nan)
    if totals.height < 2:
        return usual
    limit = (1 + _MUCH_RATIO) * totals["duration"][(totals.height - 1) // 2]
    slow = set(totals.filter(pl.col("duration") > limit)["device"].to_list())
    late = slow - set(facts.slow_gpus.devices)
    others = common.filter(~pl.col("device").is_in(slow | set(facts.slow_gpus.devices)))
    medians = others.group_by(group).agg(pl.col("duration").median().alias("usual"))
    mine = common.filter(pl.col("device").is_in(late)).join(medians, on=group, how="inner")
    usual[mine["index"].to_numpy()] = mine["usual"].to_numpy()
    return usual


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
