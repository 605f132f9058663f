"""Interval arithmetic against hand-made cases and a brute-force count of every picosecond."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explane.analysis import intervals as module
from explane.analysis.intervals import (
    Intervals,
    clip,
    cover,
    covered_in_windows,
    gaps,
    hull,
    intersect,
    intervals,
    length_by_group,
    priority_layers,
    running_end,
    subtract,
    union,
)

N_GROUPS = 3
LAST = 30

Rows = list[tuple[int, int, int]]
rows = st.lists(
    st.tuples(st.integers(0, N_GROUPS - 1), st.integers(0, LAST), st.integers(-2, 8)), max_size=12
)


@pytest.fixture(autouse=True, scope="module", params=[1 << 18, 2], ids=["whole", "in slices"])
def slices(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test with sets that are swept at once, and in slices of two intervals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SLICE", request.param)
        yield


def make(items: Rows) -> Intervals:
    """Intervals of (group, start, length)."""
    table = np.array(items, dtype=np.int64).reshape(-1, 3)
    return intervals(table[:, 1], table[:, 1] + table[:, 2], table[:, 0])


def cells(parts: Intervals) -> set[tuple[int, int]]:
    """Every (group, picosecond) that is covered."""
    columns = zip(
        parts.group.tolist(), parts.start_ps.tolist(), parts.end_ps.tolist(), strict=True
    )
    return {(g, t) for g, s, e in columns for t in range(s, e)}


def is_union(parts: Intervals) -> bool:
    """True when sorted, disjoint, not touching and without empty parts."""
    rows = list(
        zip(parts.group.tolist(), parts.start_ps.tolist(), parts.end_ps.tolist(), strict=True)
    )
    full = all(e > s for _, s, e in rows)
    return full and all(a[0] < b[0] or (a[0] == b[0] and a[2] < b[1]) for a, b in pairwise(rows))


@settings(max_examples=60, deadline=None)
@given(rows)
def test_union_covers_the_same_time_and_is_disjoint(items: Rows) -> None:
    parts = make(items)
    result = union(parts)
    assert cells(result) == cells(parts)
    assert is_union(result)


@settings(max_examples=60, deadline=None)
@given(rows, rows)
def test_intersection_and_subtraction_are_set_operations(left: Rows, right: Rows) -> None:
    a, b = make(left), make(right)
    both, only = intersect(a, b), subtract(a, b)
    assert cells(both) == cells(a) & cells(b)
    assert cells(only) == cells(a) - cells(b)
    assert is_union(both)
    assert is_union(only)


@settings(max_examples=60, deadline=None)
@given(rows)
def test_lengths_are_counts_of_picoseconds(items: Rows) -> None:
    parts = make(items)
    expected = [sum(g == k for g, _ in cells(parts)) for k in range(N_GROUPS)]
    assert length_by_group(union(parts), N_GROUPS).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(rows, rows, rows)
def test_priority_divides_the_union_without_remainder(a: Rows, b: Rows, c: Rows) -> None:
    sets = (make(a), make(b), make(c))
    total = np.stack([length_by_group(layer, N_GROUPS) for layer in priority_layers(sets)], axis=1)
    assert cells(cover(sets)) == set().union(*(cells(s) for s in sets))
    assert is_union(cover(sets))
    first, second, third = (cells(s) for s in sets)
    shares = (first, second - first, third - first - second)
    for group in range(N_GROUPS):
        assert total[group].tolist() == [sum(g == group for g, _ in s) for s in shares]


@settings(max_examples=60, deadline=None)
@given(rows, rows)
def test_gaps_and_parts_fill_the_window(items: Rows, windows: Rows) -> None:
    parts, frame = make(items), make(windows)
    empty = gaps(parts, frame)
    assert cells(empty) == cells(frame) - cells(parts)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, LAST), st.integers(0, 8)), max_size=8),
    st.lists(st.tuples(st.integers(-5, LAST), st.integers(0, 20)), max_size=6),
)
def test_covered_time_of_windows(
    items: list[tuple[int, int]], windows: list[tuple[int, int]]
) -> None:
    parts = union(make([(0, s, n) for s, n in items]))
    start = np.array([s for s, _ in windows], dtype=np.int64)
    end = np.array([s + n for s, n in windows], dtype=np.int64)
    busy = {t for _, t in cells(parts)}
    expected = [len(busy & set(range(s, s + n))) for s, n in windows]
    assert covered_in_windows(parts, start, end).tolist() == expected


def test_zero_length_events_at_borders_do_not_split_or_add() -> None:
    parts = make([(0, 0, 10), (0, 10, 0), (0, 5, 0), (0, 20, 0), (0, 10, 5)])
    assert union(parts).end_ps.tolist() == [15]
    assert length_by_group(union(parts), 1).tolist() == [15]


def test_times_near_the_limit_do_not_overflow_between_groups() -> None:
    high = (1 << 62) - 10
    parts = intervals(
        np.array([0, high, -high], dtype=np.int64),
        np.array([5, high + 9, -high + 2], dtype=np.int64),
        np.array([0, 1, 2]),
    )
    assert length_by_group(union(parts), 3).tolist() == [5, 9, 2]


def test_running_end_restarts_in_each_group() -> None:
    parts = make([(0, 0, 9), (0, 1, 2), (1, 0, 3), (1, 1, 1)])
    assert running_end(parts).tolist() == [9, 9, 3, 3]


def test_hull_and_clip() -> None:
    parts = make([(0, 3, 4), (0, 1, 3), (2, 8, 5)])
    low, high = hull(parts, N_GROUPS)
    assert low.tolist() == [1, 0, 8]
    assert high.tolist() == [7, 0, 13]
    windows = intervals(np.array([2, 0, 20]), np.array([5, 0, 30]), np.array([0, 1, 2]))
    cut = clip(parts, windows)
    assert cut.duration_ps.tolist() == [2, 2, 0]


@pytest.mark.parametrize("operation", [intersect, subtract, gaps])
def test_nothing_in_nothing_out(operation: object) -> None:
    none = make([])
    assert callable(operation)
    assert len(operation(none, none)) == 0
    assert length_by_group(none, 2).tolist() == [0, 0]
    assert [len(layer) for layer in priority_layers((none, none))] == [0, 0]
    assert covered_in_windows(none, np.array([0]), np.array([5])).tolist() == [0]
