"""Collectives as marks in the time of several processes: one table of ends for each of them.

    slot        0            1            2           a collective instruction, its n-th kernel
    step 7   ├ all-gather ├ all-gather ├ all-reduce   of the step
    step 8   ├ …

The last GPU to finish and the others leave a collective at nearly the same moment, wherever they
are; when they enter it says nothing of clocks. So ends are the marks, starts are what is compared
once clocks agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

F64 = npt.NDArray[np.float64]

MOST_SLOTS: Final = 256
"""Collectives of one step that are looked at; of more, evenly many."""

_KEY: Final = ("program", "name", "rank")


@dataclass(frozen=True, slots=True)
class Marks:
    """Collectives of one process, in its own clock; NaN where there is none.

    Attributes:
        host: The process.
        first_step: Number of the step of the first row.
        counted: Whether step numbers are those of the program's own markers; else they count the
            steps of this capture and may be shifted against those of another.
        end_ps: Median over its GPUs of the end; shape (n_steps, n_slots).
        start_ps: Latest start over its GPUs: when the process as a whole has joined.
        device: The GPU with that start; -1 where there is none.
    """

    host: str
    first_step: int
    counted: bool
    end_ps: F64
    start_ps: F64
    device: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AllMarks:
    """Marks of all processes that have any; the columns of all are the same slots.

    Attributes:
        hosts: In the order of the investigation.
        slots: Program (as text), instruction or kernel, and rank within the step, by column.
    """

    hosts: tuple[Marks, ...]
    slots: tuple[tuple[str, str, int], ...]


def find_marks(
    collectives: pl.DataFrame, steps: pl.DataFrame, structure: Mapping[tuple[str, int], str]
) -> AllMarks:
    """Marks of every process.

    Args:
        collectives: The `collectives` table of all processes.
        steps: The `steps` table of all processes.
        structure: What a program is, by process and program id: equal programs share it.
    """
    joined = _joined(_numbered(collectives), structure)
    slots = _slots(joined)
    unmarked = set(steps.filter(pl.col("source") != "marker")["host"].unique())
    hosts = tuple(
        _marks(str(host), part, slots, counted=host not in unmarked)
        for (host,), part in joined.join(slots, on=_KEY).group_by("host", maintain_order=True)
    )
    return AllMarks(hosts, tuple(slots.select(_KEY).rows()))


def _numbered(collectives: pl.DataFrame) -> pl.DataFrame:
    """Rows that belong to a step; of a capture without steps each occurrence counts as one."""
    name = pl.coalesce("hlo_instruction", "kernel").alias("name")
    found = collectives.with_columns(
        name, (pl.col("start_ps") + pl.col("duration_ps")).alias("end")
    )
    has_steps = pl.col("step").is_not_null().any().over("host")
    step = pl.when(has_steps).then("step").otherwise("occurrence")
    return found.with_columns(step.alias("step")).filter(pl.col("step").is_not_null())


def _joined(rows: pl.DataFrame, structure: Mapping[tuple[str, int], str]) -> pl.DataFrame:
    """One row per collective and process: its rank in the step, end, latest start and that GPU."""
    keys = ["host", "program_id", "name", "step", "occurrence"]
    by_gpu = rows.group_by([*keys, "device"], maintain_order=True).agg(
        pl.col("start_ps").min(), pl.col("end").max()
    )
    joined = by_gpu.group_by(keys, maintain_order=True).agg(
        pl.col("end").median().alias("end_ps"),
        pl.col("device").sort_by("start_ps", "device").last(),
        pl.col("start_ps").max(),
    )
    pairs = pl.DataFrame(
        [(host, number, text) for (host, number), text in structure.items()],
        schema={"host": pl.String, "program_id": pl.Int64, "program": pl.String},
        orient="row",
    )
    rank = pl.col("occurrence").rank("ordinal").over("host", "program_id", "name", "step") - 1
    return joined.join(pairs, on=["host", "program_id"], how="left").with_columns(
        pl.col("program").fill_null(""), rank.cast(pl.Int64).alias("rank")
    )


def _slots(joined: pl.DataFrame) -> pl.DataFrame:
    """Collectives that at least two processes have, in the order of the step."""
    shared = (
        joined.group_by(_KEY)
        .agg(pl.col("host").n_unique().alias("n_hosts"), pl.col("end_ps").min().alias("first"))
        .filter(pl.col("n_hosts") > 1)
        .sort("first", *_KEY)
    )
    if shared.height > MOST_SLOTS:
        kept = np.linspace(0, shared.height - 1, MOST_SLOTS).astype(np.int64)
        shared = shared[kept.tolist()]
    return shared.select(*_KEY).with_row_index("slot")


def _marks(host: str, part: pl.DataFrame, slots: pl.DataFrame, *, counted: bool) -> Marks:
    step, slot = part["step"].to_numpy(), part["slot"].to_numpy()
    first = int(step.min())
    shape = (int(step.max()) - first + 1, slots.height)
    end, start = np.full(shape, np.nan), np.full(shape, np.nan)
    device = np.full(shape, -1, np.int64)
    at = (step - first, slot)
    end[at], start[at] = part["end_ps"].to_numpy(), part["start_ps"].to_numpy()
    device[at] = part["device"].to_numpy()
    return Marks(host, first, counted, end, start, device)
