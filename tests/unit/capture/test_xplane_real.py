"""Every number of the shared captures against the protobuf library's reading of the same file."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from explane.capture.model import Capture
from explane.capture.xplane import read_xplane
from tests.shared import MASKED, OTHER, REAL, SIMULATED, require_shared, xplane_file
from tests.unit.capture.xspace_oracle import Names, parse, text

READABLE = [
    *(("real", name) for name in REAL),
    *(("simulated", name) for name in SIMULATED),
    *(("masked", name) for name in MASKED),
    *(("other", name) for name in OTHER if name != "corrupt-utf8"),
]
NOT_STREAMS = {"Steps", "TensorFlow Name Scope", "TensorFlow Ops"}
DETAILS = ("kernel_details", "memcpy_details", "memset_details")


@cache
def _both(kind: str, name: str) -> tuple[Capture, Any]:
    path = xplane_file(kind, name)
    return read_xplane(path), parse(path.read_bytes())


def _start_ps(line: Any, event: Any) -> int:
    return int(line.timestamp_ns * 1000 + event.offset_ps)


def _device_events(space: Any) -> list[tuple[Any, ...]]:
    rows = []
    for plane in space.planes:
        if not plane.name.startswith(b"/device:GPU:"):
            continue
        names, ordinal = Names(plane), int(plane.name.split(b":")[-1])
        for line in plane.lines:
            if text(line.name) in NOT_STREAMS:
                continue
            for event in line.events:
                stats = names.values(event.stats)
                details = next((stats[d] for d in DETAILS if d in stats), "")
                rows.append(
                    (
                        ordinal,
                        line.id,
                        _start_ps(line, event),
                        event.duration_ps,
                        names.events[event.metadata_id],
                        stats.get("correlation_id", -1),
                        stats.get("program_id", -1),
                        str(stats.get("hlo_op", "")),
                        str(stats.get("hlo_module", "")),
                        str(stats.get("name", "")),
                        details,
                        stats.get("cuda_graph_id", -1),
                        stats.get("cuda_graph_node_id", -1),
                    )
                )
    return sorted(rows)


def _kernels(capture: Capture) -> list[tuple[Any, ...]]:
    k, word = capture.kernels, capture.text
    numbers = (k.device, k.stream, k.start_ps, k.duration_ps, k.correlation_id, k.program_id)
    texts = (k.name, k.hlo_op, k.hlo_module, k.scope_name, k.details)
    device, stream, start, duration, correlation, program = (c.tolist() for c in numbers)
    name, hlo_op, module, scope, details = ([word(c) for c in column] for column in texts)
    graphs = k.graph_id.tolist(), k.graph_node_id.tolist()
    head = (device, stream, start, duration, name, correlation, program)
    return sorted(zip(*head, hlo_op, module, scope, details, *graphs, strict=True))


def _host_events(space: Any, *, launches: bool) -> list[tuple[Any, ...]]:
    rows = []
    for plane in space.planes:
        if plane.name != b"/host:CPU":
            continue
        names = Names(plane)
        for line in plane.lines:
            for event in line.events:
                stats = names.values(event.stats)
                if ("correlation_id" in stats) is launches:
                    last = (stats["correlation_id"],) if launches else (stats.get("step_num", -1),)
                    rows.append(
                        (
                            line.id,
                            _start_ps(line, event),
                            event.duration_ps,
                            names.events.get(event.metadata_id, ""),
                            *last,
                            stats.get("program_id", -1),
                        )
                    )
    return sorted(rows)


def _launches(capture: Capture) -> list[tuple[Any, ...]]:
    table = capture.launches
    line_ids = [capture.threads[t].line_id for t in table.thread]
    numbers = (table.start_ps, table.duration_ps)
    ids = (table.correlation_id, table.program_id)
    columns = (*(c.tolist() for c in numbers), [capture.text(c) for c in table.name])
    return sorted(zip(line_ids, *columns, *(c.tolist() for c in ids), strict=True))


def _others(capture: Capture) -> list[tuple[Any, ...]]:
    table = capture.host_events
    line_ids = [capture.threads[t].line_id for t in table.thread]
    numbers = (table.start_ps.tolist(), table.duration_ps.tolist())
    names = [capture.text(c) for c in table.name]
    ids = (table.step_num.tolist(), table.program_id.tolist())
    return sorted(zip(line_ids, *numbers, names, *ids, strict=True))


@require_shared
@pytest.mark.parametrize(("kind", "name"), READABLE)
def test_every_event_equals_the_protobuf_reading(kind: str, name: str) -> None:
    capture, space = _both(kind, name)
    assert _kernels(capture) == _device_events(space)
    assert _launches(capture) == _host_events(space, launches=True)
    assert _others(capture) == _host_events(space, launches=False)


def signed(number: int) -> int:
    """An id as int64, as stats and kernels have it."""
    return number - (1 << 64) if number >= 1 << 63 else number


@require_shared
@pytest.mark.parametrize(("kind", "name"), READABLE)
def test_planes_equal_the_protobuf_reading(kind: str, name: str) -> None:
    capture, space = _both(kind, name)
    planes = [p for p in space.planes if p.name.startswith(b"/device:GPU:")]
    assert [d.plane_name for d in capture.devices] == [text(p.name) for p in planes]
    for device, plane in zip(capture.devices, planes, strict=True):
        stats = Names(plane).values(plane.stats)
        assert device.stats == {k: v for k, v in stats.items() if not isinstance(v, bytes)}
        lines = {line.id: text(line.name) for line in plane.lines}
        assert device.streams == {i: n for i, n in lines.items() if n not in NOT_STREAMS}
    stored = {}
    for plane in space.planes:
        if plane.name == b"/host:metadata":
            for entry in plane.event_metadata:
                stats = Names(plane).values(entry.value.stats)
                if "Hlo Proto" in stats:
                    name = text(entry.value.name)
                    in_name = int(name.rpartition("(")[2].rstrip(")"))
                    assert stats.get("program_id", in_name) == in_name
                    stored[signed(in_name)] = (name, stats["Hlo Proto"])
    assert {i: (p.name, p.hlo_proto) for i, p in capture.programs.items()} == stored
    assert not capture.partial


@require_shared
@pytest.mark.parametrize(
    ("name", "n_events", "n_labelled"),
    [
        ("mi355x-te-attention", 150, 150),
        ("mi300x-8gpu-conv", 235, 198),
        ("mi300x-attention", 105, 87),
        ("mi300x-gemm", 54, 42),
        ("mi300x-8gpu-conv-legacy", 78, 25),
        ("gtx1080ti-cuda", 2, 2),
    ],
)
def test_device_events_and_labels_of_real_captures(
    name: str, n_events: int, n_labelled: int
) -> None:
    capture = read_xplane(xplane_file("real", name))
    assert len(capture.kernels) == n_events
    assert int((capture.kernels.hlo_op >= 0).sum()) == n_labelled
    assert capture.markers == {}
    assert capture.kernels.time_ok.all()
