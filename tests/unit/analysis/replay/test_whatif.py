"""Critical path and replays on steps whose answer can be worked out by hand (times in µs)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from explane.analysis.replay.whatif import UNCHANGED
from explane.units import PS_PER_US
from tests.unit.analysis.made import E, K, L, capture
from tests.unit.analysis.played import facts_of, path_times, play

US = PS_PER_US


def k(start: int, duration: int, call: int, op: str = "fusion", **more: object) -> K:
    return K(start * US, duration * US, op, call=call, op=op, **more)  # type: ignore[arg-type]


def calls(*starts: int, thread: int = 0, first: int = 1) -> list[L]:
    return [L(t * US, 2 * US, first + i, thread=thread) for i, t in enumerate(starts)]


def in_us(values: Sequence[int]) -> list[float]:
    return [v / US for v in values]


def test_a_gpu_bound_step_is_its_kernels_and_has_nothing_to_gain_from_the_host() -> None:
    # Calls at 0, 3, 6; kernels back to back from 10 to 110.
    data = capture([k(10, 40, 1), k(50, 40, 2), k(90, 20, 3)], calls(0, 3, 6))
    _, played, rows = play(data, 0, 110 * US)
    assert path_times(played) == {"launch_latency": 10 * US, "compute": 100 * US}
    assert rows[UNCHANGED][0] == 110 * US
    # Without the host's lateness only the ten microseconds before the first kernel go.
    assert in_us(rows["host_late"]) == [100, 110, 0]


def test_a_late_host_is_named_sized_and_taken_away() -> None:
    # The second call comes at 100 although the GPU is free since 30: 70 late, less its latency.
    events = [E(25 * US, 70 * US, "load_batch")]
    data = capture([k(10, 20, 1), k(110, 20, 2)], calls(0, 100), events)
    facts, played, rows = play(data, 10 * US, 130 * US)
    times = path_times(played)
    # The path follows the host from the first call: from 10 (the window's start) to 100.
    assert times["host_late"] == 90 * US
    assert times["launch_latency"] == 10 * US
    assert times["compute"] == 20 * US
    replayed, left, _ = rows["host_late"]
    assert replayed == 40 * US  # the two kernels, 20 each
    assert left == 30 * US
    # Without load_batch alone (70 of the 98 between the calls) the rest of the lateness stays.
    assert in_us(rows["host_late load_batch"]) == [50, 50, 70]
    assert facts.join.n_joined == 2


def straggling() -> tuple[list[K], list[L]]:
    """GPU 1 computes 60 instead of 20 before the collective; both end it at 100."""
    kernels = [
        k(10, 20, 1, device=0),
        k(30, 70, 2, "ncclDevKernel_AllReduce", device=0),
        k(10, 60, 11, device=1),
        k(70, 30, 12, "ncclDevKernel_AllReduce", device=1),
    ]
    return kernels, [*calls(0, 3), *calls(0, 3, thread=1, first=11)]


def test_waiting_for_a_late_gpu_is_no_transfer() -> None:
    data = capture(*straggling())
    _, played, rows = play(data, 10 * US, 100 * US)
    assert path_times(played) == {"compute": 60 * US, "collective": 30 * US}
    # As fast as GPU 0, GPU 1 would join at 30: both end at 60, 50 after the step's start.
    assert in_us(rows["straggler GPU 1"]) == [50, 50, 0]
    assert in_us(rows["exposed_collective"]) == [60, 60, 30]


def test_collectives_side_by_side_are_late_by_the_same_delay() -> None:
    kernels, launches = straggling()
    kernels += [
        k(30, 65, 3, "ncclDevKernel_AllGather", device=0, stream=9),
        k(70, 25, 13, "ncclDevKernel_AllGather", device=1, stream=9),
    ]
    _, _, rows = play(capture(kernels, launches), 10 * US, 100 * US)
    assert in_us(rows["straggler GPU 1"])[1] == 50  # 40 once, not for each of the two


def test_the_path_goes_over_to_the_late_gpu() -> None:
    data = capture(*straggling())
    facts, played, _ = play(data, 10 * US, 100 * US)
    devices = [int(facts.capture.kernels.device[p.kernel]) for p in played.pieces]
    kinds = [p.kind for p in played.pieces]
    assert kinds == ["compute", "collective"]
    assert devices[0] == 1


def test_equally_slow_gpus_are_no_stragglers() -> None:
    kernels, launches = straggling()
    kernels[0] = k(10, 60, 1, device=0)
    kernels[1] = k(70, 30, 2, "ncclDevKernel_AllReduce", device=0)
    _, _, rows = play(capture(kernels, launches), 10 * US, 100 * US)
    assert not [name for name in rows if name.startswith("straggler")]


def test_copies_on_the_path_go_and_copies_beside_it_change_nothing() -> None:
    kernels = [
        k(10, 20, 1),
        k(30, 40, 2, "MemcpyD2D"),
        k(70, 20, 3),
        k(12, 50, 4, "MemcpyH2D", stream=9),
    ]
    data = capture(kernels, calls(0, 3, 6, 9))
    _, played, rows = play(data, 10 * US, 90 * US)
    assert path_times(played) == {"compute": 40 * US, "memcpy": 40 * US}
    assert in_us(rows["copy"]) == [40, 40, 40]
    # The other copy then ends last, at 62: the replay knows, subtraction doesn't.
    assert in_us(rows["copy MemcpyD2D"]) == [52, 40, 40]
    assert "copy MemcpyH2D" not in rows  # not on the path: nothing to gain


def test_a_group_is_shortened_to_its_share() -> None:
    data = capture([k(10, 20, 1, "dot"), k(30, 80, 2, "transpose")], calls(0, 3))
    shares = np.array([1.0, 0.25])
    _, _, rows = play(data, 10 * US, 110 * US, {"layout": shares})
    assert in_us(rows["layout"]) == [40, 40, 60]  # a quarter of 80 is left


def test_what_no_dependency_explains_is_said_to_be_unexplained() -> None:
    # Launched long before, its stream free since 30, and yet it starts at 230.
    data = capture([k(10, 20, 1), k(230, 20, 2)], calls(0, 3))
    _, played, _ = play(data, 10 * US, 250 * US)
    times = path_times(played)
    assert times["unexplained"] == 200 * US
    assert sum(times.values()) == 240 * US


def test_kernels_that_overlap_a_little_follow_each_other_without_counting_twice() -> None:
    data = capture([k(10, 50, 1), k(58, 42, 2)], calls(0, 3))
    _, played, rows = play(data, 10 * US, 100 * US)
    assert path_times(played) == {"compute": 90 * US}
    assert rows[UNCHANGED][0] == 90 * US


def test_after_a_wait_the_host_follows_the_kernel_that_it_waited_for() -> None:
    events = [E(20 * US, 85 * US, "PjRtBuffer::Await")]
    data = capture([k(10, 90, 1), k(120, 10, 2)], calls(0, 110), events)
    _, played, rows = play(data, 10 * US, 130 * US)
    times = path_times(played)
    assert times["compute"] == 100 * US
    assert times["host_late"] == 10 * US  # from the kernel's end to the next call
    assert in_us(rows["host_late"])[0] == 100


@pytest.mark.parametrize("seed", range(8))
def test_any_step_plays_back_exactly_and_its_path_adds_up(seed: int) -> None:
    random = np.random.default_rng(seed)
    kernels, launches = [], []
    for device in range(3):
        free, host = 0, 0
        for i in range(30):
            host += int(random.integers(1, 30))
            call = 1000 * device + i + 1
            start = max(free - int(random.integers(0, 2)), host + int(random.integers(3, 9)))
            lasts = int(random.integers(1, 60))
            name = str(random.choice(["dot", "MemcpyD2D", "ncclDevKernel_AllReduce"]))
            stream = 7 + int(random.integers(0, 2))
            kernels.append(k(start, lasts, call, name, device=device, stream=stream))
            launches.append(L(host * US, 2 * US, call, thread=device))
            free = start + lasts
    data = capture(kernels, launches)
    end = max(kernel.start + kernel.duration for kernel in kernels)
    facts, played, rows = play(data, 0, end)
    assert rows[UNCHANGED][0] == end
    assert sum(path_times(played).values()) == end
    assert all(replayed <= end for replayed, _, _ in rows.values())
    assert len(facts.join.kernel_launch) == len(kernels)


def test_a_step_without_kernels_has_no_path_but_its_length() -> None:
    data = capture([k(10, 20, 1)], calls(0))
    facts = facts_of(data)
    assert len(facts.collectives) == 0


def test_copies_of_the_program_and_copies_of_the_host_are_taken_away_apart() -> None:
    kernels = [
        k(10, 20, 1, "dot"),
        k(30, 40, 2, "MemcpyD2D"),
        K(70 * US, 5 * US, "MemcpyH2D", call=3),
        k(75, 20, 4, "dot"),
    ]
    data = capture(kernels, calls(0, 3, 6, 9))
    _, _, rows = play(data, 10 * US, 95 * US)
    assert in_us(rows["copy copies of the program"]) == [45, 45, 40]
    assert in_us(rows["copy copies outside the program"]) == [80, 80, 5]


def test_a_host_that_waits_for_the_step_before_could_run_ahead_as_far_as_its_work_allows() -> None:
    # The last kernel before the step ends at 100; the host waits for it until 104, works until
    # 150, calls, and waits again from 160 until the step's end at 300.
    events = [
        E(50 * US, 54 * US, "PjRtBuffer::Await", thread=0),
        E(105 * US, 45 * US, "next_batch", thread=0),
        E(152 * US, 1 * US, "PjitFunction(step)", thread=0),
        E(160 * US, 140 * US, "PjRtBuffer::Await", thread=0),
    ]
    data = capture([k(160, 100, 1), k(260, 40, 2)], calls(150, 153), events)
    _, _, rows = play(data, 100 * US, 300 * US)
    # Without the wait only the kernels (140) or the host's own 56 µs set the pace.
    assert in_us(rows["readback PjRtBuffer::Await"])[0] == 140


def test_copies_launched_before_the_wait_do_not_hide_it() -> None:
    # As above; the copy that the host waits for counts to the step behind it, where no marker
    # says otherwise, and the next batch is on its way.
    events = [
        E(50 * US, 54 * US, "PjRtBuffer::Await", thread=0),
        E(105 * US, 45 * US, "next_batch", thread=0),
        E(152 * US, 1 * US, "PjitFunction(step)", thread=0),
        E(160 * US, 140 * US, "PjRtBuffer::Await", thread=0),
    ]
    copies = [
        K(98 * US, 4 * US, "MemcpyD2H", call=3),
        K(99 * US, 4 * US, "MemcpyH2D", call=4, stream=9),
    ]
    kernels = [k(160, 100, 1), k(260, 40, 2)]
    launches = [*calls(150, 153), *calls(45, 48, first=3)]
    _, _, rows = play(capture([*kernels, *copies], launches, events), 100 * US, 300 * US)
    assert "readback PjRtBuffer::Await" in rows
    # A kernel of the step that is launched before the wait does: the host ran ahead.
    ahead = [*kernels, k(110, 10, 5)]
    launches += calls(47, first=5)
    _, _, rows = play(capture([*ahead, *copies], launches, events), 100 * US, 300 * US)
    assert "readback PjRtBuffer::Await" not in rows


def test_a_traced_host_may_be_late_because_of_the_tracer_by_an_unknown_part() -> None:
    kernels, launches = [k(10, 20, 1), k(110, 20, 2)], calls(0, 100)
    _, _, rows = play(capture(kernels, launches, n_python_events=900), 10 * US, 130 * US)
    assert rows["python_tracer"] == rows["host_late"]
    _, _, plain = play(capture(kernels, launches), 10 * US, 130 * US)
    assert "python_tracer" not in plain
    # Nothing is late: nothing to blame on the tracer.
    busy = capture([k(10, 40, 1), k(50, 40, 2)], calls(0, 3), n_python_events=900)
    _, _, bound = play(busy, 10 * US, 90 * US)
    assert "python_tracer" not in bound
