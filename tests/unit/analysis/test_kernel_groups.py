"""Kernels that may be done without: which instructions belong to which group, and their shares."""

from __future__ import annotations

import numpy as np
import polars as pl

from explane.analysis.kernel_groups import kernel_groups
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.analysis.made import K, capture
from tests.unit.analysis.played import PROGRAM, labelled


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
    rows = [(PROGRAM, name, ps, 50) for name, ps in (roof or {}).items()]
    schema = ["program_id", "hlo_instruction", "roof_ps", "duration_ps"]
    roofline = pl.DataFrame(rows, schema=schema, orient="row")
    found = kernel_groups({PROGRAM: program}, labelled(data), roofline)
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
