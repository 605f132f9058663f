"""A change to the graph of a step: what a replay plays, and what plain subtraction takes away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from explane.analysis.replay.critical_path import Piece
from explane.analysis.replay.event_graph import EventGraph
from explane.analysis.replay.graph import Edge, StepGraph
from explane.capture.model import I64, Bools

AT_WORK = ("compute", "memcpy", "memset", "collective")
"""Kinds of pieces in which a kernel itself runs."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        cause: Fixed word of the cause that it takes away.
        what: Which part of the cause; empty for all of it.
        lag_ps, residual_ps: As for `event_graph.replay`.
        saved_ps: What plain subtraction takes from the step.
        on_path_ps: Time of the cause on the critical path.
        n: Calls, kernels or operations that it concerns.
        least_ps: The step gets no shorter than this.
    """

    cause: str
    what: str
    lag_ps: I64
    residual_ps: I64
    saved_ps: int
    on_path_ps: int
    n: int
    least_ps: int = 0


Changes = Iterator[Change]


def time_of(pieces: Sequence[Piece], kinds: Sequence[str]) -> int:
    """Time of some kinds of pieces."""
    return sum(p.end_ps - p.start_ps for p in pieces if p.kind in kinds)


def time_of_kernels(pieces: Sequence[Piece], rows: I64, kinds: Sequence[str] = AT_WORK) -> int:
    """Time on the path of some kernels (rows of the capture)."""
    wanted = set(rows.tolist())
    return sum(p.end_ps - p.start_ps for p in pieces if p.kernel in wanted and p.kind in kinds)


def moments(graph: EventGraph, chosen: I64) -> Bools:
    """A mask over all moments."""
    mask = np.zeros(len(graph), bool)
    mask[chosen] = True
    return mask


def ending(step: StepGraph, kernels: Bools) -> Bools:
    """Edges that end some kernels of the step: their duration or transfer."""
    graph, n = step.graph, len(step.kernels)
    ends = moments(graph, np.flatnonzero(kernels) + n)
    kind = graph.kind
    lasting: Bools = ((kind == Edge.DURATION) | (kind == Edge.TRANSFER)) & ends[graph.target]
    return lasting
