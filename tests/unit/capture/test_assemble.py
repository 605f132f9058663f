"""From columns in file order to the tables of a capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explane.capture.assemble import (
    NO_HINT,
    DeviceColumns,
    HostColumns,
    StringPool,
    assemble,
    concatenate,
    missing_numbers,
    missing_texts,
    sort_order,
)
from explane.capture.model import Kind
from explane.capture.options import ReadOptions


def _device(pool: StringPool, rows: list[tuple[int, int, int, str]], **more: Any) -> DeviceColumns:
    """Rows of device, stream, start and name."""
    n = len(rows)
    columns: dict[str, Any] = {
        "device": np.array([r[0] for r in rows], dtype=np.int32),
        "stream": np.array([r[1] for r in rows], dtype=np.int64),
        "start_ps": np.array([r[2] for r in rows], dtype=np.int64),
        "duration_ps": np.full(n, 5, dtype=np.int64),
        "name": pool.codes(r[3] for r in rows),
        "hint": np.full(n, NO_HINT, dtype=np.uint8),
        "correlation_id": np.arange(n, dtype=np.int64),
    }
    for name in ("program_id", "graph_id", "graph_node_id"):
        columns[name] = missing_numbers(n)
    for name in ("hlo_op", "hlo_module", "scope_name", "details"):
        columns[name] = missing_texts(n)
    return DeviceColumns(**(columns | more))


def _host(pool: StringPool, rows: list[tuple[int, int, int, str, int]]) -> HostColumns:
    """Rows of thread, start, duration, name and correlation id."""
    n = len(rows)
    table = np.array([r[:3] for r in rows], dtype=np.int64).reshape(-1, 3)
    ids = np.array([r[4] for r in rows], dtype=np.int64)
    return HostColumns(
        thread=table[:, 0].astype(np.int32),
        start_ps=table[:, 1].copy(),
        duration_ps=table[:, 2].copy(),
        name=pool.codes(r[3] for r in rows),
        correlation_id=ids,
        program_id=missing_numbers(n),
        hlo_op=missing_texts(n),
        step_num=missing_numbers(n),
    )


def test_the_pool_gives_one_code_per_text() -> None:
    pool = StringPool()
    assert pool.codes(["a", "b", "a", ""]).tolist() == [0, 1, 0, 2]
    assert pool.code_of_bytes(b"b") == 1
    assert pool.code_of_bytes(b"\xff") == 3
    assert (pool.strings, pool.n_invalid) == (["a", "b", "", "�"], 1)


def test_kernels_are_sorted_and_markers_counted() -> None:
    pool = StringPool()
    rows = [(1, 7, 20, "k"), (0, 8, 20, "k"), (0, 7, 20, "MemcpyD2D"), (0, 7, 30, "Marker")]
    rows += [(0, 7, 20, "l"), (0, 9, 10, "Memset 0")]
    records = assemble(_device(pool, rows), _host(pool, []), pool)
    kernels = records.kernels
    assert kernels.correlation_id.tolist() == [5, 2, 4, 1, 0]
    assert kernels.kind.tolist() == [Kind.MEMSET, Kind.MEMCPY, 0, 0, 0]
    assert records.markers == {"Marker": 1}
    assert kernels.time_ok.all()


def test_a_hint_beats_the_name_but_for_peer_copies() -> None:
    pool = StringPool()
    rows = [(0, 1, 1, "k"), (0, 1, 2, "MemcpyP2P"), (0, 1, 3, "MemcpyD2D"), (0, 1, 4, "m")]
    hint = np.array([Kind.MEMCPY, Kind.MEMCPY, NO_HINT, Kind.MARKER], dtype=np.uint8)
    records = assemble(_device(pool, rows, hint=hint), _host(pool, []), pool)
    assert records.kernels.kind.tolist() == [Kind.MEMCPY, Kind.COLLECTIVE, Kind.MEMCPY]
    assert records.markers == {"m": 1}


ROWS = [
    (1, 10, 50, "outer", -1),
    (0, 30, 5, "cuLaunchKernel", 9),
    (1, 10, 60, "outermost", -1),
    (0, 20, 5, "cuGraphLaunch (CudaGraph:3)", 8),
    (0, 20, 5, "$a.py:3 f", -1),
    (1, 5, 5, "first", -1),
    (1, 20, 5, "k", 7),
]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (ReadOptions(), ["$a.py:3 f", "first", "outermost", "outer"]),
        (ReadOptions(python_events=False), ["first", "outermost", "outer"]),
        (ReadOptions(host_events=False), []),
    ],
)
def test_host_events_are_split_sorted_and_left_out(options: ReadOptions, names: list[str]) -> None:
    pool = StringPool()
    records = assemble(_device(pool, []), _host(pool, ROWS), pool, options)
    assert [pool.strings[c] for c in records.host_events.name] == names
    assert records.launches.correlation_id.tolist() == [8, 7, 9]
    assert records.launches.is_graph.tolist() == [True, False, False]
    assert records.n_python_events == 1


def test_launches_only_and_no_launches() -> None:
    pool = StringPool()
    only = assemble(_device(pool, []), _host(pool, [r for r in ROWS if r[4] >= 0]), pool)
    assert (len(only.launches), len(only.host_events)) == (3, 0)
    none = assemble(_device(pool, []), _host(pool, [r for r in ROWS if r[4] < 0]), pool)
    assert (len(none.launches), len(none.host_events)) == (0, 4)


def test_concatenate_keeps_constant_columns_and_empties_the_list() -> None:
    pool = StringPool()
    tables = [_device(pool, [(0, 7, 1, "k")] * 3), _device(pool, [(1, 7, 2, "k")] * 2)]
    whole = concatenate(tables, DeviceColumns)
    assert tables == []
    assert whole.program_id.strides == (0,)
    assert whole.program_id.tolist() == [-1] * 5
    assert whole.device.tolist() == [0, 0, 0, 1, 1]
    empty = concatenate([], HostColumns)
    assert (len(empty.thread), empty.thread.dtype) == (0, np.dtype(np.int32))


@pytest.mark.parametrize("seed", range(4))
def test_sort_order_equals_sorting_tuples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = [rng.integers(0, 3, 40), np.broadcast_to(np.int64(5), 40), rng.integers(0, 3, 40)]
    tuples = list(zip(*(k.tolist() for k in keys), range(40), strict=True))
    order = sort_order(*keys)
    assert order is not None
    assert order.tolist() == [t[-1] for t in sorted(tuples)]
    assert sort_order(*(k[order] for k in keys)) is None
