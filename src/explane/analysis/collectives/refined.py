"""Kinds of kernels, told anew once their HLO instructions are known.

Names decide first (`capture.classify`), and they can mislead: a kernel that XLA named after a
collective may only compute. The opcode of an instruction that was read, or found by a name that
fits nothing else, beats the name. Instructions found by order alone don't: a wrong one would turn
a compute kernel into a collective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from explane.analysis.attribution.result import Attribution, Match
from explane.analysis.collectives.collectives import collective_inside
from explane.capture.classify import refine_kinds
from explane.capture.model import HostCapture
from explane.capture.program import Instruction, Program


def with_refined_kinds(
    record: HostCapture, programs: Mapping[int, Program], attribution: Attribution
) -> HostCapture:
    """The same capture with the kinds that the HLO opcodes of its kernels tell.

    Args:
        record: The capture; only the kinds of its main record change.
        programs: Parsed programs by id.
        attribution: Kernels and their instructions.
    """
    told = [_opcode(*found) if found else "" for found in attribution.stored(programs)]
    opcodes = sorted({opcode for opcode in told if opcode})
    place = {opcode: number for number, opcode in enumerate(opcodes)}
    by_instruction = np.array([*(place.get(o, -1) for o in told), -1], np.int32)
    sure = attribution.match >= Match.NAME
    opcode = np.where(sure, by_instruction[attribution.instruction], -1).astype(np.int32)
    main = record.main
    kind = refine_kinds(main.kernels, main.strings, opcode, opcodes)
    return replace(record, main=replace(main, kernels=replace(main.kernels, kind=kind)))


def _opcode(program: Program, instruction: Instruction) -> str:
    """Opcode of an instruction, of the collective in it where it wraps one."""
    inner = collective_inside(program, instruction)
    return inner.opcode if inner is not None else instruction.opcode
