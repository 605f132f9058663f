"""Host events that are too short to explain a delay, against a rule written out event by event."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explane.capture.model import HostEvents
from explane.capture.short_events import SHORTEST_PS, ShortEvents, kept_rows

NAMES = ("train", "free", "Wait for usage holds", "backend_compile", "PjitFunction(f)")
WAIT_NAME = 2
NOT_LOOKED_FOR = (0, 1)
LONG = SHORTEST_PS
US = 1_000_000

#: thread, start, duration, name, step number
Event = tuple[int, int, int, int, int]

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 8).map(lambda n: n * 200_000),
        st.sampled_from([0, 100_000, 499_999, LONG, 1_100_000, 2_000_000]),
        st.integers(-1, len(NAMES) - 1),
        st.sampled_from([-1, -1, -1, 7]),
    ),
    max_size=25,
)


def table(events: list[Event]) -> HostEvents:
    """Events as a table in the order of the model."""
    rows = sorted(events, key=lambda e: (e[0], e[1], -e[2]))
    thread, start, duration, name, step = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    program = np.full(len(rows), -1)
    return HostEvents(
        thread.astype(np.int32), start, duration, name.astype(np.int32), step, program
    )


def is_left_out(event: Event, all_events: list[Event]) -> bool:
    """The rule, word by word."""
    thread, start, duration, name, step = event
    if duration >= LONG or step >= 0 or name not in NOT_LOOKED_FOR:
        return False
    return any(
        (other[0] == thread and other[2] >= LONG and other[4] < 0 and other[3] != WAIT_NAME)
        and other[1] <= start
        and start + duration <= other[1] + other[2]
        for other in all_events
    )


@given(EVENTS)
def test_short_events_go_where_a_longer_busy_one_covers_them(events: list[Event]) -> None:
    held = table(events)
    columns = (held.thread, held.start_ps, held.duration_ps, held.name, held.step_num)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))

    kept = kept_rows(held, NAMES)

    assert kept.tolist() == [i for i, event in enumerate(rows) if not is_left_out(event, rows)]


@given(EVENTS, st.integers(1, 5))
def test_blocks_of_a_line_lose_nothing_that_the_whole_keeps(
    events: list[Event], size: int
) -> None:
    """Also when a line isn't in order: then blocks keep all from there on."""
    line = [event for event in events if event[0] == 0]
    _, start, duration, name, step = np.array(line, dtype=np.int64).reshape(-1, 5).T
    rule, stays = ShortEvents(NAMES), []
    for first in range(0, len(line), size):
        part = slice(first, first + size)
        stays += rule.kept(
            9, start[part], duration[part], name[part].astype(np.int32), step[part]
        ).tolist()

    gone = [event for event, stay in zip(line, stays, strict=True) if not stay]

    assert all(is_left_out(event, line) for event in gone)


def test_a_name_that_comes_later_is_judged_too() -> None:
    """The pool of names grows while a file is read."""
    strings = ["train"]
    rule = ShortEvents(strings)
    one = np.array([0]), np.array([5 * US]), np.array([0], np.int32), np.array([-1])
    assert rule.kept(0, *one).tolist() == [True]
    strings += ["PjitFunction(f)", "free"]

    start, short = np.array([1, 2, 3]) * US, np.full(3, 100_000)
    stays = rule.kept(0, start, short, np.array([1, 2, -1], np.int32), np.full(3, -1))

    assert stays.tolist() == [True, False, True]
