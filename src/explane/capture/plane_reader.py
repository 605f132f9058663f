"""Lines of a device plane or a host plane to columns.

Events without an own start (`num_occurrences`, aggregated) are counted and left out: they say how
often something happened, not when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np

from explane.capture.assemble import (
    NO_HINT,
    DeviceColumns,
    HostColumns,
    StringPool,
    missing_numbers,
    missing_texts,
    split_host,
)
from explane.capture.classify import LineRole, role_of_line
from explane.capture.events import EventTable, Wanted, event_tables, read_head
from explane.capture.layouts import Layout
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
    n_python_events: int = 0
    skipped_lines: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        """Add the counts of another plane."""
        self.n_aggregated += other.n_aggregated
        self.n_missing_names += other.n_missing_names
        self.n_bad_compressed += other.n_bad_compressed
        self.n_python_events += other.n_python_events
        self.skipped_lines += other.skipped_lines


@dataclass(frozen=True, slots=True)
class DevicePlane:
    """One `/device:GPU:N` plane."""

    device: Device
    tables: list[DeviceColumns]
    counts: Counts


@dataclass(frozen=True, slots=True)
class HostPlane:
    """One host plane.

    Attributes:
        lines: Heads of its lines.
        called: Launches, each table with the position of its line.
        others: Other events, likewise.
    """

    lines: list[XLine]
    called: list[tuple[int, HostColumns]]
    others: list[tuple[int, HostColumns]]
    counts: Counts


class PlaneReader:
    """Reads planes of one file into columns over one pool of strings."""

    def __init__(self, buffer: Buffer, pool: StringPool):
        self._buffer = buffer
        self._pool = pool
        self._layouts: dict[frozenset[tuple[int, str]], dict[int, list[Layout]]] = {}

    def device(self, plane: XPlane, ordinal: int) -> DevicePlane:
        """Streams of a GPU plane. Lines without GPU work are named and left undecoded."""
        values = self.values(plane)
        wanted = self._wanted(plane, _DEVICE_STATS)
        counts, tables, streams = Counts(), [], {}
        for span in plane.lines:
            line, first = read_head(self._buffer, span)
            name = self._pool.decode(line.name or line.display_name)
            if role_of_line(name, line.line_id) is not LineRole.STREAM:
                counts.skipped_lines.append(name)
                continue
            streams[line.line_id] = name
            parts = []
            for table in event_tables(self._buffer, line, first, wanted):
                parts.append(_device_columns(table, ordinal, values))
                counts.n_aggregated += int(np.count_nonzero(table.aggregated))
            tables += [_on_stream(_from_start(part, line), line.line_id) for part in parts]
        _finish(counts, values)
        device = Device(ordinal, plane.name, self.plane_stats(plane, values), streams)
        return DevicePlane(device, tables, counts)

    def host(self, plane: XPlane, *, python_events: bool) -> HostPlane:
        """Threads of a host plane; without python events they are only counted."""
        values = self.values(plane)
        wanted = self._wanted(plane, _HOST_STATS)
        if not python_events:
            wanted = replace(wanted, skip_ids=self._python_ids(plane))
        read = HostPlane([], [], [], Counts())
        for span in plane.lines:
            line, first = read_head(self._buffer, span)
            parts = []
            for table in event_tables(self._buffer, line, first, wanted):
                parts.append(split_host(_host_columns(table, values)))
                read.counts.n_aggregated += int(np.count_nonzero(table.aggregated))
                read.counts.n_python_events += table.n_skipped
            at = len(read.lines)
            read.called.extend((at, _from_start(called, line)) for called, _ in parts)
            read.others.extend((at, _from_start(others, line)) for _, others in parts)
            read.lines.append(line)
        _finish(read.counts, values)
        return read

    def _wanted(self, plane: XPlane, names: Mapping[str, str]) -> Wanted:
        """What to decode; planes that give their stats the same ids share what was learnt."""
        stats = stat_ids(self._buffer, plane.stat_metadata, names)
        return Wanted(stats, layouts=self._layouts.setdefault(frozenset(stats.items()), {}))

    def _python_ids(self, plane: XPlane) -> I64:
        """Metadata ids of the Python tracer's events, sorted."""
        table = plane.event_metadata
        named = np.flatnonzero(table.name_start < table.name_end)
        first = np.frombuffer(self._buffer, dtype=np.uint8)[table.name_start[named]]
        return table.keys[named[first == ord("$")]]

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


def _finish(counts: Counts, values: PlaneValues) -> None:
    counts.n_missing_names = values.n_missing_names
    counts.n_bad_compressed = values.n_bad_compressed


_Table = TypeVar("_Table", DeviceColumns, HostColumns)


def _from_start(table: _Table, line: XLine) -> _Table:
    """Starts counted from the session instead of the line.

    What int64 can't hold becomes the largest int64, which the time rule then rejects.
    """
    base, offset = line.timestamp_ns * PS_PER_NS, table.start_ps
    room = _TIME_LIMIT_PS - abs(base)
    if room < 0:
        return replace(table, start_ps=np.full_like(offset, _TIME_LIMIT_PS))
    if len(offset) and (int(offset.max()) > room or int(offset.min()) < -room):
        fits = (offset <= room) & (offset >= -room)
        return replace(table, start_ps=np.where(fits, offset + base * fits, _TIME_LIMIT_PS))
    offset += base
    return table


def _on_stream(table: DeviceColumns, line_id: int) -> DeviceColumns:
    return replace(table, stream=np.broadcast_to(np.int64(line_id), len(table.name)))


def _device_columns(table: EventTable, ordinal: int, values: PlaneValues) -> DeviceColumns:
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
        device=np.broadcast_to(np.int32(ordinal), count),
        stream=missing_numbers(count),
        start_ps=table.offset_ps[rows],
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


def _host_columns(table: EventTable, values: PlaneValues) -> HostColumns:
    rows = np.flatnonzero(~table.aggregated)
    count = len(rows)

    def number(name: str) -> I64:
        column = table.stats.get(name)
        return (
            missing_numbers(count) if column is None else values.numbers(column, table.texts)[rows]
        )

    hlo_op = table.stats.get("hlo_op")
    return HostColumns(
        thread=np.broadcast_to(np.int32(0), count),
        start_ps=table.offset_ps[rows],
        duration_ps=table.duration_ps[rows],
        name=values.event_names(table.metadata_id[rows]),
        correlation_id=number("correlation_id"),
        device_id=number("device_id"),
        program_id=number("program_id"),
        hlo_op=missing_texts(count) if hlo_op is None else values.texts(hlo_op, table.texts)[rows],
        step_num=number("step_num"),
    )
