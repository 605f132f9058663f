"""Kernels that exist for a reason one may do without, found from what their instructions are.

    low_rate           runs below its roofline; the share left is roof time over measured time
    precision          multiplies float32, slower than bfloat16 on this GPU
    low_occupancy      has fewer blocks than the GPU multiprocessors, or few threads and a low rate
    layout             only moves or converts data: transposes, copies, bitcasts, converts
    donation           copies a parameter that the program does not take over (no donated buffer)
    remat              computes again what was computed before (op_name says rematerialised)
    resharding         brings together what a foreign call takes (see `resharding`)
    small_collectives  pays latency that another collective could have paid (see `combinable`)

Each group gives every kernel of the capture the share of its time (of its transfer, for
collectives) that would be left: 1 where nothing changes. Groups overlap; their estimates must not
be added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.advice.combinable import combinable
from explane.analysis.advice.hlo_moves import MOVES, REAL_MOVES, inner_opcodes
from explane.analysis.advice.launch_shapes import filled_ratio, occupancy_ratio
from explane.analysis.advice.resharding import resharded_for
from explane.analysis.attribution.result import Attribution
from explane.analysis.replay.device import Shares
from explane.analysis.replay.facts import StepFacts
from explane.analysis.roofline.roofline import Roofline
from explane.capture.model import Kind
from explane.capture.program import Instruction, Program
from explane.units import PS_PER_US

_REMAT_MARKS: Final = ("rematted_computation", "/remat/", "checkpoint/remat")
_FLOAT32: Final = ("f32", "f32_default", "tf32")

_LEAST_PS: Final = 5 * PS_PER_US
"""Shorter kernels are bound by starting, not by what they occupy; see `tiny_kernels`."""

_FEW_THREADS_RATIO: Final = 0.25
_LOW_RATE_RATIO: Final = 0.5
"""Few threads at once are no fault of a kernel that is fast: at least this share of its roof."""


def kernel_groups(facts: StepFacts, roof: Roofline) -> dict[str, Shares]:
    """Groups that have any kernels.

    Args:
        facts: The capture and what is known of it.
        roof: Its roofline.
    """
    attribution, programs = facts.attribution, facts.programs
    at_roof = _at_roof(attribution, roof.table)
    groups = {
        "low_rate": at_roof,
        "precision": _lower_precision(attribution, roof),
        "low_occupancy": _filled(facts, at_roof, roof.table),
        "small_collectives": combinable(facts),
        "resharding": _without(attribution, programs, _resharding(programs)),
    }
    found: dict[str, Callable[[Program, Instruction], bool]] = {
        "layout": _is_layout,
        "donation": _is_parameter_copy,
        "remat": _is_remat,
    }
    for cause, belongs in found.items():
        groups[cause] = _without(attribution, programs, belongs)
    return {cause: shares for cause, shares in groups.items() if (shares < 1.0).any()}


def _without(
    attribution: Attribution,
    programs: Mapping[int, Program],
    belongs: Callable[[Program, Instruction], bool],
) -> Shares:
    """Nothing left of the kernels of some instructions."""
    gone = [found is not None and belongs(*found) for found in attribution.stored(programs)]
    left = np.append(np.where(gone, 0.0, 1.0), 1.0)
    shares: Shares = left[attribution.instruction]
    return shares


def _by_instruction(
    attribution: Attribution, rows: pl.DataFrame, value: Callable[..., float]
) -> Shares:
    """A share for the kernels of each row of the roofline table."""
    left = np.ones(len(attribution.instructions) + 1)
    place = {(k.program_id, k.name): i for i, k in enumerate(attribution.instructions)}
    for row in rows.iter_rows(named=True):
        index = place.get((row["program_id"], row["hlo_instruction"]))
        if index is not None:
            left[index] = min(value(row), 1.0)
    shares: Shares = left[attribution.instruction]
    return shares


def _at_roof(attribution: Attribution, roofline: pl.DataFrame) -> Shares:
    """Roof time over measured time, where both are known and the rate is below the peak."""
    known = roofline.filter(
        pl.col("roof_ps").is_not_null()
        & (pl.col("duration_ps") > 0)
        & (pl.col("roof_ps") < pl.col("duration_ps"))
    )
    return _by_instruction(attribution, known, lambda row: row["roof_ps"] / row["duration_ps"])


def _lower_precision(attribution: Attribution, roof: Roofline) -> Shares:
    """Products of float32 as bfloat16 (float16 without it), as far from the roof as they are.

    Half the bytes, and the peak of the smaller type. Nothing where the GPU, and so its peaks, is
    not known, or where the type is no faster there.
    """
    gpu = roof.identity.gpu
    lower = (gpu.flops_peak("bf16") or gpu.flops_peak("f16")) if gpu is not None else None
    if lower is None:
        return np.ones(len(attribution))
    known = roof.table.filter(
        pl.col("rate").is_in(_FLOAT32)
        & (pl.col("n_passes") == 1)
        & (pl.col("roof_ps") > 0)
        & (pl.col("roof_ps") <= pl.col("duration_ps"))
    )
    roof_ps = pl.max_horizontal(
        pl.col("flops") / lower.per_s * 1e12,
        pl.col("bytes").fill_null(0) / 2 / pl.col("peak_bytes_per_s") * 1e12,
    )
    lowered = known.with_columns(roof_ps.alias("lowered_ps"))
    return _by_instruction(attribution, lowered, lambda row: row["lowered_ps"] / row["roof_ps"])


def _filled(facts: StepFacts, at_roof: Shares, roofline: pl.DataFrame) -> Shares:
    """Kernels as if all multiprocessors worked, at best at their roof.

    A kernel with fewer blocks than multiprocessors would need that share of its time. One with
    few threads for each and a rate far below its roof would need its share at the roof; matrix
    products are left out there: they use few, large threads by design.
    """
    kernels = facts.capture.kernels
    eligible = (kernels.kind == Kind.COMPUTE) & (kernels.duration_ps >= _LEAST_PS)
    filled = np.nan_to_num(filled_ratio(facts.capture), nan=1.0)
    left = np.maximum(filled, np.where(at_roof < 1.0, at_roof, 0.0))
    vector = _by_instruction(
        facts.attribution,
        roofline.filter(pl.col("rate").str.starts_with("vector")),
        lambda _row: 0.0,
    )
    few = np.nan_to_num(occupancy_ratio(facts.capture), nan=1.0) <= _FEW_THREADS_RATIO
    slow = few & (vector < 1.0) & (at_roof < _LOW_RATE_RATIO)
    shares: Shares = np.where(eligible, np.where(slow, np.minimum(left, at_roof), left), 1.0)
    return shares


def _resharding(programs: Mapping[int, Program]) -> Callable[[Program, Instruction], bool]:
    """Whether a collective only feeds a foreign call; each program is searched once."""
    found = {program_id: resharded_for(program) for program_id, program in programs.items()}
    return lambda program, instruction: instruction.name in found.get(program.program_id, {})


def _is_layout(program: Program, instruction: Instruction) -> bool:
    opcodes = inner_opcodes(program, instruction)
    return bool(opcodes & REAL_MOVES) and opcodes <= MOVES


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
