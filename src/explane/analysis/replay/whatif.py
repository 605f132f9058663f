"""What the step time would be without something: the step's graph played again without it.

Each replay takes edges away or shortens them and plays the rest as measured. It is an estimate:
what the graph doesn't know (contention for memory and links, clocks, the optimiser's choices)
stays as it was. With nothing changed the graph plays back the measured step exactly.

    host_late            kernels never wait for their launch calls; and, one by one, the calls
                         are not delayed by the host event that fills the time before them
    readback             the host does not wait for the step before and runs ahead; its own work
                         still takes its time
    python_tracer        as host_late, where the Python tracer was on: an unknown part of it
    while_readback       no loop or branch asks the host what comes next
    launch_call_long     calls between the first and last of an execution cost the host nothing
                         (all of it launched as one graph)
    straggler            slow GPUs take as long as the others for the same work
    exposed_collective   transfers cost nothing (fully hidden behind compute); and, one by one,
                         a collective runs at the best rate seen among all of them
    copy                 copies and fills take no time: those that the program's instructions ask
                         for, those that don't (inputs, results), and the largest one by one
    tiny_kernels         kernels shorter than `TINY_PS` start at once behind the one before

and for groups of kernels that the caller names (`kernel_groups`: at their roofline, in lower
precision, without rematerialisation, …) with each kernel shortened to a share of its time. What
GPUs could do less of leaves no step shorter than the host's own work where that sets the pace
(`host_pace`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from explane.analysis.replay.change import Change
from explane.analysis.replay.critical_path import Piece, critical_pieces
from explane.analysis.replay.device import Shares, device_changes
from explane.analysis.replay.event_graph import replay
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import StepGraph, build_step_graph
from explane.analysis.replay.host import host_changes
from explane.analysis.replay.host_pace import host_pace_ps
from explane.capture.model import I64

UNCHANGED: Final = "unchanged"

WHATIF_SCHEMA = {
    "host": pl.String,
    "step": pl.Int64,
    "cause": pl.String,
    "what": pl.String,
    "step_ps": pl.Int64,
    "replay_ps": pl.Int64,
    "subtraction_ps": pl.Int64,
    "on_path_ps": pl.Int64,
    "n": pl.Int64,
}
"""Columns of `whatif.csv`: the cause and, where it is only one of several, what exactly; measured
step, what it would be by replay and by subtraction, the time of the cause on the critical path,
and how many calls, kernels or operations it concerns."""


@dataclass(frozen=True, slots=True)
class StepWindow:
    """One step to play: its number, its kernels (rows) on all GPUs, its window."""

    number: int
    rows: I64
    start_ps: int
    end_ps: int

    @property
    def length_ps(self) -> int:
        """Length of the window."""
        return self.end_ps - self.start_ps


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """A step with its graph and path, and the length that each replay gives.

    Attributes:
        window: The step.
        graph: Its dependency graph.
        pieces: Its critical path.
        rows: Rows of `whatif.csv`, without the host.
    """

    window: StepWindow
    graph: StepGraph
    pieces: tuple[Piece, ...]
    rows: tuple[tuple[int, str, str, int, int, int, int, int], ...]


def play_step(
    facts: StepFacts, window: StepWindow, groups: Mapping[str, Shares] | None = None
) -> PlayedStep:
    """Build the graph of a step, find its path, and play every change.

    Args:
        facts: The capture and what is known of it.
        window: The step.
        groups: By cause, for each kernel of the capture the share of its time that would be left,
            1 where nothing changes.
    """
    step = build_step_graph(facts, window.rows, window.start_ps)
    pieces = critical_pieces(facts, step, window.length_ps)
    graph, n = step.graph, len(step.kernels)
    pace_ps = host_pace_ps(facts, step, pieces, window.length_ps)
    changes = [
        Change(UNCHANGED, "", graph.lag_ps, graph.residual_ps, 0, 0, n),
        *host_changes(facts, step, pieces),
        *(replace(c, least_ps=pace_ps) for c in device_changes(facts, step, pieces, groups or {})),
    ]
    return PlayedStep(window, step, pieces, tuple(_row(step, window, c) for c in changes))


def whatif_table(host: str, played: tuple[PlayedStep, ...]) -> pl.DataFrame:
    """All replays of some steps as `whatif.csv`."""
    rows = [(host, *row) for step in played for row in step.rows]
    return pl.DataFrame(rows, schema=WHATIF_SCHEMA, orient="row")


def _row(
    step: StepGraph, window: StepWindow, change: Change
) -> tuple[int, str, str, int, int, int, int, int]:
    length_ps = window.length_ps
    least_ps = min(change.least_ps, length_ps)
    return (
        window.number, change.cause, change.what, length_ps,
        max(_played_length_ps(step, length_ps, change), least_ps),
        max(length_ps - change.saved_ps, least_ps),
        change.on_path_ps, change.n,
    )  # fmt: skip


def _played_length_ps(step: StepGraph, length_ps: int, change: Change) -> int:
    """Length of the step when its graph is played with a change."""
    n = len(step.kernels)
    if not n:
        return length_ps
    times = replay(step.graph, change.lag_ps, change.residual_ps)
    measured_end = int(step.graph.time_ps[n : 2 * n].max())
    return int(times[n : 2 * n].max()) + length_ps - measured_end
