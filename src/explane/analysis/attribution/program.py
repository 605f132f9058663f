"""Solves one program: a place in the schedule, a class and a reason for each of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.executions import executions_of
from explane.analysis.attribution.labels import LabelKind, Labels, labelled_graphs
from explane.analysis.attribution.reasons import Reason
from explane.analysis.attribution.repair import Settled, Timing, settle
from explane.analysis.attribution.result import Execution, Match
from explane.analysis.attribution.runs import count_runs
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.scores import score_types
from explane.analysis.attribution.types import Facts, kernel_types
from explane.analysis.attribution.votes import agree_on_labels, agree_on_nodes
from explane.analysis.attribution.windows import ProgramKernels, place
from explane.analysis.distinct import Ints
from explane.capture.growing import pick
from explane.memory import freed

_SHIFT: Final = 32


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """Answers for one program's kernels, aligned with its rows.

    Attributes:
        position: Place in the schedule, or -1.
        match: `Match` values (labelled kernels count as found).
        reason: `Reason` values.
        execution: Index into `executions`, or -1.
        iteration: Index into `iterations`, or -1.
        iterations: Loop positions.
        executions: Runs of the program on its devices.
    """

    position: Ints
    match: npt.NDArray[np.uint8]
    reason: npt.NDArray[np.int32]
    execution: Ints
    iteration: Ints
    iterations: tuple[str, ...]
    executions: tuple[Execution, ...]


def solve_program(facts: Facts, schedule: Schedule, rows: Ints) -> ProgramAnswer:
    """Places all kernels of one program.

    Args:
        facts: The capture and what is known of its kernels.
        schedule: The program's schedule.
        rows: The program's kernels by device, launch and start.
    """
    table, labels, groups = facts.capture.kernels, facts.labels, facts.groups
    types = freed(kernel_types(facts, schedule, rows), len(rows))
    scores = score_types(schedule, types.types)
    labelled = labels.kind[rows] == LabelKind.INSTRUCTION
    kernels = ProgramKernels(
        types=types.of_row,
        family=np.array([t.family for t in types.types], dtype=np.int8)[types.of_row],
        group=groups.group[rows],
        device=pick(table.device, rows),
        stream=pick(table.stream, rows),
        in_graph=groups.is_graph[groups.group[rows]] & ~labelled,
        node=pick(table.graph_node_id, rows),
        graph=labelled_graphs(labels, schedule, rows),
        fixed=types.fixed,
    )
    timing = Timing(table, rows)
    settled = settle(schedule, scores, kernels, place(schedule, scores, kernels), timing)
    settled = freed(settled, len(rows))
    by_node, moved = agree_on_nodes(kernels, pick(table.graph_id, rows), settled.position)
    alias = np.where(labels.kind[rows] == LabelKind.ALIAS, labels.name[rows], np.int32(-1))
    position = agree_on_labels(alias, by_node)
    step = _step_places(settled, kernels.group, position)
    runs = count_runs(schedule, kernels, step, settled.frames.of_kernel >= 0)
    runs = freed(runs, len(rows))
    match, reason = _classes(labels, rows, kernels, settled, position, moved)
    return ProgramAnswer(
        position,
        match,
        reason,
        runs.execution,
        runs.iteration,
        runs.iterations,
        executions_of(schedule, kernels.device, rows, position, runs),
    )


def _step_places(settled: Settled, group: Ints, position: Ints) -> Ints:
    """Place that counts for executions: a graph launch's is where its span begins.

    Where kernels were lost, it is the lowest place of all launches of the same graph, told by
    overlapping places: so its next launch in a loop comes at the same place.
    """
    framed = np.flatnonzero((settled.frames.of_kernel >= 0) & (position >= 0))
    if not len(framed):
        return position
    step = position.copy()
    if settled.frames.dense:
        step[framed] = settled.frames.span[0][framed]
        return step
    new = np.ones(len(framed), dtype=np.bool_)
    new[1:] = np.diff(group[framed]) != 0
    first = np.flatnonzero(new)
    low = np.minimum.reduceat(position[framed], first)
    high = np.maximum.reduceat(position[framed], first)
    frame = settled.frames.of_kernel[framed][first].astype(np.int64)
    order = np.lexsort((low, frame))
    reach = np.maximum.accumulate(high[order] + (frame[order] << _SHIFT)) - (
        frame[order] << _SHIFT
    )
    apart = np.ones(len(order), dtype=np.bool_)
    apart[1:] = (np.diff(frame[order]) != 0) | (low[order][1:] > reach[:-1])
    lowest = np.empty(len(order), dtype=position.dtype)
    lowest[order] = low[order][np.flatnonzero(apart)][np.cumsum(apart) - 1]
    step[framed] = lowest[np.cumsum(new) - 1]
    return step


def _classes(
    labels: Labels,
    rows: Ints,
    kernels: ProgramKernels,
    settled: Settled,
    position: Ints,
    moved: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Match class and reason of each kernel."""
    kind = labels.kind[rows]
    found = position >= 0
    alias = found & (kind == LabelKind.ALIAS)
    named = found & settled.named & ~moved
    framed = found & (settled.frames.of_kernel >= 0)
    match = np.where(found, Match.ORDER, Match.NONE).astype(np.uint8)
    match[named] = Match.NAME
    match[alias | (kind == LabelKind.INSTRUCTION)] = Match.EXACT
    reason = np.where(found, Reason.ORDER, Reason.NO_CANDIDATE).astype(np.int32)
    reason[framed] = Reason.FRAME
    reason[moved] = Reason.NODE
    reason[named] = Reason.NAME
    reason[alias] = Reason.ALIAS
    reason[~found & settled.ambiguous] = Reason.AMBIGUOUS
    unknown = (kind == LabelKind.UNKNOWN) | (kind == LabelKind.ALIAS)
    reason[~found & unknown] = Reason.UNKNOWN_LABEL
    return match, reason
