"""Small captures and HLO modules, built by hand inside a test.

Written against the proto definition (XSpace: tsl/profiler/protobuf/xplane.proto) and not against
explane's readers, so that each can be wrong only by itself. HLO modules: `tests/builders_hlo.py`.

    gpu = Plane("/device:GPU:0", stats={"device_vendor": "AMD"})
    gpu.line("Stream #2", line_id=2).event("loop_add_fusion", 10_000, 5_000, correlation_id=U64(7))
    Space([gpu], hostnames=["node"]).write(tmp_path)
"""

from __future__ import annotations

import gzip
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.builders_hlo import Hlo, HloComputation, HloModule, HloShape, shape
from tests.wire_writer import bytes_field, entry, int_field, packed_field, varint

__all__ = [
    "I64",
    "U64",
    "Event",
    "Hlo",
    "HloComputation",
    "HloModule",
    "HloShape",
    "Line",
    "Module",
    "Packed",
    "Plane",
    "Ref",
    "Space",
    "Str",
    "bytes_field",
    "entry",
    "gpu_plane",
    "host_plane",
    "int_field",
    "json_pid",
    "metadata_plane",
    "packed_field",
    "plain",
    "shape",
    "task_environment",
    "varint",
]

# --------------------------------------------------------------------------------- stat values


@dataclass(frozen=True)
class U64:
    """Stored as uint64_value (field 3)."""

    value: int


@dataclass(frozen=True)
class I64:
    """Stored as int64_value (field 4); plain int does the same."""

    value: int


@dataclass(frozen=True)
class Str:
    """Stored as str_value (field 5)."""

    value: str


@dataclass(frozen=True)
class Ref:
    """Stored as ref_value (field 7) to an interned string; plain str does the same on events."""

    value: str


@dataclass(frozen=True)
class Packed:
    """Stored as compressed_str_value (field 8, newest XLA only)."""

    value: str


StatValue = U64 | I64 | Str | Ref | Packed | int | str | float | bytes


def plain(value: StatValue) -> int | str | float | bytes:
    """The value without its storage form."""
    return value.value if isinstance(value, U64 | I64 | Str | Ref | Packed) else value


# -------------------------------------------------------------------------------------- XSpace


@dataclass
class Event:
    """One XEvent. Times are absolute in the session; `None` as start leaves `offset_ps` out.

    `metadata_id` given: used as is, without an event_metadata entry (a damaged file).
    """

    name: str
    start_ps: int | None
    duration_ps: int
    stats: dict[str, StatValue]
    num_occurrences: int | None = None
    metadata_id: int | None = None


@dataclass
class Line:
    """One XLine; `timestamp_ns` is the base that event offsets are written relative to."""

    name: str
    line_id: int
    timestamp_ns: int = 0
    display_name: str = ""
    events: list[Event] = field(default_factory=list)

    def event(self, name: str, start_ps: int | None, duration_ps: int, **stats: StatValue) -> Line:
        """Add an event; keyword arguments are its stats."""
        self.events.append(Event(name, start_ps, duration_ps, stats))
        return self


@dataclass
class Module:
    """An entry of `/host:metadata`: one stored HLO module."""

    program_id: int
    name: str
    hlo_proto: bytes
    stat_name: str = "Hlo Proto"


@dataclass
class Plane:
    """One XPlane. `modules` makes it a metadata plane."""

    name: str
    plane_id: int = 0
    stats: dict[str, StatValue] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    display_names: dict[str, str] = field(default_factory=dict)
    first_metadata_id: int = 1

    def line(self, name: str, line_id: int, timestamp_ns: int = 0, display_name: str = "") -> Line:
        """Add a line and return it."""
        made = Line(name, line_id, timestamp_ns, display_name)
        self.lines.append(made)
        return made

    def to_bytes(self) -> bytes:
        """The serialised XPlane."""
        return _PlaneWriter(self).encode()


class _PlaneWriter:
    """Gives ids to names while a plane is encoded."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.event_ids: dict[str, int] = {}
        self.stat_ids: dict[str, int] = {}

    def encode(self) -> bytes:
        plane = self.plane
        body = int_field(1, plane.plane_id) + bytes_field(2, plane.name)
        body += b"".join(bytes_field(3, self._line(line)) for line in plane.lines)
        stats = b"".join(
            bytes_field(6, self._stat(key, value, as_text=True))
            for key, value in plane.stats.items()
        )
        modules = b"".join(bytes_field(4, self._module(module)) for module in plane.modules)
        events = b"".join(
            bytes_field(4, entry(number, self._event_metadata(number, name)))
            for name, number in self.event_ids.items()
        )
        names = b"".join(
            bytes_field(5, entry(number, int_field(1, number) + bytes_field(2, name)))
            for name, number in self.stat_ids.items()
        )
        return body + events + modules + names + stats

    def _event_metadata(self, number: int, name: str) -> bytes:
        shown = self.plane.display_names.get(name)
        body = int_field(1, number) + bytes_field(2, name)
        return body + bytes_field(4, shown) if shown is not None else body

    def _line(self, line: Line) -> bytes:
        body = int_field(1, line.line_id) + bytes_field(2, line.name)
        body += int_field(3, line.timestamp_ns)
        base_ps = line.timestamp_ns * 1000
        for event in line.events:
            body += bytes_field(4, self._event(event, base_ps))
        return body + bytes_field(11, line.display_name) if line.display_name else body

    def _event(self, event: Event, base_ps: int) -> bytes:
        number = event.metadata_id
        if number is None:
            first = self.plane.first_metadata_id
            number = self.event_ids.setdefault(event.name, len(self.event_ids) + first)
        body = int_field(1, number)
        if event.start_ps is not None:
            body += int_field(2, event.start_ps - base_ps)
        if event.num_occurrences is not None:
            body += int_field(5, event.num_occurrences)
        body += int_field(3, event.duration_ps)
        for key, value in event.stats.items():
            body += bytes_field(4, self._stat(key, value))
        return body

    def _name_id(self, name: str) -> int:
        return self.stat_ids.setdefault(name, len(self.stat_ids) + 1)

    def _stat(self, key: str, value: StatValue, *, as_text: bool = False) -> bytes:
        head = int_field(1, self._name_id(key))
        if isinstance(value, U64):
            return head + int_field(3, value.value)
        if isinstance(value, bytes):
            return head + bytes_field(6, value)
        if isinstance(value, float):
            return head + varint(2 << 3 | 1) + struct.pack("<d", value)
        if isinstance(value, Packed):
            return head + bytes_field(8, gzip.compress(value.value.encode(), mtime=0))
        if isinstance(value, Str) or (as_text and isinstance(value, str)):
            return head + bytes_field(5, value.value if isinstance(value, Str) else value)
        if isinstance(value, Ref | str):
            return head + int_field(7, self._name_id(str(plain(value))))
        return head + int_field(4, value.value if isinstance(value, I64) else value)

    def _module(self, module: Module) -> bytes:
        stat = int_field(1, self._name_id(module.stat_name)) + bytes_field(6, module.hlo_proto)
        body = int_field(1, module.program_id) + bytes_field(2, module.name)
        return entry(module.program_id, body + bytes_field(5, stat))


HIDDEN_IN_JSON = frozenset(
    {"kernel_details", "program_id", "_pt", "_p", "_ct", "_c", "_r", "flops", "symbol_id"}
)
"""Stats that XLA's JSON export drops."""


@dataclass
class Space:
    """One XSpace, and the trace.json that XLA writes beside it."""

    planes: list[Plane]
    hostnames: list[str] = field(default_factory=lambda: ["node"])
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """The serialised XSpace."""
        parts = [bytes_field(1, plane.to_bytes()) for plane in self.planes]
        parts += [bytes_field(2, text) for text in self.errors]
        parts += [bytes_field(3, text) for text in self.warnings]
        parts += [bytes_field(4, text) for text in self.hostnames]
        return b"".join(parts)

    def to_json(self, cap: int = 1_000_000) -> dict[str, Any]:
        """The trace.json twin: device planes and `/host:CPU`, earliest `cap` events."""
        head: list[dict[str, Any]] = []
        events: list[tuple[int, dict[str, Any]]] = []
        for plane in self.planes:
            pid = json_pid(plane)
            if pid is None:
                continue
            head.append(
                {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane.name}}
            )
            for line in plane.lines:
                head.append(_thread_name(pid, line))
                events += [(e.start_ps or 0, _json_event(pid, line, e)) for e in line.events]
        events.sort(key=lambda pair: pair[0])
        trace: list[dict[str, Any]] = [*head, *(event for _, event in events[:cap]), {}]
        return {
            "displayTimeUnit": "ns",
            "metadata": {"highres-ticks": True},
            "traceEvents": trace,
        }

    def write(self, folder: Path, host: str | None = None, *, with_json: bool = False) -> Path:
        """Write `<host>.xplane.pb` (and `<host>.trace.json.gz`); returns the xplane's path."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = host or (self.hostnames[0] if self.hostnames else "node")
        path = folder / f"{stem}.xplane.pb"
        path.write_bytes(self.to_bytes())
        if with_json:
            self.write_json(folder / f"{stem}.trace.json.gz")
        return path

    def write_json(self, path: Path, cap: int = 1_000_000) -> Path:
        """Write the JSON twin alone, gzip-compressed when the name ends in `.gz`."""
        text = json.dumps(self.to_json(cap)).encode()
        path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
        return path


def json_pid(plane: Plane) -> int | None:
    """Process id of a plane in trace.json; None for planes that are left out."""
    if plane.name.startswith("/device:GPU:"):
        return 1 + plane.plane_id
    return 701 if plane.name == "/host:CPU" else None


def _thread_name(pid: int, line: Line) -> dict[str, Any]:
    name = line.display_name or line.name
    tid = line.line_id & 0xFFFFFFFF
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def _json_event(pid: int, line: Line, event: Event) -> dict[str, Any]:
    shown = {k: plain(v) for k, v in sorted(event.stats.items()) if k not in HIDDEN_IN_JSON}
    made: dict[str, Any] = {"ph": "X", "pid": pid, "tid": line.line_id & 0xFFFFFFFF}
    made |= {"ts": (event.start_ps or 0) / 1e6, "dur": max(event.duration_ps, 1) / 1e6}
    return made | {"name": event.name, "args": {k: str(v) for k, v in shown.items()}}


# --------------------------------------------------------------------------------- common planes


def gpu_plane(ordinal: int = 0, vendor: str = "Nvidia", **stats: StatValue) -> Plane:
    """A device plane with the plane stats of an H100 or an MI300X; keywords replace or add."""
    nvidia: dict[str, StatValue] = {
        "device_vendor": "Nvidia",
        "gpu_device_name": "NVIDIA H100 80GB HBM3",
        "clock_rate": 1_980_000,
        "core_count": 132,
        "memory_bandwidth": U64(3_352_320_000_000),
        "memory_size": U64(85_031_714_816),
        "compute_cap_major": 9,
        "compute_cap_minor": 0,
    }
    amd: dict[str, StatValue] = {
        "device_vendor": "AMD",
        "clock_rate": 2_100_000,
        "core_count": 304,
        "memory_bandwidth": U64(2_662_400_000_000),
        "memory_size": U64(206_141_652_992),
        "compute_cap_major": 9,
        "compute_cap_minor": 4,
    }
    base = amd if vendor == "AMD" else nvidia
    return Plane(f"/device:GPU:{ordinal}", ordinal, stats={**base, **stats})


def host_plane() -> Plane:
    """An empty `/host:CPU` plane."""
    return Plane("/host:CPU", 99)


def metadata_plane(*modules: Module) -> Plane:
    """A `/host:metadata` plane with HLO modules."""
    return Plane("/host:metadata", modules=list(modules))


def task_environment(
    start_ns: int = 1_790_000_000_000_000_000, stop_ns: int = 1_790_000_001_000_000_000
) -> Plane:
    """The `Task Environment` plane with the session's wall-clock window."""
    times: dict[str, StatValue] = {
        "profile_start_time": U64(start_ns),
        "profile_stop_time": U64(stop_ns),
    }
    return Plane("Task Environment", 1, stats=times)
