"""Plans of programs small enough to unroll by hand."""

from __future__ import annotations

import pytest

from explane.capture.model import Kind
from explane.synth.devices import Vendor, device_of
from explane.synth.plan import MAIN, CallKind, Plan
from explane.synth.planner import Planner, n_variants
from explane.synth.producers import producers
from explane.synth.program import CompiledProgram, Thunk
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Era, GraphLabels, Graphs, Scenario, Tracer
from tests.builders import Hlo, HloComputation
from tests.unit.synth.programs import (
    chain,
    collective,
    compiled,
    fusion,
    graph,
    kernel,
    looped,
    matmul,
)


def planned(program: CompiledProgram, scenario: Scenario | None = None, variant: int = 0) -> Plan:
    made = scenario or Scenario()
    device = device_of(program, made.vendor)
    return Planner(program, made, device, program.n_devices, variant).build()


def test_graph_members_share_one_call() -> None:
    plan = planned(chain())

    assert [k.instruction for k in plan.kernels] == ["a", "b", "c.1", "d", "e"]
    assert [(c.kind, c.annotation, c.first, c.count) for c in plan.calls] == [
        (CallKind.LAUNCH, "a", 0, 1),
        (CallKind.GRAPH, "command_buffer_2", 1, 3),
        (CallKind.LAUNCH, "e", 4, 1),
    ]
    assert plan.calls[1].api == "cuGraphLaunch (CudaGraph:1)"
    assert plan.calls[1].commands == 3


def test_graph_kernels_wait_for_their_operands_and_for_the_compilers_order() -> None:
    needs = [kernel.needs for kernel in planned(chain()).kernels]

    # b comes first; c needs b both ways; d reads b only, and c does not hold it up.
    assert needs == [(), (), (1,), (1,), ()]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (GraphLabels.COMMAND_BUFFER, "command_buffer_2"),
        (GraphLabels.MODULE, ""),
        (GraphLabels.NOTHING, ""),
        (GraphLabels.TRUE, "c.1"),
    ],
)
def test_label_of_graph_kernels_is_a_knob(labels: GraphLabels, expected: str) -> None:
    plan = planned(chain(), Scenario(graphs=Graphs(labels=labels)))

    assert plan.kernels[2].label == expected
    assert plan.kernels[0].label == "a", "direct launches keep theirs"


def test_without_graphs_members_are_launched_one_by_one_with_their_labels() -> None:
    plan = planned(chain(), Scenario(graphs=Graphs(enabled=False)))

    assert [c.kind for c in plan.calls] == [CallKind.LAUNCH] * 5
    assert [k.label for k in plan.kernels] == ["a", "b", "c.1", "d", "e"]


def test_loop_of_known_length_never_launches_its_condition() -> None:
    plan = planned(looped())

    assert [k.instruction for k in plan.kernels] == ["p", "q"] * 3
    assert [k.iteration for k in plan.kernels[::2]] == [f"while.1:{i}/" for i in range(3)]
    assert [k.node for k in plan.kernels] == [1, 2] * 3, "the same nodes at every launch"
    assert {c.annotation for c in plan.calls} == {"command_buffer_3"}


def test_loop_of_unknown_length_reads_its_condition_back() -> None:
    plan = planned(bundled_program("solver1_h100"))
    waits = [i for i, call in enumerate(plan.calls) if call.kind is CallKind.WAIT]
    loop = [k for k in plan.kernels if k.iteration.startswith("while.10:")]
    trips = {k.iteration for k in loop}

    # Each trip and the last test read one predicate, the conditional one more.
    assert len(waits) == len(trips) + 1
    assert "while.10:end/" in trips
    assert [k.instruction for k in loop if k.iteration == "while.10:end/"] == [
        *("loop_and_fusion", "while.10")
    ]
    read = plan.kernels[plan.calls[waits[0] - 1].first]
    assert (read.work.name, read.instruction) == ("MemcpyD2H", "while.10")


def test_variants_take_other_branches_or_trip_counts() -> None:
    solver = bundled_program("solver1_h100")
    lengths = {len(planned(solver, variant=i).kernels) for i in range(n_variants(solver))}

    assert n_variants(solver) == 3
    assert len(lengths) > 1
    assert n_variants(looped()) == 1


def test_asynchronous_collective_has_a_stream_and_a_join() -> None:
    plan = planned(collective())
    gather = plan.kernels[1]

    assert (gather.stream, gather.work.kind) == (1, Kind.COLLECTIVE)
    assert gather.instruction == "all-gather-start.7"
    assert gather.label == "all-gather.7", "the runtime's name, which the HLO does not list"
    assert gather.work.name.startswith("ncclDevKernel_AllGather_")
    assert [c.kind for c in plan.calls] == [
        *(CallKind.LAUNCH, CallKind.LAUNCH, CallKind.LAUNCH, CallKind.JOIN, CallKind.LAUNCH)
    ]
    own = planned(collective(), Scenario(tracer=Tracer(inner_async_labels=False)))
    assert own.kernels[1].label == "all-gather-start.7"


def test_collective_in_order_stays_on_the_main_stream() -> None:
    gather = planned(collective(asynchronous=False)).kernels[1]
    assert (gather.stream, gather.label) == (MAIN, "all-gather-start.7")


@pytest.mark.parametrize(("platform", "api"), [("CUDA", "a"), ("ROCM", "hipModuleLaunchKernel")])
def test_vendors_name_kernels_and_calls_their_own_way(platform: str, api: str) -> None:
    plan = planned(chain(platform))
    suffix = ".kd" if platform == "ROCM" else ""

    assert plan.calls[0].api == api
    assert [k.work.name for k in plan.kernels] == [
        f"{n}{suffix}" for n in ("a", "b", "c_1", "d", "e")
    ]


@pytest.mark.parametrize("platform", ["CUDA", "ROCM"])
def test_library_kernels_differ_between_seeds_and_share_the_time(platform: str) -> None:
    program = matmul(platform)
    found: dict[tuple[str, ...], float] = {}
    for seed in range(40):
        kernels = [
            k for k in planned(program, Scenario(seed=seed)).kernels if "call" in k.instruction
        ]
        assert 0.999 < sum(k.work.share for k in kernels) < 1.001
        found[tuple(k.work.name for k in kernels)] = 1.0
    assert {len(names) for names in found} == {1, 2}
    assert len(found) > 20
    cleared = "Memset 0" if platform == "CUDA" else "__amd_rocclr_fillBufferAligned.kd"
    assert any(names[0] == cleared for names in found)


def test_unlabelled_library_kernels() -> None:
    program = compiled((Thunk("kFft", 1, "fft.2"),), [Hlo("fft.2", "fft", "f32[512]", ["x"])])
    plan = planned(program, Scenario(tracer=Tracer(library_labels=False)))
    assert {k.label for k in plan.kernels} == {""}
    assert {k.label for k in planned(program).kernels} == {"fft.2"}


def test_copies_are_events_of_the_vendor() -> None:
    copy = Hlo("copy.4", "copy", "f32[256,256]", ["x"])
    thunks = (Thunk("kCopy", 1, "copy.4"),)
    cuda = planned(compiled(thunks, [copy])).kernels[0].work
    rocm = planned(compiled(thunks, [copy], platform="ROCM"), Scenario(tracer=Tracer(era=Era.OLD)))

    assert (cuda.name, cuda.api) == ("MemcpyD2D", "cuMemcpyDtoDAsync_v2")
    assert "size:262144 " in cuda.details[1]
    work = rocm.kernels[0].work
    assert (work.name, work.api) == ("__amd_rocclr_copyBuffer.kd", "hipMemcpyDtoDAsync")
    assert work.details[1].startswith(" grid:16,1,1 block:512,1,1 "), "leading blank, no regs"
    assert work.kind is Kind.MEMCPY


def test_slice_fusion_launches_what_is_inside() -> None:
    body = HloComputation("fused", [Hlo("p0", "parameter", "f32[8,64]", parameter_number=0)], True)
    fused = Hlo("dynamic_slice_fusion.1", "fusion", "f32[64]", ["x"], ["fused"])
    copy = Thunk("kDynamicSliceFusion", 1, fused.name, parts={"": (Thunk("kCopy", 2, ""),)})
    kernel_ = planned(compiled((copy,), [fused], bodies=[body])).kernels[0]
    assert (kernel_.work.name, kernel_.instruction) == ("MemcpyD2D", fused.name)


def test_producers_look_through_what_launches_nothing() -> None:
    instructions = [
        fusion("a"),
        Hlo("gte", "get-tuple-element", "f32[8]", ["a"]),
        Hlo("cast", "bitcast", "f32[8]", ["gte"]),
        fusion("b", "cast", "x"),
    ]
    program = compiled((graph(kernel(1, "a"), kernel(2, "b")),), instructions)
    assert producers(program.hlo, "b") == {"a", "x"}


def test_vendor_must_be_known() -> None:
    program = chain(platform="")
    assert device_of(program, Vendor.AMD).vendor is Vendor.AMD
    with pytest.raises(Exception, match="its dumps name no platform"):
        device_of(program)
