"""XEvents of a line to columns.

Field numbers are those of tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explane.capture.model import I64, U8, Bools
from explane.capture.planes import RawStat, Span, XLine, read_stat
from explane.capture.wire import LENGTH, VARINT, Buffer, fields, signed


@dataclass(frozen=True, slots=True)
class StatColumn:
    """One stat of many events, as stored.

    Attributes:
        field: Member of the XStat oneof that is set (DOUBLE … COMPRESSED), 0 where the event
            has no such stat.
        value: The 64 bits of numbers and references; position in `EventTable.texts` for text.
    """

    field: U8
    value: I64


@dataclass(frozen=True, slots=True)
class EventTable:
    """Events of one line in file order.

    Attributes:
        metadata_id: Key into the plane's event_metadata.
        offset_ps: Start relative to the line; 0 when not set.
        duration_ps: Length; 0 when not set.
        aggregated: True where num_occurrences is set in place of an offset: such an event says
            how often something happened, and has no start.
        stats: The wanted stats, by the name given to each.
        texts: Byte strings that text stats refer to.
    """

    metadata_id: I64
    offset_ps: I64
    duration_ps: I64
    aggregated: Bools
    stats: Mapping[str, StatColumn]
    texts: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.metadata_id)


def scan_line(buffer: Buffer, span: Span) -> tuple[XLine, list[Span]]:
    """Head of a line and the spans of its events."""
    line = XLine(span)
    events = []
    for item in fields(buffer, span.start, span.end):
        if item.wire == LENGTH:
            if item.number == 4:
                events.append(Span(item.start, item.end))
            elif item.number == 2:
                line.name = bytes(buffer[item.start : item.end])
            elif item.number == 11:
                line.display_name = bytes(buffer[item.start : item.end])
        elif item.wire == VARINT and item.number == 1:
            line.line_id = signed(item.value)
        elif item.wire == VARINT and item.number == 3:
            line.timestamp_ns = signed(item.value)
    return line, events


def decode_events(buffer: Buffer, events: Sequence[Span], wanted: Mapping[int, str]) -> EventTable:
    """Columns of events.

    Args:
        buffer: The file.
        events: Spans of XEvent messages.
        wanted: Name of the column for each stat id to decode; other stats are skipped.
    """
    count = len(events)
    numbers = np.zeros((3, count), dtype=np.int64)
    aggregated = np.zeros(count, dtype=bool)
    names = dict.fromkeys(wanted.values())
    stats = {n: StatColumn(np.zeros(count, np.uint8), np.zeros(count, np.int64)) for n in names}
    texts: list[bytes] = []
    for row, span in enumerate(events):
        for item in fields(buffer, span.start, span.end):
            if item.wire == VARINT and 1 <= item.number <= 3:
                numbers[item.number - 1, row] = signed(item.value)
                aggregated[row] &= item.number != 2
            elif item.wire == VARINT and item.number == 5:
                aggregated[row] = True
            elif item.wire == LENGTH and item.number == 4:
                stat = read_stat(buffer, Span(item.start, item.end))
                if stat.metadata_id in wanted:
                    _put(stats[wanted[stat.metadata_id]], row, stat, texts)
    return EventTable(numbers[0], numbers[1], numbers[2], aggregated, stats, texts)


def _put(column: StatColumn, row: int, stat: RawStat, texts: list[bytes]) -> None:
    column.field[row] = stat.field
    if isinstance(stat.value, bytes):
        column.value[row] = len(texts)
        texts.append(stat.value)
    else:
        column.value[row] = signed(stat.value)
