"""Attribution of small captures whose truth is known by construction."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explane.analysis.attribution.attribute import attribute
from explane.analysis.attribution.result import Attribution, InstructionKey, Match
from explane.capture.model import Capture
from tests.builders_hlo import Hlo, HloComputation
from tests.unit.analysis.made import E, K, L, capture
from tests.unit.analysis.programs_made import Built, attributed, found, reasons

GRAPH = "cuGraphLaunch (CudaGraph:1)"


def kernels(
    names: str, call: int = 1, start: int = 0, program: int = 1, **more: object
) -> list[K]:
    """Kernels of one launch, back to back, 10 ps each."""
    return [
        K(start + 10 * i, 9, name, call=call, program=program, **more)  # type: ignore[arg-type]
        for i, name in enumerate(names.split())
    ]


def abcdef(**more: object) -> Built:
    built = Built(**more)  # type: ignore[arg-type]
    built.fusions("a b c d e f")
    return built


# ------------------------------------------------------------------------------ labels


def test_a_label_is_resolved_in_its_own_program() -> None:
    one, two = abcdef(), abcdef(name="jit_g", program_id=2)
    data = capture([K(0, 5, "a", op="a", program=2), K(10, 5, "a", op="a", program=1)])
    result = attributed(data, one, two)
    assert [result.instructions[i] for i in result.instruction] == [
        InstructionKey(2, "a"),
        InstructionKey(1, "a"),
    ]
    assert found(result) == ["a/exact", "a/exact"]


def test_labels_that_name_nothing_stored_get_no_instruction() -> None:
    data = capture(
        [K(0, 5, "zz", op="zz", program=1), K(10, 5, "a", op="a", program=9), K(20, 5, "q")]
    )
    result = attributed(data, abcdef())
    assert found(result) == ["/", "/", "/"]
    assert reasons(result) == [
        "label not in the stored HLO",
        "program not stored",
        "outside XLA",
    ]


def test_kernels_of_one_name_are_told_apart_by_their_labels() -> None:
    built = Built()
    for name in ("x", "y", "z"):
        built.add(name, "custom-call", target="__gpu$xla.gpu.triton")
    data = capture(
        [K(10 * i, 5, "main_kernel", op=n, program=1) for i, n in enumerate(("x", "y", "z"))]
    )
    assert found(attributed(data, built)) == ["x/exact", "y/exact", "z/exact"]


def test_an_alias_of_a_collective_takes_its_start_by_order() -> None:
    built = Built()
    built.fusion("a")
    built.add("all-gather-start.5", "all-gather-start")
    built.fusion("b")
    built.add("all-gather-start.9", "all-gather-start")
    built.fusion("c")
    nccl = "ncclDevKernel_AllGather_RING_LL(x)"
    data = capture(
        [
            K(0, 5, "a", op="a", program=1, call=1),
            K(10, 5, nccl, op="all-gather.77", program=1, call=2, stream=9),
            K(20, 5, "b", op="b", program=1, call=3),
            K(30, 5, nccl, op="all-gather.78", program=1, call=4, stream=9),
            K(40, 5, "c", op="c", program=1, call=5),
        ]
    )
    result = attributed(data, built)
    assert found(result)[1::2] == ["all-gather-start.5/exact", "all-gather-start.9/exact"]


# -------------------------------------------------------------------------- graph launches


def test_graph_kernels_get_their_instructions_by_name() -> None:
    data = capture(kernels("a b c d e f"), [L(0, 1, 1, GRAPH)])
    result = attributed(data, abcdef())
    assert found(result) == [f"{name}/name" for name in "abcdef"]
    assert result.in_graph.all()


def test_shared_kernels_are_matched_in_order() -> None:
    built = Built()
    built.fusions("a b")
    built.fusion("w", dedup="w")
    built.fusion("c")
    built.fusion("w.1", dedup="w")
    built.fusion("d")
    result = attributed(capture(kernels("a b w c w d"), [L(0, 1, 1, GRAPH)]), built)
    assert result.instruction_names() == ["a", "b", "w", "c", "w.1", "d"]
    classes = [Match(m).word for m in result.match]
    assert classes == ["name", "name", "order", "name", "order", "name"]


def test_lost_kernels_do_not_shift_the_rest_and_are_counted() -> None:
    runs = ["a b c d e f", "a c d f", "b c d e f", "a b c d e f"]
    rows = [k for i, names in enumerate(runs) for k in kernels(names, call=i, start=1000 * i)]
    result = attributed(capture(rows, [L(1000 * i, 1, i, GRAPH) for i in range(4)]), abcdef())
    assert result.instruction_names() == [n for names in runs for n in names.split()]
    assert [e.n_missing for e in result.executions] == [0, 2, 1, 0]
    assert {e.n_expected for e in result.executions} == {6}


def test_side_streams_do_not_move_kernels() -> None:
    """Kernel e starts before c on a second stream."""
    rows = kernels("a b c d f")
    rows.append(K(15, 9, "e", call=1, program=1, stream=8))
    result = attributed(capture(rows, [L(0, 1, 1, GRAPH)]), abcdef())
    assert sorted(result.instruction_names()) == list("abcdef")
    names = dict(zip(range(6), result.instruction_names(), strict=True))
    assert names[2] == "e"


def test_equal_copies_on_side_streams_are_told_by_their_durations() -> None:
    """Two copies, 10 and 40 long: in one launch of three the second one starts first."""
    built = Built()
    built.fusions("a b")
    built.add("copy.1", "copy")
    built.add("copy.2", "copy")
    built.fusions("c d e")
    rows: list[K] = []
    for call in range(6):
        t = 1_000_000 * call
        rows += kernels("a b", call, t) + kernels("c d e", call, t + 200)
        swapped = call % 3 == 2
        rows.append(K(t + 40, 10, "MemcpyD2D", call=call, program=1, stream=7))
        other = t + 30 if swapped else t + 60
        rows.append(K(other, 40, "MemcpyD2D", call=call, program=1, stream=8 if swapped else 7))
    data = capture(rows, [L(1_000_000 * i, 1, i, GRAPH) for i in range(6)])
    result = attributed(data, built)
    lengths = {
        n: set(data.kernels.duration_ps[np.array(result.instruction_names()) == n].tolist())
        for n in ("copy.1", "copy.2")
    }
    assert lengths == {"copy.1": {10}, "copy.2": {40}}


def test_library_kernels_prepare_run_and_end_one_call() -> None:
    built = Built()
    built.fusion("a")
    built.add("gemm.1", "custom-call", target="__cublas$lt$matmul")
    built.add("gemm.2", "custom-call", target="__cublas$lt$matmul")
    built.fusions("b c d")
    names = ["a", "Memset 0", "nvjet_1", "cublasLt::splitKreduce_kernel", "nvjet_2", "b", "c", "d"]
    rows = [K(10 * i, 9, n, call=1, program=1) for i, n in enumerate(names)]
    result = attributed(capture(rows, [L(0, 1, 1, GRAPH)]), built)
    assert result.instruction_names() == ["a", *["gemm.1"] * 3, "gemm.2", "b", "c", "d"]


def test_a_graph_node_is_one_instruction_in_every_launch() -> None:
    """In the third launch the copies run side by side in the wrong order; nodes tell them."""
    built = Built()
    built.fusion("a")
    built.add("copy.1", "copy")
    built.add("copy.2", "copy")
    built.fusions("b c d")
    rows: list[K] = []
    for call in range(3):
        t = 1000 * call
        rows.append(K(t, 9, "a", call=call, program=1, graph=5, node=1))
        first, second = (t + 30, t + 20) if call == 2 else (t + 20, t + 30)
        rows.append(K(first, 9, "MemcpyD2D", call=call, program=1, graph=5, node=2))
        stream = 8 if call == 2 else 7
        rows.append(
            K(second, 9, "MemcpyD2D", call=call, program=1, graph=5, node=3, stream=stream)
        )
        rows += [
            K(t + 50 + 10 * i, 9, n, call=call, program=1, graph=5, node=4 + i)
            for i, n in enumerate("bcd")
        ]
    data = capture(rows, [L(1000 * i, 1, i, GRAPH) for i in range(3)])
    result = attributed(data, built)
    by_node = {
        (int(n), name)
        for n, name in zip(data.kernels.graph_node_id, result.instruction_names(), strict=True)
    }
    assert {(2, "copy.1"), (3, "copy.2")} <= by_node
    assert len(by_node) == 6


def test_a_call_of_a_command_buffer_lists_its_instructions() -> None:
    built = Built()
    inner: list[Hlo] = []
    for name in ("x", "y", "z"):
        built.fusion(name, into=inner)
    built.bodies.append(HloComputation("command_buffer", inner))
    built.fusion("a")
    built.add("call.4", "call", calls=("command_buffer",))
    rows = [K(0, 5, "a", op="a", program=1, call=1)]
    rows += kernels("x y z", call=2, start=100, op="call.4")
    result = attributed(capture(rows, [L(50, 1, 2, GRAPH)]), built)
    assert result.instruction_names() == ["a", "x", "y", "z"]
    assert [Match(m).word for m in result.match] == ["exact", "name", "name", "name"]


def test_executions_and_iterations_are_counted() -> None:
    built = Built()
    built.fusion("a")
    built.loop("while.1", "x y", trips=2)
    built.fusion("b")
    names = "a x y x y b " * 3
    rows = [K(10 * i, 9, n, op=n, program=1, call=i) for i, n in enumerate(names.split())]
    result = attributed(capture(rows), built)
    texts = [result.iterations[i] if i >= 0 else "" for i in result.iteration]
    assert texts == ["", *["while.1:0/"] * 2, *["while.1:1/"] * 2, ""] * 3
    assert result.execution.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert [(e.n_expected, e.n_missing) for e in result.executions] == [(6, 0)] * 3


# ------------------------------------------------------------------------------- programs


def two() -> tuple[Built, Built]:
    other = Built(name="jit_g", program_id=2)
    other.fusions("u v w x y z")
    return abcdef(), other


def bare(names: str, call: int, start: int) -> list[K]:
    return kernels(names, call, start, program=-1)


def test_a_program_is_known_by_its_kernels() -> None:
    rows = bare("a b c d e f", 1, 0) + bare("u v w x y z", 2, 1000)
    result = attributed(capture(rows, [L(0, 1, 1, GRAPH), L(900, 1, 2, GRAPH)]), *two())
    assert result.program_id.tolist() == [1] * 6 + [2] * 6
    assert result.instruction_names() == list("abcdefuvwxyz")


def test_equal_programs_are_told_by_what_the_host_runs() -> None:
    """The same kernels in two modules; the host's record of executions decides."""
    one, again = abcdef(), abcdef(name="jit_g", program_id=2)
    rows = bare("a b c d e f", 1, 100) + bare("a b c d e f", 2, 1100)
    events = [E(0, 50, "jit_g:XLA GPU module"), E(1000, 50, "jit_f:XLA GPU module")]
    data = capture(rows, [L(10, 5, 1, GRAPH), L(1010, 5, 2, GRAPH)], events)
    assert attributed(data, one, again).program_id.tolist() == [2] * 6 + [1] * 6


def test_a_launch_between_two_kernels_of_a_program_belongs_to_it() -> None:
    one, again = abcdef(), abcdef(name="jit_g", program_id=2)
    rows = [K(0, 5, "a", op="a", program=2, call=1)]
    rows += bare("b c d e", 2, 100)
    rows += [K(500, 5, "f", op="f", program=2, call=3)]
    result = attributed(capture(rows, [L(50, 1, 2, GRAPH)]), one, again)
    assert result.program_id.tolist() == [2] * 6
    assert result.instruction_names() == list("abcdef")


def test_a_launch_may_run_over_several_programs() -> None:
    rows = bare("d e f u v w x y z a b", 1, 0)
    result = attributed(capture(rows, [L(0, 1, 1, GRAPH)]), *two())
    assert result.program_id.tolist() == [1] * 3 + [2] * 6 + [1] * 2
    assert result.instruction_names() == list("defuvwxyzab")


def test_copies_of_the_framework_are_outside() -> None:
    """A copy from the host between two executions is no instruction, though one is a copy."""
    built = Built()
    built.fusion("a")
    built.add("copy.1", "copy")
    built.fusion("b")
    rows: list[K] = []
    for i in range(3):
        t = 1000 * i
        rows += [
            K(t, 9, "a", op="a", program=1, call=10 * i),
            K(t + 10, 9, "MemcpyD2D", op="copy.1", program=1, call=10 * i + 1),
            K(t + 20, 9, "b", op="b", program=1, call=10 * i + 2),
            K(t + 30, 9, "MemcpyH2D", call=10 * i + 3),
        ]
    result = attributed(capture(rows), built)
    assert found(result) == ["a/exact", "copy.1/exact", "b/exact", "/"] * 3
    assert set(reasons(result)) == {"label", "outside XLA"}


def test_an_unlabelled_copy_inside_an_execution_is_its_instruction() -> None:
    built = Built()
    built.fusion("a")
    built.add("copy.1", "copy")
    built.fusion("b")
    rows = [
        K(0, 9, "a", op="a", program=1, call=1),
        K(10, 9, "MemcpyD2D", call=2),
        K(20, 9, "b", op="b", program=1, call=3),
    ]
    assert found(attributed(capture(rows), built)) == ["a/exact", "copy.1/order", "b/exact"]


def test_only_some_programs() -> None:
    rows = [*kernels("a b c d e f"), K(900, 5, "u", op="u", program=2, call=9)]
    one, other = two()
    data = capture(rows, [L(0, 1, 1, GRAPH)])
    result = attribute(data, {1: one.program(), 2: other.program()}, only=(2,))
    assert found(result) == ["/"] * 6 + ["u/exact"]
    assert set(reasons(result)) == {"program not asked for", "label"}


# ----------------------------------------------------------------------------- the result


def test_nothing_to_attribute() -> None:
    empty = attributed(capture([], [L(0, 1, 1, GRAPH)]), abcdef())
    assert len(empty) == 0
    assert empty.how(capture([]).kernels).height == 0
    bare_capture = capture(kernels("a b"))
    assert found(attributed(bare_capture)) == ["/", "/"]


def test_how_adds_to_the_total() -> None:
    data = capture([*kernels("a b c d e f"), K(900, 50, "other")], [L(0, 1, 1, GRAPH)])
    table = attributed(data, abcdef()).how(data.kernels)
    assert table.columns == [
        "match", "kind", "in_graph", "reason", "n_kernels", "duration_ps", "duration_ratio",
    ]  # fmt: skip
    assert table["n_kernels"].sum() == 7
    assert table["duration_ps"].sum() == 6 * 9 + 50
    assert table["duration_ratio"].sum() == pytest.approx(1.0)
    assert table["match"].to_list() == ["name", "none"]


def broken(result: Attribution, **columns: object) -> Attribution:
    return dataclasses.replace(result, **columns)  # type: ignore[arg-type]


def test_check_names_contradictions() -> None:
    data = capture(kernels("a b c d e f"), [L(0, 1, 1, GRAPH)])
    good = attributed(data, abcdef())
    lost = broken(good, instruction=np.full(6, -1, dtype=np.int32))
    assert lost.check(data.kernels) == [
        "a class none with an instruction, or an instruction of class none"
    ]
    foreign = broken(good, program_id=np.full(6, 3, dtype=np.int64))
    assert foreign.check(data.kernels) == ["an instruction of another program than the kernel's"]
    short = broken(good, in_graph=good.in_graph[:-1])
    assert short.check(data.kernels) == ["columns are not aligned with the kernels"]


NAMES = ["a", "b", "c", "q", "MemcpyD2D", "Memset 0", "ncclDevKernel_AllReduce_x", "nvjet_1"]


@st.composite
def captures(draw: st.DrawFn) -> Capture:
    """Any mess of kernels: labels that lie, unknown programs, shared and missing launches."""
    rows = [
        K(
            draw(st.integers(0, 500)),
            draw(st.integers(0, 50)),
            draw(st.sampled_from(NAMES)),
            call=draw(st.integers(-1, 6)),
            device=draw(st.integers(0, 1)),
            stream=draw(st.sampled_from([7, 8, -1])),
            op=draw(
                st.sampled_from(["", "a", "c", "zz", "command_buffer_2", "all-reduce.3", "::"])
            ),
            program=draw(st.sampled_from([-1, 1, 2, 5])),
            graph=draw(st.sampled_from([-1, 3])),
            node=draw(st.sampled_from([-1, 1, 2])),
        )
        for _ in range(draw(st.integers(0, 25)))
    ]
    calls = [L(10 * i, 5, i, draw(st.sampled_from([GRAPH, "hipLaunchKernel"]))) for i in range(5)]
    return capture(rows, calls)


@settings(max_examples=30, deadline=None)
@given(captures())
def test_whatever_the_capture_the_result_holds_together(data: Capture) -> None:
    one = Built()
    one.fusion("a")
    one.loop("while.1", "b c", condition="test")
    one.add("copy.1", "copy")
    one.add("gemm", "custom-call", target="__cublas$gemm")
    one.add("all-reduce-start", "all-reduce-start")
    result = attributed(data, one, abcdef(program_id=2, name="jit_g"))
    exact = result.match == Match.EXACT
    assert (data.kernels.hlo_op[exact] >= 0).all()
    assert result.how(data.kernels)["n_kernels"].sum() == len(data.kernels)
