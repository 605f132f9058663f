from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.steps.keys import dense_key, ranks

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
    assert ranks(values).dtype == np.int64


def test_ranks_leave_their_argument_alone() -> None:
    values = np.array([5, 4, 6])
    assert ranks(values).tolist() == [1, 0, 2]
    assert values.tolist() == [5, 4, 6]


def test_keys_are_equal_where_all_columns_are_and_follow_the_first_column() -> None:
    rows = [(2, 1), (1, 9), (2, 0), (1, 9), (2, 1)]
    left, right = zip(*rows, strict=True)
    assert dense_key(left, right).tolist() == [sorted(set(rows)).index(row) for row in rows]
