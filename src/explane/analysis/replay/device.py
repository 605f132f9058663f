"""Changes on the GPUs: no straggler, cheaper or hidden transfers, no copies, shorter kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from explane.analysis.replay.change import (
    AT_WORK,
    Change,
    Changes,
    ending,
    time_of,
    time_of_kernels,
)
from explane.analysis.replay.critical_path import Piece
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.graph import Edge, StepGraph
from explane.analysis.replay.stragglers import find_stragglers
from explane.capture.model import I64, Bools, Kind

Shares: TypeAlias = npt.NDArray[np.float64]
"""Share of its time that each kernel of the capture would need, 0 to 1; shape (n_kernels,)."""

OUTSIDE: Final = "copies outside the program"
INSIDE: Final = "copies of the program"

_MOST_PARTS: Final = 5


def device_changes(
    facts: StepFacts, step: StepGraph, pieces: Sequence[Piece], groups: Mapping[str, Shares]
) -> Changes:
    """Everything that the GPUs could do less of."""
    kinds = facts.capture.kernels.kind[step.kernels]
    yield from _no_straggler(facts, step)
    yield from _transfers(facts, step, pieces, kinds == Kind.COLLECTIVE)
    yield from _copies(facts, step, pieces, (kinds == Kind.MEMCPY) | (kinds == Kind.MEMSET))
    for cause, shares in groups.items():
        yield from _shortened(step, pieces, cause, shares)


def _no_straggler(facts: StepFacts, step: StepGraph) -> Changes:
    """GPUs that compute longer than the others take as long as those do for the same work."""
    graph, n = step.graph, len(step.kernels)
    found = find_stragglers(facts, step.kernels)
    if not len(found.kernels):
        return
    lag = graph.lag_ps.copy()
    usual = np.full(2 * n, -1, np.int64)
    usual[found.kernels + n] = found.usual_ps
    lasting = np.flatnonzero(graph.kind == Edge.DURATION)
    known = lasting[usual[graph.target[lasting]] >= 0]
    lag[known] = usual[graph.target[known]]
    # Who is late in one step alone may be another one in the next: one cause, without a name.
    what = ", ".join(f"GPU {d}" for d in facts.slow_gpus.devices)
    n_late = found.n_operations
    yield Change("straggler", what, lag, graph.residual_ps, found.delay_ps, 0, n_late)


def _transfers(
    facts: StepFacts, step: StepGraph, pieces: Sequence[Piece], collective: Bools
) -> Changes:
    """All transfers hidden; then, one by one, the collectives that take most of the path."""
    graph = step.graph
    if not collective.any():
        return
    hidden = np.where(ending(step, collective), 0, graph.lag_ps)
    path_ps = time_of(pieces, ("collective",))
    n = int(collective.sum())
    yield Change("exposed_collective", "", hidden, graph.residual_ps, path_ps, path_ps, n)
    best = facts.best_transfer_ps(step.kernels)
    for name, mine in _largest(facts, step, pieces, collective).items():
        edges = ending(step, mine)
        limit = best[graph.target[edges] - len(step.kernels)]
        lag = graph.lag_ps.copy()
        lag[edges] = np.minimum(lag[edges], limit)
        mine_ps = time_of_kernels(pieces, step.kernels[mine])
        yield Change(
            "exposed_collective", name, lag, graph.residual_ps, mine_ps, mine_ps, int(mine.sum())
        )


def _copies(facts: StepFacts, step: StepGraph, pieces: Sequence[Piece], copies: Bools) -> Changes:
    """No copies and fills of the program, none of the host; then each of the largest alone."""
    if not copies.any():
        return
    graph = step.graph
    parts = {**_askers(facts, step, copies), **_largest(facts, step, pieces, copies)}
    for name, mine in parts.items():
        lag = np.where(ending(step, mine), 0, graph.lag_ps)
        mine_ps = time_of_kernels(pieces, step.kernels[mine])
        yield Change("copy", name, lag, graph.residual_ps, mine_ps, mine_ps, int(mine.sum()))


def _askers(facts: StepFacts, step: StepGraph, copies: Bools) -> dict[str, Bools]:
    """Copies that the program's instructions ask for, and the others; all as one if only one."""
    of_program = copies & (facts.attribution.instruction[step.kernels] >= 0)
    others = copies & ~of_program
    if not of_program.any() or not others.any():
        return {"": copies}
    return {OUTSIDE: others, INSIDE: of_program}


def _largest(
    facts: StepFacts, step: StepGraph, pieces: Sequence[Piece], chosen: Bools
) -> dict[str, Bools]:
    """The instructions (else kernel names) with most time on the path, if there are several."""
    names = _names(facts, step.kernels)
    times: dict[str, int] = {}
    place = {int(row): i for i, row in enumerate(step.kernels)}
    for piece in pieces:
        index = place.get(piece.kernel, -1)
        if index >= 0 and chosen[index]:
            times[names[index]] = times.get(names[index], 0) + piece.end_ps - piece.start_ps
    ordered = sorted(times, key=lambda name: (-times[name], name))
    if len(set(np.array(names, object)[chosen])) < 2:
        return {}
    all_names = np.array(names, dtype=object)
    return {name: chosen & (all_names == name) for name in ordered[:_MOST_PARTS]}


def _names(facts: StepFacts, rows: I64) -> list[str]:
    """Instruction of each kernel, else its own name."""
    attribution, capture = facts.attribution, facts.capture
    return [
        attribution.instructions[i].name if i >= 0 else capture.text(int(code))
        for i, code in zip(
            attribution.instruction[rows].tolist(), capture.kernels.name[rows], strict=True
        )
    ]


def _shortened(step: StepGraph, pieces: Sequence[Piece], cause: str, shares: Shares) -> Changes:
    """Kernels take only a share of their time, collectives of their transfer."""
    graph = step.graph
    left = shares[step.kernels]
    if (left == 1.0).all():
        return
    edges = np.flatnonzero(ending(step, left < 1.0))
    ratio = left[graph.target[edges] - len(step.kernels)]
    lag = graph.lag_ps.copy()
    lag[edges] = np.rint(lag[edges] * ratio).astype(np.int64)
    concerned = [p for p in pieces if p.kernel >= 0 and shares[p.kernel] < 1.0]
    concerned = [p for p in concerned if p.kind in AT_WORK]
    saved = sum((p.end_ps - p.start_ps) * (1.0 - float(shares[p.kernel])) for p in concerned)
    n = int((left < 1.0).sum())
    yield Change(cause, "", lag, graph.residual_ps, round(saved), round(saved), n)
