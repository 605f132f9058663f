"""GPUs that take longer than the others for the same work, over the whole capture.

Copies and fills count as work: where they run as kernels, a slow GPU is slow at them too.
Work is compared by instruction: only instructions that every computing GPU runs count, each with
its mean duration on the GPU, so that lost records and cut windows don't make one GPU look busier.
A GPU is slow when its total exceeds the lower median of all GPUs by more than noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from explane.analysis.attribution.result import Attribution
from explane.capture.model import Capture, Kind

_SLOWER_RATIO: Final = 0.01
"""Clocks of equal GPUs differ by less."""
_ERRORS: Final = 3.0
"""Standard errors that the excess must exceed: kernels of one instruction vary from run to run."""


@dataclass(frozen=True, slots=True)
class SlowGpus:
    """Slow GPUs of one capture.

    Attributes:
        devices: Their ordinals.
        usual_ratio: For each of their kernels that other GPUs have too, collectives apart: mean
            duration of the instruction on the other GPUs over that on its own; NaN for all other
            kernels; shape (n_kernels,).
    """

    devices: tuple[int, ...]
    usual_ratio: npt.NDArray[np.float64]


def find_slow_gpus(capture: Capture, attribution: Attribution) -> SlowGpus:
    """Slow GPUs of a capture.

    Args:
        capture: The capture.
        attribution: Aligned with its kernels; kernels without an instruction don't count.
    """
    kernels = capture.kernels
    rows = np.flatnonzero(
        (kernels.kind != Kind.COLLECTIVE) & kernels.time_ok & (attribution.instruction >= 0)
    )
    work = pl.DataFrame(
        {
            "device": kernels.device[rows].astype(np.int64),
            "instruction": attribution.instruction[rows],
            "duration": kernels.duration_ps[rows].astype(np.float64),
        }
    )
    duration = pl.col("duration")
    means = work.group_by("instruction", "device").agg(
        duration.mean().alias("mean"), duration.var().alias("variance"), pl.len().alias("n")
    )
    common = pl.len().over("instruction") == work["device"].n_unique()
    devices = _slow(means.filter(common))
    ratio = np.full(len(kernels), np.nan)
    if devices:
        ratio[rows] = _usual_ratio(work, means, devices)
    return SlowGpus(devices, ratio)


def _slow(common: pl.DataFrame) -> tuple[int, ...]:
    """Devices whose total exceeds the lower median of all by more than noise."""
    times = pl.col("n").median().over("instruction")
    totals = (
        common.with_columns(times.alias("times"))
        .group_by("device")
        .agg(
            (pl.col("times") * pl.col("mean")).sum().alias("total"),
            (pl.col("times") ** 2 * pl.col("variance") / pl.col("n")).sum().alias("error2"),
        )
        .sort("total", "device")
    )
    if totals.height < 2:
        return ()
    usual, error2 = totals.row((totals.height - 1) // 2)[1:]
    excess = pl.col("total") - usual
    noise = _ERRORS * (pl.col("error2") + error2).sqrt()
    late = totals.filter((excess > _SLOWER_RATIO * usual) & (excess > noise))
    return tuple(sorted(late["device"].to_list()))


def _usual_ratio(
    work: pl.DataFrame, means: pl.DataFrame, devices: tuple[int, ...]
) -> npt.NDArray[np.float64]:
    """Of each kernel on a slow device: how long others take, over how long its device takes."""
    slow = pl.col("device").is_in(devices)
    others = (
        means.filter(~slow)
        .group_by("instruction")
        .agg(pl.col("mean").mean().alias("usual"), pl.col("n").sum().alias("n_others"))
    )
    found = (
        means.filter(slow)
        .join(others, on="instruction", how="inner")
        .with_columns((pl.col("usual") / pl.col("mean")).alias("r"))
    )
    ratios = _common_factor(found, _relative_variance(means))
    ratios = ratios.select("instruction", "device", "r")
    joined = work.join(ratios, on=["instruction", "device"], how="left", maintain_order="left")
    ratio: npt.NDArray[np.float64] = joined["r"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return ratio


def _relative_variance(means: pl.DataFrame) -> float:
    """How much kernels of one instruction on one GPU vary around their mean, pooled; squared."""
    several = means.filter((pl.col("n") > 1) & (pl.col("mean") > 0))
    freedom = pl.col("n") - 1
    spread = (freedom * pl.col("variance") / pl.col("mean") ** 2).sum() / freedom.sum()
    return float(several.select(spread.fill_nan(0.0)).item() or 0.0)


def _common_factor(ratios: pl.DataFrame, relative_variance: float) -> pl.DataFrame:
    """One ratio for all instructions of a GPU where theirs differ by no more than noise.

    A GPU with lower clocks is slower at everything by one factor; all its kernels together tell
    that better than the few of one instruction. Work whose time depends on the data, or of which
    the memory sets the pace, keeps ratios of its own.
    """
    if relative_variance <= 0.0:
        return ratios
    log = pl.col("r").log()
    weight = 1.0 / (relative_variance * (1.0 / pl.col("n") + 1.0 / pl.col("n_others")))
    mean = (weight * log).sum().over("device") / weight.sum().over("device")
    excess = (weight * (log - mean) ** 2).sum().over("device")
    freedom = pl.len().over("device") - 1
    noise = (freedom >= 2) & (excess <= freedom + _ERRORS * (2.0 * freedom).sqrt())
    return ratios.with_columns(pl.when(noise).then(mean.exp()).otherwise("r").alias("r"))
