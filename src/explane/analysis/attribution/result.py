"""What the attribution of a capture's kernels is: one answer per kernel, with its match class.

Everything is aligned with `Capture.kernels`. The dataclass states facts and their totals; how the
answers are found is in `attribute`, how far they can be trusted in `selfcheck`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl

from explane.capture.model import I32, I64, U8, Bools, Kernels, Kind
from explane.capture.program import Instruction, Program


class Match(IntEnum):
    """How a kernel came by its instruction (design: match classes)."""

    NONE = 0
    """No candidate left, no program, or outside XLA."""
    ORDER = 1
    """Matched in schedule order inside its window."""
    NAME = 2
    """A graph kernel whose name is the only candidate in its window."""
    EXACT = 3
    """The tracer's own label, resolved in the HLO of its program."""

    @property
    def word(self) -> str:
        """The fixed lower-case word used in tables."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class InstructionKey:
    """Identity of an instruction in a capture: names repeat across programs."""

    program_id: int
    name: str


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of a program on one device, as found from its kernels.

    Attributes:
        program_id: The program.
        device: Device ordinal.
        first, last: Row of its first and last kernel in the kernels table.
        n_expected: Least number of kernels that the schedule launches (branches not taken and
            loops of unknown length are counted as seen).
        n_missing: Expected launches of which no kernel was found.
    """

    program_id: int
    device: int
    first: int
    last: int
    n_expected: int
    n_missing: int


@dataclass(frozen=True, slots=True)
class Attribution:
    """One answer per kernel, aligned with `Capture.kernels`.

    Attributes:
        program_id: Resolved program, or -1. Differs from the kernel's own stat where that is
            missing and the program was inferred.
        instruction: Index into `instructions`, or -1.
        instructions: The distinct instructions found.
        match: `Match` values.
        reason: Index into `reasons`, always set: how the answer was found or why there is none.
        reasons: Short fixed phrases.
        in_graph: True for kernels launched by a graph (command buffer).
        iteration: Index into `iterations`, or -1 outside loops.
        iterations: Loop positions, outermost first, such as `while.5:3/`.
        execution: Index into `executions`, or -1.
        executions: Runs of programs on devices, in order of their first kernel.
    """

    program_id: I64
    instruction: I32
    instructions: Sequence[InstructionKey]
    match: U8
    reason: I32
    reasons: Sequence[str]
    in_graph: Bools
    iteration: I32
    iterations: Sequence[str]
    execution: I32
    executions: Sequence[Execution]

    def __len__(self) -> int:
        return len(self.match)

    def instruction_names(self) -> list[str]:
        """Name of each kernel's instruction; empty where there is none."""
        names = np.array([*(key.name for key in self.instructions), ""], dtype=object)
        return list(names[self.instruction])

    def stored(self, programs: Mapping[int, Program]) -> list[tuple[Program, Instruction] | None]:
        """What the stored programs say of each of `instructions`; None where they hold none.

        Args:
            programs: Parsed programs by id.
        """
        found: list[tuple[Program, Instruction] | None] = []
        for key in self.instructions:
            program = programs.get(key.program_id)
            instruction = program.by_name.get(key.name) if program is not None else None
            found.append((program, instruction) if program and instruction else None)
        return found

    def attributed(self) -> Bools:
        """True for kernels that have an instruction."""
        return self.instruction >= 0

    def check(self, kernels: Kernels) -> list[str]:
        """Contradictions inside the result; empty when it holds.

        Attributed plus unattributed time must be the total to the picosecond, every column must
        be aligned with the kernels, and the class must agree with the instruction.
        """
        problems = []
        columns = (self.program_id, self.instruction, self.reason, self.in_graph)
        if any(len(c) != len(kernels) for c in (*columns, self.iteration, self.execution)):
            problems.append("columns are not aligned with the kernels")
            return problems
        found = self.attributed()
        duration_ps = possible_duration_ps(kernels)
        total = int(duration_ps.sum())
        parts = int(duration_ps[found].sum()) + int(duration_ps[~found].sum())
        if parts != total or int(self.how(kernels)["duration_ps"].sum()) != total:
            problems.append(f"attributed plus unattributed is {parts} ps, total is {total} ps")
        if np.any(found != (self.match != Match.NONE)):
            problems.append("a class none with an instruction, or an instruction of class none")
        owner = np.array([*(k.program_id for k in self.instructions), -1], dtype=np.int64)
        if np.any(found & (owner[self.instruction] != self.program_id)):
            problems.append("an instruction of another program than the kernel's")
        return problems

    def how(self, kernels: Kernels) -> pl.DataFrame:
        """Table of class, kind, reason: count and time (`how.csv`), classes exact first.

        Kernels whose times can't be true are counted and add no time.

        Returns:
            Columns match, kind, in_graph, reason, n_kernels, duration_ps, duration_ratio.
        """
        frame = pl.DataFrame(
            {
                "match": self.match,
                "kind": kernels.kind,
                "in_graph": self.in_graph.astype(np.int8),
                "reason": self.reason,
                "duration_ps": possible_duration_ps(kernels),
            }
        )
        keys = ["match", "kind", "in_graph", "reason"]
        table = frame.group_by(keys).agg(
            pl.len().cast(pl.Int64).alias("n_kernels"), pl.col("duration_ps").sum()
        )
        total = max(int(table["duration_ps"].sum()), 1)
        words = {int(m): m.word for m in Match}
        kinds = {int(k): k.word for k in Kind}
        return table.sort(
            ["match", "duration_ps", "kind", "in_graph", "reason"],
            descending=[True, True, False, False, False],
        ).select(
            pl.col("match").replace_strict(words, return_dtype=pl.String),
            pl.col("kind").replace_strict(kinds, return_dtype=pl.String),
            "in_graph",
            pl.col("reason").replace_strict(
                dict(enumerate(self.reasons)), default="", return_dtype=pl.String
            ),
            "n_kernels",
            "duration_ps",
            (pl.col("duration_ps") / total).alias("duration_ratio"),
        )


def possible_duration_ps(kernels: Kernels) -> I64:
    """Durations, 0 where the times of an event can't be true."""
    return np.where(kernels.time_ok, kernels.duration_ps, 0)
