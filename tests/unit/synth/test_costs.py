"""What instructions cost, by hand."""

from __future__ import annotations

import pytest

from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.synth.costs import Cost, duration_ps, instruction_cost, transfer_ps
from explane.synth.devices import H100, MI300X
from tests.builders import Hlo, HloComputation, HloModule, bytes_field, int_field, packed_field


def cost_of(name: str, *computations: HloComputation) -> Cost:
    module = HloModule("jit_f", list(computations))
    program = read_program(StoredProgram(1, "jit_f(1)", module.to_bytes()))
    return instruction_cost(program, program.by_name[name])


def parameters(*shapes: str) -> list[Hlo]:
    return [Hlo(f"p{i}", "parameter", s, parameter_number=i) for i, s in enumerate(shapes)]


CONTRACTING = bytes_field(30, packed_field(1, [1]) + packed_field(2, [0]))
WINDOW = bytes_field(15, bytes_field(1, int_field(1, 3)) + bytes_field(1, int_field(1, 3)))


def test_product_counts_two_operations_per_multiplication() -> None:
    dot = Hlo("dot", "dot", "bf16[64,32]", ["p0", "p1"], extra=CONTRACTING)
    entry = HloComputation("main", [*parameters("bf16[64,128]", "bf16[128,32]"), dot])

    expected = Cost(2.0 * 64 * 32 * 128, 2.0 * (64 * 128 + 128 * 32 + 64 * 32), "matrix bf16")
    assert cost_of("dot", entry) == expected


def test_fusion_counts_what_it_touches() -> None:
    inner = [
        *parameters("f32[8,1024]", "s32[]"),
        Hlo("slice", "dynamic-slice", "f32[1,1024]", ["p0", "p1"]),
        Hlo("e", "exponential", "f32[1,1024]", ["slice"]),
    ]
    body = HloComputation("fused", inner, is_fusion=True)
    fused = Hlo("f", "fusion", "f32[1,1024]", ["a", "b"], ["fused"])
    arguments = [Hlo("a", "parameter", "f32[8,1024]"), Hlo("b", "parameter", "s32[]")]
    found = cost_of("f", body, HloComputation("main", [*arguments, fused]))

    # Read: the slice and the index; written: the result. An exponential counts ten, a slice one.
    assert found == Cost(11.0 * 1024, 4.0 * (1024 + 1 + 1024), "vector")


def test_library_product_from_the_three_sizes() -> None:
    call = Hlo("call", "custom-call", "bf16[64,32]", ["p0", "p1"], target="__cublas$lt$matmul")
    entry = HloComputation("main", [*parameters("bf16[64,128]", "bf16[128,32]"), call])
    assert cost_of("call", entry).flops == pytest.approx(2.0 * 64 * 32 * 128)


def test_convolution_from_sizes_and_window() -> None:
    call = Hlo(
        "call", "custom-call", "f32[4,16,16,32]", ["p0", "p1"], target="__cudnn$convForward"
    )
    call.extra = WINDOW
    entry = HloComputation("main", [*parameters("f32[4,16,16,8]", "f32[3,3,8,32]"), call])
    assert cost_of("call", entry).flops == pytest.approx(2.0 * (4 * 16 * 16) * 32 * 9 * 8)


def test_durations_stay_below_the_peaks() -> None:
    product = Cost(1e12, 1e6, "matrix bf16")
    assert duration_ps(product, H100, 1.0) == pytest.approx(1.6e6 + 1e12 / 989e12 * 1e12)
    stream = Cost(0.0, 1e9, "vector")
    assert duration_ps(stream, MI300X, 0.5) == pytest.approx(1.6e6 + 2e9 / 5.3e12 * 1e12)
    assert transfer_ps(4.5e6, H100, 4) == pytest.approx(9e6 + 0.75 * 4.5e6 / 450e9 * 1e12)
