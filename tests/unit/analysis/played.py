"""Steps for tests of collectives, critical path and what-if: captures with their attribution."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explane.analysis.attribution.result import Attribution, InstructionKey, Match
from explane.analysis.collectives.match import match_collectives
from explane.analysis.replay.device import Shares
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.whatif import PlayedStep, StepWindow, play_step
from explane.analysis.steps.launches import join_launches
from explane.capture.model import Capture
from explane.capture.program import Program

PROGRAM = 17


def labelled(data: Capture) -> Attribution:
    """Every kernel's label taken as its instruction; one execution, no loops."""
    n = len(data.kernels)
    codes = data.kernels.hlo_op
    used = [int(c) for c in np.unique(codes[codes >= 0])]
    place = {code: index for index, code in enumerate(used)}
    return Attribution(
        program_id=np.where(codes >= 0, PROGRAM, -1).astype(np.int64),
        instruction=np.array([place.get(int(c), -1) for c in codes], dtype=np.int32),
        instructions=[InstructionKey(PROGRAM, data.strings[c]) for c in used],
        match=np.where(codes >= 0, Match.EXACT, Match.NONE).astype(np.uint8),
        reason=np.zeros(n, np.int32),
        reasons=["label"],
        in_graph=np.zeros(n, bool),
        iteration=np.full(n, -1, np.int32),
        iterations=[],
        execution=np.full(n, -1, np.int32),
        executions=[],
    )


def facts_of(
    data: Capture,
    programs: Mapping[int, Program] | None = None,
    bus_bytes: Mapping[str, float] | None = None,
) -> StepFacts:
    """What the graph of a step is made from.

    Args:
        data: The capture.
        programs: Parsed programs; none by default.
        bus_bytes: Bytes on the bus of the collectives with some labels; None: nothing is known.
    """
    attribution = labelled(data)
    none = np.zeros(len(data.kernels), np.int64)
    matched = match_collectives(data, attribution, none)
    names = attribution.instruction_names()
    known = (
        np.array([bus_bytes.get(names[row], np.nan) for row in matched.row.tolist()])
        if bus_bytes is not None
        else None
    )
    return StepFacts(data, join_launches(data), attribution, programs or {}, matched, known)


def play(
    data: Capture,
    start: int,
    end: int,
    groups: Mapping[str, Shares] | None = None,
    facts: StepFacts | None = None,
) -> tuple[StepFacts, PlayedStep, dict[str, tuple[int, int, int]]]:
    """One step of all kernels; (replay, subtraction, on path) by cause."""
    facts = facts or facts_of(data)
    window = StepWindow(0, np.arange(len(data.kernels)), start, end)
    played = play_step(facts, window, groups)
    rows = {
        f"{cause} {what}".strip(): (replay, left, on_path)
        for _, cause, what, _, replay, left, on_path, _ in played.rows
    }
    return facts, played, rows


def path_times(played: PlayedStep) -> dict[str, int]:
    """Time on the critical path by kind."""
    times: dict[str, int] = {}
    for piece in played.pieces:
        times[piece.kind] = times.get(piece.kind, 0) + piece.end_ps - piece.start_ps
    return times
