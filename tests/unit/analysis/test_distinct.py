"""Distinct rows against sets of tuples and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explane.analysis import distinct as module
from explane.analysis.distinct import distinct, one_of_each, ranks

DRAW = np.random.default_rng(3)


@pytest.mark.parametrize(
    "values",
    [
        np.array([], np.int64),
        np.array([7], np.int32),
        np.array([True, False, True]),
        DRAW.integers(-5, 5, 100),
        DRAW.integers(-(2**62), 2**62, 100),
        np.array([-(2**63), 2**63 - 1, 0]),
        np.array([3, 3, 3], np.uint8),
        np.array([255, 0, 255], np.uint8),
    ],
)
def test_ranks_are_those_of_unique(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    expected = np.unique(values, return_inverse=True)[1]
    assert ranks(values).tolist() == expected.tolist()
    assert ranks(values).dtype == np.int32


def test_ranks_leave_their_argument_alone() -> None:
    values = np.array([5, 4, 6])
    assert ranks(values).tolist() == [1, 0, 2]
    assert values.tolist() == [5, 4, 6]


def test_keys_are_equal_where_all_columns_are_and_follow_the_first_column() -> None:
    rows = [(2, 1), (1, 9), (2, 0), (1, 9), (2, 1)]
    left, right = np.array(rows).T
    assert ranks(left, right).tolist() == [sorted(set(rows)).index(row) for row in rows]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-3, 3), st.sampled_from([-(2**62), 0, 2**62]), st.integers(0, 2**40)
        ),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([1, 1 << 18]),
)
def test_distinct_rows_are_those_of_sets_of_tuples(
    rows: list[tuple[int, int, int]], block: int
) -> None:
    columns = np.array(rows, dtype=np.int64).T
    expected = sorted(set(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        found, some = distinct(*columns), one_of_each(*columns)
    assert found.rows() == expected
    assert [expected[code] for code in found.code.tolist()] == rows
    assert found.counts.tolist() == [rows.count(row) for row in expected]
    assert [rows[row] for row in some.tolist()] == expected


def test_keys_of_many_wide_columns_are_closed_up_on_the_way() -> None:
    columns = [np.random.default_rng(seed).integers(0, 50_000, 60_000) for seed in range(4)]
    expected = np.unique(np.stack(columns), axis=1, return_inverse=True)[1]
    assert np.array_equal(ranks(*columns), expected.reshape(-1))
