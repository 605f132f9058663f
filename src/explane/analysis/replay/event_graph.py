"""A graph of moments (starts and ends of calls and kernels) and the longest path through it.

Each moment happens when the last of its dependencies has happened, each plus a lag, plus a
*residual* that the dependencies don't explain (never negative):

    moment = max(source + lag over its edges) + residual

With the measured residuals the graph plays back exactly as measured. Changing lags or residuals
and playing again says what would have happened, as far as the edges are all that matters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.capture.model import I64

REMOVED: Final = int(np.iinfo(np.int64).min)
"""Lag of an edge that a replay takes away."""

_NEVER: Final = REMOVED // 2
"""Earlier than any moment, later than any that follows a removed edge."""


@dataclass(frozen=True, slots=True)
class EventGraph:
    """Moments and the edges between them, in an order in which every source comes first.

    Attributes:
        time_ps: Measured time of each moment; shape (n,).
        residual_ps: What its edges leave unexplained; for a moment without edges its own time.
        binding: Edge that decided each moment, or -1; shape (n,).
        order: Moments, sources before targets; shape (n,).
        source, target, lag_ps, kind: Edges, shape (m,), sorted by target.
        first_edge: First edge of each moment in that order; shape (n + 1,).
    """

    time_ps: I64
    residual_ps: I64
    binding: I64
    order: I64
    source: I64
    target: I64
    lag_ps: I64
    kind: I64
    first_edge: I64

    def __len__(self) -> int:
        return len(self.time_ps)


class EdgeList:
    """Edges as they are found; those that the measured times contradict are dropped.

    Args:
        time_ps: Measured times of all moments.
    """

    def __init__(self, time_ps: I64):
        self._time_ps = time_ps
        self._parts: list[tuple[I64, I64, I64, int]] = []
        self.n_contradicted = 0

    def add(self, source: I64, target: I64, lag_ps: I64 | int, kind: int) -> None:
        """Edges from `source` to `target`; a lag longer than measured is cut to what was measured.

        Args:
            source: Moments; shape (k,).
            target: Moments; shape (k,).
            lag_ps: Time that must pass between them; shape (k,) or one for all. Negative where
                the target may come that much before the source (kernels that overlap a little).
            kind: What the edges stand for; only the caller knows the numbers.
        """
        apart = self._time_ps[target] - self._time_ps[source]
        lag = np.broadcast_to(np.asarray(lag_ps, np.int64), apart.shape)
        true = ((apart >= 0) | (lag <= apart)) & (source != target)
        self.n_contradicted += int((~true).sum())
        lag = np.minimum(lag, apart)
        self._parts.append((source[true], target[true], lag[true], kind))

    def graph(self) -> EventGraph:
        """The graph of all edges added, with residuals that make it play back as measured.

        Edges with a negative lag are left out if they close a circle.
        """
        try:
            return self._made()
        except CircleError:
            self._parts = [_forward(part) for part in self._parts]
            return self._made()

    def _made(self) -> EventGraph:
        empty = np.zeros(0, np.int64)
        source = np.concatenate([empty, *(p[0] for p in self._parts)])
        target = np.concatenate([empty, *(p[1] for p in self._parts)])
        lag = np.concatenate([empty, *(p[2] for p in self._parts)])
        kind = np.concatenate([empty, *(np.full(len(p[0]), p[3], np.int64) for p in self._parts)])
        sorted_by_target = np.argsort(target, kind="stable")
        source, target = source[sorted_by_target], target[sorted_by_target]
        lag, kind = lag[sorted_by_target], kind[sorted_by_target]
        n = len(self._time_ps)
        first_edge = np.searchsorted(target, np.arange(n + 1))
        order = _topological(n, source, target, self._time_ps)
        ready = np.zeros(n, np.int64)
        binding = np.full(n, -1, np.int64)
        arrival = self._time_ps[source] + lag
        # Of several edges that arrive last, the first one added wins: callers add the most
        # certain kind first.
        for_target = np.lexsort((-np.arange(len(arrival)), arrival, target))
        ends = first_edge[1:][np.diff(first_edge) > 0] - 1
        last = for_target[ends]
        binding[target[last]] = last
        ready[target[last]] = arrival[last]
        return EventGraph(
            time_ps=self._time_ps,
            residual_ps=self._time_ps - ready,
            binding=binding,
            order=order,
            source=source,
            target=target,
            lag_ps=lag,
            kind=kind,
            first_edge=first_edge,
        )


def replay(graph: EventGraph, lag_ps: I64 | None = None, residual_ps: I64 | None = None) -> I64:
    """Times of all moments when the graph is played with other lags or residuals.

    Args:
        graph: The graph.
        lag_ps: Lag of each edge; `REMOVED` takes the edge away. None: as measured.
        residual_ps: Residual of each moment; None: as measured.
    """
    new_lag = graph.lag_ps if lag_ps is None else lag_ps
    new_rest = graph.residual_ps if residual_ps is None else residual_ps
    changed = new_rest != graph.residual_ps
    changed[graph.target[new_lag != graph.lag_ps]] = True
    touched = np.flatnonzero(changed[graph.order])
    if not len(touched):
        return graph.time_ps.copy()
    # Up to the first change everything happens as measured.
    times: list[int] = graph.time_ps.tolist()
    lags, rests = new_lag.tolist(), new_rest.tolist()
    source, first = graph.source.tolist(), graph.first_edge.tolist()
    for moment in graph.order[touched[0] :].tolist():
        ready = _NEVER
        for edge in range(first[moment], first[moment + 1]):
            arrival = times[source[edge]] + lags[edge]  # far before _NEVER for a removed edge
            if arrival > ready:
                ready = arrival
        times[moment] = (ready if ready > _NEVER else 0) + rests[moment]
    return np.array(times, dtype=np.int64)


def path_to(graph: EventGraph, moment: int) -> Sequence[int]:
    """The moments that decided when one happened, from it back to one without dependencies."""
    path = [moment]
    while graph.binding[path[-1]] >= 0:
        path.append(int(graph.source[graph.binding[path[-1]]]))
    return path


class CircleError(ValueError):
    """Moments that depend on each other in a circle."""


def _forward(part: tuple[I64, I64, I64, int]) -> tuple[I64, I64, I64, int]:
    """The edges of a part without those of negative lag."""
    keep = part[2] >= 0
    return part[0][keep], part[1][keep], part[2][keep], part[3]


def _topological(n: int, source: I64, target: I64, time_ps: I64) -> I64:
    """An order in which sources come before targets.

    Raises:
        CircleError: When there is none.
    """
    by_time = np.argsort(time_ps, kind="stable")
    rank = np.empty(n, np.int64)
    rank[by_time] = np.arange(n)
    if not (rank[source] >= rank[target]).any():
        return by_time
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], np.arange(n + 1)).tolist()
    targets = target[by_source].tolist()
    waiting = np.bincount(target, minlength=n).tolist()
    ready = deque(m for m in by_time.tolist() if not waiting[m])
    order: list[int] = []
    while ready:
        moment = ready.popleft()
        order.append(moment)
        for follower in targets[first[moment] : first[moment + 1]]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    if len(order) < n:
        raise CircleError("moments depend on each other in a circle")
    return np.array(order, dtype=np.int64)
