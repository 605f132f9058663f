"""Changes on the host: calls in time, calls that cost nothing, kernels that need no call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from explane.analysis.replay.change import Change, Changes, moments, time_of
from explane.analysis.replay.critical_path import Piece
from explane.analysis.replay.event_graph import REMOVED
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import Edge, StepGraph
from explane.analysis.replay.late_events import late_events
from explane.analysis.replay.loops import loops_on_the_gpu
from explane.analysis.replay.readback import find_readback
from explane.capture.model import Kind
from explane.units import PS_PER_US

TINY_PS: Final = 5 * PS_PER_US
"""Kernels shorter than this do less work than starting them costs."""


def host_changes(facts: StepFacts, step: StepGraph, pieces: Sequence[Piece]) -> Changes:
    """Everything that the host could do better."""
    never_late = _never_late(step, pieces)
    yield from never_late
    yield from _no_readback(facts, step, never_late)
    yield from _without_events(facts, step, pieces)
    yield from _traced(facts, never_late)
    yield from loops_on_the_gpu(facts, step, pieces)
    yield from _one_graph(facts, step, pieces)
    yield from _tiny(facts, step, pieces)


def _no_readback(facts: StepFacts, step: StepGraph, never_late: Sequence[Change]) -> Changes:
    """The host does not wait for the step before: never late, but its own work still takes time.

    What the host does in the step beside waiting sets the least length of the step.
    """
    found = find_readback(facts, step)
    if found is None or not never_late:
        return
    yield replace(never_late[0], cause="readback", what=found.name, n=1, least_ps=found.host_ps)


def _traced(facts: StepFacts, never_late: Sequence[Change]) -> Changes:
    """The Python tracer slows the host by an unknown part of its lateness: at most all of it."""
    if facts.capture.n_python_events and never_late and never_late[0].on_path_ps:
        n = facts.capture.n_python_events
        yield replace(never_late[0], cause="python_tracer", n=n)


def _never_late(step: StepGraph, pieces: Sequence[Piece]) -> list[Change]:
    """Kernels never wait for their calls."""
    graph = step.graph
    launched = graph.kind == Edge.LAUNCH
    if not launched.any():
        return []
    lag, residual = graph.lag_ps.copy(), graph.residual_ps.copy()
    lag[launched] = REMOVED
    bound = graph.binding >= 0
    by_launch = np.flatnonzero(bound)[launched[graph.binding[bound]]]
    residual[by_launch] = 0
    late_ps = time_of(pieces, ("host_late",))
    return [Change("host_late", "", lag, residual, late_ps, late_ps, len(by_launch))]


def _without_events(facts: StepFacts, step: StepGraph, pieces: Sequence[Piece]) -> Changes:
    """For each host event that delays calls: without its time before them."""
    graph = step.graph
    late = late_events(facts, step)
    for name in late.names():
        mine = late.of_event(name)
        gone = np.zeros(len(graph), np.int64)
        np.add.at(gone, mine.moment, mine.time_ps)
        residual = graph.residual_ps - np.minimum(gone, np.maximum(graph.residual_ps, 0))
        moment = np.unique(mine.moment)
        rows = step.launches[moment - 2 * len(step.kernels)].tolist()
        filled = dict(zip(rows, gone[moment].tolist(), strict=True))
        saved = sum(
            min(p.end_ps - p.start_ps, filled.get(p.launch, 0))
            for p in pieces
            if p.kind == "host_late" and p.launch >= 0
        )
        yield Change("host_late", name, graph.lag_ps, residual, saved, saved, len(rows))


def _one_graph(facts: StepFacts, step: StepGraph, pieces: Sequence[Piece]) -> Changes:
    """Every call but the first of each thread costs nothing and needs no time before it."""
    graph, n = step.graph, len(step.kernels)
    calls = facts.capture.launches
    merged_call = ~calls.is_graph[step.launches]
    _, first = np.unique(calls.thread[step.launches], return_index=True)
    merged_call[first] = False
    merged = np.flatnonzero(merged_call)
    if not len(merged):
        return
    lag, residual = graph.lag_ps.copy(), graph.residual_ps.copy()
    starts = merged + 2 * n
    waited = moments(graph, graph.target[graph.kind == Edge.SYNC])
    residual[starts[~waited[starts]]] = 0
    ends = moments(graph, starts + len(step.launches))
    lag[(graph.kind == Edge.CALL) & ends[graph.target]] = 0
    rows = set(step.launches[merged[~waited[starts]]].tolist())
    call_ps = sum(
        p.end_ps - p.start_ps
        for p in pieces
        if p.launch in rows and p.kind in ("host_late", "launch_latency")
    )
    yield Change("launch_call_long", "", lag, residual, call_ps, call_ps, len(merged))


def _tiny(facts: StepFacts, step: StepGraph, pieces: Sequence[Piece]) -> Changes:
    """Tiny kernels start right behind the kernel before, and cost the host no call."""
    graph, n = step.graph, len(step.kernels)
    kernels = facts.capture.kernels
    is_tiny = (kernels.duration_ps < TINY_PS) & (kernels.kind == Kind.COMPUTE)
    tiny = np.flatnonzero(is_tiny[step.kernels])
    if not len(tiny):
        return
    lag, residual = graph.lag_ps.copy(), graph.residual_ps.copy()
    lag[(graph.kind == Edge.LAUNCH) & moments(graph, tiny)[graph.target]] = REMOVED
    residual[tiny] = 0
    rows = step.kernels[tiny]
    launch = facts.join.kernel_launch[rows]
    single = launch[(launch >= 0) & ~facts.join.in_graph[rows]]
    place = np.flatnonzero(np.isin(step.launches, single))
    ends = moments(graph, place + 2 * n + len(step.launches))
    lag[(graph.kind == Edge.CALL) & ends[graph.target]] = 0
    saved = sum(
        p.end_ps - p.start_ps
        for p in pieces
        if p.kind == "launch_latency" and p.kernel >= 0 and is_tiny[p.kernel]
    )
    yield Change("tiny_kernels", "", lag, residual, saved, saved, len(tiny))
