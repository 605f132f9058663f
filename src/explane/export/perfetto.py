"""A Perfetto trace of an investigation, for https://ui.perfetto.dev.

The trace is a sequence of TracePackets with TrackEvents; texts are interned. It is written in
pieces of some thousand slices, so that a capture of millions of kernels needs no more memory.

Viewers count in nanoseconds: begin and end are both rounded down, so that slices which follow one
another still do. The picoseconds stand beside, as arguments `start_ps` and `duration_ps`.
https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import polars as pl

from explane.analysis.investigation import Investigation
from explane.capture.model import I64, Bools
from explane.export import protobuf
from explane.export.columns import Part, fields, joined, little_endian, message, padded_varints
from explane.export.interning import (
    ARGUMENT_NAME,
    ARGUMENT_TEXT,
    CATEGORY,
    EVENT_NAME,
    Interner,
)
from explane.export.lanes import lanes
from explane.export.slices import Slices
from explane.export.timeline import timeline
from explane.export.tracks import TrackTree
from explane.units import PS_PER_NS

_ROWS_PER_PIECE: Final = 16_384

# Field numbers: Trace, TracePacket, TrackEvent, DebugAnnotation.
_PACKET: Final = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_CATEGORIES, _ARGUMENTS, _TYPE, _NAME, _TRACK, _FLOWS = 3, 4, 9, 10, 11, 47
_ARGUMENT_NAME, _INTEGER_VALUE, _TEXT_VALUE = 1, 4, 17
_BEGIN, _END = 1, 2
_CLEARS_STATE, _NEEDS_STATE = 1, 2

_SEQUENCE_ID: Final = protobuf.integer(_SEQUENCE, 1)
_NEEDS: Final = _SEQUENCE_ID + protobuf.integer(_FLAGS, _NEEDS_STATE)


def write_perfetto(investigation: Investigation, stream: BinaryIO) -> tuple[str, ...]:
    """Writes the timeline of an investigation.

    Args:
        investigation: All results.
        stream: Where to.

    Returns:
        What must be known of the trace, one line each.

    Raises:
        OSError: When the stream can't be written.
    """
    parts = timeline(investigation)
    first_ps = min((int(part.start_ps.min()) for part in parts), default=0)
    writer = _Writer(stream, min(first_ps, 0))
    writer.begin()
    n_left_out = sum(writer.write(part) for part in parts)
    return tuple(_remarks(investigation, n_left_out))


def _remarks(investigation: Investigation, n_left_out: int) -> Iterator[str]:
    n_false = int((~investigation.tables["kernels"]["time_ok"]).sum())
    if n_false:
        yield f"{n_false} kernels whose times can't be true are not in the trace"
    if n_left_out:
        yield f"{n_left_out} events are not in the trace: too many lie upon each other"
    if len(investigation.hosts) > 1:
        yield "each host has a clock of its own: their tracks are not aligned"


class _Writer:
    """Writes packets of one sequence; what it knows is what was named before."""

    def __init__(self, stream: BinaryIO, origin_ps: int):
        self._stream = stream
        self._origin_ps = origin_ps
        self._tracks = TrackTree()
        self._interner = Interner()

    def begin(self) -> None:
        """Says that nothing is known yet."""
        cleared = protobuf.integer(_FLAGS, _CLEARS_STATE)
        self._stream.write(protobuf.content(_PACKET, _SEQUENCE_ID, cleared))

    def write(self, slices: Slices) -> int:
        """Writes slices with the tracks and texts that they need; how many were left out."""
        rows = np.lexsort((-slices.duration_ps, slices.start_ps, slices.place))
        ordered = slices.at(rows)
        lane = lanes(ordered.place, ordered.start_ps, ordered.end_ps)
        order = np.lexsort((np.arange(len(lane)), lane, ordered.place))
        order = order[lane[order] >= 0]
        ordered, lane = ordered.at(order), lane[order]
        coded = self._coded(ordered, lane)
        self._write_packets(_DESCRIPTOR, self._tracks.take_unwritten())
        self._write_packets(_INTERNED, self._interner.take_unwritten())
        first_flow = np.cumsum(ordered.n_flows) - ordered.n_flows
        for first in range(0, len(ordered), _ROWS_PER_PIECE):
            piece = slice(first, first + _ROWS_PER_PIECE)
            n_flows = ordered.n_flows[piece]
            flows = ordered.flows[first_flow[first] :][: int(n_flows.sum())]
            self._stream.write(joined(_events(coded.rows(piece), flows, n_flows)))
        return len(rows) - len(order)

    def _write_packets(self, number: int, contents: Iterable[bytes]) -> None:
        for content in contents:
            packet = (_NEEDS, protobuf.content(number, content))
            self._stream.write(protobuf.content(_PACKET, *packet))

    def _track_numbers(self, slices: Slices, lane: I64) -> I64:
        pairs, inverse = np.unique(np.stack([slices.place, lane]), axis=1, return_inverse=True)
        numbers = [
            self._tracks.number(slices.places[place], lane) for place, lane in pairs.T.tolist()
        ]
        return np.array(numbers, np.int64)[inverse.reshape(-1)]

    def _coded(self, slices: Slices, lane: I64) -> _Coded:
        """Slices with numbers in the place of texts and tracks."""
        start_ns = (slices.start_ps - self._origin_ps) // PS_PER_NS
        return _Coded(
            start_ns=start_ns,
            end_ns=(slices.end_ps - self._origin_ps) // PS_PER_NS,
            track=self._track_numbers(slices, lane),
            category=self._interner.numbers(CATEGORY, slices.category),
            name=self._interner.numbers(EVENT_NAME, slices.name),
            arguments=tuple(self._arguments(slices.arguments)),
        )

    def _arguments(self, frame: pl.DataFrame) -> Iterator[_Argument]:
        for column in frame.iter_columns():
            present = column.is_not_null().to_numpy()
            if not present.any():
                continue
            name = self._interner.number(ARGUMENT_NAME, column.name)
            if column.dtype == pl.String:
                codes = self._interner.numbers(ARGUMENT_TEXT, column)
                yield _Argument(name, _TEXT_VALUE, codes, present)
            else:
                values = column.fill_null(0).cast(pl.Int64).to_numpy()
                yield _Argument(name, _INTEGER_VALUE, values, present)


@dataclass(frozen=True, slots=True)
class _Argument:
    """A DebugAnnotation of every slice that has a value: interned name, field, values."""

    name: int
    number: int
    values: I64
    present: Bools


@dataclass(frozen=True, slots=True)
class _Coded:
    """Slices as numbers only; columns have one entry per slice."""

    start_ns: I64
    end_ns: I64
    track: I64
    category: I64
    name: I64
    arguments: tuple[_Argument, ...]

    def rows(self, piece: slice) -> _Coded:
        """Some slices in a row."""
        return _Coded(
            self.start_ns[piece],
            self.end_ns[piece],
            self.track[piece],
            self.category[piece],
            self.name[piece],
            tuple(
                _Argument(a.name, a.number, a.values[piece], a.present[piece])
                for a in self.arguments
            ),
        )


def _events(coded: _Coded, flows: I64, n_flows: I64) -> list[Part]:
    """A begin and an end for each slice, as parts of a row."""
    n = len(coded.track)
    track_field = (protobuf.tag(_TRACK, protobuf.VARINT), padded_varints(coded.track))
    begin = [
        fields(n, protobuf.integer(_TYPE, _BEGIN), *track_field),
        _number(_CATEGORIES, coded.category),
        _number(_NAME, coded.name),
        _flows(flows, n_flows),
        *(_annotation(argument) for argument in coded.arguments),
    ]
    end = [fields(n, protobuf.integer(_TYPE, _END), *track_field)]
    return [*_packets(coded.start_ns, begin), *_packets(coded.end_ns, end)]


def _packets(time_ns: I64, event: list[Part]) -> list[Part]:
    tag = protobuf.tag(_TIMESTAMP, protobuf.VARINT)
    head = fields(len(time_ns), tag, padded_varints(time_ns), _NEEDS)
    return message(_PACKET, [head, *message(_TRACK_EVENT, event)])


def _number(number: int, values: I64) -> Part:
    tag = protobuf.tag(number, protobuf.VARINT)
    return fields(len(values), tag, padded_varints(values), present=values > 0)


def _annotation(argument: _Argument) -> Part:
    named = protobuf.integer(_ARGUMENT_NAME, argument.name)
    value = padded_varints(argument.values)
    body = (named, protobuf.tag(argument.number, protobuf.VARINT), value)
    size = sum(len(item) if isinstance(item, bytes) else item.shape[1] for item in body)
    head = protobuf.tag(_ARGUMENTS, protobuf.LENGTH) + protobuf.varint(size)
    return fields(len(value), head, *body, present=argument.present)


def _flows(flows: I64, n_flows: I64) -> Part:
    """The arrows of each row, as repeated fixed64."""
    tag = protobuf.tag(_FLOWS, protobuf.FIXED64)
    each = fields(len(flows), tag, little_endian(flows))
    return Part(each.data, n_flows * (len(tag) + 8))
