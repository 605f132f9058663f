"""XSpace and XPlane by their length fields: what a file holds and where, events undecoded.

Field numbers are those of tsl/profiler/protobuf/xplane.proto. Only fields of which a plane holds
few are decoded here; lines are left as spans for `events`. Anything that is damaged raises
`WireError` with the byte offset.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from explane.capture.metadata import MetadataReader, MetadataTable
from explane.capture.wire import (
    FIXED64,
    LENGTH,
    VARINT,
    Buffer,
    Span,
    WireError,
    fields,
    signed,
)

DOUBLE: Final = 2
UINT64: Final = 3
INT64: Final = 4
STR: Final = 5
BYTES: Final = 6
REF: Final = 7
COMPRESSED: Final = 8
#: Wire type of each member; a field that is stored otherwise is unknown and skipped.
STAT_WIRES: Final = {
    DOUBLE: FIXED64,
    UINT64: VARINT,
    INT64: VARINT,
    STR: LENGTH,
    BYTES: LENGTH,
    REF: VARINT,
    COMPRESSED: LENGTH,
}

_MAX_EXPANDED_BYTES: Final = 64 << 20


class RawStat(NamedTuple):
    """An XStat as stored.

    Attributes:
        metadata_id: Key into the plane's stat_metadata.
        field: Which member of the oneof is set (DOUBLE … COMPRESSED), 0 for none.
        value: Unsigned 64 bits for numbers and references, bytes for the rest.
    """

    metadata_id: int
    field: int
    value: int | bytes


@dataclass(slots=True)
class XPlane:
    """One plane, its lines and stats undecoded.

    Attributes:
        lines: Spans of XLine messages.
        stats: Spans of the plane's own XStats.
    """

    span: Span
    plane_id: int = 0
    name: str = ""
    lines: list[Span] = field(default_factory=list)
    event_metadata: MetadataTable = field(default_factory=MetadataTable.empty)
    stat_metadata: MetadataTable = field(default_factory=MetadataTable.empty)
    stats: list[Span] = field(default_factory=list)


@dataclass(slots=True)
class XLine:
    """The head of one line.

    Attributes:
        span: The message; its events are the fields 4.
        first_event: Where they begin in the file.
    """

    span: Span
    line_id: int = 0
    name: bytes = b""
    display_name: bytes = b""
    timestamp_ns: int = 0
    first_event: int = 0


@dataclass(slots=True)
class XSpace:
    """The top level of a file.

    Attributes:
        planes: Spans of complete planes.
        damage: Where and why the top level ended early, or None.
    """

    planes: list[Span] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)
    warnings: list[bytes] = field(default_factory=list)
    hostnames: list[bytes] = field(default_factory=list)
    damage: WireError | None = None


def scan_space(buffer: Buffer, size: int) -> XSpace:
    """Find all complete planes of a file; damage ends the scan and is kept in the result."""
    space = XSpace()
    texts = {2: space.errors, 3: space.warnings, 4: space.hostnames}
    try:
        for item in fields(buffer, 0, size):
            if item.wire != LENGTH:
                continue
            if item.number == 1:
                space.planes.append(Span(item.start, item.end))
            elif item.number in texts:
                texts[item.number].append(bytes(buffer[item.start : item.end]))
    except WireError as damage:
        space.damage = damage
    return space


def plane_name(buffer: Buffer, span: Span) -> bytes:
    """Name of a plane without reading more of it than needed."""
    for item in fields(buffer, span.start, span.end):
        if item.number == 2 and item.wire == LENGTH:
            return bytes(buffer[item.start : item.end])
    return b""


def scan_plane(buffer: Buffer, span: Span, name: str) -> XPlane:
    """Everything of a plane but its events."""
    plane = XPlane(span, name=name)
    maps = {4: MetadataReader(buffer, 4), 5: MetadataReader(buffer, 5)}
    position = span.start
    while position < span.end:
        item = next(iter(fields(buffer, position, span.end)))
        if item.number in maps and item.wire == LENGTH:
            position = maps[item.number].read(position, item, span.end)
            continue
        if item.number == 1 and item.wire == VARINT:
            plane.plane_id = signed(item.value)
        elif item.number == 3 and item.wire == LENGTH:
            plane.lines.append(Span(item.start, item.end))
        elif item.number == 6 and item.wire == LENGTH:
            plane.stats.append(Span(item.start, item.end))
        position = item.end
    plane.event_metadata, plane.stat_metadata = maps[4].table(), maps[5].table()
    return plane


def read_stat(buffer: Buffer, span: Span) -> RawStat:
    """One XStat; the last member of the oneof wins, as protobuf has it."""
    metadata_id = which = 0
    value: int | bytes = 0
    for item in fields(buffer, span.start, span.end):
        if item.number == 1 and item.wire == VARINT:
            metadata_id = signed(item.value)
        elif STAT_WIRES.get(item.number) == item.wire:
            which = item.number
            value = bytes(buffer[item.start : item.end]) if item.wire == LENGTH else item.value
    return RawStat(metadata_id, which, value)


def double_of(bits: int) -> float:
    """The double whose IEEE 754 bits are an unsigned 64-bit number."""
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def expand(raw: bytes) -> bytes | None:
    """The bytes of a `compressed_str_value` (gzip); None when damaged or beyond 64 MiB."""
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(raw, _MAX_EXPANDED_BYTES)
    except zlib.error:
        return None
    return text if stream.eof else None
