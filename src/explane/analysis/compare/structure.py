"""What an instruction does, as text that is the same in two compilations of the same work.

Names, ids and layouts differ from one compilation to the next and are left out:

    fusion kLoop f32[8,16] of f32[8,16] f32[16]: add multiply*2
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from explane.capture.program import Instruction, Program
from explane.capture.shape import Shape

_LONGEST: Final = 160
_SAY_NOTHING: Final = frozenset({"parameter", "constant", "get-tuple-element", "tuple", "bitcast"})


def structure_of(program: Program, instruction: Instruction) -> str:
    """Opcode, kind or target, shapes, and what a fusion or async wrapper holds.

    A text of more than 160 characters is cut and ends with a digest of the whole.

    Args:
        program: The module.
        instruction: One of its instructions.
    """
    kind = instruction.custom_call_target or instruction.fusion_kind
    operands = [shape_text(o.shape) for o in program.operands_of(instruction)]
    words = [instruction.opcode, *([kind] if kind else []), shape_text(instruction.shape)]
    text = " ".join(words) + (f" of {' '.join(operands)}" if operands else "")
    inside = Counter(_opcodes_inside(program, instruction))
    if inside:
        parts = (f"{op}*{n}" if n > 1 else op for op, n in sorted(inside.items()))
        text += f": {' '.join(parts)}"
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 10]}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def shape_text(shape: Shape) -> str:
    """Element type and dimensions, without layout: `bf16[8,128]`, `(f32[], s32[2])`."""
    if shape.tuple_shapes:
        return f"({', '.join(shape_text(part) for part in shape.tuple_shapes)})"
    return f"{shape.element_type}[{','.join(map(str, shape.dimensions))}]"


def _opcodes_inside(program: Program, instruction: Instruction) -> Iterator[str]:
    """Opcodes that run as part of a fusion or async wrapper; reducers are not among them."""
    if instruction.opcode not in ("fusion", "async-start", "call"):
        return
    for inner in program.inside(instruction, ("fusion", "call")):
        if inner.opcode not in _SAY_NOTHING:
            yield inner.opcode
