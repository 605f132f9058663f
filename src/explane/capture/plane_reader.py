"""Lines of a device plane or a host plane to columns.

Events without an own start (`num_occurrences`, aggregated) are counted and left out: they say how
often something happened, not when.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from explane.capture.assemble import (
    NO_HINT,
    DeviceColumns,
    HostColumns,
    StringPool,
    missing_numbers,
    missing_texts,
)
from explane.capture.classify import LineRole, role_of_line
from explane.capture.events import EventTable, decode_events, scan_line
from explane.capture.model import I32, I64, U8, Device, Kind
from explane.capture.planes import XLine, XPlane, read_stat
from explane.capture.stats import PlaneValues, stat_ids
from explane.capture.wire import Buffer
from explane.units import PS_PER_NS

# Stat name -> column. Names as in xplane_schema and the collectors.
_DEVICE_STATS: Final = {
    "correlation_id": "correlation_id",
    "program_id": "program_id",
    "hlo_op": "hlo_op",
    "hlo_module": "hlo_module",
    "name": "scope_name",
    "cuda_graph_id": "graph_id",
    "cuda_graph_node_id": "graph_node_id",
    "kernel_details": "kernel_details",
    "memcpy_details": "memcpy_details",
    "memset_details": "memset_details",
    "memalloc_details": "memory",
    "memfree_details": "memory",
    "memory_residency_details": "memory",
}
_HOST_STATS: Final = {
    "correlation_id": "correlation_id",
    "device_id": "device_id",
    "program_id": "program_id",
    "hlo_op": "hlo_op",
    "step_num": "step_num",
}
# What the presence of a details stat proves, least specific first.
_HINTS: Final = (
    ("memcpy_details", Kind.MEMCPY),
    ("memset_details", Kind.MEMSET),
    ("memory", Kind.MARKER),
)
_TIME_LIMIT_PS: Final = (1 << 63) - 1


@dataclass(slots=True)
class Counts:
    """What was met while reading planes, for notes."""

    n_aggregated: int = 0
    n_missing_names: int = 0
    n_bad_compressed: int = 0
    skipped_lines: dict[str, int] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        """Add the counts of another plane."""
        self.n_aggregated += other.n_aggregated
        self.n_missing_names += other.n_missing_names
        self.n_bad_compressed += other.n_bad_compressed
        for name, count in other.skipped_lines.items():
            self.skipped_lines[name] = self.skipped_lines.get(name, 0) + count


@dataclass(frozen=True, slots=True)
class DevicePlane:
    """One `/device:GPU:N` plane."""

    device: Device
    tables: list[DeviceColumns]
    counts: Counts


@dataclass(frozen=True, slots=True)
class HostPlane:
    """One host plane: heads of its lines, and one table per line with events."""

    lines: list[XLine]
    tables: list[tuple[int, HostColumns]]
    counts: Counts


class PlaneReader:
    """Reads planes of one file into columns over one pool of strings."""

    def __init__(self, buffer: Buffer, pool: StringPool):
        self._buffer = buffer
        self._pool = pool

    def device(self, plane: XPlane, ordinal: int) -> DevicePlane:
        """Streams of a GPU plane. Lines without GPU work are named and left undecoded."""
        values = self.values(plane)
        wanted = stat_ids(self._buffer, plane.stat_metadata, _DEVICE_STATS)
        counts, tables, streams = Counts(), [], {}
        for line, events in self._lines(plane):
            name = self._pool.decode(line.name or line.display_name)
            if role_of_line(name, line.line_id) is not LineRole.STREAM:
                counts.skipped_lines[name] = counts.skipped_lines.get(name, 0) + len(events)
                continue
            streams[line.line_id] = name
            table = decode_events(self._buffer, events, wanted)
            tables.append(_device_columns(table, line, ordinal, values))
            counts.n_aggregated += int(np.count_nonzero(table.aggregated))
        _finish(counts, values)
        device = Device(ordinal, plane.name, self.plane_stats(plane, values), streams)
        return DevicePlane(device, tables, counts)

    def host(self, plane: XPlane) -> HostPlane:
        """Threads of a host plane."""
        values = self.values(plane)
        wanted = stat_ids(self._buffer, plane.stat_metadata, _HOST_STATS)
        counts, tables, lines = Counts(), [], []
        for line, events in self._lines(plane):
            table = decode_events(self._buffer, events, wanted)
            tables.append((len(lines), _host_columns(table, line, values)))
            lines.append(line)
            counts.n_aggregated += int(np.count_nonzero(table.aggregated))
        _finish(counts, values)
        return HostPlane(lines, tables, counts)

    def values(self, plane: XPlane) -> PlaneValues:
        """Names and stat values of a plane."""
        return PlaneValues(self._buffer, plane.event_metadata, plane.stat_metadata, self._pool)

    def plane_stats(self, plane: XPlane, values: PlaneValues) -> dict[str, int | float | str]:
        """A plane's own stats by name, without raw bytes and without stats that have no name."""
        stats: dict[str, int | float | str] = {}
        for span in plane.stats:
            stat = read_stat(self._buffer, span)
            name, value = values.stat_name(stat), values.value(stat)
            if name and value is not None and not isinstance(value, bytes):
                stats[name] = value
        return stats

    def _lines(self, plane: XPlane) -> Iterator[tuple[XLine, list]]:
        for span in plane.lines:
            yield scan_line(self._buffer, span)


def _finish(counts: Counts, values: PlaneValues) -> None:
    counts.n_missing_names = values.n_missing_names
    counts.n_bad_compressed = values.n_bad_compressed


def starts_ps(timestamp_ns: int, offset_ps: I64) -> I64:
    """Event starts; what int64 can't hold becomes the largest int64 (and is judged as such)."""
    base = timestamp_ns * PS_PER_NS
    if not -_TIME_LIMIT_PS <= base <= _TIME_LIMIT_PS:
        return np.full(len(offset_ps), _TIME_LIMIT_PS)
    room = _TIME_LIMIT_PS - abs(base)
    fits = (offset_ps <= room) & (offset_ps >= -room)
    return np.where(fits, offset_ps + np.int64(base) * fits, _TIME_LIMIT_PS)


def _device_columns(
    table: EventTable, line: XLine, ordinal: int, values: PlaneValues
) -> DeviceColumns:
    rows = np.flatnonzero(~table.aggregated)
    count = len(rows)

    def number(name: str) -> I64:
        column = table.stats.get(name)
        return (
            missing_numbers(count) if column is None else values.numbers(column, table.texts)[rows]
        )

    def text(name: str) -> I32:
        column = table.stats.get(name)
        if column is None:
            return missing_texts(count)
        return values.texts(column, table.texts)[rows]

    details = text("kernel_details")
    for name, _ in _HINTS:
        other = text(name)
        details = np.where(other >= 0, other, details)
    return DeviceColumns(
        device=np.full(count, ordinal, dtype=np.int32),
        stream=np.full(count, line.line_id, dtype=np.int64),
        start_ps=starts_ps(line.timestamp_ns, table.offset_ps[rows]),
        duration_ps=table.duration_ps[rows],
        name=values.event_names(table.metadata_id[rows]),
        hint=_hints(table, rows),
        correlation_id=number("correlation_id"),
        program_id=number("program_id"),
        hlo_op=text("hlo_op"),
        hlo_module=text("hlo_module"),
        scope_name=text("scope_name"),
        details=details,
        graph_id=number("graph_id"),
        graph_node_id=number("graph_node_id"),
    )


def _hints(table: EventTable, rows: I64) -> U8:
    """Kind that a details stat proves, NO_HINT where there is none."""
    hint = np.full(len(rows), NO_HINT, dtype=np.uint8)
    for name, kind in _HINTS:
        column = table.stats.get(name)
        if column is not None:
            hint[column.field[rows] != 0] = kind
    return hint


def _host_columns(table: EventTable, line: XLine, values: PlaneValues) -> HostColumns:
    rows = np.flatnonzero(~table.aggregated)
    count = len(rows)

    def number(name: str) -> I64:
        column = table.stats.get(name)
        return (
            missing_numbers(count) if column is None else values.numbers(column, table.texts)[rows]
        )

    hlo_op = table.stats.get("hlo_op")
    return HostColumns(
        thread=np.zeros(count, dtype=np.int32),
        start_ps=starts_ps(line.timestamp_ns, table.offset_ps[rows]),
        duration_ps=table.duration_ps[rows],
        name=values.event_names(table.metadata_id[rows]),
        correlation_id=number("correlation_id"),
        device_id=number("device_id"),
        program_id=number("program_id"),
        hlo_op=missing_texts(count) if hlo_op is None else values.texts(hlo_op, table.texts)[rows],
        step_num=number("step_num"),
    )
