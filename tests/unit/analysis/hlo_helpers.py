"""Dimension numbers and windows as bytes, for tests that count work from HLO."""

from __future__ import annotations

import json
from collections.abc import Sequence

from explane.analysis.roofline.cost import Cost
from explane.analysis.roofline.flops import cost_of
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.capture.program import Program
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.wire_writer import bytes_field, int_field, packed_field


def program_of(entry: list[Hlo], *bodies: HloComputation) -> Program:
    """A module whose entry lists these instructions."""
    module = HloModule("m", [*bodies, HloComputation("main", entry)])
    return read_program(StoredProgram(1, "m(1)", module.to_bytes()))


def cost(name: str, entry: list[Hlo], *bodies: HloComputation) -> Cost:
    """Cost of one instruction of such a module."""
    program = program_of(entry, *bodies)
    return cost_of(program, program.by_name[name])


def param(name: str, shape: str, number: int = 0) -> Hlo:
    return Hlo(name, "parameter", shape, parameter_number=number)


def fused(*instructions: Hlo) -> HloComputation:
    return HloComputation("fused", list(instructions), is_fusion=True)


def dot_numbers(
    lhs_contracting: Sequence[int],
    rhs_contracting: Sequence[int],
    lhs_batch: Sequence[int] = (),
    rhs_batch: Sequence[int] = (),
) -> bytes:
    """HloInstructionProto.dot_dimension_numbers (30)."""
    body = packed_field(1, lhs_contracting) + packed_field(2, rhs_contracting)
    return bytes_field(30, body + packed_field(3, lhs_batch) + packed_field(4, rhs_batch))


def gemm_json(
    lhs_contracting: int, rhs_contracting: int, batch: Sequence[int] = (), **more: object
) -> str:
    """A GpuBackendConfig with gemm_backend_config; int64 are strings."""
    numbers = {
        "lhs_contracting_dimensions": [str(lhs_contracting)],
        "rhs_contracting_dimensions": [str(rhs_contracting)],
        "lhs_batch_dimensions": [str(i) for i in batch],
        "rhs_batch_dimensions": [str(i) for i in batch],
    }
    return json.dumps({"gemm_backend_config": {"dot_dimension_numbers": numbers, **more}})


def window(*dims: dict[str, int]) -> bytes:
    """HloInstructionProto.window (15); keys size, stride, low, high, window_dilation, base."""
    names = ("size", "stride", "low", "high", "window_dilation", "base")
    out = b""
    for dim in dims:
        fields = (int_field(n, dim[k]) for n, k in enumerate(names, 1) if k in dim)
        out += bytes_field(1, b"".join(fields))
    return bytes_field(15, out)


def convolution_numbers(n_spatial: int, groups: int = 0, batch_groups: int = 0) -> bytes:
    """NCHW input, OIHW kernel, NCHW output: convolution_dimension_numbers (16)."""
    spatial = list(range(2, 2 + n_spatial))
    body = int_field(3, 1) + int_field(4, 0) + packed_field(6, spatial)
    body += int_field(7, 0) + int_field(8, 1) + int_field(9, 0) + int_field(10, 1)
    body += packed_field(11, spatial) + packed_field(12, spatial)
    out = bytes_field(16, body)
    out += int_field(50, groups) if groups else b""
    return out + int_field(58, batch_groups) if batch_groups else out
