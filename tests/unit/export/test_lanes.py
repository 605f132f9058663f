from __future__ import annotations

import numpy as np
import pytest

from explane.export.lanes import MOST_LANES, lanes


def lanes_of(*times: tuple[int, int], track: int = 0) -> list[int]:
    start, end = np.array(times, np.int64).reshape(-1, 2).T
    return [int(lane) for lane in lanes(np.full(len(start), track), start, end)]


def test_what_follows_shares_a_lane_and_what_overlaps_does_not() -> None:
    assert lanes_of() == []
    assert lanes_of((0, 5), (5, 9), (9, 9), (9, 12)) == [0, 0, 0, 0]
    assert lanes_of((0, 6), (4, 9), (6, 8)) == [0, 1, 0]
    assert lanes_of((0, 10), (1, 3), (2, 4), (3, 5)) == [0, 1, 2, 1]


def test_events_of_one_moment() -> None:
    assert lanes_of((3, 3), (3, 3), (3, 7), (3, 7)) == [0, 0, 0, 1]


def test_a_staircase_needs_two_lanes_however_long() -> None:
    """Each kernel begins before the last has ended, as with programmatic dependent launches."""
    assert lanes_of(*((i, i + 2) for i in range(1_000))) == [i % 2 for i in range(1_000)]


def test_tracks_do_not_touch_each_other() -> None:
    found = lanes(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([5, 5, 1, 2]))
    assert found.tolist() == [0, 1, 0, 0]


def test_too_deep_is_left_out_and_says_so() -> None:
    found = lanes_of(*((0, 10) for _ in range(MOST_LANES + 3)))
    assert found == [*range(MOST_LANES), -1, -1, -1]


@pytest.mark.parametrize("seed", range(5))
def test_the_first_free_lane_is_taken(seed: int) -> None:
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 300, 400))
    end = start + random.integers(0, 12, 400)
    free_at: list[int] = []
    expected = []
    for begin, finish in zip(start.tolist(), end.tolist(), strict=True):
        lane = next((i for i, free in enumerate(free_at) if free <= begin), len(free_at))
        free_at[lane : lane + 1] = [finish]
        expected.append(lane)
    assert lanes(np.zeros(400, np.int64), start, end).tolist() == expected
