"""What the step time would be without something: the step's graph played again without it.

Each replay takes edges away or shortens them and plays the rest as measured. It is an estimate:
what the graph doesn't know (contention for memory and links, clocks, the optimiser's choices)
stays as it was. With nothing changed the graph plays back the measured step exactly.

    host_late            kernels never wait for their launch calls; and, one by one, the calls
                         are not delayed by the host event that fills the time before them
    launch_call_long     calls between the first and last of an execution cost the host nothing
                         (all of it launched as one graph)
    straggler            no GPU waits for another one's collective
    exposed_collective   transfers cost nothing beyond meeting (fully hidden behind compute)
    copy                 copies and fills take no time
    tiny_kernels         kernels shorter than `TINY_PS` start at once behind the one before

and for groups of kernels that the caller names (at their roofline, without rematerialisation, …)
with each kernel shortened to a share of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from explane.analysis.critical_path import Piece, critical_pieces
from explane.analysis.event_graph import REMOVED, replay
from explane.analysis.late_events import late_events
from explane.analysis.step_facts import StepFacts
from explane.analysis.step_graph import Edge, StepGraph, build_step_graph
from explane.capture.model import I64, Kind
from explane.units import PS_PER_US

TINY_PS: Final = 5 * PS_PER_US
"""Kernels shorter than this do less work than starting them costs."""

UNCHANGED: Final = "unchanged"

Shares: TypeAlias = npt.NDArray[np.float64]
"""Share of its time that each kernel of the capture would need, 0 to 1; shape (n_kernels,)."""

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


@dataclass(frozen=True, slots=True)
class Change:
    """A change to the graph.

    Attributes:
        lag_ps, residual_ps: As for `replay`.
        saved_ps: What plain subtraction takes from the step.
        n: Calls, kernels or operations that it concerns.
    """

    lag_ps: I64
    residual_ps: I64
    saved_ps: int
    n: int


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
    graph = build_step_graph(facts, window.rows, window.start_ps)
    length_ps = window.end_ps - window.start_ps
    pieces = critical_pieces(facts, graph, length_ps)
    changes = _changes(facts, graph, pieces, groups or {})
    rows = []
    for cause, change in changes.items():
        played_ps = played_length_ps(graph, length_ps, change)
        on_path_ps = path_time_ps(facts, pieces, cause)
        if groups and cause in groups:
            on_path_ps = _group_on_path(pieces, groups[cause])
        left_ps = length_ps - change.saved_ps
        rows.append(
            (window.number, cause, "", length_ps, played_ps, left_ps, on_path_ps, change.n)
        )
    for event, change in without_host_events(facts, graph, pieces).items():
        played_ps = played_length_ps(graph, length_ps, change)
        saved_ps = change.saved_ps
        rows.append(
            (
                window.number, "host_late", event, length_ps, played_ps, length_ps - saved_ps,
                saved_ps, change.n,
            )
        )  # fmt: skip
    return PlayedStep(window, graph, pieces, tuple(rows))


def whatif_table(host: str, played: tuple[PlayedStep, ...]) -> pl.DataFrame:
    """All replays of some steps as `whatif.csv`."""
    rows = [(host, *row) for step in played for row in step.rows]
    return pl.DataFrame(rows, schema=WHATIF_SCHEMA, orient="row")


def played_length_ps(step: StepGraph, length_ps: int, change: Change) -> int:
    """Length of the step when its graph is played with a change."""
    n = len(step.kernels)
    if not n:
        return length_ps
    times = replay(step.graph, change.lag_ps, change.residual_ps)
    measured_end = int(step.graph.time_ps[n : 2 * n].max())
    return int(times[n : 2 * n].max()) + length_ps - measured_end


def path_time_ps(facts: StepFacts, pieces: tuple[Piece, ...], cause: str) -> int:
    """Time of a cause on the critical path."""
    wanted = _PATH_KINDS.get(cause, ())
    total = sum(p.end_ps - p.start_ps for p in pieces if p.kind in wanted)
    if cause == "tiny_kernels":
        lengths = facts.capture.kernels.duration_ps
        total = sum(
            p.end_ps - p.start_ps
            for p in pieces
            if p.kind == "launch_latency" and p.kernel >= 0 and lengths[p.kernel] < TINY_PS
        )
    return total


_PATH_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "host_late": ("host_late",),
    "launch_call_long": ("launch_latency",),
    "exposed_collective": ("collective",),
    "copy": ("memcpy", "memset"),
}


def _changes(
    facts: StepFacts,
    step: StepGraph,
    pieces: tuple[Piece, ...],
    groups: Mapping[str, Shares],
) -> dict[str, Change]:
    """All changes that concern anything in this step."""
    graph = step.graph
    same = Change(graph.lag_ps, graph.residual_ps, 0, len(step.kernels))
    makers: dict[str, Callable[[], Change | None]] = {
        "host_late": lambda: _no_host_late(facts, step, pieces),
        "launch_call_long": lambda: _one_graph(facts, step, pieces),
        "straggler": lambda: _no_peers(facts, step),
        "exposed_collective": lambda: _no_transfer(facts, step, pieces),
        "copy": lambda: _no_copies(facts, step, pieces),
        "tiny_kernels": lambda: _fused(facts, step, pieces),
    }
    made = {cause: make() for cause, make in makers.items()}
    made |= {cause: _shortened(step, pieces, shares) for cause, shares in groups.items()}
    return {UNCHANGED: same, **{cause: c for cause, c in made.items() if c is not None}}


def _kernel_of_end(step: StepGraph, edges: npt.NDArray[np.bool_]) -> I64:
    """Row of the kernel whose end each of some edges leads to."""
    ended: I64 = step.kernels[step.graph.target[edges] - len(step.kernels)]
    return ended


def _no_host_late(facts: StepFacts, step: StepGraph, pieces: tuple[Piece, ...]) -> Change | None:
    graph = step.graph
    launched = graph.kind == Edge.LAUNCH
    if not launched.any():
        return None
    lag, residual = graph.lag_ps.copy(), graph.residual_ps.copy()
    lag[launched] = REMOVED
    bound = graph.binding >= 0
    by_launch = np.flatnonzero(bound)[launched[graph.binding[bound]]]
    residual[by_launch] = 0
    return Change(lag, residual, path_time_ps(facts, pieces, "host_late"), len(by_launch))


def without_host_events(
    facts: StepFacts, step: StepGraph, pieces: tuple[Piece, ...]
) -> dict[str, Change]:
    """For each host event that delays calls: the step without its time before them."""
    graph = step.graph
    late = late_events(facts, step)
    changes = {}
    for name in late.names():
        residual = graph.residual_ps.copy()
        mine = late.of_event(name)
        residual[mine.moment] -= mine.time_ps
        by_moment = dict(
            zip(step.launches[mine.call].tolist(), mine.time_ps.tolist(), strict=True)
        )
        saved = sum(
            min(p.end_ps - p.start_ps, by_moment.get(p.launch, 0))
            for p in pieces
            if p.kind == "host_late" and p.launch >= 0
        )
        changes[name] = Change(graph.lag_ps, residual, saved, len(mine.moment))
    return changes


def _one_graph(facts: StepFacts, step: StepGraph, pieces: tuple[Piece, ...]) -> Change | None:
    """Every call but the first of each thread costs nothing and needs no time before it."""
    graph, n = step.graph, len(step.kernels)
    calls = facts.capture.launches
    single = ~calls.is_graph[step.launches]
    first_of_thread = np.zeros(len(step.launches), bool)
    _, first = np.unique(calls.thread[step.launches], return_index=True)
    first_of_thread[first] = True
    merged = np.flatnonzero(single & ~first_of_thread)
    if not len(merged):
        return None
    lag, residual = graph.lag_ps.copy(), graph.residual_ps.copy()
    starts = merged + 2 * n
    waited = np.zeros(len(graph), bool)
    waited[graph.target[graph.kind == Edge.SYNC]] = True
    residual[starts[~waited[starts]]] = 0
    ends = np.zeros(len(graph), bool)
    ends[starts + len(step.launches)] = True
    lag[(graph.kind == Edge.CALL) & ends[graph.target]] = 0
    saved = sum(
        p.end_ps - p.start_ps
        for p in pieces
        if p.launch >= 0 and p.kind in ("host_late", "launch_latency")
    )
    return Change(lag, residual, saved, len(merged))


def _no_peers(facts: StepFacts, step: StepGraph) -> Change | None:
    """A collective's transfer starts when its own GPU is ready."""
    graph, n = step.graph, len(step.kernels)
    transfer = graph.kind == Edge.TRANSFER
    if not transfer.any():
        return None
    lag = graph.lag_ps.copy()
    own = graph.source == graph.target - n
    lag[transfer & ~own] = REMOVED
    device = facts.capture.kernels.device[step.kernels]
    ends = np.unique(graph.target[transfer]) - n
    lasting = graph.time_ps[ends + n] - graph.time_ps[ends]
    moved = np.zeros(len(step.kernels), np.int64)
    moved[graph.target[transfer & own] - n] = graph.lag_ps[transfer & own]
    waits = [int((lasting - moved[ends])[device[ends] == d].sum()) for d in np.unique(device)]
    return Change(lag, graph.residual_ps, int(np.median(waits)), len(ends))


def _no_transfer(facts: StepFacts, step: StepGraph, pieces: tuple[Piece, ...]) -> Change | None:
    graph, n = step.graph, len(step.kernels)
    ending = (graph.kind == Edge.TRANSFER) | (graph.kind == Edge.DURATION)
    chosen = np.zeros(len(ending), bool)
    chosen[ending] = facts.capture.kernels.kind[_kernel_of_end(step, ending)] == Kind.COLLECTIVE
    if not chosen.any():
        return None
    lag = np.where(chosen, 0, graph.lag_ps)
    saved = path_time_ps(facts, pieces, "exposed_collective")
    return Change(lag, graph.residual_ps, saved, len(np.unique(graph.target[chosen] - n)))


def _no_copies(facts: StepFacts, step: StepGraph, pieces: tuple[Piece, ...]) -> Change | None:
    graph = step.graph
    lasting = graph.kind == Edge.DURATION
    chosen = np.zeros(len(lasting), bool)
    kinds = facts.capture.kernels.kind[_kernel_of_end(step, lasting)]
    chosen[lasting] = np.isin(kinds, (Kind.MEMCPY, Kind.MEMSET))
    if not chosen.any():
        return None
    lag = np.where(chosen, 0, graph.lag_ps)
    return Change(lag, graph.residual_ps, path_time_ps(facts, pieces, "copy"), int(chosen.sum()))


def _fused(facts: StepFacts, step: StepGraph, pieces: tuple[Piece, ...]) -> Change | None:
    """Tiny kernels start right behind the kernel before, and cost the host no call."""
    graph, n = step.graph, len(step.kernels)
    kernels = facts.capture.kernels
    kinds = kernels.kind[step.kernels]
    tiny = (kernels.duration_ps[step.kernels] < TINY_PS) & (kinds == Kind.COMPUTE)
    if not tiny.any():
        return None
    lag, residual = graph.lag_ps.copy(), graph.residual_ps.copy()
    target_is_tiny = np.zeros(len(graph), bool)
    target_is_tiny[np.flatnonzero(tiny)] = True
    lag[(graph.kind == Edge.LAUNCH) & target_is_tiny[graph.target]] = REMOVED
    residual[np.flatnonzero(tiny)] = np.minimum(residual[np.flatnonzero(tiny)], 0)
    launch = facts.join.kernel_launch[step.kernels[tiny]]
    single = launch[(launch >= 0) & ~facts.join.in_graph[step.kernels[tiny]]]
    place = np.flatnonzero(np.isin(step.launches, single))
    ends = np.zeros(len(graph), bool)
    ends[place + 2 * n + len(step.launches)] = True
    lag[(graph.kind == Edge.CALL) & ends[graph.target]] = 0
    saved = path_time_ps(facts, pieces, "tiny_kernels")
    return Change(lag, residual, saved, int(tiny.sum()))


def _shortened(step: StepGraph, pieces: tuple[Piece, ...], shares: Shares) -> Change | None:
    """Kernels take only a share of their time."""
    graph = step.graph
    lasting = graph.kind == Edge.DURATION
    ratio = np.ones(len(lasting))
    ratio[lasting] = shares[_kernel_of_end(step, lasting)]
    if (ratio == 1.0).all():
        return None
    lag = np.where(ratio < 1.0, np.rint(graph.lag_ps * ratio).astype(np.int64), graph.lag_ps)
    saved = sum(
        (p.end_ps - p.start_ps) * (1.0 - float(shares[p.kernel]))
        for p in pieces
        if p.kernel >= 0 and p.kind in ("compute", "memcpy", "memset")
    )
    return Change(lag, graph.residual_ps, round(saved), int((ratio < 1.0).sum()))


def _group_on_path(pieces: tuple[Piece, ...], shares: Shares) -> int:
    """Time on the path of the kernels that a group shortens."""
    return sum(
        p.end_ps - p.start_ps
        for p in pieces
        if p.kernel >= 0 and shares[p.kernel] < 1.0 and p.kind in ("compute", "memcpy", "memset")
    )
