"""Which launched instructions an instruction waits for."""

from __future__ import annotations

from collections.abc import Iterator

from explane.capture.program import Instruction, Program

_PASS = frozenset(
    {
        "bitcast",
        "get-tuple-element",
        "tuple",
        "add-dependency",
        "after-all",
        "optimization-barrier",
    }
)
"""Opcodes that launch nothing and hand their operands on."""


def producers(program: Program, name: str) -> frozenset[str]:
    """Names of the nearest instructions that compute what an instruction reads."""
    return frozenset(_walk(program, program.by_name[name], set()))


def _walk(program: Program, instruction: Instruction, seen: set[int]) -> Iterator[str]:
    for operand in program.operands_of(instruction):
        if operand.id in seen:
            continue
        seen.add(operand.id)
        if operand.opcode in _PASS:
            yield from _walk(program, operand, seen)
        else:
            yield operand.name
