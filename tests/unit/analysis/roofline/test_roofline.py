"""Work against time: unions of kernels per execution, peaks, what is unknown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from explane.analysis.attribution.result import Attribution, InstructionKey
from explane.analysis.roofline.roofline import (
    ABOVE_MEMORY_PEAK,
    ABOVE_PEAK,
    COLUMNS,
    INSIDE_A_FUSION,
    Roofline,
    RooflineOptions,
    roofline,
)
from explane.capture.model import Capture, Device, HostEvents, Kernels, Launches
from explane.capture.program import Program
from tests.builders_hlo import Hlo
from tests.unit.analysis.hlo_helpers import dot_numbers, fused, param, program_of
from tests.wire_writer import bytes_field, int_field

PROGRAM = 7
US = 1_000_000
# 2 * 1024^3 FLOPs; 3 * 1024^2 * 2 bytes
DOT = [
    param("x", "bf16[1024,1024]"),
    param("y", "bf16[1024,1024]", 1),
    Hlo("d", "dot", "bf16[1024,1024]", ["x", "y"], extra=dot_numbers([1], [0]),
        source=("/me/model.py", 12)),
    Hlo("n", "negate", "bf16[1024,1024]", ["d"], source=("/me/model.py", 13)),
    Hlo("u", "custom-call", "bf16[8]", ["n"], target="mine"),
]  # fmt: skip
MI300X: dict[str, int | float | str] = {
    "device_vendor": "AMD", "core_count": 304, "memory_size": 206141652992,
    "compute_cap_major": 9, "compute_cap_minor": 4,
}  # fmt: skip

# (instruction, device, execution, start, duration), in microseconds
Rows = list[tuple[str, int, int, int, int]]


def numbers(values: list[int], kind: type[np.generic] = np.int64) -> np.ndarray:
    return np.array(values, dtype=kind)


def capture_of(
    rows: Rows, stats: dict[str, int | float | str], time_ok: list[bool] | None = None
) -> Capture:
    n = len(rows)
    none, none64 = numbers([-1] * n, np.int32), numbers([-1] * n)
    kernels = Kernels(
        device=numbers([r[1] for r in rows], np.int32), stream=none64,
        start_ps=numbers([r[3] * US for r in rows]),
        duration_ps=numbers([r[4] * US for r in rows]),
        name=none, kind=numbers([0] * n, np.uint8), correlation_id=none64, program_id=none64,
        hlo_op=none, hlo_module=none, scope_name=none, details=none, graph_id=none64,
        graph_node_id=none64,
        time_ok=np.array(time_ok if time_ok is not None else [True] * n, dtype=bool),
    )  # fmt: skip
    i64, i32, flags = numbers([]), numbers([], np.int32), np.array([], dtype=bool)
    return Capture(
        host="node", path=Path("x"), source="xplane", strings=(), kernels=kernels, threads=(),
        host_events=HostEvents(i32, i64, i64, i32, i64, i64),
        launches=Launches(i32, i64, i64, i32, i64, i64, i32, flags),
        devices=tuple(
            Device(d, f"/device:GPU:{d}", stats, {}) for d in sorted({r[1] for r in rows})
        ),
    )  # fmt: skip


def attribution_of(rows: Rows) -> Attribution:
    n = len(rows)
    names = sorted({r[0] for r in rows} - {""})
    none = numbers([-1] * n, np.int32)
    found = numbers([names.index(r[0]) if r[0] else -1 for r in rows], np.int32)
    return Attribution(
        program_id=numbers([PROGRAM] * n), instruction=found,
        instructions=[InstructionKey(PROGRAM, name) for name in names],
        match=np.where(found >= 0, 3, 0).astype(np.uint8), reason=none * 0, reasons=["label"],
        in_graph=np.zeros(n, dtype=bool), iteration=none, iterations=[],
        execution=numbers([r[2] for r in rows], np.int32), executions=[],
    )  # fmt: skip


def run(
    rows: Rows,
    options: RooflineOptions | None = None,
    stats: dict[str, int | float | str] | None = None,
    steps: list[int] | None = None,
    time_ok: list[bool] | None = None,
) -> Roofline:
    programs: dict[int, Program] = {PROGRAM: program_of(DOT)}
    made = capture_of(rows, MI300X if stats is None else stats, time_ok)
    return roofline(
        made, programs, attribution_of(rows), options, numbers(steps) if steps else None
    )


def row(result: Roofline, name: str) -> dict[str, object]:
    return result.table.filter(pl.col("hlo_instruction") == name).row(0, named=True)


def test_flops_count_once_per_execution_and_time_is_the_union() -> None:
    # One execution launched three kernels: 0-10, 5-15 (beside the first), 20-25: 20 us in all.
    result = run([("d", 0, 0, 0, 10), ("d", 0, 0, 5, 10), ("d", 0, 0, 20, 5)])
    found = row(result, "d")
    assert (found["n_executions"], found["flops"]) == (1, 2 * 1024**3)
    assert found["bytes"] == 3 * 2 * 1024**2
    assert found["duration_ps"] == 20 * US
    assert found["bound"] == "compute"
    # 2^31 FLOPs at 1307.4 TFLOP/s take 1.6426 us
    assert found["roof_ps"] == pytest.approx(2**31 / 1307.4e12 * 1e12, abs=1)
    assert found["peak_ratio"] == pytest.approx(2**31 / 1307.4 / 20e6, rel=1e-4)
    assert tuple(result.table.columns[: len(COLUMNS)]) == COLUMNS


def test_the_lower_median_over_executions_and_the_sum_above_the_roof() -> None:
    result = run(
        [("d", 0, 0, 0, 10), ("d", 0, 1, 100, 30), ("d", 1, 0, 0, 12), ("d", 1, 1, 100, 14)]
    )
    found = row(result, "d")
    assert (found["n_executions"], found["duration_ps"]) == (4, 12 * US)
    assert (found["total_ps"], found["low_ps"], found["high_ps"]) == (66 * US, 10 * US, 30 * US)
    roof_ps = 2**31 / 1307.4e12 * 1e12
    assert found["above_roof_ps"] == pytest.approx(66 * US - 4 * roof_ps, abs=4)


def test_memory_bound() -> None:
    found = row(run([("n", 0, 0, 0, 2)]), "n")
    assert (found["bound"], found["rate"]) == ("memory", "vector_f32")
    # 4 MiB at 5.3 TB/s take 0.7914 us
    assert found["peak_ratio"] == pytest.approx(4 * 2**20 / 5.3 / 2e6, rel=1e-4)


def test_rates_above_the_peak_are_flagged_and_not_clipped() -> None:
    found = row(run([("d", 0, 0, 0, 1)]), "d")
    assert found["peak_ratio"] == pytest.approx(1.6426, abs=1e-3)
    assert found["flag"] == ABOVE_PEAK
    assert found["above_roof_ps"] == 0
    assert row(run([("d", 0, 0, 0, 2)]), "d")["flag"] is None


def test_a_memory_rate_above_the_peak_may_be_a_cache() -> None:
    rows = [("n", 0, 0, 0, 10)]
    found = row(run(rows, RooflineOptions(peak_bytes_per_s=1e11, peak_flops_per_s=1e15)), "n")
    assert (found["bound"], found["flag"]) == ("memory", ABOVE_MEMORY_PEAK)


def test_a_label_of_something_inside_a_fusion_is_no_launch() -> None:
    body = fused(param("p", "f32[8]"), Hlo("r", "negate", "f32[8]", ["p"]))
    entry = [param("x", "f32[8]"), Hlo("f", "fusion", "f32[8]", ["x"], ["fused"])]
    rows: Rows = [("r", 0, 0, 0, 10)]
    program = program_of(entry, body)
    result = roofline(capture_of(rows, MI300X), {PROGRAM: program}, attribution_of(rows))
    assert row(result, "r")["unknown"] == INSIDE_A_FUSION


def test_a_product_in_several_passes_has_a_lower_peak() -> None:
    extra = dot_numbers([1], [0]) + bytes_field(51, int_field(2, 7))  # BF16x3
    square = "f32[1024,1024]"
    entry = [param("x", square), Hlo("d", "dot", square, ["x", "x"], extra=extra)]
    rows: Rows = [("d", 0, 0, 0, 10)]
    result = roofline(capture_of(rows, MI300X), {PROGRAM: program_of(entry)}, attribution_of(rows))
    found = row(result, "d")
    assert (found["rate"], found["n_passes"]) == ("bf16", 3)
    assert found["peak_flops_per_s"] == pytest.approx(1307.4e12 / 3)
    assert found["peak_ratio"] == pytest.approx(3 * 2**31 / 1307.4 / 10e6, rel=1e-4)


def test_what_is_not_known_has_its_row_its_reason_and_its_time() -> None:
    rows = [("d", 0, 0, 0, 10), ("u", 0, 0, 10, 4), ("", 0, 0, 20, 3), ("d", 0, -1, 30, 2)]
    result = run(rows)
    found = row(result, "u")
    assert (found["flops"], found["bytes"], found["peak_ratio"]) == (None, None, None)
    assert found["unknown"] == "custom call mine: not modelled"
    assert result.coverage.select("reason", "n_kernels", "duration_ps").rows() == [
        ("modelled", 1, 10 * US),
        ("custom call mine: not modelled", 1, 4 * US),
        ("no instruction", 1, 3 * US),
        ("execution unknown", 1, 2 * US),
    ]
    assert result.coverage["duration_ratio"].sum() == pytest.approx(1)


def test_events_with_false_times_are_left_out() -> None:
    result = run([("d", 0, 0, 0, 10), ("d", 0, 1, 0, 0)], time_ok=[True, False])
    assert row(result, "d")["n_executions"] == 1


def test_an_unknown_gpu_leaves_the_peaks_open() -> None:
    result = run([("d", 0, 0, 0, 10)], stats={})
    found = row(result, "d")
    assert found["flops"] == 2 * 1024**3
    assert (found["peak_flops_per_s"], found["peak_ratio"], found["bound"]) == (None, None, None)
    assert found["unknown"] == "no peaks for this GPU"
    assert result.identity.gpu is None


def test_the_user_may_name_the_gpu_or_the_peaks() -> None:
    rows: Rows = [("d", 0, 0, 0, 10)]
    named = row(run(rows, RooflineOptions(gpu="h100-sxm"), stats={}), "d")
    assert named["peak_flops_per_s"] == pytest.approx(989.4e12)
    given = run(rows, RooflineOptions(peak_flops_per_s=1e15, peak_bytes_per_s=1e12))
    assert row(given, "d")["peak_ratio"] == pytest.approx(3 * 2**21 / 10e6)
    assert row(given, "d")["bytes_source"] == "given by the user"
    assert given.overridden


def test_devices_of_different_products_have_no_common_roof() -> None:
    rows: Rows = [("d", 0, 0, 0, 10), ("d", 1, 0, 0, 10)]
    capture = capture_of(rows, MI300X)
    devices = (capture.devices[0], Device(1, "/device:GPU:1", {**MI300X, "core_count": 228}, {}))
    mixed = Capture(**{**{f: getattr(capture, f) for f in capture.__slots__}, "devices": devices})
    result = roofline(mixed, {PROGRAM: program_of(DOT)}, attribution_of(rows))
    assert result.identity.reason == "the devices are different products"


def test_steps_add_up_what_could_be_saved_at_most() -> None:
    rows: Rows = [("d", 0, 0, 0, 10), ("n", 0, 0, 10, 2), ("u", 0, 0, 12, 4), ("d", 0, 1, 50, 20)]
    steps = run(rows, steps=[5, 5, 5, 6]).steps
    assert steps.select("host", "device", "step", "modelled_ps", "unknown_ps").rows() == [
        ("node", 0, 5, 12 * US, 4 * US),
        ("node", 0, 6, 20 * US, 0),
    ]
    first = steps.row(0, named=True)
    assert first["modelled_ps"] - first["roof_ps"] == pytest.approx(first["above_roof_ps"], abs=2)


def test_no_kernels_at_all() -> None:
    result = run([])
    assert result.table.height == 0
    assert result.coverage.height == 0
