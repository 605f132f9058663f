"""A capture with the labels of some kernels hidden, as if graphs had launched them.

XLA puts runs of consecutive convertible instructions into graphs (command buffers). Where those
runs lie is known from the schedule, also for kernels that were launched one by one:

    schedule   a b c d e | all-reduce | f g | while …       | : a cut, nothing crosses it
    graphs     ─────────                ───

All kernels of a run in one execution and iteration become one launch, without labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from explane.analysis.attribution.result import Attribution
from explane.analysis.attribution.schedule import MIN_GRAPH, Schedule
from explane.capture.model import I64, MISSING, Bools, Capture, Launches

_LEAST_RUN: Final = 2
"""A single kernel with the label hidden has no run that could tell it."""


@dataclass(frozen=True, slots=True)
class HiddenCapture:
    """The changed capture, and which of its kernels have their label hidden."""

    capture: Capture
    rows: Bools


def hide(
    capture: Capture, labelled: Bools, attribution: Attribution, schedules: Mapping[int, Schedule]
) -> HiddenCapture:
    """Hide the labels of every run that XLA could have made a graph of.

    Args:
        capture: The capture.
        labelled: Kernels whose label may be hidden; shape (n_kernels,).
        attribution: Their instructions, aligned with the kernels.
        schedules: Expected launches of the programs.
    """
    run = _runs(capture, labelled, attribution, schedules)
    hidden = run >= 0
    first = np.arange(len(run))
    _, place, inverse = np.unique(run[hidden], return_index=True, return_inverse=True)
    first[hidden] = np.flatnonzero(hidden)[place][inverse]
    return HiddenCapture(_changed(capture, hidden, first, attribution.in_graph), hidden)


def _runs(
    capture: Capture, labelled: Bools, attribution: Attribution, schedules: Mapping[int, Schedule]
) -> I64:
    """Number of the run that each kernel would be launched with, or -1."""
    part = _parts(attribution, schedules)[attribution.instruction]
    frame = pl.DataFrame(
        {
            "device": capture.kernels.device,
            "execution": attribution.execution,
            "iteration": attribution.iteration,
            "part": part,
            "labelled": labelled,
        }
    )
    keys = pl.struct("device", "execution", "iteration", "part")
    numbered = frame.select(
        keys.rank("dense").cast(pl.Int64).alias("run"),
        pl.len().over(keys).alias("n"),
        pl.col("labelled").all().over(keys).alias("whole"),
    )
    # Runs of which only a part went into a graph would be harder to find than any real one. A
    # capture whose graphs were on has left only runs that were too short for a graph.
    least = _LEAST_RUN if attribution.in_graph.any() else MIN_GRAPH
    usable = labelled & (part >= 0) & (attribution.execution >= 0)
    usable &= numbered["whole"].to_numpy() & (numbered["n"].to_numpy() >= least)
    return np.where(usable, numbered["run"].to_numpy(), -1)


def _parts(attribution: Attribution, schedules: Mapping[int, Schedule]) -> I64:
    """Run of the schedule in which each instruction lies, -1 where no graph takes it.

    Shape (n_instructions + 1,): the last entry, -1, is for kernels without an instruction.
    """
    parts = np.full(len(attribution.instructions) + 1, -1, np.int64)
    for index, key in enumerate(attribution.instructions):
        schedule = schedules.get(key.program_id)
        places = schedule.by_instruction.get(key.name, ()) if schedule is not None else ()
        if schedule is not None and places and schedule.launches[places[0]].convertible:
            parts[index] = _start_of_run(schedule, places[0])
    return parts


def _start_of_run(schedule: Schedule, place: int) -> int:
    """First launch of the run of convertible launches around one."""
    cuts = set(schedule.cuts)
    while place > 0 and place not in cuts and schedule.launches[place - 1].convertible:
        place -= 1
    return place


def _changed(capture: Capture, hidden: Bools, first: I64, in_graph: Bools) -> Capture:
    """Labels gone, one launch per run; what graph kernels carry here is kept."""
    kernels, launches = capture.kernels, capture.launches
    keeps_program = not in_graph.any() or bool((kernels.program_id[in_graph] >= 0).any())
    bare = hidden & (not keeps_program)
    changed = replace(
        kernels,
        hlo_op=np.where(hidden, MISSING, kernels.hlo_op).astype(np.int32),
        scope_name=np.where(hidden, MISSING, kernels.scope_name).astype(np.int32),
        program_id=np.where(bare, MISSING, kernels.program_id),
        hlo_module=np.where(bare, MISSING, kernels.hlo_module).astype(np.int32),
        correlation_id=kernels.correlation_id[first],
    )
    gone = hidden & (first != np.arange(len(first)))
    launching = np.isin(launches.correlation_id, kernels.correlation_id[hidden & ~gone])
    unlabelled = replace(
        launches,
        is_graph=launches.is_graph | launching,
        hlo_op=np.where(launching, MISSING, launches.hlo_op).astype(np.int32),
        program_id=np.where(launching, MISSING, launches.program_id),
    )
    keep = ~np.isin(launches.correlation_id, kernels.correlation_id[gone])
    kept: dict[str, Any] = {
        name: getattr(unlabelled, name)[keep] for name in Launches.__dataclass_fields__
    }
    return replace(capture, kernels=changed, launches=Launches(**kept))
