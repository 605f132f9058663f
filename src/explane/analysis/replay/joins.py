"""Joins between streams that the program's schedule asks for.

XLA runs a collective on a stream of its own: that stream first waits for what was launched before
the collective's start, and the main stream waits for it at the `-done`:

    main   ├ a ┤├ b ┤├────── c ──────┤ (done)├ d ┤     start after a: collective follows a
    comm        ├─ all-gather ─┤                       done before d: d follows the collective
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from explane.analysis.attribution.result import InstructionKey
from explane.analysis.replay.facts import StepFacts
from explane.capture.model import I64, Kind
from explane.capture.program import Program


@dataclass(frozen=True, slots=True)
class Joins:
    """Pairs of kernels (indices in the step): `after` can't start before `before` has ended."""

    before: I64
    after: I64


def find_joins(facts: StepFacts, rows: I64, launch: I64) -> Joins:
    """Joins of the collectives of one step that run on a stream of their own.

    Args:
        facts: The capture and what is known of it.
        rows: Rows in `Capture.kernels` of the step's kernels, by start.
        launch: Index of each kernel's call, by call start, or -1.
    """
    kernels = facts.capture.kernels
    collective = kernels.kind[rows] == Kind.COLLECTIVE
    pairs: list[tuple[int, int]] = []
    places = _Places(facts.programs)
    for device in np.unique(kernels.device[rows]):
        mine = np.flatnonzero(kernels.device[rows] == device)
        asynchronous = mine[collective[mine]]
        others = mine[~collective[mine]]
        pairs += _starts(asynchronous, others, launch, kernels.stream[rows])
        pairs += _dones(facts, rows, asynchronous, others, places)
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return Joins(both[:, 0], both[:, 1])


def _starts(asynchronous: I64, others: I64, launch: I64, stream: I64) -> list[tuple[int, int]]:
    """Each collective follows the last other kernel that was launched before it."""
    launched = others[launch[others] >= 0]
    by_launch = launched[np.argsort(launch[launched], kind="stable")]
    place = np.searchsorted(launch[by_launch], launch[asynchronous], side="left") - 1
    return [
        (int(by_launch[p]), int(k))
        for p, k in zip(place, asynchronous, strict=True)
        if p >= 0 and launch[k] >= 0 and stream[by_launch[p]] != stream[k]
    ]


def _dones(
    facts: StepFacts,
    rows: I64,
    asynchronous: I64,
    others: I64,
    places: _Places,
) -> list[tuple[int, int]]:
    """The first kernel after a collective's `-done` follows the collective."""
    if not len(asynchronous):
        return []
    attribution = facts.attribution
    keys = attribution.instructions

    def place_of(index: int) -> tuple[int, int, int] | None:
        number = int(attribution.instruction[rows[index]])
        return places.of(keys[number]) if number >= 0 else None

    def run_of(index: int) -> tuple[int, int]:
        return int(attribution.execution[rows[index]]), int(attribution.iteration[rows[index]])

    by_run: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for index in others.tolist():
        place = place_of(index)
        if place is not None:
            by_run.setdefault((*run_of(index), place[0]), []).append((place[1], index))
    pairs = []
    for index in asynchronous.tolist():
        place = place_of(index)
        if place is None or place[2] < 0:
            continue
        later = [x for x in by_run.get((*run_of(index), place[0]), []) if x[0] > place[2]]
        if later:
            pairs.append((index, min(later)[1]))
    return pairs


class _Places:
    """Where scheduled instructions stand, looked up by computation when first asked for."""

    def __init__(self, programs: Mapping[int, Program]) -> None:
        self._programs = programs
        self._known: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}

    def of(self, key: InstructionKey) -> tuple[int, int, int] | None:
        """Computation, position and position of the `-done` (-1 without); None when unknown."""
        program = self._programs.get(key.program_id)
        instruction = program.by_name.get(key.name) if program is not None else None
        if program is None or instruction is None:
            return None
        scheduled = (key.program_id, instruction.computation_id)
        if scheduled not in self._known:
            self._known[scheduled] = _positions(program, instruction.computation_id)
        found = self._known[scheduled].get(instruction.id)
        return (instruction.computation_id, *found) if found is not None else None


def _positions(program: Program, computation_id: int) -> dict[int, tuple[int, int]]:
    """Position and position of the `-done` of each instruction in a computation's schedule."""
    sequence = program.schedule.get(computation_id, ())
    position = {i: number for number, i in enumerate(sequence)}
    done = {}
    for i in sequence:
        instruction = program.instructions[i]
        if instruction.opcode.endswith("-done") and instruction.operand_ids:
            done[instruction.operand_ids[0]] = position[i]
    return {i: (number, done.get(i, -1)) for i, number in position.items()}
