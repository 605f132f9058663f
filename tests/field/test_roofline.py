"""Work and peaks: library calls, narrow types, unknown chips, impossible rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from explane.analysis.investigation import Investigation
from tests.builders import U64, Hlo, HloComputation, HloModule, Module, bytes_field, packed_field
from tests.builders_hlo import HloShape
from tests.field.made import US, Job, analysed, doubts, row, rows, stored

M, N, K = 512, 256, 128


def dot_dimensions(batch: int = 0) -> bytes:
    """DotDimensionNumbers (field 30): contract the left's last and the right's first."""
    first = 1 if batch else 0
    body = packed_field(1, [first + 1]) + packed_field(2, [first])
    if batch:
        body += packed_field(3, [0]) + packed_field(4, [0])
    return bytes_field(30, body)


def product(opcode: str, batch: int = 0, element_type: str = "bf16", **more: Any) -> Module:
    """One product `[M,K] x [K,N]` as dot or library call."""
    head = f"{batch}," if batch else ""
    shapes = (
        f"{element_type}[{head}{M},{K}]",
        f"{element_type}[{head}{K},{N}]",
        f"bf16[{head}{M},{N}]",
    )
    return _module(opcode, shapes, **{"extra": dot_dimensions(batch), **more})


def _module(opcode: str, shapes: tuple[str, str, str], **more: Any) -> Module:
    left = Hlo("a", "parameter", shapes[0], parameter_number=0)
    right = Hlo("b", "parameter", shapes[1], parameter_number=1)
    op = Hlo("op.1", opcode, shapes[2], operands=("a", "b"), **more)
    main = HloComputation("main", [left, right, op])
    return stored(HloModule("jit_step", [main], program_id=3))


def gemm_config(batch: int = 0) -> str:
    """What XLA stores beside a GEMM library call."""
    first = 1 if batch else 0
    numbers = {
        "lhs_contracting_dimensions": [str(first + 1)],
        "rhs_contracting_dimensions": [str(first)],
        "lhs_batch_dimensions": ["0"] if batch else [],
        "rhs_batch_dimensions": ["0"] if batch else [],
    }
    return json.dumps({"gemm_backend_config": {"dot_dimension_numbers": numbers}})


def run(module: Module, tmp_path: Path, duration: float = 20, **given: Any) -> Investigation:
    """Five executions of a program with `op.1`."""
    job = Job(modules=[module], **given)
    for step in range(5):
        job.kernel("gemm_kernel", 1000 + 100 * step, duration, op="op.1")
    return analysed(job.space(), tmp_path)


@pytest.mark.parametrize("batch", [0, 6])
@pytest.mark.parametrize("form", ["dot", "cublas", "cublaslt"])
def test_products_have_two_operations_per_term_in_every_form(
    tmp_path: Path, form: str, batch: int
) -> None:
    if form == "dot":
        module = product("dot", batch)
    else:
        target = "__cublas$gemm" if form == "cublas" else "__cublas$lt$matmul"
        module = product(
            "custom-call", batch, target=target, backend_config=gemm_config(batch), extra=b""
        )
    found = row(run(module, tmp_path), "roofline")
    assert found["flops"] == 2 * M * N * K * max(batch, 1)
    assert found["n_executions"] == 5


def fp8(element_type: str, scales: int = 2) -> Module:
    """`__cublas$lt$matmul$f8` with scalar scales behind its operands."""
    names = [f"s{i}" for i in range(scales)]
    body = [
        Hlo("a", "parameter", f"{element_type}[{M},{K}]", parameter_number=0),
        Hlo("b", "parameter", f"{element_type}[{K},{N}]", parameter_number=1),
        *(Hlo(n, "parameter", "f32[]", parameter_number=2 + i) for i, n in enumerate(names)),
        Hlo("op.1", "custom-call", f"bf16[{M},{N}]", operands=("a", "b", *names),
            target="__cublas$lt$matmul$f8", backend_config=gemm_config()),
    ]  # fmt: skip
    return stored(HloModule("jit_step", [HloComputation("main", body)], program_id=3))


NARROW = (
    *(("f8e4m3fn", 8), ("f8e5m2", 8), ("f8e5m2fnuz", 8), ("f8e4m3fnuz", 8)),
    *(("f4e2m1fn", 4), ("s4", 4), ("pred", 8)),
)


@pytest.mark.parametrize(("element_type", "bits"), NARROW)
def test_narrow_types_have_their_true_size_and_scales_are_no_operand(
    tmp_path: Path, element_type: str, bits: int
) -> None:
    found = row(run(fp8(element_type), tmp_path), "roofline")
    assert found["flops"] == 2 * M * N * K
    read = (M * K + K * N) * bits // 8
    assert read + 2 * M * N <= found["bytes"] <= read + 2 * M * N + 8


def test_a_type_that_nobody_knows_costs_only_its_own_op(tmp_path: Path) -> None:
    unknown = HloShape("f32", (M, K)).to_bytes().replace(b"\x10\x0b", b"\x10\x78", 1)
    body = [
        Hlo("x", "parameter", f"f32[{M},{K}]", parameter_number=0),
        Hlo("new.1", "custom-call", f"f32[{M},{K}]", operands=("x",), target="t",
            extra=bytes_field(3, unknown)),
        Hlo("op.1", "negate", f"f32[{M},{K}]", operands=("x",)),
    ]  # fmt: skip
    module = stored(HloModule("jit_step", [HloComputation("main", body)], program_id=3))
    job = Job(modules=[module])
    for step in range(5):
        job.kernel("k1", 1000 + 100 * step, 20, op="new.1")
        job.kernel("k2", 1030 + 100 * step, 20, op="op.1")
    found = analysed(job.space(), tmp_path)
    assert row(found, "roofline", hlo_instruction="op.1")["bytes"] == 2 * 4 * M * K
    odd = row(found, "roofline", hlo_instruction="new.1")
    assert odd["flops"] is None
    assert odd["unknown"]


def test_an_unknown_call_is_unknown_and_never_zero(tmp_path: Path) -> None:
    module = product("custom-call", target="my_ffi_kernel", extra=b"")
    found = run(module, tmp_path)
    one = row(found, "roofline")
    assert one["flops"] is None
    assert one["peak_ratio"] is None
    assert one["unknown"]
    coverage = rows(found, "roofline_coverage")
    assert sum(r["duration_ps"] for r in coverage) == 5 * 20 * US


def test_a_rate_above_the_peak_is_flagged_and_not_clipped(tmp_path: Path) -> None:
    found = row(run(product("dot"), tmp_path, duration=0.001), "roofline")
    assert found["peak_ratio"] > 1
    assert "wrong" in found["flag"]


def test_peaks_are_dense_of_the_whole_device_with_their_source(tmp_path: Path) -> None:
    found = run(product("dot"), tmp_path)
    assert found.hosts[0].gpu == "NVIDIA H100 SXM 80 GB"
    one = row(found, "roofline")
    assert one["peak_flops_per_s"] == pytest.approx(989.4e12, rel=0.01)
    assert one["peak_bytes_per_s"] == pytest.approx(3.35e12, rel=0.01)


def test_the_users_peak_replaces_the_spec_sheets(tmp_path: Path) -> None:
    job = Job(modules=[product("dot")])
    job.kernel("gemm_kernel", 1000, 20, op="op.1")
    found = analysed(job.space(), tmp_path, peak_flops_per_s=1e15, peak_bytes_per_s=2e12)
    one = row(found, "roofline")
    assert (one["peak_flops_per_s"], one["peak_bytes_per_s"]) == (1e15, 2e12)


def chip(vendor: str, **stats: Any) -> Job:
    job = Job(vendor=vendor, modules=[product("dot")])
    for step in range(5):
        job.kernel("gemm_kernel", 1000 + 100 * step, 20, op="op.1")
    for name, value in stats.items():
        if value is None:
            job.gpus[0].stats.pop(name, None)
        else:
            job.gpus[0].stats[name] = value
    return job


def test_an_architecture_is_no_product_and_ambiguity_has_no_peak(tmp_path: Path) -> None:
    """gfx942 is several products; without memory size and units none is chosen."""
    job = chip(
        "AMD", gpu_device_name="gfx942", core_count=None, memory_size=None, clock_rate=None,
        memory_bandwidth=None, compute_cap_major=None, compute_cap_minor=None,
    )  # fmt: skip
    found = analysed(job.space(), tmp_path)
    one = row(found, "roofline")
    assert one["peak_flops_per_s"] is None
    assert one["flops"] == 2 * M * N * K
    assert "gpu" in (str(one["unknown"]) + doubts(found) + str(found.not_analysed)).lower()


def test_units_and_memory_tell_products_of_one_architecture_apart(tmp_path: Path) -> None:
    small = chip("AMD", gpu_device_name="gfx942").space()
    large = chip("AMD", gpu_device_name="gfx942", memory_size=U64(256 * 2**30)).space()
    names = {analysed(s, tmp_path / str(i)).hosts[0].gpu for i, s in enumerate((small, large))}
    assert names == {"AMD Instinct MI300X", "AMD Instinct MI325X"}


def test_a_chip_that_is_not_in_the_table_has_no_peak_and_everything_else(tmp_path: Path) -> None:
    job = chip(
        "Nvidia", gpu_device_name="NVIDIA Z9000", core_count=777, memory_size=U64(5 * 2**30)
    )
    found = analysed(job.space(), tmp_path)
    assert row(found, "roofline")["peak_flops_per_s"] is None
    assert row(found, "roofline")["flops"] == 2 * M * N * K
    assert len(rows(found, "ops")) == 1


def test_one_kernel_name_under_two_kinds_of_ops_keeps_them_apart(tmp_path: Path) -> None:
    body = [
        Hlo("a", "parameter", f"bf16[{M},{K}]", parameter_number=0),
        Hlo("b", "parameter", f"bf16[{K},{N}]", parameter_number=1),
        Hlo("dot.1", "dot", f"bf16[{M},{N}]", operands=("a", "b"), extra=dot_dimensions()),
        Hlo("neg.1", "negate", f"bf16[{M},{N}]", operands=("dot.1",)),
    ]
    job = Job(
        modules=[stored(HloModule("jit_step", [HloComputation("main", body)], program_id=3))]
    )
    for step in range(5):
        job.kernel("shared_kernel", 1000 + 100 * step, 20, op="dot.1")
        job.kernel("shared_kernel", 1030 + 100 * step, 20, op="neg.1")
    found = analysed(job.space(), tmp_path)
    flops = {r["hlo_instruction"]: r["flops"] for r in rows(found, "roofline")}
    assert flops == {"dot.1": 2 * M * N * K, "neg.1": M * N}
    assert len({r["rate"] for r in rows(found, "roofline")}) == 2


def test_several_kernels_of_one_op_are_one_execution(tmp_path: Path) -> None:
    job = Job(modules=[product("dot")])
    for step in range(5):
        job.kernel("splitk_kernel", 1000 + 100 * step, 20, op="op.1")
        job.kernel("reduce_kernel", 1020 + 100 * step, 10, op="op.1")
    found = row(analysed(job.space(), tmp_path), "roofline")
    assert found["n_executions"] == 5
    assert found["duration_ps"] == 30 * US
