"""Kinds of kernels told anew from their instructions: what beats a name, and what does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explane.analysis.attribution.result import Match
from explane.analysis.collectives.refined import with_refined_kinds
from explane.capture.hlo import read_program
from explane.capture.model import HostCapture, Kind, StoredProgram
from explane.capture.program import Program
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.analysis.made import K, capture
from tests.unit.analysis.played import PROGRAM, labelled


def programs() -> dict[int, Program]:
    """A fusion, a copy, an all-reduce, and one wrapped in an async call."""
    wrapped = HloComputation(
        "wrapped",
        [
            Hlo("q", "parameter", parameter_number=0),
            Hlo("inner", "reduce-scatter", operands=["q"]),
        ],
    )
    entry = HloComputation(
        "main",
        [
            Hlo("p", "parameter", parameter_number=0),
            Hlo("fused", "fusion", operands=["p"]),
            Hlo("copied", "copy", operands=["p"]),
            Hlo("reduced", "all-reduce", operands=["p"]),
            Hlo("started", "async-start", operands=["p"], calls=["wrapped"]),
        ],
    )
    module = HloModule("jit_f", [wrapped, entry], program_id=PROGRAM)
    stored = StoredProgram(PROGRAM, f"jit_f({PROGRAM})", module.to_bytes())
    return {PROGRAM: read_program(stored)}


def kind_of(name: str, op: str, match: Match = Match.EXACT) -> Kind:
    """Kind of one kernel after its instruction is known."""
    data = capture([K(0, 10, name, op=op, program=PROGRAM)])
    attribution = replace(labelled(data), match=np.array([match], np.uint8))
    record = HostCapture(main=data, json=None, xplane_problem="", json_problem="")
    made = with_refined_kinds(record, programs(), attribution)
    assert data.kernels.kind.tolist() == record.main.kernels.kind.tolist()  # it made a copy
    return Kind(int(made.main.kernels.kind[0]))


def test_a_kernel_named_after_a_collective_may_only_compute() -> None:
    name = "loop_all_reduce_fusion"
    assert kind_of(name, "fused") is Kind.COMPUTE
    assert kind_of(name, "fused", Match.NAME) is Kind.COMPUTE


def test_an_instruction_found_by_order_alone_changes_nothing() -> None:
    name = "wrapped_add"
    assert kind_of(name, "reduced", Match.ORDER) is Kind.COMPUTE


@pytest.mark.parametrize("op", ["reduced", "started"])
def test_a_kernel_of_a_collective_is_communication_whatever_its_name(op: str) -> None:
    assert kind_of("my_one_shot_kernel", op) is Kind.COLLECTIVE


def test_a_library_s_collective_stays_one() -> None:
    assert kind_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "fused") is Kind.COLLECTIVE


def test_an_instruction_that_its_program_lacks_changes_nothing() -> None:
    assert kind_of("my_one_shot_kernel", "nowhere") is Kind.COMPUTE
