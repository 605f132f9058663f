"""The join of kernels and launches: one to many, duplicates, other calls, graphs, threads."""

from __future__ import annotations

import pytest

from explane.analysis.steps.launch_threads import home_threads
from explane.analysis.steps.launches import join_launches
from explane.analysis.steps.nesting import depths, innermost
from tests.unit.analysis.made import E, K, L, capture, whole


def test_one_launch_one_kernel_and_one_graph_launch_many_kernels() -> None:
    data = capture(
        [K(100, 10, call=1), K(200, 5, call=2), K(210, 5, call=2), K(190, 9, call=2, stream=8)],
        [L(50, 10, 1), L(60, 10, 2, name="cuGraphLaunch (CudaGraph:3)")],
    )
    join = join_launches(data)
    assert join.n_kernels.tolist() == [1, 3]
    assert join.n_joined == 4
    assert join.first_kernel.tolist() == [0, 1], "row 1 is the kernel at 190"
    assert join.in_graph.tolist() == [False, True, True, True]


def test_kernels_without_launch_and_launches_without_kernels_are_counted() -> None:
    data = capture(
        [K(100, 10, call=1), K(200, 5, call=9), K(300, 5)],
        [L(50, 10, 1), L(60, 10, 2), L(70, 1, 3, name="cuGraphLaunch (CudaGraph:1)")],
    )
    join = join_launches(data)
    assert join.kernel_launch.tolist() == [0, -1, -1]
    assert join.without_kernels.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("name", "is_launch"),
    [
        ("hipStreamWaitEvent", False),
        ("hipLaunchHostFunc", False),
        ("cuLaunchHostFunc", False),
        ("cudaStreamSynchronize", False),
        ("cuEventRecord", False),
        ("CudaGraphNodeMap: 3", False),
        ("hipModuleLaunchKernel", True),
        ("hipExtModuleLaunchKernel", True),
        ("hipLaunchCooperativeKernel", True),
        ("hipMemcpyDtoDAsync", True),
        ("cuMemsetD8Async", True),
        ("hipGraphLaunch", True),
        ("cuLaunchKernelEx", True),
        ("loop_add_fusion", True),
        ("void cutlass::Kernel2<a>(b)", True),
        ("Cijk_Ailk_Bljk", True),
    ],
)
def test_which_calls_can_make_work(name: str, is_launch: bool) -> None:
    join = join_launches(capture([], [L(0, 5, 1, name=name)]))
    assert join.is_launch.tolist() == [is_launch]
    assert join.without_kernels.tolist() == [is_launch]


def test_a_call_that_a_kernel_joins_is_a_launch_whatever_its_name() -> None:
    join = join_launches(capture([K(9, 1, call=1)], [L(0, 5, 1, name="hipStreamWaitEvent")]))
    assert join.is_launch.tolist() == [True]
    assert join.n_joined == 1


def test_of_two_calls_with_one_id_the_launch_wins_and_then_the_latest_before_the_kernel() -> None:
    data = capture(
        [K(100, 10, call=1), K(500, 10, call=1), K(10, 1, call=5)],
        [
            L(50, 10, 1, name="hipModuleLaunchKernel"),
            L(55, 2, 1, name="hipStreamWaitEvent"),
            L(400, 10, 1, name="hipModuleLaunchKernel"),
            L(600, 10, 1, name="hipModuleLaunchKernel"),
            L(30, 1, 5),
        ],
    )
    join = join_launches(data)
    starts = data.launches.start_ps[join.kernel_launch]
    assert starts.tolist() == [30, 50, 400], "the kernel at 10 is older than its only call"
    assert join.n_duplicates == 4


@pytest.mark.parametrize(
    ("op", "siblings", "graph", "expected"),
    [
        ("command_buffer_12", False, -1, True),
        ("command_buffer", False, -1, True),
        ("call.3", False, -1, True),
        ("call", False, -1, True),
        ("custom-call.1", False, -1, False),
        ("", True, -1, True),
        ("", False, -1, False),
        ("fusion.1", True, -1, False),
        ("fusion.1", False, 4, True),
    ],
)
def test_which_kernels_are_graph_kernels(
    op: str, siblings: bool, graph: int, expected: bool
) -> None:
    others = [K(200, 10, call=1, op=op)] if siblings else []
    data = capture([K(100, 10, call=1, op=op, graph=graph), *others], [L(50, 10, 1)])
    assert join_launches(data).in_graph.tolist() == [expected] * len(data.kernels)


def test_a_capture_without_anything() -> None:
    join = join_launches(capture())
    assert (join.n_joined, join.n_launches, join.n_duplicates) == (0, 0, 0)


def test_depth_is_the_number_of_open_events() -> None:
    start, end = whole([0, 0, 2, 5, 6, 20]), whole([10, 9, 5, 8, 7, 30])
    assert depths(start, end).tolist() == [0, 1, 2, 2, 3, 0]


def test_innermost_event_at_a_moment() -> None:
    start, end = whole([0, 2, 5, 6, 20]), whole([10, 5, 8, 7, 20])
    moments = whole([1, 2, 4, 5, 6, 7, 9, 10, 20])
    assert innermost(start, end, moments).tolist() == [0, 1, 1, 2, 3, 2, 0, -1, -1]


def test_launches_on_lines_of_their_own_find_the_thread_around_them() -> None:
    # Both XLA lines are open during every launch; only line 1 has tight events around them.
    events = [E(0, 1000, "Execute", thread=1), E(0, 900, "Execute", thread=2)]
    events += [E(100 * i, 60, "thunk", thread=1) for i in range(5)]
    calls = [L(100 * i + 10, 5, i, thread=0) for i in range(5)]
    data = capture([], calls, events)
    assert home_threads(data).tolist() == [1, 1, 2]


def test_launches_inside_events_of_their_own_thread_stay_there() -> None:
    data = capture([], [L(10, 5, 1, thread=0)], [E(0, 90, "a"), E(9, 9, "b", thread=1)])
    assert home_threads(data).tolist() == [0, 1]
