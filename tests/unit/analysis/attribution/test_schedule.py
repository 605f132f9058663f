"""Expected launches: order, names, kinds, loops, thunk ids and graphs."""

from __future__ import annotations

import pytest

from explane.analysis.attribution.schedule import LaunchKind, Schedule
from explane.analysis.attribution.schedule_walk import expected_launches
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.synth.program import CompiledProgram, Thunk
from explane.synth.program_files import bundled_program, bundled_programs, read_compiled
from tests import shared
from tests.builders_hlo import Hlo, HloComputation
from tests.unit.analysis.programs_made import Built


def names(schedule: Schedule) -> list[str]:
    return [launch.instruction for launch in schedule.launches]


def test_only_instructions_that_launch_are_expected() -> None:
    built = Built()
    built.add("p", "parameter", parameter_number=0)
    built.fusions("a b.1")
    built.add("t", "tuple", operands=("a", "b.1"))
    built.add("g", "get-tuple-element", operands=("t",))
    built.add("c", "copy", operands=("g",))
    schedule = expected_launches(built.program())
    assert names(schedule) == ["a", "b.1", "c"]
    assert [x.kind for x in schedule.launches] == [LaunchKind.CUSTOM] * 2 + [LaunchKind.COPY]
    assert schedule.launches[1].names == ("b_1",)


def test_what_an_instruction_reads_is_followed_through_those_that_launch_nothing() -> None:
    built = Built()
    built.fusions("a b")
    built.add("t", "tuple", operands=("a", "b"))
    built.add("g", "get-tuple-element", operands=("t",))
    built.add("c", "copy", operands=("g",))
    assert expected_launches(built.program()).after == ((), (), (0, 1))


def test_condition_of_a_counted_loop_is_never_launched() -> None:
    built = Built()
    built.fusion("a")
    built.loop("while.1", "x y", trips=4)
    built.fusion("b")
    schedule = expected_launches(built.program())
    assert names(schedule) == ["a", "x", "y", "b"]
    loop = schedule.loops[0]
    assert (loop.instruction, loop.first, loop.end, loop.trip_count) == ("while.1", 1, 3, 4)


def test_condition_of_an_uncounted_loop_is_launched_and_read_by_the_host() -> None:
    built = Built()
    built.loop("while.1", "x y")
    schedule = expected_launches(built.program())
    assert names(schedule) == ["less", "while.1", "x", "y"]
    assert schedule.launches[1].kind is LaunchKind.HOST_COPY
    loop = schedule.loops[0]
    assert (loop.first, loop.body, loop.end, loop.trip_count) == (0, 2, 4, -1)


def test_branches_of_a_conditional_are_alternatives() -> None:
    built = Built()
    for name in ("left", "right"):
        inner: list[Hlo] = []
        built.fusion(name, into=inner)
        built.bodies.append(HloComputation(f"branch_{name}", inner))
    built.add("cond", "conditional", calls=("branch_left", "branch_right"))
    schedule = expected_launches(built.program())
    assert names(schedule) == ["cond", "left", "right"]
    assert schedule.branches[0].ranges == ((1, 2), (2, 3))


def test_a_kernel_may_carry_the_name_of_an_earlier_equal_body() -> None:
    built = Built()
    built.fusion("a", dedup="a")
    built.fusion("b", dedup="a")
    built.fusion("wrapped", like="same")
    built.fusion("wrapped.1", like="same")
    first, second, third, fourth = (x.names for x in expected_launches(built.program()).launches)
    assert (first, second) == (("a",), ("b", "a"))
    assert (third, fourth) == (("wrapped",), ("wrapped_1", "wrapped"))


@pytest.mark.parametrize(
    ("kept", "kind"),
    [
        ("f32[2,8]", LaunchKind.COPY),
        ("f32[4,2]", LaunchKind.CUSTOM),
        ("f32[1,2]", LaunchKind.COPY),
    ],
)
def test_a_slice_in_one_piece_is_a_copy(kept: str, kind: LaunchKind) -> None:
    built = Built()
    body = [
        Hlo("p", "parameter", "f32[4,8]", parameter_number=0),
        Hlo("s", "slice", kept, ("p",)),
    ]
    built.bodies.append(HloComputation("fused", body, is_fusion=True))
    built.add("wrapped_slice", "fusion", shape=kept, calls=("fused",), fusion_kind="kLoop")
    assert expected_launches(built.program()).launches[0].kind is kind


def test_an_async_wrapper_is_a_label_of_what_it_holds() -> None:
    built = Built()
    inner = [Hlo("reduce-scatter.7", "reduce-scatter", "f32[4]")]
    built.bodies.append(HloComputation("async_computation", inner))
    built.add("reduce-scatter-start", "async-start", calls=("async_computation",))
    schedule = expected_launches(built.program())
    assert names(schedule) == ["reduce-scatter.7"]
    assert schedule.by_label["reduce-scatter-start"] == (0,)


CUSTOM = '{"kind":"__custom_fusion","custom_fusion_config":{"name":"dynamic_slice_fusion"}}'
SLICE = f'{{"fusion_backend_config":{CUSTOM}}}'


def test_thunk_ids_of_both_numberings() -> None:
    """By hand: 0.10.2 counts a while before its contents and an async start after them."""
    built = Built()
    built.fusion("a")  # 1
    built.loop("while.1", "x y", trips=3)  # 0.10.2: while 2, less 3, x 4, y 5
    built.bodies.append(
        HloComputation(
            "sliced",
            [Hlo("p", "parameter", parameter_number=0), Hlo("c", "copy", operands=("p",))],
            is_fusion=True,
        )
    )
    built.add("slice", "fusion", calls=("sliced",), backend_config=SLICE)  # 6, its copy 7
    built.add("gather-start", "all-gather-start")  # 8, the start 9
    built.fusion("b")  # 10
    built.add("gather-done", "all-gather-done", operands=("gather-start",))  # 11
    built.fusion("c1")  # 12
    schedule = expected_launches(built.program())
    assert names(schedule) == ["a", "x", "y", "slice", "gather-start", "b", "c1"]
    assert schedule.thunk_ids[0] == (1, 4, 5, 6, 8, 10, 12)
    # 0.8.3: less 2, x 3, y 4, the while and its two sequences 5-7, slice 8, gather 9, done 11
    assert schedule.thunk_ids[1] == (1, 3, 4, 8, 9, 10, 12)


def test_graphs_are_long_runs_without_a_cut() -> None:
    built = Built()
    built.fusions("a b c d e")
    built.add("gather", "all-gather-start")
    built.fusions("f g h i")
    built.loop("while.1", "k l m n o p q", trips=2)
    built.fusion("z")
    schedule = expected_launches(built.program())
    runs = [[schedule.launches[i].instruction for i in range(*r)] for r in schedule.graphs]
    assert runs == [list("abcde"), list("klmnopq")]


def test_listed_command_buffers_are_the_graphs() -> None:
    built = Built()
    inner: list[Hlo] = []
    for name in ("x", "y"):
        built.fusion(name, into=inner)
    built.bodies.append(HloComputation("command_buffer.3", inner))
    built.fusions("a b c d e")
    built.add("call.3", "call", calls=("command_buffer.3",))
    schedule = expected_launches(built.program())
    assert schedule.graphs == ((5, 7),)
    assert schedule.launches[5].command_buffer == "call.3"


# ------------------------------------------------------------------ against the compiler's dumps

SORT_COPIES = {"solver1_h100", "solver1_mi300"}
"""Here a sort copies its operand first (one thunk more), which its HLO does not show."""


def thunks(program: CompiledProgram) -> dict[int, tuple[Thunk, int]]:
    """Thunks of a dump by id, each with the number of its command buffer (0: none)."""
    result: dict[int, tuple[Thunk, int]] = {}
    n_graphs = 0

    def visit(part: tuple[Thunk, ...], graph: int) -> None:
        nonlocal n_graphs
        for thunk in part:
            inner = graph
            if thunk.kind == "kCommandBuffer":
                n_graphs += 1
                inner = n_graphs
            else:
                result[thunk.thunk_id] = (thunk, graph)
            for children in thunk.parts.values():
                visit(children, inner)

    visit(program.thunks, 0)
    return result


def compare_with_dump(program: CompiledProgram) -> None:
    schedule = expected_launches(read_program(StoredProgram(1, "m", program.hlo_proto)))
    dump = thunks(program)
    graphs: dict[int, list[int]] = {}
    n_kernels = 0
    for place, (launch, thunk_id) in enumerate(
        zip(schedule.launches, schedule.thunk_ids[0], strict=True)
    ):
        if not launch.n_thunks:
            continue
        thunk, graph = dump[thunk_id]
        assert thunk.instruction == launch.instruction
        if thunk.kernel:
            n_kernels += 1
            assert thunk.kernel in launch.names
        if graph:
            graphs.setdefault(graph, []).append(place)
    assert n_kernels
    expected = sorted((places[0], places[-1] + 1) for places in graphs.values())
    assert sorted(schedule.graphs) == expected


@pytest.mark.parametrize("title", sorted(set(bundled_programs()) - SORT_COPIES))
def test_names_ids_and_graphs_are_the_compilers(title: str) -> None:
    compare_with_dump(bundled_program(title))


@shared.require_shared
@pytest.mark.parametrize(
    "folder",
    ["conv1_mi300", "gpt1_h100", "gpt1_h100_cublas", "gpt_dp4_mi300", "gpt_fsdp4_mi300",
     "gpt_fsdp4c_h100", "mlp_dp4_h100"],
)  # fmt: skip
def test_shared_programs_too(folder: str) -> None:
    compare_with_dump(read_compiled(shared.shared_captures().parent / "programs" / folder))
