"""How far the attribution can be trusted on this very capture: hidden labels, found again.

Exact kernels carry the tracer's own label, so their instruction is known. The check hides those
labels wherever XLA could have launched a graph, attributes the capture again and counts what
comes back right:

    labelled   a b c d e f g h i j k l m n o p
    hidden     . . . . . f . . . . . l m n o p      one launch for each long run, no labels
    found      a b c d e f g ? i j k l m n o p      9 of 10 right, 1 missing

What hidden kernels still carry (program or nothing) is taken from the capture's own graph
kernels. A capture whose graphs were on has labels left only where no graph was made, on runs too
short for one; that is what it can be measured on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from explane.analysis.attribution.attribute import attribute
from explane.analysis.attribution.hidden import hide
from explane.analysis.attribution.result import Attribution, Match
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.schedule_walk import expected_launches
from explane.capture.model import Bools, Capture, Kernels
from explane.capture.program import Program

LEAST_TESTED: Final = 20
"""Fewer hidden kernels than this say nothing."""

_MOST_KERNELS: Final = 20_000
SELFCHECK_SCHEMA: Final = {
    "match": pl.String,
    "tested": pl.Int64,
    "right": pl.Int64,
    "tested_ps": pl.Int64,
    "right_ps": pl.Int64,
}
"""Columns of `selfcheck.csv`: hidden kernels by the class in which they came back."""


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Result of the self-check.

    Attributes:
        table: `selfcheck.csv`; no rows when too few kernels could be hidden.
        n_tested: Kernels whose label was hidden.
        note: What must be said of it.
    """

    table: pl.DataFrame
    n_tested: int
    note: str


def selfcheck(
    capture: Capture,
    programs: Mapping[int, Program],
    attribution: Attribution,
    schedules: Mapping[int, Schedule] | None = None,
) -> SelfCheck:
    """Hide labels of exact kernels and find them again.

    Args:
        capture: The capture.
        programs: Its parsed programs.
        attribution: Its attribution.
        schedules: Expected launches of the programs, where they are known already.
    """
    part = _part(capture, attribution)
    exact = (part.attribution.match == Match.EXACT) & (part.capture.kernels.hlo_op >= 0)
    if schedules is None:
        schedules = {key: expected_launches(program) for key, program in programs.items()}
    hidden = hide(part.capture, exact, part.attribution, schedules)
    n_tested = int(hidden.rows.sum())
    if n_tested < LEAST_TESTED:
        note = f"too few labelled kernels to say: {n_tested} could be hidden"
        return SelfCheck(pl.DataFrame(schema=SELFCHECK_SCHEMA), n_tested, note)
    again = attribute(hidden.capture, programs, schedules=schedules)
    right = _names(again) == _names(part.attribution)
    return SelfCheck(_scores(part.capture, again, right, hidden.rows), n_tested, "")


@dataclass(frozen=True, slots=True)
class _Part:
    """The capture or, of a large one, its kernels up to some moment, with their attribution."""

    capture: Capture
    attribution: Attribution


def _part(capture: Capture, attribution: Attribution) -> _Part:
    """Enough of the capture: whole executions up to a moment, on all GPUs."""
    kernels = capture.kernels
    if len(kernels) <= _MOST_KERNELS:
        return _Part(capture, attribution)
    until = int(np.partition(kernels.start_ps, _MOST_KERNELS)[_MOST_KERNELS])
    runs = attribution.execution
    late = np.unique(runs[(kernels.start_ps >= until) & (runs >= 0)])
    rows = np.flatnonzero((kernels.start_ps < until) & ~np.isin(runs, late))
    columns: dict[str, Any] = {
        name: getattr(kernels, name)[rows] for name in Kernels.__dataclass_fields__
    }
    found = replace(
        attribution,
        **{name: getattr(attribution, name)[rows] for name in _PER_KERNEL},
    )
    return _Part(replace(capture, kernels=Kernels(**columns)), found)


_PER_KERNEL: Final = (
    "program_id", "instruction", "match", "reason", "in_graph", "iteration", "execution",
)  # fmt: skip


def _names(attribution: Attribution) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """Instruction of each kernel with its program, None where there is none."""
    keys = np.array([*attribution.instructions, None], dtype=object)
    return keys[attribution.instruction]


def _scores(capture: Capture, again: Attribution, right: Bools, hidden: Bools) -> pl.DataFrame:
    """Hidden kernels by class: how many, how many right, and their time."""
    duration = np.where(capture.kernels.time_ok, capture.kernels.duration_ps, 0)
    frame = pl.DataFrame(
        {
            "match": again.match[hidden],
            "right": right[hidden].astype(bool),
            "duration_ps": duration[hidden],
        }
    )
    words = {int(match): match.word for match in Match}
    right_ps = pl.when("right").then("duration_ps").otherwise(0)
    return (
        frame.group_by("match")
        .agg(
            pl.len().cast(pl.Int64).alias("tested"),
            pl.col("right").sum().cast(pl.Int64),
            pl.col("duration_ps").sum().alias("tested_ps"),
            right_ps.sum().alias("right_ps"),
        )
        .sort("match", descending=True)
        .with_columns(pl.col("match").replace_strict(words, return_dtype=pl.String))
    )
