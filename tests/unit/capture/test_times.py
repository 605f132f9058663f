"""Which times can't be true: each part of the rule, and what it must leave alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explane.capture.model import I64, HostEvents, Launches
from explane.capture.times import judge_times

S = 10**12
MS = 10**9


@dataclass
class Times:
    start_ps: I64
    duration_ps: I64
    correlation_id: I64


def _times(rows: list[tuple[int, int]], first_id: int = 1) -> Times:
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return Times(table[:, 0], table[:, 1], np.arange(len(rows)) + first_id)


def _launches(starts: list[int], first_id: int = 1) -> Launches:
    n = len(starts)
    i64, i32 = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int32)
    ids = np.arange(n, dtype=np.int64) + first_id
    start = np.array(starts, dtype=np.int64)
    duration = np.full(n, 1000, dtype=np.int64)
    return Launches(i32, start, duration, i32, ids, i64, i32, np.zeros(n, dtype=bool))


def _host(rows: list[tuple[int, int]]) -> HostEvents:
    n = len(rows)
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    i64, i32 = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int32)
    return HostEvents(i32, table[:, 0], table[:, 1], i32, i64, i64)


def _judge(
    times: Times, launches: Launches | None = None, host: HostEvents | None = None
) -> tuple[list[int], dict[str, int]]:
    """Rows that are not ok, and the notes' counts."""
    no_launches = _launches([]) if launches is None else launches
    ok, notes = judge_times(times, no_launches, _host([]) if host is None else host)
    return np.flatnonzero(~ok).tolist(), {note.slug: note.count for note in notes}


STEADY = [(100 * MS + MS * i, MS // 2) for i in range(200)]


def test_nothing_and_honest_times_are_left_alone() -> None:
    assert _judge(_times([])) == ([], {})
    assert _judge(_times(STEADY)) == ([], {})
    assert _judge(_times([(0, 0)])) == ([], {})


def test_negative_durations_and_overflow() -> None:
    rows = [*STEADY, (120 * MS, -1), (2**62, 5), (120 * MS, 2**62), (-(2**62), 5)]
    bad, notes = _judge(_times(rows))
    assert bad == [200, 201, 202, 203]
    assert notes == {"negative_duration": 1, "time_overflow": 3}


def test_records_that_were_never_filled() -> None:
    bad, notes = _judge(_times([*STEADY, *[(0, 0)] * 1000]))
    assert bad == list(range(200, 1200))
    assert notes == {"unset_time": 1000}


def test_a_duration_of_zero_at_a_time_is_honest() -> None:
    assert _judge(_times([*STEADY, (120 * MS, 0)])) == ([], {})


def test_an_event_long_before_all_others_without_any_host_record() -> None:
    bad, notes = _judge(_times([(-40 * S, 5), *STEADY]))
    assert (bad, notes) == ([0], {"time_outlier": 1})
    assert _judge(_times([*STEADY, (40 * S, 5)]))[0] == [200]
    assert _judge(_times([*STEADY, (100 * MS, 4000 * S)]))[0] == [200]


def test_an_early_event_is_judged_by_its_launch() -> None:
    rows = [(50 * MS, 5), *[(40 * S + start, length) for start, length in STEADY]]
    honest = _launches([49 * MS, *[40 * S + start - MS for start, _ in STEADY]])
    assert _judge(_times(rows), honest) == ([], {})
    impossible = _launches([40 * S, *[40 * S + start - MS for start, _ in STEADY]])
    assert _judge(_times(rows), impossible) == ([0], {"time_outlier": 1})


def test_an_early_event_without_launch_is_judged_by_the_window_of_the_host() -> None:
    rows = [(50 * MS, 5), *[(40 * S + start, length) for start, length in STEADY]]
    rest = _launches([40 * S + start - MS for start, _ in STEADY], first_id=2)
    assert _judge(_times(rows), rest)[0] == [0]
    running = _host([(10 * MS, 41 * S)])
    assert _judge(_times(rows), rest, running) == ([], {})


def test_a_duration_far_beyond_the_capture_is_rejected_though_it_was_launched() -> None:
    rows = [*STEADY, (120 * MS, 4000 * S)]
    launches = _launches([start - MS for start, _ in rows])
    assert _judge(_times(rows), launches, _host([(0, S)]))[0] == [200]


def test_a_wait_that_the_host_spans_is_honest() -> None:
    rows = [*STEADY, (120 * MS, 30 * S)]
    launches = _launches([start - MS for start, _ in rows])
    assert _judge(_times(rows), launches, _host([(0, 31 * S)])) == ([], {})


def test_two_groups_far_apart_are_a_pause_and_no_outliers() -> None:
    rows = [*STEADY, *[(60 * S + start, length) for start, length in STEADY[:10]]]
    assert _judge(_times(rows)) == ([], {})


def test_few_events_are_not_judged() -> None:
    assert _judge(_times([(0, 5), (50 * S, 5), (100 * S, 5)])) == ([], {})
