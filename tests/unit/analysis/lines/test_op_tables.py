"""Kernel, op and line tables: every row kept, every picosecond accounted for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from explane.analysis.lines.op_tables import (
    KERNEL_COLUMNS,
    kernel_table,
    line_table,
    op_sources,
    op_table,
)
from explane.analysis.lines.provenance import provenance
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.analysis.made import K, capture
from tests.unit.analysis.played import PROGRAM, labelled

FRAMES = [("train.py", "step", 10, 0), ("train.py", "loss", 20, 1)]


def tables() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Two steps of: dot.1 (line 20), add.2 (line 10), and a kernel outside XLA; one bad time."""
    entry = HloComputation(
        "main",
        [
            Hlo("p", "parameter", parameter_number=0),
            Hlo("dot.1", "fusion", operands=["p"], frame=2, op_name="jit(f)/dot", calls=["body"]),
            Hlo("add.2", "add", operands=["dot.1", "p"], frame=1, op_name="jit(f)/add"),
        ],
    )
    body = HloComputation("body", [Hlo("q", "parameter", parameter_number=0)], is_fusion=True)
    module = HloModule("jit_f", [body, entry], program_id=PROGRAM, frames=FRAMES)
    program = read_program(StoredProgram(PROGRAM, "jit_f(17)", module.to_bytes()))
    data = capture(
        [
            K(0, 100, "dot_1", op="dot.1", program=PROGRAM),
            K(100, 30, "add_2", op="add.2", program=PROGRAM),
            K(130, 7, "other"),
            K(200, 80, "dot_1", op="dot.1", program=PROGRAM),
            K(290, 50, "add_2", op="add.2", program=PROGRAM),
            K(400, 10**12, "add_2", op="add.2", program=PROGRAM, ok=False),
        ]
    )
    attribution = replace(labelled(data), execution=np.array([0, 0, -1, 1, 1, -1], dtype=np.int32))
    step = np.array([5, 5, 5, 6, 6, -1])
    sources = op_sources(attribution, {PROGRAM: program}, {PROGRAM: provenance(program)})
    kernels = kernel_table("node", data, attribution, sources, step)
    return kernels, op_table(kernels), line_table(kernels)


def test_kernels_has_one_row_per_event_and_the_columns_of_the_contract() -> None:
    kernels, _, _ = tables()
    assert kernels.height == 6
    assert tuple(kernels.columns[: len(KERNEL_COLUMNS)]) == KERNEL_COLUMNS
    assert kernels["source_line"].to_list() == [20, 10, None, 20, 10, 10]
    assert kernels["step"].to_list() == [5, 5, 5, 6, 6, None]
    assert kernels["match"].to_list() == ["exact", "exact", "none", "exact", "exact", "exact"]


def test_ops_add_up_with_a_row_for_what_has_no_instruction() -> None:
    _, ops, _ = tables()
    shown = ops.select("hlo_instruction", "unattributed_kernel", "n_kernels", "duration_ps").rows()
    assert shown == [
        ("dot.1", None, 2, 180),
        ("add.2", None, 3, 80),  # the event with the impossible time counts and adds nothing
        (None, "other", 1, 7),
    ]
    assert ops["duration_ps"].sum() == 267


def test_ranges_are_over_steps() -> None:
    _, ops, lines = tables()
    dot = ops.row(0, named=True)
    assert (dot["low_ps"], dot["high_ps"], dot["n"], dot["n_executions"]) == (80, 100, 2, 2)
    assert lines.filter(pl.col("source_line") == 10).row(0, named=True)["high_ps"] == 50


def test_lines_add_up_to_the_same_total() -> None:
    _, _, lines = tables()
    assert lines.select("source_file", "source_line", "duration_ps").rows() == [
        ("train.py", 20, 180),
        ("train.py", 10, 80),
        (None, None, 7),
    ]
