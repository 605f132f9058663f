"""How long each GPU's collectives wait for the GPU that joins last, told without any program.

    GPU 0   ├──── all-reduce ──────────┤     waits until the last one starts
    GPU 1           ├─ all-reduce ─────┤     the late GPU; transfer begins here

Collectives are matched by label or name and occurrence: in the capture where all GPUs have equally
many of them, else (records lost, window cut) in the step. A match counts only if
all its kernels run together at its end: groups of GPUs that don't wait for each other fail this,
and then no waiting is claimed. (With attribution `collective_match` does this by instruction and
replica group; the verdict has to do without.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.distinct import ranks
from explane.analysis.intervals import Intervals, intervals
from explane.analysis.steps.steps import Steps
from explane.capture.model import I32, I64, Capture, Kind

# Earlier than every event; far from the limits of int64.
_BEFORE_ALL: Final = -(1 << 61)


@dataclass(frozen=True, slots=True)
class PeerWaits:
    """Stretches in which a GPU's collective waits for another GPU.

    Attributes:
        device: GPU that waits; shape (n,).
        late_device: GPU that it waits for.
        windows: From the own start to the latest start; all in group 0.
        since_ps: End of the GPU's collective before this one: what happened since made the
            difference between the GPUs.
    """

    device: I32
    late_device: I32
    windows: Intervals
    since_ps: I64


def peer_waits(capture: Capture, steps: Steps) -> PeerWaits:
    """Waiting inside the collectives of a capture with several GPUs."""
    kernels = capture.kernels
    rows = np.flatnonzero((kernels.kind == Kind.COLLECTIVE) & kernels.time_ok)
    label = np.where(kernels.hlo_op >= 0, kernels.hlo_op, -2 - kernels.name)[rows]
    frame = pl.DataFrame(
        {
            "device": kernels.device[rows],
            "start": kernels.start_ps[rows],
            "end": kernels.ends(rows),
            "key": _keys(kernels.device[rows], label, steps.kernel_index[rows]),
        }
    ).sort("device", "start")
    place = pl.int_range(pl.len(), dtype=pl.Int64).over("device", "key")
    operation = ["key", "place"]
    matched = frame.with_columns(place.alias("place")).with_columns(
        pl.col("start").max().over(operation).alias("latest"),
        pl.col("end").min().over(operation).alias("first_end"),
        pl.col("device").sort_by("start").last().over(operation).alias("late"),
        pl.col("end").cum_max().shift(1).over("device").fill_null(_BEFORE_ALL).alias("since"),
    )
    together = pl.col("first_end") >= pl.col("latest")
    waits = matched.filter(together & (pl.col("start") < pl.col("latest")))
    return PeerWaits(
        device=waits["device"].to_numpy(),
        late_device=waits["late"].to_numpy(),
        windows=intervals(waits["start"].to_numpy(), waits["latest"].to_numpy()),
        since_ps=waits["since"].to_numpy(),
    )


def _keys(device: I32, label: I64, step: I32) -> I32:
    """Key within which the n-th collective of one GPU belongs to the n-th of the others."""
    code = ranks(label)
    devices, of_device = np.unique(device, return_inverse=True)
    counts = np.zeros((int(code.max(initial=-1)) + 1, len(devices)), dtype=np.int64)
    np.add.at(counts, (code, of_device), 1)
    least = np.where(counts > 0, counts, np.iinfo(np.int64).max).min(axis=1, initial=1 << 62)
    even = counts.max(axis=1, initial=0) == least
    return ranks(np.where(even[code], -2, step), code)
