"""Instructions that only move, convert or name data, also as fusions of such."""

from __future__ import annotations

from typing import Final

from explane.capture.program import Instruction, Program

FREE: Final = frozenset(
    {
        "bitcast", "constant", "copy-done", "get-tuple-element", "opt-barrier", "parameter",
        "tuple",
    }
)  # fmt: skip
"""Opcodes that cost nothing by themselves."""

REAL_MOVES: Final = frozenset({"bitcast-convert", "convert", "copy", "copy-start", "transpose"})
"""Opcodes that read and write all of their operand and compute nothing."""

MOVES: Final = FREE | REAL_MOVES | {"reshape"}

SLICES: Final = frozenset({"concatenate", "dynamic-slice", "pad", "slice"})
"""Opcodes that take a part of their operand, or put parts together."""


def inner_opcodes(program: Program, instruction: Instruction) -> frozenset[str]:
    """Opcodes of what a fusion computes; the opcode itself for others."""
    if instruction.opcode != "fusion":
        return frozenset({instruction.opcode})
    return frozenset(
        program.instructions[i].opcode
        for c in program.called_by(instruction)
        for i in c.instruction_ids
    )


def is_move(program: Program, instruction: Instruction, *, slices: bool = False) -> bool:
    """True for what hands data on without computing; `slices` counts parts of it too."""
    allowed = MOVES | SLICES if slices else MOVES
    return inner_opcodes(program, instruction) <= allowed


def real_users(program: Program, instruction: Instruction, through: frozenset[str]) -> set[int]:
    """Ids of what takes an instruction's result, whatever moves and `through` opcodes between.

    The root of a computation counts as a user of itself: its result leaves the computation.
    """
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [instruction.id]
    while waiting:
        current = waiting.pop()
        if program.computations[program.instructions[current].computation_id].root_id == current:
            found.add(current)
        for user_id in program.users.get(current, ()):
            if user_id in seen:
                continue
            seen.add(user_id)
            user = program.instructions[user_id]
            if user.opcode in through or is_move(program, user, slices=True):
                waiting.append(user_id)
            else:
                found.add(user_id)
    return found
