"""What follows from programs alone, whatever ran, and a memory of it for the next process.

All processes of a job run one program, each with a copy of its own (`capture.hlo_structure`). A
worker that analyses several of them works out once what equal programs give alike:

    of an equal structure   the expected launches, the cost of each instruction, the digest by
                            which programs of several processes are compared
    of an equal origin too  the Python line of each instruction

Modules of one capture that are equal to the byte share all of this, also in a process alone.
What a process stores differently, such as another path in its metadata, stays its own. How
kernels are matched with launches is not kept: it rests on times as much as on the program.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.schedule_walk import expected_launches
from explane.analysis.hosts.same_programs import text_structure
from explane.analysis.investigation import ProgramFile
from explane.analysis.lines.provenance import Provenance, provenance
from explane.analysis.roofline.cost import Cost
from explane.analysis.roofline.flops import ProgramCosts
from explane.capture.hlo_structure import structure_of
from explane.capture.hlo_text import program_parts
from explane.capture.model import Capture
from explane.capture.program import Program

MOST_LAUNCHES: Final = 100_000
"""Expected launches of all programs that are remembered; some kilobytes each with the rest."""


@dataclass(slots=True)
class _Known:
    """What one structure gave so far.

    Attributes:
        schedule: Its expected launches, with the id of the program that gave them.
        costs: Cost by instruction, as far as it was asked for.
        lines: Provenance by instruction, as far as it was asked for, and in front what it belongs
            to: the digest of the origin and the user's expression.
        text: Digest of its text; empty until one was made.
    """

    schedule: Schedule
    costs: dict[str, Cost] = field(default_factory=dict)
    lines: tuple[tuple[bytes, str | None], dict[str, Provenance]] | None = None
    text: str = ""

    def schedule_of(self, program_id: int) -> Schedule:
        """The expected launches of a program that has the structure."""
        if program_id == self.schedule.program_id:
            return self.schedule
        return replace(self.schedule, program_id=program_id)

    def lines_of(self, origin: bytes, user_re: str | None) -> dict[str, Provenance]:
        """Answers to use and to add to; those of another origin are forgotten."""
        lines = self.lines
        if lines is None or lines[0] != (origin, user_re):
            lines = self.lines = ((origin, user_re), {})
        return lines[1]


class KnownPrograms:
    """Programs that a worker has seen, the latest last; it may be asked from several threads."""

    def __init__(self, most_launches: int = MOST_LAUNCHES) -> None:
        self._most = most_launches
        self._lock = threading.Lock()
        self._known: dict[bytes, _Known] = {}

    def find(self, structure: bytes, program: Program) -> _Known:
        """What is known of a structure.

        Args:
            structure: Its digest.
            program: A program that has it.
        """
        with self._lock:
            known = self._known.pop(structure, None) or _Known(expected_launches(program))
            self._known[structure] = known
            total = sum(len(one.schedule) for one in self._known.values())
            while total > self._most and len(self._known) > 1:
                total -= len(self._known.pop(next(iter(self._known))).schedule)
        return known


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What a capture's programs give, by program id.

    Attributes:
        programs: Parsed programs.
        schedules: Launches that one execution is expected to make.
        costs: FLOPs and bytes by instruction name, worked out when asked for.
        lines: Provenance by instruction name, worked out when asked for.
    """

    programs: Mapping[int, Program]
    schedules: Mapping[int, Schedule]
    costs: Mapping[int, Mapping[str, Cost]]
    lines: Mapping[int, Mapping[str, Provenance]]
    _known: Mapping[int, _Known]

    def files(self, capture: Capture) -> tuple[ProgramFile, ...]:
        """The stored modules of the capture.

        Those of a process among several have their digest, and are parsed again where they are
        written, which is one of many.
        """
        return tuple(self._file(capture, program_id) for program_id in capture.programs)

    def _file(self, capture: Capture, program_id: int) -> ProgramFile:
        stored, known = capture.programs[program_id], self._known.get(program_id)
        program = self.programs.get(program_id)
        if known is not None and program is not None and not known.text:
            known.text = text_structure(program_parts(program))
        return ProgramFile(
            host=capture.host,
            program_id=program_id,
            name=stored.name.rsplit("(", 1)[0],
            hlo_proto=stored.hlo_proto,
            readable=program is not None,
            structure=known.text if known is not None else "",
            program=program if known is None else None,
        )


def program_facts(
    programs: Mapping[int, Program],
    user_re: str | None = None,
    memory: KnownPrograms | None = None,
) -> ProgramFacts:
    """What a capture's programs give.

    Args:
        programs: Those that could be parsed, by program id.
        user_re: Regular expression of the user's source files; None for the default rules.
        memory: Programs that were seen before, and which remembers these; None asks nobody.

    Raises:
        UsageError: `user_re` is no regular expression.
    """
    schedules: dict[int, Schedule] = {}
    costs: dict[int, Mapping[str, Cost]] = {}
    lines: dict[int, Mapping[str, Provenance]] = {}
    remembered: dict[int, _Known] = {}
    twins: dict[int, int] = {}
    for key, program in programs.items():
        # A module that is stored under several ids was parsed once.
        twin = twins.setdefault(id(program.instructions), key)
        if twin != key:
            schedules[key] = replace(schedules[twin], program_id=key)
            costs[key], lines[key] = costs[twin], lines[twin]
            if twin in remembered:
                remembered[key] = remembered[twin]
            continue
        if memory is None:
            schedules[key] = expected_launches(program)
            costs[key] = ProgramCosts(program)
            lines[key] = provenance(program, user_re)
            continue
        found = structure_of(program)
        known = remembered[key] = memory.find(found.structure, program)
        schedules[key] = known.schedule_of(key)
        costs[key] = ProgramCosts(program, known.costs)
        lines[key] = provenance(program, user_re, known.lines_of(found.origin, user_re))
    return ProgramFacts(programs, schedules, costs, lines, remembered)
