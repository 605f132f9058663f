"""Names and nesting on the host, and the stats of annotations."""

from __future__ import annotations

import numpy as np

from explane.capture.classify import is_python_event
from explane.synth.annotations import annotation_stats, scope_name
from explane.synth.python_events import python_events, python_names
from tests.builders import Hlo, HloComputation
from tests.unit.synth.programs import chain, compiled


def test_python_calls_nest_and_stay_in_their_span() -> None:
    spans = np.array([1_000_000, 900_000_000], dtype=np.int64)
    start, duration, names = python_events(500, 94, (spans, 70_000_000), seed=3)

    assert start.shape == duration.shape == names.shape == (2, 500)
    assert (start[1] - start[0] == spans[1] - spans[0]).all()
    open_until: list[int] = []
    for begin, end in zip(start[0], start[0] + duration[0], strict=True):
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        assert not open_until or end <= open_until[-1], "a call ends before its caller"
        open_until.append(end)
    assert start[0, 0] >= spans[0]
    assert (start + duration)[0].max() <= spans[0] + 70_000_000


def test_python_names_have_the_tracers_form() -> None:
    names = python_names(8)
    assert len(set(names)) == len(names) > 50
    assert all(is_python_event(name) for name in names)


def test_scope_is_the_common_path_of_all_that_is_inside() -> None:
    inner = [
        Hlo("p", "parameter", parameter_number=0),
        Hlo("i", "negate", operands=["p"], op_name="jit(f)/block/attention/exp"),
        Hlo("j", "negate", operands=["i"], op_name="jit(f)/block/add"),
    ]
    body = HloComputation("fused", inner, is_fusion=True)
    fused = Hlo("f", "fusion", operands=["x"], calls=["fused"], op_name="jit(f)/block/mul")
    program = compiled((), [fused], bodies=[body])
    assert scope_name(program.hlo, program.hlo.by_name["f"]) == "jit(f)/block"


def test_annotation_stats_keep_the_collectors_order() -> None:
    program = chain()
    module = (("hlo_module", "jit_f"), ("program_id", 17))
    assert annotation_stats(program, 17, "a") == (
        ("tf_op", "XlaModule:"),
        ("name", "jit(f)/a"),
        ("hlo_op", "a"),
        *module,
    )
    graph = annotation_stats(program, 17, "command_buffer_2")
    assert graph == (("tf_op", "XlaModule:"), ("hlo_op", "command_buffer_2"), *module)
    assert annotation_stats(program, 17, "") == (("tf_op", "XlaModule:"), *module)
