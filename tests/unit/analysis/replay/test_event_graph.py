"""Moments, edges, replay and the path through them, on graphs small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.replay.event_graph import REMOVED, EdgeList, path_to, replay


def whole(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def three_in_a_row() -> EdgeList:
    """0 at 10; 1 at 30 = 10 + lag 15 + residual 5; 2 at 30, from 0 (lag 20) and from 1 (lag 0)."""
    edges = EdgeList(whole(10, 30, 30))
    edges.add(whole(0), whole(1), 15, kind=1)
    edges.add(whole(1), whole(2), 0, kind=2)
    edges.add(whole(0), whole(2), 20, kind=3)
    return edges


def test_unchanged_replay_gives_the_measured_times() -> None:
    graph = three_in_a_row().graph()
    assert replay(graph).tolist() == [10, 30, 30]
    assert graph.residual_ps.tolist() == [10, 5, 0]


def test_the_edge_added_first_decides_between_equal_arrivals() -> None:
    graph = three_in_a_row().graph()
    assert graph.kind[graph.binding[2]] == 2
    assert list(path_to(graph, 2)) == [2, 1, 0]


def test_shorter_lag_moves_what_follows_until_another_edge_decides() -> None:
    graph = three_in_a_row().graph()
    lag = np.where(graph.kind == 1, 0, graph.lag_ps)
    # 1 comes at 10 + 0 + 5, 2 then has to wait for 0 + 20.
    assert replay(graph, lag).tolist() == [10, 15, 30]


def test_a_removed_edge_no_longer_holds_anything_up() -> None:
    graph = three_in_a_row().graph()
    lag = np.where(graph.kind == 3, REMOVED, np.where(graph.kind == 1, 0, graph.lag_ps))
    assert replay(graph, lag).tolist() == [10, 15, 15]


def test_edges_that_the_times_contradict_are_dropped_and_counted() -> None:
    edges = EdgeList(whole(50, 10))
    edges.add(whole(0), whole(1), 0, kind=1)
    graph = edges.graph()
    assert edges.n_contradicted == 1
    assert len(graph.source) == 0


def test_a_lag_longer_than_measured_is_cut_to_what_was_measured() -> None:
    edges = EdgeList(whole(0, 7))
    edges.add(whole(0), whole(1), 100, kind=1)
    assert edges.graph().lag_ps.tolist() == [7]


def test_negative_lags_let_the_target_come_before_its_source() -> None:
    edges = EdgeList(whole(10, 8, 20))  # 1 starts 2 before 0 ends
    edges.add(whole(0), whole(1), -2, kind=1)
    edges.add(whole(1), whole(2), 12, kind=1)
    graph = edges.graph()
    assert replay(graph).tolist() == [10, 8, 20]
    earlier = graph.residual_ps.copy()
    earlier[0] = 4
    assert replay(graph, None, earlier).tolist() == [4, 2, 14]


def test_circles_of_negative_lags_are_broken_not_hung_on() -> None:
    edges = EdgeList(whole(10, 8))
    edges.add(whole(0), whole(1), -2, kind=1)
    edges.add(whole(1), whole(0), 2, kind=2)
    graph = edges.graph()
    assert replay(graph).tolist() == [10, 8]


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs_play_back_exactly(seed: int) -> None:
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, 1000, 60))
    edges = EdgeList(times)
    source, target = random.integers(0, 60, (2, 200))
    edges.add(source, target, random.integers(0, 50, 200), kind=0)
    assert np.array_equal(replay(edges.graph()), times)
