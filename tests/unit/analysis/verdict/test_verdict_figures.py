"""Launch join, SKIP figures and budgets of real captures against a plain protobuf walk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from explane.analysis.steps.launches import join_launches
from explane.analysis.verdict.budget import stream_budgets
from explane.analysis.verdict.skip import launch_rows, skip_metrics
from explane.capture.model import Capture
from explane.capture.trace_json import read_trace_json
from explane.capture.xplane import read_xplane
from tests.shared import REAL, json_file, require_shared, xplane_file
from tests.unit.analysis.walk import Walked, budget, kind_of, walk

CAPTURES = [("real", name) for name in REAL] + [
    ("simulated", "gpt1-h100"),
    ("simulated", "conv1-mi300"),
    ("simulated", "mlp-dp4-h100-hostbound"),
]


@cache
def both(kind: str, name: str) -> tuple[Capture, Walked]:
    path: Path = xplane_file(kind, name)
    return read_xplane(path), walk(path)


@require_shared
@pytest.mark.parametrize(("kind", "name"), CAPTURES)
def test_launches_and_skip_figures_equal_a_plain_walk(kind: str, name: str) -> None:
    capture, walked = both(kind, name)
    join, skip = join_launches(capture), skip_metrics(capture)
    assert len(capture.kernels) == len(walked.kernels)
    t_l: dict[int, list[int]] = defaultdict(list)
    for _, _, start, _, _, call in walked.kernels:
        if call in walked.calls:
            assert len(walked.calls[call]) == 1
            t_l[call].append(start - walked.calls[call][0][0])
    assert join.n_joined == sum(map(len, t_l.values()))
    assert skip.value("n_launches") == len(t_l)
    assert skip.value("tklqt_ps") == sum(max(min(v), 0) for v in t_l.values())
    assert skip.value("tklqt_per_kernel_ps") == sum(max(x, 0) for v in t_l.values() for x in v)
    durations = [end - start for _, _, start, end, _, _ in walked.kernels]
    assert skip.value("akd_ps") == sum(durations) // len(durations)
    parts = ("tklqt_call_ps", "tklqt_floor_ps", "tklqt_queue_ps")
    assert sum(skip.value(p) or 0 for p in parts) == skip.value("tklqt_ps")


@require_shared
@pytest.mark.parametrize(("kind", "name"), CAPTURES)
def test_budgets_of_streams_and_devices_equal_a_plain_sweep(kind: str, name: str) -> None:
    capture, walked = both(kind, name)
    budgets = stream_budgets(capture)
    streams: dict[tuple[int, ...], list[tuple[int, int, str]]] = defaultdict(list)
    for device, stream, start, end, text, _ in walked.kernels:
        streams[device, stream].append((start, end, kind_of(text)))
        streams[(device,)].append((start, end, kind_of(text)))
    for frame, keys in ((budgets.table, ["device", "stream"]), (budgets.devices, ["device"])):
        seen = {}
        for row in frame.iter_rows(named=True):
            words = ("compute", "collective", "memcpy", "memset", "idle")
            seen[tuple(row[k] for k in keys)] = {word: row[f"{word}_ps"] for word in words}
        assert seen == {k: budget(v) for k, v in streams.items() if len(k) == len(keys)}


@require_shared
@pytest.mark.parametrize(
    ("kind", "name"), [("real", "gtx1080ti-cuda"), ("simulated", "gpt1-h100")]
)
def test_xplane_and_json_give_the_same_tables(kind: str, name: str) -> None:
    from_xplane, _ = both(kind, name)
    from_json = read_trace_json(json_file(kind, name))
    host = pl.lit("node").alias("host")
    makers: list[Callable[[Capture], pl.DataFrame]] = [
        lambda c: stream_budgets(c).table,
        lambda c: skip_metrics(c).table,
        launch_rows,
    ]
    for make in makers:
        left, right = (make(c).with_columns(host) for c in (from_xplane, from_json))
        assert left.equals(right)
