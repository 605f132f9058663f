"""Plane tables to the bytes of an XSpace (tsl/profiler/protobuf/xplane.proto)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from explane.capture.model import I64, MISSING, StoredProgram
from explane.synth.tables import Events, LineSpec, PlaneTable, Stat, Template, Text, Unsigned
from explane.synth.wire import (
    FIXED64,
    Columns,
    bytes_field,
    int_field,
    varint,
    varint_lengths,
)

_CORRELATION = "correlation_id"
_HLO = "Hlo Proto"
_CHUNK = 1 << 18
_LINE_EVENTS, _EVENT_STATS = 4, 4


def encode_space(
    planes: Iterable[PlaneTable], host: str, warnings: Sequence[str] = ()
) -> Iterator[bytes]:
    """The parts of a serialised XSpace, to be written one after the other."""
    for plane in planes:
        parts = list(_PlaneEncoder(plane).parts())
        yield varint(1 << 3 | 2) + varint(sum(map(len, parts)))
        yield from parts
    for text in warnings:
        yield bytes_field(3, text)
    yield bytes_field(4, host)


class _PlaneEncoder:
    """Gives numbers to names while a plane is encoded."""

    def __init__(self, plane: PlaneTable) -> None:
        self._plane = plane
        self._names: dict[str, int] = {}
        self._stats: dict[str, int] = {}

    def parts(self) -> Iterator[bytes]:
        """The plane's fields: id, name, lines, metadata of events and stats, stats."""
        plane = self._plane
        yield int_field(1, plane.plane_id) + bytes_field(2, plane.name)
        if plane.events is not None:
            yield from self._lines(plane.events)
        for program in plane.modules:
            yield bytes_field(4, self._module(program))
        for name, number in self._names.items():
            yield bytes_field(4, _entry(number, int_field(1, number) + bytes_field(2, name)))
        stats = [self._stat(key, value, own_text=True) for key, value in plane.stats.items()]
        for name, number in self._stats.items():
            yield bytes_field(5, _entry(number, int_field(1, number) + bytes_field(2, name)))
        for stat in stats:
            yield bytes_field(6, stat)

    def _lines(self, events: Events) -> Iterator[bytes]:
        base_ns = int(events.start_ps.min()) // 1000 if len(events) else 0
        templates = [_Encoded(self, template) for template in self._plane.templates]
        bounds = np.searchsorted(events.line, np.arange(len(self._plane.lines) + 1))
        for index, line in enumerate(self._plane.lines):
            begin, end = int(bounds[index]), int(bounds[index + 1])
            chunks = [
                self._events(events, slice(at, min(at + _CHUNK, end)), templates, base_ns)
                for at in range(begin, end, _CHUNK)
            ]
            head, tail = _line_fields(line, base_ns)
            size = len(head) + sum(map(len, chunks)) + len(tail)
            yield varint(3 << 3 | 2) + varint(size) + head
            yield from chunks
            yield tail

    def _events(
        self, events: Events, rows: slice, templates: Sequence[_Encoded], base_ns: int
    ) -> bytes:
        codes = events.template[rows]
        columns = Columns(len(codes))
        columns.add_bytes(codes, [t.head for t in templates])
        columns.add_varints(events.start_ps[rows] - base_ns * 1000)
        columns.add_constant(varint(3 << 3))
        columns.add_varints(events.duration_ps[rows])
        columns.add_bytes(codes, [t.before for t in templates])
        self._add_number(columns, events.correlation_id[rows], self.stat_id(_CORRELATION), 3)
        columns.add_bytes(codes, [t.after for t in templates])
        for key in sorted({t.number_key for t in templates if t.number_key}):
            keyed = np.array([t.number_key == key for t in templates], dtype=np.bool_)
            numbers = np.where(keyed[codes], events.number[rows], MISSING)
            self._add_number(columns, numbers, self.stat_id(key), 4)
        return columns.delimited(_LINE_EVENTS).tobytes()

    @staticmethod
    def _add_number(columns: Columns, values: I64, stat_id: int, field: int) -> None:
        """A stat whose value differs per row; rows with MISSING have none."""
        which = values != MISSING
        head = int_field(1, stat_id) + varint(field << 3)
        present = np.where(which, values, 0)
        columns.add_constant(varint(_EVENT_STATS << 3 | 2), which)
        columns.add_varints(varint_lengths(present) + len(head), which)
        columns.add_constant(head, which)
        columns.add_varints(present, which)

    def name_id(self, name: str) -> int:
        """Number of an event name."""
        return self._names.setdefault(name, len(self._names) + 1)

    def stat_id(self, name: str) -> int:
        """Number of a stat name or of an interned text."""
        return self._stats.setdefault(name, len(self._stats) + 1)

    def stats(self, stats: Iterable[Stat]) -> bytes:
        """Stats of an event, as its fields."""
        return b"".join(bytes_field(_EVENT_STATS, self._stat(key, value)) for key, value in stats)

    def _stat(self, key: str, value: object, *, own_text: bool = False) -> bytes:
        head = int_field(1, self.stat_id(key))
        if isinstance(value, Unsigned):
            return head + int_field(3, value.value)
        if isinstance(value, float):
            return head + varint(2 << 3 | FIXED64) + struct.pack("<d", value)
        if isinstance(value, int):
            return head + int_field(4, value)
        if isinstance(value, Text):
            return head + bytes_field(5, value.value)
        text = str(value)
        return head + (bytes_field(5, text) if own_text else int_field(7, self.stat_id(text)))

    def _module(self, program: StoredProgram) -> bytes:
        stat = int_field(1, self.stat_id(_HLO)) + bytes_field(6, program.hlo_proto)
        body = int_field(1, program.program_id) + bytes_field(2, program.name)
        return _entry(program.program_id, body + bytes_field(5, stat))


class _Encoded:
    """The constant bytes of a template."""

    def __init__(self, encoder: _PlaneEncoder, template: Template) -> None:
        self.head = int_field(1, encoder.name_id(template.name)) + varint(2 << 3)
        self.before = encoder.stats(template.before)
        self.after = encoder.stats(template.after)
        self.number_key = template.number_key


def _line_fields(line: LineSpec, base_ns: int) -> tuple[bytes, bytes]:
    head = int_field(1, line.line_id) + bytes_field(2, line.name) + int_field(3, base_ns)
    return head, bytes_field(11, line.display_name) if line.display_name else b""


def _entry(key: int, value: bytes) -> bytes:
    return int_field(1, key) + bytes_field(2, value)
