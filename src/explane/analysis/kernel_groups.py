"""Kernels that exist for a reason one may do without, found from the HLO of their instructions.

    low_rate    runs below its roofline; the share left is roof time over measured time
    layout      only moves or converts data: transposes, copies, bitcasts, converts
    donation    copies a parameter that the program does not take over (no donated buffer)
    remat       computes again what was computed before (op_name says rematerialised)

Each group gives every kernel of the capture the share of its time that would be left: 1 where
nothing changes. Groups overlap; their estimates must not be added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.attribution import Attribution
from explane.analysis.whatif_device import Shares
from explane.capture.program import Instruction, Program

_MOVES: Final = frozenset(
    {
        "parameter", "transpose", "copy", "bitcast", "bitcast-convert", "convert", "reshape",
        "get-tuple-element", "tuple", "constant", "copy-start", "copy-done",
    }
)  # fmt: skip
_REAL_MOVES: Final = frozenset({"transpose", "copy", "convert", "copy-start"})
_REMAT_MARKS: Final = ("rematted_computation", "/remat/", "checkpoint/remat")


def kernel_groups(
    programs: Mapping[int, Program], attribution: Attribution, roofline: pl.DataFrame
) -> dict[str, Shares]:
    """Groups that have any kernels.

    Args:
        programs: Parsed programs by id.
        attribution: Kernels and their instructions.
        roofline: Roofline table with program_id, hlo_instruction, roof_ps, duration_ps, flag.
    """
    found: dict[str, Callable[[Program, Instruction], bool]] = {
        "layout": _is_layout,
        "donation": _is_parameter_copy,
        "remat": _is_remat,
    }
    groups = {"low_rate": _at_roof(attribution, roofline)}
    for cause, belongs in found.items():
        left = np.ones(len(attribution.instructions) + 1)
        for index, key in enumerate(attribution.instructions):
            program = programs.get(key.program_id)
            instruction = program.by_name.get(key.name) if program else None
            if program and instruction and belongs(program, instruction):
                left[index] = 0.0
        groups[cause] = left[attribution.instruction]
    return {cause: shares for cause, shares in groups.items() if (shares < 1.0).any()}


def _at_roof(attribution: Attribution, roofline: pl.DataFrame) -> Shares:
    """Roof time over measured time, where both are known and the rate is below the peak."""
    left = np.ones(len(attribution.instructions) + 1)
    if roofline.height:
        known = roofline.filter(
            pl.col("roof_ps").is_not_null()
            & (pl.col("duration_ps") > 0)
            & (pl.col("roof_ps") < pl.col("duration_ps"))
        )
        place = {(k.program_id, k.name): i for i, k in enumerate(attribution.instructions)}
        columns = known.select("program_id", "hlo_instruction", "roof_ps", "duration_ps")
        for program_id, name, roof_ps, duration_ps in columns.iter_rows():
            index = place.get((program_id, name))
            if index is not None:
                left[index] = roof_ps / duration_ps
    shares: Shares = left[attribution.instruction]
    return shares


def _inner_opcodes(program: Program, instruction: Instruction) -> frozenset[str]:
    """Opcodes of what a fusion computes; the opcode itself for others."""
    if instruction.opcode != "fusion":
        return frozenset({instruction.opcode})
    return frozenset(
        program.instructions[i].opcode
        for c in instruction.called_computation_ids
        for i in program.computations[c].instruction_ids
    )


def _is_layout(program: Program, instruction: Instruction) -> bool:
    opcodes = _inner_opcodes(program, instruction)
    return bool(opcodes & _REAL_MOVES) and opcodes <= _MOVES


def _is_parameter_copy(program: Program, instruction: Instruction) -> bool:
    """A copy of an entry parameter, or into a result, in the entry computation."""
    if instruction.opcode != "copy" or instruction.computation_id != program.entry_id:
        return False
    source = program.instructions[instruction.operand_ids[0]]
    return source.opcode in ("parameter", "get-tuple-element") and (
        source.opcode == "parameter"
        or program.instructions[source.operand_ids[0]].opcode == "parameter"
    )


def _is_remat(_program: Program, instruction: Instruction) -> bool:
    return any(mark in instruction.op_name for mark in _REMAT_MARKS)
