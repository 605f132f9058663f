"""The step if no loop or branch had to ask the host what comes next; see `conditions`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explane.analysis.replay.change import Change, Changes, ending, moments, time_of_kernels
from explane.analysis.replay.conditions import calls_that_wait
from explane.analysis.replay.critical_path import Piece
from explane.analysis.replay.event_graph import REMOVED
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import Edge, StepGraph


def loops_on_the_gpu(facts: StepFacts, step: StepGraph, pieces: Sequence[Piece]) -> Changes:
    """No predicate is copied, and the host launches on at its pace without waiting for any."""
    graph, n = step.graph, len(step.kernels)
    copies = facts.condition_copies[step.kernels]
    if not copies.any():
        return
    _, following = calls_that_wait(facts, step.launches, step.kernels)
    lag = np.where(ending(step, copies), 0, graph.lag_ps)
    waited = moments(graph, following + 2 * n)
    lag[(graph.kind == Edge.SYNC) & waited[graph.target]] = REMOVED
    residual = graph.residual_ps.copy()
    pace = np.delete(residual[2 * n : 2 * n + len(step.launches)], following)
    usual = int(np.median(pace)) if len(pace) else 0
    residual[waited] = np.minimum(residual[waited], usual)
    calls = set(step.launches[following].tolist())
    saved = time_of_kernels(pieces, step.kernels[copies])
    launch = facts.join.kernel_launch
    saved += sum(
        p.end_ps - p.start_ps
        for p in pieces
        if (p.launch in calls and p.kind == "host_late")
        or (p.kind == "launch_latency" and p.kernel >= 0 and int(launch[p.kernel]) in calls)
    )
    yield Change("while_readback", "", lag, residual, saved, saved, int(copies.sum()))
