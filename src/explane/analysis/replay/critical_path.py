"""The critical path of a step: the chain of work and waiting that ends with its last kernel.

From the last kernel back, each moment is followed to the dependency that decided it. The pieces
between are disjoint and add up to the step exactly. A piece is one of

    compute, memcpy, memset   a kernel at work
    collective                transfer of a collective, after its last GPU had joined
    launch_latency            a launch call, the way from call to kernel, the gap between kernels
    host_late                 the GPU had nothing to do and the host had not called yet
    unexplained               no dependency seen in the trace explains the time

Where the step waits for another GPU's collective, the path goes over to that late GPU: the time
is then shown as what the late GPU did, with its device number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.replay.event_graph import path_to
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import Edge, StepGraph
from explane.analysis.verdict.host_causes import host_events_of
from explane.capture.model import Bools, Kind

PATH_SCHEMA = {
    "step": pl.Int64,
    "order": pl.Int64,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "kind": pl.String,
    "device": pl.Int64,
    "what": pl.String,
    "source_file": pl.String,
    "source_line": pl.Int64,
    "host": pl.String,
    "kernel_row": pl.Int64,
    "program_id": pl.Int64,
    "hlo_instruction": pl.String,
}
"""Columns of `critical_path.csv`; `start_ps` counts from the start of the step."""

# Longer gaps than this between dependent kernels are not the GPU's own latency.
_DEVICE_GAP_PS: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of the path.

    Attributes:
        start_ps, end_ps: From the start of the step.
        kind: See the module's text.
        kernel: Row in `Capture.kernels` that it belongs to, or -1.
        launch: Row in `Capture.launches` that it belongs to, or -1.
    """

    start_ps: int
    end_ps: int
    kind: str
    kernel: int
    launch: int


def critical_pieces(facts: StepFacts, step: StepGraph, length_ps: int) -> tuple[Piece, ...]:
    """The path of one step, first piece first; the pieces add up to `length_ps` exactly.

    Args:
        facts: The capture and what is known of it.
        step: Graph of the step.
        length_ps: Length of the step from its origin.
    """
    n = len(step.kernels)
    ends = step.graph.time_ps[n : 2 * n]
    if not n:
        return (Piece(0, length_ps, "unexplained", -1, -1),) if length_ps else ()
    last = int(np.argmax(np.where(ends <= length_ps, ends, np.iinfo(np.int64).min))) + n
    pieces = [Piece(int(step.graph.time_ps[last]), length_ps, "unexplained", -1, -1)]
    for moment in path_to(step.graph, last):
        pieces += _pieces_before(facts, step, moment)
    return _clipped(pieces[::-1], length_ps)


def _pieces_before(facts: StepFacts, step: StepGraph, moment: int) -> list[Piece]:
    """The residual and the lag before one moment, latest first."""
    graph, edge = step.graph, int(step.graph.binding[moment])
    time_ps = int(graph.time_ps[moment])
    kernel, launch = _owner(step, moment)
    if edge < 0:
        kind = "host_late" if launch >= 0 else "unexplained"
        return [Piece(min(0, time_ps), time_ps, kind, kernel, launch)]
    arrival_ps = time_ps - int(graph.residual_ps[moment])
    source_ps, kind_of_edge = int(graph.time_ps[graph.source[edge]]), Edge(int(graph.kind[edge]))
    rest = _residual_kind(kind_of_edge, time_ps - arrival_ps)
    return [
        Piece(arrival_ps, time_ps, rest, kernel, launch),
        Piece(source_ps, arrival_ps, _lag_kind(facts, kind_of_edge, kernel), kernel, launch),
    ]


def _owner(step: StepGraph, moment: int) -> tuple[int, int]:
    """Row of the kernel and row of the launch call that a moment belongs to; one of them -1."""
    n = len(step.kernels)
    if moment < 2 * n:
        return int(step.kernels[moment % n]), -1
    return -1, int(step.launches[(moment - 2 * n) % len(step.launches)])


def _residual_kind(edge: Edge, rest_ps: int) -> str:
    if edge in (Edge.HOST, Edge.SYNC):
        return "host_late"
    return "launch_latency" if rest_ps <= _DEVICE_GAP_PS else "unexplained"


def _lag_kind(facts: StepFacts, edge: Edge, kernel: int) -> str:
    if edge is Edge.TRANSFER:
        return "collective"
    if edge is Edge.DURATION:
        return Kind(int(facts.capture.kernels.kind[kernel])).word
    return "launch_latency"


def _clipped(pieces: list[Piece], length_ps: int) -> tuple[Piece, ...]:
    """Pieces cut to the step, empty ones left out, holes (there are none) made visible."""
    made: list[Piece] = []
    at = 0
    for piece in pieces:
        start, end = max(piece.start_ps, at), min(piece.end_ps, length_ps)
        if end <= start:
            continue
        if start > at:
            made.append(Piece(at, start, "unexplained", -1, -1))
        made.append(Piece(start, end, piece.kind, piece.kernel, piece.launch))
        at = end
    if at < length_ps:
        made.append(Piece(at, length_ps, "unexplained", -1, -1))
    return tuple(made)


def path_table(
    host: str,
    step_number: int,
    facts: StepFacts,
    step: StepGraph,
    pieces: tuple[Piece, ...],
    kernels: pl.DataFrame,
) -> pl.DataFrame:
    """The path as `critical_path.csv`.

    Args:
        host: Host label.
        step_number: Number of the step.
        facts: The capture and what is known of it.
        step: Graph of the step.
        pieces: Its path.
        kernels: Kernel table, for instruction and line.
    """
    shown = kernels.select(
        "device",
        pl.coalesce("hlo_instruction", "kernel").alias("what"),
        "source_file",
        "source_line",
        "program_id",
        "hlo_instruction",
    )
    late = late_host_events(facts, step.origin_ps, pieces)
    names = facts.capture
    rows = []
    for order, (piece, event) in enumerate(zip(pieces, late, strict=True)):
        device, what, *known = None, "", None, None, None, None
        if piece.kernel >= 0:
            device, what, *known = shown.row(piece.kernel)
        elif piece.launch >= 0:
            what = names.text(int(names.launches.name[piece.launch]))
        if piece.kind == "host_late":
            what = event
        rows.append(
            (
                step_number, order, piece.start_ps, piece.end_ps - piece.start_ps, piece.kind,
                device, what, *known[:2], host, piece.kernel if piece.kernel >= 0 else None,
                *known[2:],
            )
        )  # fmt: skip
    return pl.DataFrame(rows, schema=PATH_SCHEMA, orient="row")


def late_host_events(
    facts: StepFacts, origin_ps: int, pieces: tuple[Piece, ...]
) -> tuple[str, ...]:
    """Name of the host event that fills each host-late piece, empty for others."""
    capture = facts.capture
    found = ["" for _ in pieces]
    late = [i for i, p in enumerate(pieces) if p.kind == "host_late" and p.launch >= 0]
    calls = np.array([pieces[i].launch for i in late], np.int32)
    since = np.array([pieces[i].start_ps for i in late], np.int64) + origin_ps
    rows = host_events_of(capture, facts.join, calls, since, facts.dispatch_thread)
    for i, row in zip(late, rows.tolist(), strict=True):
        found[i] = capture.text(int(capture.host_events.name[row])) if row >= 0 else ""
    return tuple(found)


def kernels_on_path(pieces: tuple[Piece, ...], n_kernels: int) -> Bools:
    """True for kernels (rows of the capture) whose own time lies on the path."""
    marked = np.zeros(n_kernels, bool)
    at_work = {"compute", "memcpy", "memset", "collective"}
    marked[[p.kernel for p in pieces if p.kernel >= 0 and p.kind in at_work]] = True
    return marked


def path_summary(table: pl.DataFrame) -> pl.DataFrame:
    """The path summed by kind, most first: host, step, kind, n, duration_ps, ratio."""
    whole = pl.col("duration_ps").sum().over("host", "step")
    return (
        table.with_columns(whole.alias("step_ps"))
        .group_by("host", "step", "kind")
        .agg(
            pl.len().cast(pl.Int64).alias("n"),
            pl.col("duration_ps").sum(),
            pl.col("step_ps").first(),
        )
        .with_columns((pl.col("duration_ps") / pl.col("step_ps")).alias("ratio"))
        .sort(["host", "step", "duration_ps", "kind"], descending=[False, False, True, False])
    )
