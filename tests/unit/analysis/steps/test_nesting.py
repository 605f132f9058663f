"""The innermost event around a moment, whether events and moments are many or few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explane.analysis.intervals import intervals
from explane.analysis.steps import nesting
from explane.analysis.steps.nesting import innermost

times = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=20)


@settings(max_examples=80, deadline=None)
@given(times, times)
def test_many_events_and_moments_give_what_few_give(
    events: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    start = np.array([s for s, _ in events], dtype=np.int64)
    end = start + np.array([n for _, n in events], dtype=np.int64)
    begin = np.array([s for s, _ in asked], dtype=np.int64)
    windows = intervals(begin, begin + np.array([n for _, n in asked], dtype=np.int64))
    middle = windows.start_ps + windows.duration_ps // 2
    whole = innermost(start, end, middle), innermost(start, end, middle, windows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_BLOCK", 3)
        parts = innermost(start, end, middle), innermost(start, end, middle, windows)
    assert [found.tolist() for found in parts] == [found.tolist() for found in whole]


def test_the_deepest_event_of_a_tree_is_found() -> None:
    # 0 ├─── train ────────────────────────────────────────┤ 100
    #      10 ├ execute ───┤ 50     60 ├ execute ────┤ 90
    #           20 ├ launch ┤ 25
    start = np.array([60, 0, 20, 10], dtype=np.int64)
    end = np.array([90, 100, 25, 50], dtype=np.int64)
    moments = np.array([22, 24, 25, 55, 60, 89, 90, 99, 100], dtype=np.int64)
    assert innermost(start, end, moments).tolist() == [2, 2, 3, 1, 0, 0, 1, 1, -1]
