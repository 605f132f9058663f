"""XLines of a plane: their heads, and their events a block of the file at a time.

A long line is read in several blocks; many short ones that lie together are read in one, so that
the cost of a block is spread over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from explane.capture.blocks import Block
from explane.capture.events import EventTable, Wanted, decode
from explane.capture.model import I32, I64
from explane.capture.planes import XLine
from explane.capture.walk import walk_run
from explane.capture.wire import LENGTH, VARINT, Buffer, Field, Span, WireError, fields, signed

_SCAN: Final = "scan: where events lie"
_EVENT_TAG: Final = 4 << 3 | LENGTH
_BLOCK_BYTES: Final = 4 << 20
_SHORT_LINE_BYTES: Final = 1 << 16
_LARGEST_EVENT_BYTES: Final = 256 << 20


def read_head(buffer: Buffer, span: Span) -> XLine:
    """Head of a line: what stands before its first event.

    Raises:
        WireError: It is damaged.
    """
    line = XLine(span, first_event=span.start)
    for item in fields(buffer, span.start, span.end):
        if item.number == 4 and item.wire == LENGTH:
            break
        _read_field(buffer, line, item)
        line.first_event = item.end
    return line


def event_tables(buffer: Buffer, lines: Sequence[XLine], wanted: Wanted) -> Iterator[EventTable]:
    """Events of some lines of a plane; `EventTable.line` counts in `lines`.

    Parts of a head that stand behind events are put into the line on the way, so heads are final
    only when the last table was taken.

    Raises:
        WireError: A line is damaged.
    """
    short: list[int] = []
    for number, line in enumerate(lines):
        is_short = line.span.end - line.span.start <= _SHORT_LINE_BYTES
        if short and not (is_short and _close(lines[short[0]], line)):
            yield from _short_lines(buffer, lines, short, wanted)
            short = []
        if is_short:
            short.append(number)
        else:
            yield from _long_line(buffer, line, number, wanted)
    yield from _short_lines(buffer, lines, short, wanted)


def _close(first: XLine, last: XLine) -> bool:
    """Whether one block may hold two lines and what is between them."""
    return 0 <= last.span.end - first.span.start <= _BLOCK_BYTES


def _short_lines(
    buffer: Buffer, lines: Sequence[XLine], numbers: list[int], wanted: Wanted
) -> Iterator[EventTable]:
    """Events of lines that lie close together, in one table."""
    if not numbers:
        return
    block = Block(buffer, lines[numbers[0]].span.start, lines[numbers[-1]].span.end)
    starts: list[I64] = []
    ends: list[I64] = []
    counts = []
    for number in numbers:
        line, n_runs = lines[number], len(starts)
        position = line.first_event
        while position < line.span.end:
            with wanted.progress.stage(_SCAN):
                end = line.span.end - block.base
                run = walk_run(block, position - block.base, _EVENT_TAG, end)
            starts.append(run.starts)
            ends.append(run.ends)
            position = _after_run(buffer, line, block.base + run.stop)
        counts.append(sum(map(len, starts[n_runs:])))
    if sum(counts):
        line_of = np.repeat(np.array(numbers, dtype=np.int32), counts)
        yield decode(block, np.concatenate(starts), np.concatenate(ends), line_of, wanted)


def _after_run(buffer: Buffer, line: XLine, position: int) -> int:
    """Read the field of a line that ended a run of events; the position behind it."""
    if position >= line.span.end:
        return position
    item = next(iter(fields(buffer, position, line.span.end)))
    if item.number == 4 and item.wire == LENGTH:
        raise WireError(position, "an event's tag or length is written in an odd way")
    _read_field(buffer, line, item)
    return item.end


def _long_line(buffer: Buffer, line: XLine, number: int, wanted: Wanted) -> Iterator[EventTable]:
    """Events of a line, one table per block."""
    position, end, at_least = line.first_event, line.span.end, 0
    while position < end:
        block = Block(buffer, position, min(end, position + max(_BLOCK_BYTES, at_least)))
        with wanted.progress.stage(_SCAN):
            run = walk_run(block, 0, _EVENT_TAG)
        if len(run.starts):
            line_of: I32 = np.broadcast_to(np.int32(number), len(run.starts))
            yield decode(block, run.starts, run.ends, line_of, wanted)
        position += run.stop
        at_least = _cut_event(buffer, position, end) if run.stop < block.size else 0
        if run.stop < block.size and at_least <= (0 if run.stop else block.size):
            position = _after_run(buffer, line, position)


def _cut_event(buffer: Buffer, position: int, end: int) -> int:
    """Bytes of the event at a position, of which a block had only a part; 0 for other fields."""
    item = next(iter(fields(buffer, position, end)))
    if item.number != 4 or item.wire != LENGTH:
        return 0
    if item.end - position > _LARGEST_EVENT_BYTES:
        raise WireError(position, "an event is larger than any event can be")
    return item.end - position


def _read_field(buffer: Buffer, line: XLine, item: Field) -> None:
    """Take a field of the head."""
    if item.wire == LENGTH and item.number in (2, 11):
        text = bytes(buffer[item.start : item.end])
        if item.number == 2:
            line.name = text
        else:
            line.display_name = text
    elif item.wire == VARINT and item.number == 1:
        line.line_id = signed(item.value)
    elif item.wire == VARINT and item.number == 3:
        line.timestamp_ns = signed(item.value)
