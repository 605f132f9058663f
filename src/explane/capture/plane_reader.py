"""Lines of a device plane or a host plane to columns.

Events without an own start (`num_occurrences`, aggregated) are counted and left out: they say how
often something happened, not when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

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
from explane.capture.growing import GrowingTable
from explane.capture.layouts import Layout
from explane.capture.model import I32, I64, U8, Device, Kind, Thread
from explane.capture.options import ReadOptions
from explane.capture.planes import XLine, XPlane, read_stat
from explane.capture.stats import PlaneValues, stat_ids
from explane.capture.wire import Buffer, WireError
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


class PlaneReader:
    """Reads planes of one file into growing tables over one pool of strings.

    Attributes:
        devices: Events of all GPU streams so far.
        called: Launches of all host threads so far.
        others: Other host events so far.
        threads: Host threads so far.
        counts: What was met so far.
    """

    def __init__(self, buffer: Buffer, pool: StringPool, options: ReadOptions):
        self.devices = GrowingTable(DeviceColumns)
        self.called = GrowingTable(HostColumns)
        self.others = GrowingTable(HostColumns)
        self.threads: list[Thread] = []
        self.counts = Counts()
        self._thread_of: dict[tuple[int, str], int] = {}
        self._buffer = buffer
        self._pool = pool
        self._options = options
        self._layouts: dict[frozenset[tuple[int, str]], dict[int, list[Layout]]] = {}

    def read_device(self, plane: XPlane, ordinal: int) -> Device:
        """Add the streams of a GPU plane. Lines without GPU work are named and left undecoded.

        Raises:
            WireError: The plane is damaged; nothing of it was added.
        """
        values = self.values(plane)
        wanted = self._wanted(plane, _DEVICE_STATS)
        counts, streams = Counts(), {}
        with _all_or_nothing(self.devices):
            for span in plane.lines:
                line, position = read_head(self._buffer, span)
                name = self._pool.decode(line.name or line.display_name)
                if role_of_line(name, line.line_id) is not LineRole.STREAM:
                    counts.skipped_lines.append(name)
                    continue
                first = len(self.devices)
                for table in event_tables(self._buffer, line, position, wanted):
                    self.devices.append(_device_columns(table, ordinal, values))
                    counts.n_aggregated += int(np.count_nonzero(table.aggregated))
                streams[line.line_id] = name
                self.devices.fill("stream", first, line.line_id)
                _from_start(self.devices, first, line)
            stats = self.plane_stats(plane, values)
        self._count(counts, values)
        return Device(ordinal, plane.name, stats, streams)

    def read_host(self, plane: XPlane) -> None:
        """Add the threads of a host plane, as far as the options want their events.

        Raises:
            WireError: The plane is damaged; nothing of it was added.
        """
        values = self.values(plane)
        wanted = self._host_wanted(plane)
        tables = (self.called, self.others)
        counts = Counts()
        with _all_or_nothing(*tables):
            for span in plane.lines:
                line, position = read_head(self._buffer, span)
                firsts = [len(table) for table in tables]
                for events in event_tables(self._buffer, line, position, wanted):
                    for table, part in zip(tables, _host_parts(events, values), strict=True):
                        table.append(part)
                    counts.n_aggregated += int(np.count_nonzero(events.aggregated))
                    counts.n_python_events += events.n_skipped
                thread = self._thread(line)
                for table, first in zip(tables, firsts, strict=True):
                    _from_start(table, first, line)
                    table.fill("thread", first, thread)
        self._count(counts, values)

    def _thread(self, line: XLine) -> int:
        """Index of a line's thread: lines with one id are one thread, whatever plane has them."""
        name = self._pool.decode(line.name or line.display_name)
        key = (line.line_id, "" if line.line_id else name)
        if key not in self._thread_of:
            self._thread_of[key] = len(self.threads)
            self.threads.append(Thread(line.line_id, name))
        return self._thread_of[key]

    def _count(self, counts: Counts, values: PlaneValues) -> None:
        counts.n_missing_names = values.n_missing_names
        counts.n_bad_compressed = values.n_bad_compressed
        self.counts.add(counts)

    def _host_wanted(self, plane: XPlane) -> Wanted:
        wanted = self._wanted(plane, _HOST_STATS)
        if not self._options.host_events:
            wanted = replace(wanted, required="correlation_id")
        if not (self._options.host_events and self._options.python_events):
            wanted = replace(wanted, skip_ids=self._python_ids(plane))
        return wanted

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


@contextmanager
def _all_or_nothing(*tables: GrowingTable[Any]) -> Iterator[None]:
    """Take back what was added when a plane turns out to be damaged."""
    counts = [len(table) for table in tables]
    try:
        yield
    except WireError:
        for table, count in zip(tables, counts, strict=True):
            table.truncate(count)
        raise


def _from_start(table: GrowingTable[Any], first: int, line: XLine) -> None:
    """Count the starts of rows from `first` on from the session instead of the line.

    What int64 can't hold becomes the largest int64, which the time rule then rejects.
    """
    if first == len(table):
        return
    starts = table.rows("start_ps", first)
    base = line.timestamp_ns * PS_PER_NS
    room = _TIME_LIMIT_PS - abs(base)
    if room < 0:
        starts[:] = _TIME_LIMIT_PS
        return
    beyond = np.flatnonzero((starts > room) | (starts < -room))
    starts[beyond] = 0
    starts += base
    starts[beyond] = _TIME_LIMIT_PS


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


def _host_parts(table: EventTable, values: PlaneValues) -> tuple[HostColumns, HostColumns]:
    """Launches and other events of a table."""
    rows = np.flatnonzero(~table.aggregated)
    return split_host(_host_columns(table, rows, values))


def _host_columns(table: EventTable, rows: I64, values: PlaneValues) -> HostColumns:
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
