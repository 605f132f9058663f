"""The JSON of a capture gives the columns of its xplane, but for what XLA leaves out of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explane.capture.model import Capture, HostEvents, Kernels, Launches
from explane.capture.options import ReadOptions
from explane.capture.trace_json import read_trace_json
from explane.capture.xplane import read_xplane
from tests.shared import (
    OTHER,
    REAL,
    SIMULATED,
    capture_dir,
    json_file,
    require_shared,
    xplane_file,
)

# Programs, details and (on ROCm's host events) program ids are not in the JSON.
NUMBERS: tuple[str, ...] = ("start_ps", "duration_ps", "correlation_id", "graph_id")
NUMBERS += ("graph_node_id", "device", "stream", "step_num", "kind", "is_graph")
TEXTS = ("name", "hlo_op", "hlo_module", "scope_name")
NOT_IN_JSON = ("MemoryAllocation", "MemoryDeallocation")


def with_both() -> list[tuple[str, str]]:
    pairs = [("real", name) for name in REAL] + [("simulated", name) for name in SIMULATED]
    pairs += [("other", name) for name in OTHER if name == "cpu-jax0102"]
    return [pair for pair in pairs if list(capture_dir(*pair).glob("*.trace.json.gz"))]


def texts(capture: Capture, codes: np.ndarray) -> list[str]:
    return [capture.text(code) for code in codes.tolist()]


def rows(capture: Capture, table: Kernels | Launches | HostEvents) -> list[tuple[object, ...]]:
    """A table as rows of plain values, with threads by name and 32-bit id."""
    columns: list[list[object]] = []
    for name in NUMBERS:
        if hasattr(table, name):
            columns.append(getattr(table, name).tolist())
    for name in TEXTS:
        if hasattr(table, name):
            columns.append(list(texts(capture, getattr(table, name))))
    if not isinstance(table, Kernels):
        threads = [capture.threads[index] for index in table.thread.tolist()]
        columns.append([(t.name, t.line_id & 0xFFFFFFFF) for t in threads])
    made = list(zip(*columns, strict=True))
    if isinstance(table, HostEvents):
        names = texts(capture, table.name)
        made = [row for row, name in zip(made, names, strict=True) if name not in NOT_IN_JSON]
    return made


@require_shared
@pytest.mark.parametrize("pair", with_both(), ids="/".join)
def test_same_columns(pair: tuple[str, str]) -> None:
    xplane, json = read_xplane(xplane_file(*pair)), read_trace_json(json_file(*pair))
    assert rows(json, json.kernels) == rows(xplane, xplane.kernels)
    assert rows(json, json.launches) == rows(xplane, xplane.launches)
    assert rows(json, json.host_events) == rows(xplane, xplane.host_events)
    assert json.n_python_events == xplane.n_python_events
    assert json.n_host_events == len(json.host_events)
    assert xplane.n_host_events == len(xplane.host_events)
    assert json.markers == xplane.markers
    assert [d.ordinal for d in json.devices] == [d.ordinal for d in xplane.devices]
    assert [d.streams for d in json.devices] == [d.streams for d in xplane.devices]
    assert [t.name for t in json.threads] == [t.name for t in xplane.threads]
    assert not json.notes
    assert not json.partial
    assert not len(json.kernels) or set(json.kernels.program_id.tolist()) == {-1}


@require_shared
def test_the_real_pair_has_the_known_kernels() -> None:
    json = read_trace_json(json_file("real", "gtx1080ti-cuda"))
    kernels = json.kernels
    assert kernels.device.tolist() == [0, 1]
    assert kernels.stream.tolist() == [22, 40]
    assert kernels.start_ps.tolist() == [64_558_333_000, 64_558_850_000]
    assert kernels.duration_ps.tolist() == [1_920_000, 1_888_000]
    assert kernels.correlation_id.tolist() == [1, 2]
    assert [json.text(code) for code in kernels.hlo_module] == ["reactant_fn", "reactant_fn"]
    assert json.host == "cyclops"
    assert json.path == Path(json_file("real", "gtx1080ti-cuda"))


@require_shared
@pytest.mark.parametrize("pair", with_both(), ids="/".join)
def test_the_same_short_events_are_left_out(pair: tuple[str, str]) -> None:
    options = ReadOptions(short_events=False)
    xplane = read_xplane(xplane_file(*pair), options)
    json = read_trace_json(json_file(*pair), options)
    assert rows(json, json.host_events) == rows(xplane, xplane.host_events)
