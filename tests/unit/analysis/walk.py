"""A second reading of a capture for tests: google.protobuf's own parser, plain Python objects.

The messages are declared here from the field numbers of xplane.proto; nothing of explane is used.
Slow on purpose: one Python object per event, one dict per stat.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELDS: dict[str, list[tuple[str, int, str]]] = {
    "XSpace": [("planes", 1, "*XPlane")],
    "XPlane": [
        ("name", 2, "bytes"),
        ("lines", 3, "*XLine"),
        ("event_metadata", 4, "*Entry"),
        ("stat_metadata", 5, "*Entry"),
    ],
    "Entry": [("key", 1, "int64"), ("value", 2, "Metadata")],
    "Metadata": [("name", 2, "bytes")],
    "XLine": [("id", 1, "int64"), ("timestamp_ns", 3, "int64"), ("events", 4, "*XEvent")],
    "XEvent": [
        ("metadata_id", 1, "int64"),
        ("offset_ps", 2, "int64"),
        ("duration_ps", 3, "int64"),
        ("stats", 4, "*XStat"),
    ],
    "XStat": [("metadata_id", 1, "int64"), ("uint64", 3, "uint64"), ("int64", 4, "int64")],
}
_TYPES = {"bytes": 12, "int64": 3, "uint64": 4}


def _space_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="walk.proto", package="walk", syntax="proto3")
    for name, columns in _FIELDS.items():
        message = file.message_type.add(name=name)
        for column, number, kind in columns:
            item: Any = message.field.add(name=column, number=number)
            item.label = 3 if kind.startswith("*") else 1
            item.type = _TYPES.get(kind, 11)
            if kind not in _TYPES:
                item.type_name = f".walk.{kind.lstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("walk.XSpace"))


@dataclass
class Walked:
    """Device events (device, stream, start, end, name, correlation id) and calls with one."""

    kernels: list[tuple[int, int, int, int, str, int]] = field(default_factory=list)
    calls: dict[int, list[tuple[int, int, str]]] = field(default_factory=lambda: defaultdict(list))


def walk(path: Path) -> Walked:
    """All device events and all host events with a correlation id of one file."""
    result = Walked()
    for plane in _space_class().FromString(path.read_bytes()).planes:
        name = plane.name.decode()
        texts = {e.key: e.value.name.decode() for e in plane.event_metadata}
        stats = {e.key: e.value.name.decode() for e in plane.stat_metadata}
        for line in plane.lines:
            for event in line.events:
                start = line.timestamp_ns * 1000 + event.offset_ps
                end = start + event.duration_ps
                ids = [
                    s.uint64 or s.int64
                    for s in event.stats
                    if stats[s.metadata_id] == "correlation_id"
                ]
                text = texts[event.metadata_id]
                if name.startswith("/device:GPU:"):
                    row = (int(name[12:]), line.id, start, end, text, ids[0] if ids else -1)
                    result.kernels.append(row)
                elif name == "/host:CPU" and ids:
                    result.calls[ids[0]].append((start, end, text))
    return result


def kind_of(name: str) -> str:
    """Kind of a device event by the words that the shared captures use."""
    if name.startswith("nccl"):
        return "collective"
    if name.startswith(("Memset", "__amd_rocclr_fill")):
        return "memset"
    if name.startswith(("Memcpy", "__amd_rocclr_copy", "CopyDevice", "CopyHost")):
        return "memcpy"
    return "compute"


def budget(events: list[tuple[int, int, str]]) -> dict[str, int]:
    """Budget of (start, end, kind) by stepping through the edges one at a time."""
    order = ("compute", "collective", "memcpy", "memset")
    edges = sorted(
        [(s, 1, k) for s, e, k in events if e > s] + [(e, -1, k) for s, e, k in events if e > s]
    )
    total = dict.fromkeys((*order, "idle"), 0)
    running = dict.fromkeys(order, 0)
    last = edges[0][0] if edges else 0
    for time, change, kind in edges:
        top = next((k for k in order if running[k]), "idle")
        total[top] += time - last
        running[kind] += change
        last = time
    return total
