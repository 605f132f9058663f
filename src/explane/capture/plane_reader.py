"""Device planes and host planes of one file into growing tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from explane.capture.assemble import DeviceColumns, HostColumns, StringPool, take
from explane.capture.classify import LineRole, is_python_event, role_of_line
from explane.capture.event_columns import (
    DEVICE_STATS,
    HOST_STATS,
    Places,
    device_columns,
    host_columns,
    place,
)
from explane.capture.events import Wanted
from explane.capture.growing import GrowingTable, is_constant
from explane.capture.layouts import Layout
from explane.capture.lines import event_tables, read_head
from explane.capture.model import I64, Device, Thread
from explane.capture.options import ReadOptions
from explane.capture.planes import XLine, XPlane, read_stat
from explane.capture.short_events import ShortEvents
from explane.capture.stats import PlaneValues, stat_ids
from explane.capture.wire import Buffer, WireError


@dataclass(slots=True)
class Counts:
    """What was met while reading planes, for notes."""

    n_aggregated: int = 0
    n_missing_names: int = 0
    n_bad_compressed: int = 0
    n_left_out: int = 0
    n_python_events: int = 0
    skipped_lines: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        """Add the counts of another plane."""
        self.n_aggregated += other.n_aggregated
        self.n_missing_names += other.n_missing_names
        self.n_bad_compressed += other.n_bad_compressed
        self.n_left_out += other.n_left_out
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
        epoch_ns: Taken from the timestamps of lines that count from the epoch; 0 for none.
    """

    def __init__(self, buffer: Buffer, pool: StringPool, options: ReadOptions):
        self.devices = GrowingTable(DeviceColumns)
        self.called = GrowingTable(HostColumns)
        self.others = GrowingTable(HostColumns)
        self.threads: list[Thread] = []
        self.counts = Counts()
        self.epoch_ns = 0
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
        names = self._unlabelled(DEVICE_STATS, "scope_name", "kernel_details")
        wanted = self._wanted(plane, names)
        counts, lines = Counts(), self._streams(plane)
        first = len(self.devices)
        with _all_or_nothing(self.devices):
            for table in event_tables(self._buffer, lines, wanted):
                self.devices.append(device_columns(table, ordinal, values))
                counts.n_aggregated += int(np.count_nonzero(table.aggregated))
            place(self.devices, first, self._places("stream", lines))
            stats = self.plane_stats(plane, values)
        self._count(counts, values)
        streams = {line.line_id: self._name(line) for line in lines}
        return Device(ordinal, plane.name, stats, streams)

    def _streams(self, plane: XPlane) -> list[XLine]:
        """Lines of a GPU plane that hold work; the others are named in `counts`."""
        lines = [read_head(self._buffer, span) for span in plane.lines]
        roles = [role_of_line(self._name(line), line.line_id) for line in lines]
        is_stream = [role is LineRole.STREAM for role in roles]
        self.counts.skipped_lines += [
            self._name(line) for line, kept in zip(lines, is_stream, strict=True) if not kept
        ]
        return [line for line, kept in zip(lines, is_stream, strict=True) if kept]

    def read_host(self, plane: XPlane) -> None:
        """Add the threads of a host plane, as far as the options want their events.

        Raises:
            WireError: The plane is damaged; nothing of it was added.
        """
        values = self.values(plane)
        wanted = self._host_wanted(plane)
        tables = (self.called, self.others)
        counts, firsts = Counts(), [len(table) for table in tables]
        short = None if self._options.short_events else ShortEvents(self._pool.strings)
        with _all_or_nothing(*tables):
            lines = [read_head(self._buffer, span) for span in plane.lines]
            for events in event_tables(self._buffer, lines, wanted):
                called, others = host_columns(events, values)
                self.called.append(called)
                self.others.append(self._without(short, others, counts) if short else others)
                counts.n_aggregated += int(np.count_nonzero(events.aggregated))
                counts.n_left_out += events.n_skipped + events.n_without
                counts.n_python_events += events.n_skipped
            places = self._places("thread", lines)
            for table, first in zip(tables, firsts, strict=True):
                place(table, first, places)
        self._count(counts, values)

    def _without(self, short: ShortEvents, host: HostColumns, counts: Counts) -> HostColumns:
        """A block of a long line without events that are too short; other blocks as they are.

        What is left is looked at once more when all is sorted: this only saves memory on the way.
        """
        if not is_constant(host.thread):
            return host
        columns = (host.start_ps, host.duration_ps, host.name, host.step_num)
        stays = short.kept(int(host.thread[0]), *columns)
        gone = np.bincount(host.name[~stays])
        if not len(gone):
            return host
        codes = np.flatnonzero(gone).tolist()
        python = [code for code in codes if is_python_event(self._pool.strings[code])]
        counts.n_left_out += int(gone.sum())
        counts.n_python_events += int(gone[python].sum())
        return take(host, np.flatnonzero(stays))

    def timestamps_ns(self, plane: XPlane) -> list[int]:
        """Start of each line as stored, as far as it stands before the events.

        Damage is left for the reading of the plane to find.
        """
        try:
            return [read_head(self._buffer, span).timestamp_ns for span in plane.lines]
        except WireError:
            return []

    def _places(self, column: str, lines: list[XLine]) -> Places:
        """Id and start of each line, by its number."""
        is_thread = column == "thread"
        ids = [self._thread(line) if is_thread else line.line_id for line in lines]
        starts = [line.timestamp_ns for line in lines]
        return Places.of(column, ids, starts, self.epoch_ns)

    def _name(self, line: XLine) -> str:
        return self._pool.decode(line.name or line.display_name)

    def _thread(self, line: XLine) -> int:
        """Index of a line's thread: lines with one id are one thread, whatever plane has them."""
        name = self._name(line)
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
        wanted = self._wanted(plane, self._unlabelled(HOST_STATS, "program_id", "hlo_op"))
        if not self._options.host_events:
            wanted = replace(wanted, required="correlation_id")
        if not (self._options.host_events and self._options.python_events):
            wanted = replace(wanted, skip_ids=self._python_ids(plane))
        return wanted

    def _unlabelled(self, stats: Mapping[str, str], *labels: str) -> Mapping[str, str]:
        """Stats to decode, without some where the options leave labels out."""
        if self._options.labels:
            return stats
        return {stat: name for stat, name in stats.items() if name not in labels}

    def _wanted(self, plane: XPlane, names: Mapping[str, str]) -> Wanted:
        """What to decode; planes that give their stats the same ids share what was learnt."""
        stats = stat_ids(self._buffer, plane.stat_metadata, names)
        layouts = self._layouts.setdefault(frozenset(stats.items()), {})
        return Wanted(stats, layouts=layouts, progress=self._options.progress)

    def _python_ids(self, plane: XPlane) -> I64:
        """Metadata ids of the Python tracer's events, sorted."""
        table = plane.event_metadata
        named = np.flatnonzero(table.name_start < table.name_end)
        first = np.frombuffer(self._buffer, dtype=np.uint8)[table.name_start[named]]
        keys: I64 = table.keys[named[first == ord("$")]]
        return keys

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
