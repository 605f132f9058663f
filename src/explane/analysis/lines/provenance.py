"""From an HLO instruction to its op_name and the user's Python line.

Many launched instructions carry no source of their own: XLA makes copies, reduce-scatters and a
tenth of all fusions without metadata. Where a line comes from is part of the answer (`line_from`):

    own         the instruction's own metadata
    fused_root  the root of the computation that it wraps (fusion, async wrapper, call)
    inside      the line with the most work inside that computation
    operand     the nearest instruction towards its operands that has one by the rules above
    user        the nearest one towards its users
    none        none was found

With `_library` behind it no frame of that stack is the user's own, and the innermost is shown.
A user's line from one of the first three ways goes before a library's line from an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from explane.analysis.lines.neighbours import Neighbours
from explane.analysis.lines.user_frames import UserFrames
from explane.capture.program import Frame, Instruction, Program
from explane.errors import UsageError

LIBRARY: Final = "_library"
NO_LINE: Final = "none"
WRAPPERS: Final = frozenset({"fusion", "async-start", "call"})
_FREE: Final = frozenset({"parameter", "constant", "get-tuple-element", "tuple", "bitcast"})


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an instruction comes from.

    Attributes:
        op_name: Its own op_name, else that of the instruction that gave the line; may be empty.
        source_file, source_line, function: The Python line; empty, 0 and empty without one.
        line_from: How it was found, see the module's text.
        lines: All distinct (file, line) that the instruction and what is fused into it carry, the
            chosen one first, then by the work that they stand for. Optimisation may hide more.
        via: The innermost frame, when it is another than the line shown (a library's); else None.
        stack: All frames that the line was chosen from, innermost first; empty without a line.
    """

    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    function: str = ""
    line_from: str = NO_LINE
    lines: tuple[tuple[str, int], ...] = ()
    via: Frame | None = None
    stack: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """A line for one instruction before the neighbours are asked."""

    frame: Frame
    is_user: bool
    how: str
    source: Instruction


def provenance(
    program: Program, user_re: str | None = None, known: dict[str, Provenance] | None = None
) -> Mapping[str, Provenance]:
    """Provenance by instruction name, worked out when it is first asked for.

    Args:
        program: The module.
        user_re: Regular expression of the user's source files; None for the default rules (not
            site-packages, the interpreter, or an editable install of a known library).
        known: Answers of an equal program by the same rule; those missing are added to it.

    Raises:
        UsageError: `user_re` is no regular expression.
    """
    rule = UserFrames(_pattern(user_re) if user_re else None)
    return ProgramProvenance(program, rule, {} if known is None else known)


def _pattern(user_re: str) -> re.Pattern[str]:
    try:
        return re.compile(user_re)
    except re.error as error:
        raise UsageError(
            user_re, f"is no regular expression ({error})", "see Python's re module", "user-re"
        ) from error


class ProgramProvenance(Mapping[str, Provenance]):
    """Provenance of each instruction of one program, computed once per instruction."""

    def __init__(self, program: Program, rule: UserFrames, answers: dict[str, Provenance]) -> None:
        self._program = program
        self._rule = rule
        self._answers = answers
        self._local_answers: dict[int, _Found | None] = {}
        self._chosen: dict[int, tuple[Frame | None, bool]] = {}

    def __getitem__(self, name: str) -> Provenance:
        known = self._answers.get(name)
        if known is None:
            known = self._answers[name] = self._answer(self._program.by_name[name])
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._program.by_name)

    def __len__(self) -> int:
        return len(self._program.by_name)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self._program)

    def _answer(self, instruction: Instruction) -> Provenance:
        found = self._local(instruction) or self._nearest(instruction)
        if found is None:
            return Provenance(op_name=instruction.op_name)
        stack = self._program.frames_of(found.source)
        frame = found.frame
        return Provenance(
            op_name=instruction.op_name or found.source.op_name,
            source_file=frame.file,
            source_line=frame.line,
            function=frame.function,
            line_from=found.how if found.is_user else found.how + LIBRARY,
            lines=self._lines(instruction, (frame.file, frame.line)),
            via=stack[0] if stack[0] != frame else None,
            stack=stack,
        )

    def _own(self, instruction: Instruction, how: str) -> _Found | None:
        """The line of one instruction's own stack."""
        key = instruction.stack_frame_id
        chosen = self._chosen.get(key) if key else None
        if chosen is None:
            chosen = self._rule.choose(self._program.frames_of(instruction))
            if key and chosen[0] is not None:
                self._chosen[key] = chosen
        frame, is_user = chosen
        return _Found(frame, is_user, how, instruction) if frame is not None else None

    def _local(self, instruction: Instruction) -> _Found | None:
        """Own, fused root, inside: the first that is the user's, else the first there is."""
        if instruction.id not in self._local_answers:
            first = None
            for found in self._local_candidates(instruction):
                first = first or found
                if found.is_user:
                    first = found
                    break
            self._local_answers[instruction.id] = first
        return self._local_answers[instruction.id]

    def _local_candidates(self, instruction: Instruction) -> Iterator[_Found]:
        own = self._own(instruction, "own")
        if own is not None:
            yield own
        if instruction.opcode not in WRAPPERS:
            return
        for computation in self._program.called_by(instruction):
            root = self._program.root_of(computation)
            if root is not None and (found := self._own(root, "fused_root")) is not None:
                yield found
        heaviest = self._heaviest(instruction)
        if heaviest is not None:
            yield heaviest

    def _heaviest(self, instruction: Instruction) -> _Found | None:
        """The line that most work inside stands for, a user's line before a library's."""
        totals: dict[tuple[str, int], int] = {}
        best: dict[tuple[str, int], tuple[int, _Found]] = {}
        for inner in self._inside(instruction):
            found = self._own(inner, "inside")
            if found is None:
                continue
            key = (found.frame.file, found.frame.line)
            work = work_of(self._program, inner)
            totals[key] = totals.get(key, 0) + work
            if key not in best or work > best[key][0]:
                best[key] = (work, found)
        if not best:
            return None
        chosen = max(best, key=lambda k: (best[k][1].is_user, totals[k]))
        return best[chosen][1]

    def _inside(self, instruction: Instruction) -> Iterator[Instruction]:
        """All instructions that run as part of a wrapper, nested fusions included."""
        if instruction.opcode in WRAPPERS:
            yield from self._program.inside(instruction, WRAPPERS)

    def _nearest(self, instruction: Instruction) -> _Found | None:
        """The nearest instruction with a line: operands before users, the user's lines first."""
        fallback = None
        for how, other in self._neighbours.by_distance(instruction):
            found = self._local(other)
            if found is None:
                continue
            found = replace(found, how=how)
            if found.is_user:
                return found
            fallback = fallback or found
        return fallback

    def _lines(
        self, instruction: Instruction, first: tuple[str, int]
    ) -> tuple[tuple[str, int], ...]:
        """Distinct lines of an instruction and of what is fused into it, `first` in front."""
        work: dict[tuple[str, int], int] = {}
        for inner in (instruction, *self._inside(instruction)):
            found = self._own(inner, "")
            if found is not None:
                key = (found.frame.file, found.frame.line)
                work[key] = work.get(key, 0) + work_of(self._program, inner)
        work.pop(first, None)
        return (first, *sorted(work, key=lambda key: (-work[key], key)))


def work_of(program: Program, instruction: Instruction) -> int:
    """A rough weight to compare instructions of one fusion: elements, times the sum length.

    No FLOPs: it only ranks lines. 0 for what computes nothing.
    """
    if instruction.opcode in _FREE:
        return 0
    shapes = [instruction.shape, *(o.shape for o in program.operands_of(instruction))]
    if instruction.opcode in {"dot", "convolution"}:
        sizes = [shape.n_elements for shape in shapes]
        product = 1
        for size in sizes:
            product *= max(size, 1)
        # out * lhs * rhs = (M N)(M K)(K N), so its root is M N K.
        return int(product**0.5)
    return max(shape.n_elements for shape in shapes)
