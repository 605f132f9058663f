"""Kernels that may be done without: which instructions belong to which group, and their shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from explane.analysis.advice.kernel_groups import kernel_groups
from explane.analysis.roofline.gpus import GpuIdentity, gpu_by_key
from explane.analysis.roofline.roofline import Roofline
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.units import PS_PER_US
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.analysis.made import K, capture
from tests.unit.analysis.played import PROGRAM, facts_of

US = PS_PER_US
SCHEMA = {
    "program_id": pl.Int64,
    "hlo_instruction": pl.String,
    "flops": pl.Int64,
    "bytes": pl.Int64,
    "rate": pl.String,
    "n_passes": pl.Int64,
    "peak_bytes_per_s": pl.Float64,
    "roof_ps": pl.Float64,
    "duration_ps": pl.Int64,
}


def modelled(
    name: str, duration_ps: int, roof_ps: float, *, flops: int = 1, n_bytes: int = 1,
    rate: str = "vector_f32", n_passes: int = 1,
) -> tuple[object, ...]:  # fmt: skip
    """One row of the roofline table, on a memory of 10^12 bytes per second."""
    return PROGRAM, name, flops, n_bytes, rate, n_passes, 1e12, roof_ps, duration_ps


def roofline_of(rows: list[tuple[object, ...]], gpu: str = "") -> Roofline:
    """A roofline with only what the groups look at."""
    empty = pl.DataFrame()
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    known = gpu_by_key(gpu) if gpu else None
    return Roofline(table, empty, empty, GpuIdentity(known, (), ""), overridden=False)


def groups_of(*names: str, roof: dict[str, int] | None = None) -> dict[str, list[float]]:
    moves = HloComputation(
        "moves",
        [
            Hlo("q", "parameter", parameter_number=0),
            Hlo("t", "transpose", operands=["q"]),
            Hlo("c", "convert", operands=["t"]),
        ],
        is_fusion=True,
    )
    works = HloComputation(
        "works",
        [
            Hlo("r", "parameter", parameter_number=0),
            Hlo("u", "transpose", operands=["r"]),
            Hlo("v", "add", operands=["u", "u"]),
        ],
        is_fusion=True,
    )
    entry = HloComputation(
        "main",
        [
            Hlo("p", "parameter", parameter_number=0),
            Hlo("copy.1", "copy", operands=["p"]),
            Hlo("layout.2", "fusion", operands=["p"], calls=["moves"]),
            Hlo("add.3", "fusion", operands=["p"], calls=["works"]),
            Hlo("dot.4", "add", operands=["p", "p"],
                op_name="jit(f)/transpose(jvp(f))/rematted_computation/dot_general"),
            Hlo("copy.5", "copy", operands=["add.3"]),
        ],
    )  # fmt: skip
    module = HloModule("jit_f", [moves, works, entry], program_id=PROGRAM)
    program = read_program(StoredProgram(PROGRAM, "jit_f(17)", module.to_bytes()))
    data = capture(
        [K(100 * i, 50, name, op=name, program=PROGRAM) for i, name in enumerate(names)]
    )
    rows = [modelled(name, 50, ps) for name, ps in (roof or {}).items()]
    found = kernel_groups(facts_of(data, {PROGRAM: program}), roofline_of(rows))
    return {cause: np.asarray(shares).tolist() for cause, shares in found.items()}


def test_a_copy_of_a_parameter_could_be_donated_and_any_copy_only_moves() -> None:
    found = groups_of("copy.1", "copy.5", "add.3")
    assert found["donation"] == [0.0, 1.0, 1.0]
    assert found["layout"] == [0.0, 0.0, 1.0]


def test_fusions_that_only_move_are_layout_and_those_that_compute_are_not() -> None:
    assert groups_of("layout.2", "add.3")["layout"] == [0.0, 1.0]


def test_rematerialised_work_is_told_by_its_op_name() -> None:
    assert groups_of("dot.4", "add.3")["remat"] == [0.0, 1.0]


def test_at_its_roof_a_kernel_needs_its_share_and_faster_than_the_roof_changes_nothing() -> None:
    found = groups_of("dot.4", "add.3", "copy.1", roof={"dot.4": 10, "add.3": 80})
    assert found["low_rate"] == [0.2, 1.0, 1.0]


def test_groups_without_kernels_are_left_out() -> None:
    assert groups_of("add.3") == {}


def groups_of_dot(gpu: str, rate: str, n_passes: int = 1, roof_us: float = 20) -> dict[str, float]:
    """Shares of one product that takes 40 µs: 10^10 operations and 2·10^6 bytes."""
    data = capture([K(0, 40 * US, "dot.4", op="dot.4", program=PROGRAM)])
    row = modelled(
        "dot.4", 40 * US, roof_us * US, flops=10**10, n_bytes=2 * 10**6, rate=rate,
        n_passes=n_passes,
    )  # fmt: skip
    found = kernel_groups(facts_of(data), roofline_of([row], gpu))
    return {cause: float(shares[0]) for cause, shares in found.items()}


def test_a_float32_product_could_run_at_the_rate_of_bfloat16() -> None:
    # 10^10 operations at 989.4 TFLOP/s: 10.1 µs instead of 20; as far from the roof as before.
    shares = groups_of_dot("h100-sxm", "f32_default")
    assert shares["precision"] == pytest.approx(10**10 / 989.4e12 / 20e-6)
    # On the V100 only float16 is faster: 10^10 at 125 TFLOP/s is 80 µs, slower than measured.
    assert "precision" not in groups_of_dot("v100-sxm2-16gb", "f32_default")


def test_half_the_bytes_bound_a_product_of_lower_precision_too() -> None:
    # 2·10^6 bytes at 10^12/s: 2 µs, half of it 1 µs; the roof of the operations, 10.1 µs, is more.
    shares = groups_of_dot("h100-sxm", "f32", roof_us=11)
    assert shares["precision"] == pytest.approx(10**10 / 989.4e12 / 11e-6)


@pytest.mark.parametrize(
    ("gpu", "rate", "n_passes"),
    [("h100-sxm", "bf16", 1), ("h100-sxm", "f64", 1), ("h100-sxm", "f32", 3), ("", "f32", 1)],
)
def test_products_of_other_types_and_on_unknown_gpus_are_left_alone(
    gpu: str, rate: str, n_passes: int
) -> None:
    assert "precision" not in groups_of_dot(gpu, rate, n_passes)


def occupied(details: str, rate: str = "vector_f32", roof_us: float = 4) -> dict[str, float]:
    """Shares of a kernel of 10 µs on a GPU with 100 multiprocessors, by cause."""
    data = capture([K(0, 10 * US, "dot.4", op="dot.4", program=PROGRAM, details=details)])
    devices = tuple(replace(d, stats={"core_count": 100}) for d in data.devices)
    row = modelled("dot.4", 10 * US, roof_us * US, rate=rate)
    found = kernel_groups(facts_of(replace(data, devices=devices)), roofline_of([row]))
    return {cause: float(shares[0]) for cause, shares in found.items()}


def test_a_kernel_with_few_blocks_could_use_all_multiprocessors_at_best_at_its_roof() -> None:
    assert occupied("grid:50,1,1 block:128,1,1 occ_pct:100")["low_occupancy"] == 0.5
    assert occupied("grid:20,1,1 block:128,1,1 occ_pct:100")["low_occupancy"] == 0.4
    assert "low_occupancy" not in occupied("grid:100,1,1 block:128,1,1 occ_pct:100")
    assert "low_occupancy" not in occupied("")


def test_few_threads_matter_where_the_rate_is_low_and_no_products_are_made() -> None:
    few = "grid:4096,1,1 block:128,1,1 occ_pct:25"
    assert occupied(few)["low_occupancy"] == 0.4
    assert "low_occupancy" not in occupied(few, roof_us=6)
    assert "low_occupancy" not in occupied(few, rate="bf16")


def test_a_collective_that_only_feeds_a_foreign_call_is_a_group() -> None:
    entry = HloComputation(
        "main",
        [
            Hlo("p", "parameter", parameter_number=0),
            Hlo("q", "add", operands=["p", "p"]),
            Hlo("gather", "all-gather", "f32[32]", operands=["q"]),
            Hlo("other", "all-gather", "f32[32]", operands=["q"]),
            Hlo("attention", "custom-call", operands=["gather"], target="my_ffi"),
            Hlo("sum", "add", operands=["other", "attention"]),
        ],
    )
    module = HloModule("jit_f", [entry], program_id=PROGRAM)
    program = read_program(StoredProgram(PROGRAM, "jit_f(17)", module.to_bytes()))
    names = ("gather", "other", "attention")
    data = capture(
        [
            K(100 * i, 50, "ncclDevKernel_AllGather" if i < 2 else name, op=name, program=PROGRAM)
            for i, name in enumerate(names)
        ]
    )
    found = kernel_groups(facts_of(data, {PROGRAM: program}), roofline_of([]))
    assert found["resharding"].tolist() == [0.0, 1.0, 1.0]
