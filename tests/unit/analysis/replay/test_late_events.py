"""Host events that delay launch calls (times in µs)."""

from __future__ import annotations

from collections.abc import Sequence

from explane.analysis.replay.late_events import LateEvents, late_events
from explane.units import PS_PER_US
from tests.unit.analysis.made import E, K, L, capture
from tests.unit.analysis.played import play

US = PS_PER_US


def late(
    calls: Sequence[tuple[int, int]], events: Sequence[E], start: int = 0
) -> list[tuple[int, str, int]]:
    """(call, event, µs before it) of a step whose kernels start 5 after calls (start, thread)."""
    kernels = [
        K((at + 5) * US, 2 * US, f"k{i}", op=f"k{i}", call=i + 1, device=thread)
        for i, (at, thread) in enumerate(calls)
    ]
    launches = [L(at * US, US, i + 1, thread=thread) for i, (at, thread) in enumerate(calls)]
    end = max(k.start + k.duration for k in kernels)
    facts, played, _ = play(capture(kernels, launches, events), start * US, end)
    found: LateEvents = late_events(facts, played.graph)
    rows = zip(found.call.tolist(), found.name, found.time_ps.tolist(), strict=True)
    return [(call, name, time_ps // US) for call, name, time_ps in rows]


def test_the_event_that_fills_the_time_before_a_call_is_named_with_its_time() -> None:
    assert late([(0, 0), (100, 0)], [E(10 * US, 80 * US, "load_batch")]) == [(1, "load_batch", 80)]


def test_only_time_inside_the_step_and_before_the_call_counts() -> None:
    assert late([(50, 0)], [E(-40 * US, 85 * US, "load_batch")]) == [(0, "load_batch", 45)]


def test_calls_at_the_pace_of_the_loop_are_not_late() -> None:
    assert late([(0, 0), (3, 0), (6, 0)], [E(0, 6 * US, "Execute")]) == []


def test_what_the_host_does_one_after_the_other_is_named_each() -> None:
    events = [
        E(0, 100 * US, "train", step=1),
        E(1 * US, 20 * US, "next_batch"),
        E(25 * US, 70 * US, "PjitFunction(step)"),
        E(40 * US, 30 * US, "Execute"),
    ]
    assert sorted(late([(100, 0)], events)) == [
        (0, "PjitFunction(step)", 70),
        (0, "next_batch", 20),
    ]


def test_an_event_before_one_call_also_delays_the_calls_of_other_threads_that_only_launch() -> (
    None
):
    # Threads 1 and 2 have nothing but calls; the one with the step marker gives them work. For
    # the later call next_batch is less than half of the time, but it comes as much later.
    events = [
        E(0, 300 * US, "train", thread=0, step=1),
        E(10 * US, 80 * US, "next_batch", thread=0),
    ]
    found = late([(100, 1), (290, 2)], events)
    assert (0, "next_batch", 80) in found
    assert (1, "next_batch", 80) in found


def test_a_thread_that_is_given_its_work_is_late_by_what_the_giving_thread_did_first() -> None:
    # No step marker; thread 1 has events of its own only from the moment it gets the execution.
    events = [
        E(10 * US, 80 * US, "next_batch", thread=0),
        E(92 * US, 200 * US, "PjitFunction(step)", thread=0),
        E(105 * US, 45 * US, "ExecuteHelper", thread=1),
    ]
    assert sorted(late([(120, 1)], events)) == [
        (0, "ExecuteHelper", 15),
        (0, "PjitFunction(step)", 13),
        (0, "next_batch", 80),
    ]


def test_what_another_thread_does_while_the_launching_one_is_busy_delays_nothing() -> None:
    events = [
        E(10 * US, 80 * US, "next_batch", thread=0),
        E(92 * US, 200 * US, "PjitFunction(step)", thread=0),
        E(5 * US, 145 * US, "ExecuteHelper", thread=1),
    ]
    assert late([(120, 1)], events) == [(0, "ExecuteHelper", 115)]


def test_an_idle_thread_that_waits_for_work_is_not_busy() -> None:
    events = [
        E(10 * US, 80 * US, "next_batch", thread=0),
        E(92 * US, 200 * US, "PjitFunction(step)", thread=0),
        E(0, 105 * US, "WaitForWork", thread=1),
        E(105 * US, 45 * US, "ExecuteHelper", thread=1),
    ]
    assert (0, "next_batch", 80) in late([(120, 1)], events)


def test_a_call_inside_one_of_the_same_name_counts_once() -> None:
    events = [
        E(10 * US, 20 * US, "next_batch"),
        E(31 * US, 200 * US, "PjitFunction(step)"),
        E(32 * US, 198 * US, "PjitFunction(step)"),
    ]
    # The second call is late by the inner one, which the first is late by too.
    found = late([(100, 0), (200, 0)], events)
    assert (0, "PjitFunction(step)", 69) in found
    assert sum(t for call, _, t in found if call == 0) == 89


def test_the_loop_around_it_all_says_nothing() -> None:
    events = [E(-500 * US, 2000 * US, "$train.py:12 main"), E(10 * US, 60 * US, "next_batch")]
    assert (0, "next_batch", 60) in late([(100, 0)], events)
    assert "$train.py:12 main" not in [name for _, name, _ in late([(100, 0)], events)]


def test_the_times_of_one_event_add_up_by_name_the_largest_first() -> None:
    events = [
        E(5 * US, 40 * US, "log"),
        E(60 * US, 30 * US, "next_batch"),
        E(110 * US, 80 * US, "log"),
    ]
    kernels = [(50, 0), (100, 0), (200, 0)]
    found = late(kernels, events)
    assert sum(t for _, name, t in found if name == "log") == 120
    assert sum(t for _, name, t in found if name == "next_batch") == 30
