"""When kernels run: order on a stream, waiting, collectives, side streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explane.capture.model import Kind
from explane.synth.devices import device_of
from explane.synth.execution import SIDE, Clocks, Costs, Execution, Times, draw
from explane.synth.plan import MAIN, CallKind, Plan
from explane.synth.planner import Planner
from explane.synth.program import CompiledProgram
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Branches, Graphs, Scenario
from tests.unit.synth.programs import chain, collective

COSTS = Costs(launch_us=3.0, graph_us=11.0, graph_node_us=0.1, between_us=1.0)


def played(program: CompiledProgram, graphs: Graphs | None = None) -> tuple[Plan, Times]:
    scenario = Scenario(seed=4, graphs=graphs or Graphs())
    device = device_of(program)
    plan = Planner(program, scenario, device, program.n_devices).build()
    random = np.random.default_rng(4)
    draws = draw(plan, program.n_devices, 0.03, COSTS, random)
    clocks = Clocks(np.arange(program.n_devices, dtype=np.int64) * 5_000_000)
    return plan, Execution(plan, draws, clocks, scenario.graphs).play()


def latest_call_end(plan: Plan, times: Times) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """End of the call of every kernel."""
    call_of = np.zeros(len(plan.kernels), dtype=np.int64)
    for index, call in enumerate(plan.calls):
        call_of[call.first : call.first + call.count] = index
    found: np.ndarray[tuple[int, int], np.dtype[np.int64]] = (
        times.call_start_ps[:, call_of] + times.call_duration_ps[:, call_of]
    )
    return found


ALL = [
    Graphs(),
    Graphs(enabled=False),
    Graphs(branches=Branches.RANDOM, branch_ratio=0.3),
    Graphs(branches=Branches.DEPENDENCIES, branch_ratio=0.7),
]


@pytest.mark.parametrize("graphs", ALL, ids=lambda g: f"{g.enabled} {g.branches.value}")
@pytest.mark.parametrize("title", ["minigpt_fsdp4_h100", "ring4_mi300", "solver1_h100"])
def test_streams_are_serial_and_kernels_follow_their_call(title: str, graphs: Graphs) -> None:
    plan, times = played(bundled_program(title), graphs)
    end = times.start_ps + times.duration_ps

    assert (times.start_ps > latest_call_end(plan, times)).all()
    assert (times.duration_ps > 0).all()
    for device in range(len(times.start_ps)):
        for stream in np.unique(times.stream[device]):
            on = np.flatnonzero(times.stream[device] == stream)
            on = on[np.argsort(times.start_ps[device, on])]
            assert (times.start_ps[device, on[1:]] >= end[device, on[:-1]]).all()


def test_host_calls_never_overlap() -> None:
    plan, times = played(bundled_program("minigpt_dp4_h100"))
    api = [i for i, call in enumerate(plan.calls) if call.is_api]
    start, end = (
        times.call_start_ps[:, api],
        (times.call_start_ps + times.call_duration_ps)[:, api],
    )
    assert (start[:, 1:] > end[:, :-1]).all()


@pytest.mark.parametrize("asynchronous", [True, False])
def test_collectives_start_apart_and_end_together(asynchronous: bool) -> None:
    plan, times = played(collective(asynchronous=asynchronous))
    k = int(np.flatnonzero(plan.of_kind(Kind.COLLECTIVE))[0])

    assert len(set(times.start_ps[:, k].tolist())) == 4
    assert len(set((times.start_ps + times.duration_ps)[:, k].tolist())) == 1
    assert times.duration_ps[:, k].min() >= 9_000_000, "the last one to come still transfers"


def test_compute_waits_for_an_asynchronous_collective_only_at_its_join() -> None:
    plan, times = played(collective())
    assert [c.kind for c in plan.calls][3] is CallKind.JOIN
    end = times.start_ps + times.duration_ps

    assert (times.start_ps[:, 2] < end[:, 1]).all(), "b runs beside the all-gather"
    assert (times.start_ps[:, 3] >= end[:, 1]).all(), "c waits for it"
    assert (times.start_ps[:, 1] >= end[:, 0]).all(), "the all-gather waits for a"


def test_dependencies_hold_on_side_streams() -> None:
    graphs = Graphs(branches=Branches.DEPENDENCIES, branch_ratio=1.0)
    plan, times = played(bundled_program("minigpt_unrolled1_h100"), graphs)
    end = times.start_ps + times.duration_ps

    for index, kernel in enumerate(plan.kernels):
        for other in kernel.needs:
            assert times.start_ps[0, index] >= end[0, other]
    assert (times.stream[0] >= SIDE).mean() > 0.1


def test_random_branches_take_their_share_and_may_start_early() -> None:
    graphs = Graphs(branches=Branches.RANDOM, branch_ratio=0.2)
    plan, times = played(bundled_program("minigpt_dp4_h100"), graphs)
    in_graph = np.array([kernel.graph > 0 for kernel in plan.kernels])
    share = (times.stream[:, in_graph] >= SIDE).mean()

    assert 0.17 < share < 0.23
    assert (times.stream[:, ~in_graph] < SIDE).all()
    starts = times.start_ps[0]
    assert (np.diff(starts[in_graph]) < 0).any(), "start order is not schedule order"


def test_without_branches_start_order_is_schedule_order() -> None:
    plan, times = played(bundled_program("minigpt_dp4_h100"))
    main = np.array([kernel.stream == MAIN for kernel in plan.kernels])
    assert (np.diff(times.start_ps[:, main], axis=1) > 0).all()


def test_extra_launch_cost_moves_calls_by_what_it_is() -> None:
    program = chain()
    scenario = Scenario()
    plan = Planner(program, scenario, device_of(program), 1).build()
    calls = [
        draw(plan, 1, 0.03, replace(COSTS, extra_ps=extra), np.random.default_rng(1)).call_ps
        for extra in (0, 7_000_000)
    ]
    assert (calls[1] - calls[0] == 7_000_000).all()
