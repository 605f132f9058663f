"""Times of lines against sums by hand; the program and its stacks are in `made`."""

from __future__ import annotations

import pytest

from explane.analysis.lines.line_times import line_times
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.export import made
from tests.unit.export.made import LIBRARY, US, investigation, kernel

KERNELS = [
    kernel(0, 5 * US, "dot.1"),
    kernel(0, 4 * US, "dot.1", device=1),
    kernel(20 * US, 2 * US, "mul.3"),
    kernel(30 * US, US, None, kernel="Cijk_MT64"),
    kernel(40 * US, 7 * US, "add.2", time_ok=False),
]


def test_own_time_adds_up_and_callers_have_the_time_of_what_they_call() -> None:
    found = line_times(investigation(KERNELS))
    rows = {(file, line): rest for file, line, *rest in found.times.iter_rows()}
    # own_ps, own_ratio, with_calls_ps, fused_ps, n_kernels
    assert rows == {
        ("/me/model.py", 12): [9 * US, 0.75, 9 * US, 0, 2],
        ("/me/model.py", 30): [2 * US, pytest.approx(2 / 12), 2 * US, 0, 1],
        ("/me/train.py", 41): [0, 0.0, 11 * US, 0, 0],
        ("/me/train.py", 90): [0, 0.0, 11 * US, 0, 0],
        (LIBRARY, 7): [0, 0.0, 9 * US, 0, 0],
    }
    assert (found.total_ps, found.without_line_ps) == (12 * US, US)


def test_instructions_of_a_line_most_time_first() -> None:
    found = line_times(investigation([*KERNELS, kernel(60 * US, 20 * US, "add.2")]))
    assert found.ops.rows()[:2] == [
        ("/me/model.py", 12, "add.2", "fusion", 20 * US, 1),
        ("/me/model.py", 12, "dot.1", "fusion", 9 * US, 2),
    ]


def test_work_fused_into_another_lines_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    body = HloComputation(
        "fused",
        [
            Hlo("p", "parameter", parameter_number=0),
            Hlo("m", "multiply", operands=["p"], frame=6),
            Hlo("r", "add", operands=["m"], frame=3),
        ],
        is_fusion=True,
    )
    entry = HloComputation("main", [Hlo("add.2", "fusion", calls=["fused"], frame=3)])
    module = HloModule("jit_step", [body, entry], program_id=7, frames=made.FRAMES).to_bytes()
    monkeypatch.setattr(HloModule, "to_bytes", lambda _: module)
    found = line_times(investigation([kernel(0, 3 * US, "add.2")]))
    fused = {
        (f, n): ps
        for f, n, ps in found.times.select("source_file", "source_line", "fused_ps").iter_rows()
    }
    assert fused == {
        ("/me/model.py", 12): 0,
        ("/me/model.py", 30): 3 * US,
        ("/me/train.py", 41): 0,
        ("/me/train.py", 90): 0,
    }


def test_a_capture_without_programs_has_the_lines_of_its_table() -> None:
    lone = kernel(0, US, "unknown.9", source_file="a.py", source_line=3)
    found = line_times(investigation([lone]))
    assert found.times.rows() == [("a.py", 3, US, 1.0, US, 0, 1)]


def test_no_kernels() -> None:
    found = line_times(investigation([]))
    assert (found.times.height, found.ops.height, found.total_ps) == (0, 0, 0)
