"""Gives every kernel of a capture its HLO instruction, with a class that says how far to trust it.

The steps, each in its own module: meaning of labels, kernels by launch, program of each kernel,
then per program: kernel types and scores, places by alignment, places within graph launches,
votes over repeated graph nodes and labels, executions and iterations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from explane.analysis.attribution.labels import LabelKind, Labels, read_labels
from explane.analysis.attribution.launches import LaunchGroups, group_launches
from explane.analysis.attribution.program import ProgramAnswer, solve_program
from explane.analysis.attribution.programs import Owners, find_owners
from explane.analysis.attribution.reasons import REASONS, Reason
from explane.analysis.attribution.result import Attribution, Execution, InstructionKey, Match
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.schedule_walk import expected_launches
from explane.analysis.attribution.types import Facts
from explane.analysis.distinct import distinct, order_by
from explane.capture.model import I32, I64, Capture
from explane.capture.program import Program
from explane.memory import give_back


def attribute(
    capture: Capture,
    programs: Mapping[int, Program],
    only: Collection[int] = (),
    schedules: Mapping[int, Schedule] | None = None,
) -> Attribution:
    """Attributes every kernel of a capture.

    Args:
        capture: The capture.
        programs: Its stored programs, decoded, by program id.
        only: Program ids to attribute; empty means all.
        schedules: Their expected launches, where they are known already.
    """
    if schedules is None:
        schedules = {key: expected_launches(program) for key, program in programs.items()}
    labels = read_labels(capture, programs, schedules)
    groups = group_launches(
        capture, labels.kind == LabelKind.GRAPH, labels.kind == LabelKind.INSTRUCTION
    )
    owners = find_owners(capture, groups, schedules, _label_places(capture, labels, schedules))
    facts = Facts(capture, labels, groups, owners.loose)
    builder = _Builder(capture, labels, groups, owners)
    builder.take_labels(only)
    give_back()
    for program_id, rows in _by_program(groups.order, owners.program):
        wanted = not only or program_id in only
        if program_id in schedules and wanted:
            answer = solve_program(facts, schedules[program_id], rows)
            builder.take(program_id, rows, answer, schedules[program_id])
    builder.explain_rest(set(programs), only)
    return builder.build()


def _by_program(rows: I32, program: I64) -> Iterator[tuple[int, I32]]:
    """The rows of each program, in their order.

    Args:
        rows: Rows of the kernels table.
        program: Program id of every kernel.
    """
    owner = program[rows]
    order = order_by(owner)
    cuts = np.flatnonzero(np.diff(owner[order])) + 1
    for mine in np.split(order, cuts):
        if len(mine):
            yield int(owner[mine[0]]), rows[mine]


def _label_places(capture: Capture, labels: Labels, schedules: Mapping[int, Schedule]) -> I32:
    """Place of each labelled kernel in its program's schedule, or -1."""
    kernels = capture.kernels
    places = np.full(len(kernels), -1, dtype=np.int32)
    rows = np.flatnonzero(labels.kind == LabelKind.INSTRUCTION)
    pairs = distinct(kernels.program_id[rows], labels.name[rows])
    found = []
    for program_id, name in pairs.rows():
        schedule = schedules.get(program_id)
        at = schedule.by_label.get(labels.names[name], ()) if schedule is not None else ()
        found.append(at[0] if at else -1)
    places[rows] = np.array(found, dtype=np.int32)[pairs.code]
    return places


class _Builder:
    """Collects the columns of the result."""

    def __init__(
        self, capture: Capture, labels: Labels, groups: LaunchGroups, owners: Owners
    ) -> None:
        n = len(capture.kernels)
        self.capture = capture
        self.labels = labels
        self.groups = groups
        self.owners = owners
        self.program = owners.program.copy()
        self.instruction = np.full(n, -1, dtype=np.int32)
        self.match = np.full(n, Match.NONE, dtype=np.uint8)
        self.reason = np.full(n, Reason.OUTSIDE, dtype=np.int32)
        self.iteration = np.full(n, -1, dtype=np.int32)
        self.execution = np.full(n, -1, dtype=np.int32)
        self.keys: dict[InstructionKey, int] = {}
        self.iterations: dict[str, int] = {}
        self.executions: list[Execution] = []

    def take_labels(self, only: Collection[int]) -> None:
        """The tracer's own labels are answers of class exact."""
        kernels = self.capture.kernels
        rows = np.flatnonzero(self.labels.kind == LabelKind.INSTRUCTION)
        if only:
            rows = rows[np.isin(kernels.program_id[rows], list(only))]
        pairs = distinct(kernels.program_id[rows], self.labels.name[rows])
        codes = [self._key(p, self.labels.names[n]) for p, n in pairs.rows()]
        self.instruction[rows] = np.array(codes, dtype=np.int32)[pairs.code]
        self.match[rows] = Match.EXACT
        self.reason[rows] = Reason.LABEL

    def _key(self, program_id: int, name: str) -> int:
        return self.keys.setdefault(InstructionKey(program_id, name), len(self.keys))

    def take(self, program_id: int, rows: I32, answer: ProgramAnswer, schedule: Schedule) -> None:
        """The answers for one program's kernels."""
        codes = [self._key(program_id, launch.instruction) for launch in schedule.launches]
        table = np.array([*codes, -1], dtype=np.int32)
        open_ = self.match[rows] != Match.EXACT
        found = open_ & (answer.position >= 0)
        self.instruction[rows[found]] = table[answer.position[found]]
        self.match[rows[open_]] = answer.match[open_]
        self.reason[rows[open_]] = answer.reason[open_]
        loose = open_ & self.owners.loose[rows] & (answer.position < 0)
        self.program[rows[loose]] = -1
        self.reason[rows[loose]] = Reason.OUTSIDE
        offset = len(self.executions)
        self.executions += answer.executions
        self.execution[rows] = np.where(answer.execution >= 0, answer.execution + offset, -1)
        names = [self.iterations.setdefault(t, len(self.iterations)) for t in answer.iterations]
        self.iteration[rows] = np.array([*names, -1], dtype=np.int32)[answer.iteration]

    def explain_rest(self, stored: set[int], only: Collection[int]) -> None:
        """Says why the kernels of no program have no instruction."""
        none = self.match == Match.NONE
        if only:
            self.reason[none & ~np.isin(self.program, list(only))] = Reason.NOT_ASKED
            return
        unknown = none & (self.program >= 0) & ~np.isin(self.program, sorted(stored))
        self.reason[unknown] = Reason.NOT_STORED
        in_graph = self.groups.is_graph[self.groups.group]
        lost = none & (self.program < 0) & in_graph
        self.reason[lost] = Reason.NO_PROGRAM
        labelled = none & (self.program < 0) & (self.labels.kind == LabelKind.NO_PROGRAM)
        self.reason[labelled] = Reason.NO_PROGRAM

    def build(self) -> Attribution:
        """The frozen result."""
        return Attribution(
            program_id=self.program,
            instruction=self.instruction,
            instructions=tuple(self.keys),
            match=self.match,
            reason=self.reason,
            reasons=REASONS,
            in_graph=self.groups.is_graph[self.groups.group],
            iteration=self.iteration,
            iterations=tuple(self.iterations),
            execution=self.execution,
            executions=tuple(self.executions),
        )
