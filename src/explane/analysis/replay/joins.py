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
    places = _schedule_places(facts.programs)
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
    places: Mapping[tuple[int, str], tuple[int, int, int]],
) -> list[tuple[int, int]]:
    """The first kernel after a collective's `-done` follows the collective."""
    attribution = facts.attribution
    keys = attribution.instructions

    def place_of(index: int) -> tuple[int, int, int] | None:
        number = int(attribution.instruction[rows[index]])
        return places.get((keys[number].program_id, keys[number].name)) if number >= 0 else None

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


def _schedule_places(
    programs: Mapping[int, Program],
) -> dict[tuple[int, str], tuple[int, int, int]]:
    """Computation, position and position of the `-done` (-1 without) of scheduled instructions."""
    places: dict[tuple[int, str], tuple[int, int, int]] = {}
    for program_id, program in programs.items():
        for computation_id, sequence in program.schedule.items():
            position = {i: number for number, i in enumerate(sequence)}
            done = {}
            for i in sequence:
                instruction = program.instructions[i]
                if instruction.opcode.endswith("-done") and instruction.operand_ids:
                    done[instruction.operand_ids[0]] = position[i]
            for i in sequence:
                name = program.instructions[i].name
                places[program_id, name] = (computation_id, position[i], done.get(i, -1))
    return places
