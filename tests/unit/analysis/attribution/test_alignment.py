"""The dynamic programme against a second, plain search over the same rules."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from explane.analysis.attribution.alignment import FORBIDDEN, Jump, Scores, Sequence_, Track, align

AGAIN = 2


def moves(track: Track, state: int, inside: bool) -> dict[int, int]:
    """Cheapest cost of reaching each state without using a kernel (Bellman-Ford)."""
    m = len(track)
    cost = {state: 0}
    for _ in range(2 * (m + 2)):
        for at, paid in list(cost.items()):
            steps = [(at + 1, int(track.skip_cost[at]))] if at < m else []
            steps += [
                (j.target, j.inside if inside else j.cost) for j in track.jumps if j.source == at
            ]
            for to, more in steps:
                cost[to] = min(paid + more, cost.get(to, 1 << 40))
    return cost


def best_score(track: Track, scores: Scores, sequence: Sequence_) -> int:
    """Score of the best alignment by exhaustive search with memory; no tables, no batches."""
    n, m = len(sequence.types), len(track)

    @cache
    def rest(i: int, state: int, matched: bool) -> int:
        """Best score of kernels from i on; `matched`: kernel i - 1 is at place state - 1."""
        if i == n:
            ends = sequence.end or tuple(range(m + 1))
            costs = moves(track, state, False).items()
            return max((-c for s, c in costs if s in ends), default=FORBIDDEN)
        kind = int(sequence.types[i])
        options = []
        if matched:
            again = AGAIN * int(i > 0 and sequence.types[i - 1] == kind)
            options.append(int(scores.follow[kind, state - 1]) + again + rest(i + 1, state, True))
        inside = i > 0 and not sequence.starts_launch[i]
        for at, paid in moves(track, state, inside).items():
            options.append(rest(i + 1, at, False) - int(scores.leave_cost[kind]) - paid)
            if at < m:
                options.append(int(scores.first[kind, at]) + rest(i + 1, at + 1, True) - paid)
                options.append(int(scores.before[kind, at]) + rest(i + 1, at, False) - paid)
        return max(options)

    return max(rest(0, s, False) for s in (sequence.begin or tuple(range(m + 1))))


def table(rng: np.random.Generator, shape: tuple[int, int], share: float) -> np.ndarray:
    values = rng.integers(1, 21, shape)
    return np.where(rng.random(shape) < share, values, FORBIDDEN).astype(np.int64)


def random_case(seed: int) -> tuple[Track, Scores, list[Sequence_]]:
    rng = np.random.default_rng(seed)
    m, t = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    first = int(rng.integers(0, m))
    jumps = (Jump(int(rng.integers(first + 1, m + 1)), first, 0, 5), Jump(m, 0, 0, 8))
    track = Track(rng.integers(0, 4, m).astype(np.int64), jumps)
    scores = Scores(
        table(rng, (t, m), 0.5),
        table(rng, (t, m), 0.2),
        table(rng, (t, m), 0.2),
        rng.integers(2, 8, t).astype(np.int64),
    )
    sequences = []
    for _ in range(3):
        n = int(rng.integers(1, 6))
        begin = (int(rng.integers(0, m + 1)),) if rng.random() < 0.5 else ()
        end = (int(rng.integers(0, m + 1)),) if rng.random() < 0.5 else ()
        starts = rng.random(n) < 0.5
        sequences.append(Sequence_(rng.integers(0, t, n).astype(np.int64), starts, begin, end))
    return track, scores, sequences


@pytest.mark.parametrize("seed", range(60))
def test_score_is_the_best_there_is(seed: int) -> None:
    track, scores, sequences = random_case(seed)
    for sequence, aligned in zip(sequences, align(track, scores, sequences), strict=True):
        assert aligned.score == best_score(track, scores, sequence)


def simple() -> tuple[Track, Scores]:
    """Places a b c d, types of the same letters, and the next execution after d."""
    first = np.full((4, 4), FORBIDDEN, dtype=np.int64)
    first[np.arange(4), np.arange(4)] = 20
    never = np.full((4, 4), FORBIDDEN, dtype=np.int64)
    scores = Scores(first, never, never, np.full(4, 6, dtype=np.int64))
    return Track(np.full(4, 2, dtype=np.int64), (Jump(4, 0, 0, 8),)), scores


def places(types: list[int]) -> list[int]:
    track, scores = simple()
    one = Sequence_(np.array(types), np.ones(len(types), dtype=np.bool_))
    return [int(p) for p in align(track, scores, [one])[0].position]


def test_lost_kernels_do_not_shift_the_rest() -> None:
    assert places([0, 2, 3]) == [0, 2, 3]


def test_executions_follow_each_other() -> None:
    assert places([2, 3, 0, 1, 3, 0]) == [2, 3, 0, 1, 3, 0]


def test_a_kernel_out_of_place_is_left_out() -> None:
    track, scores = simple()
    track = Track(track.skip_cost, ())
    one = Sequence_(np.array([0, 1, 0, 2, 3]), np.ones(5, dtype=np.bool_))
    assert align(track, scores, [one])[0].position.tolist() == [0, 1, -1, 2, 3]


def test_no_sequence_no_result() -> None:
    track, scores = simple()
    assert align(track, scores, []) == []
