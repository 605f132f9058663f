"""XEvents of a block of the file to columns.

Field numbers are those of tsl/profiler/protobuf/xplane.proto. Events that look alike are decoded
together (`layouts`), the rest field by field (`messages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from explane.capture.blocks import MAX_ROW_BYTES, U64, Block
from explane.capture.growing import pick
from explane.capture.layouts import Layout, column_bytes, column_values, find_layout, words_of
from explane.capture.messages import Rows, field_steps
from explane.capture.model import I32, I64, U8, Bools
from explane.capture.planes import BYTES, COMPRESSED, STAT_WIRES, STR
from explane.capture.varints import read_varints
from explane.capture.wire import LENGTH, VARINT, WireError
from explane.progress import NULL, Progress

_PIECE_BYTES: Final = 4 << 20
# A layout costs as much as some tens of events decoded field by field.
_LEAST_ALIKE: Final = 24
_MOST_POOR_LAYOUTS: Final = 8
_MOST_LAYOUTS: Final = 64
_MOST_UNUSED: Final = 4
_TEXT_MEMBERS: Final = (STR, BYTES, COMPRESSED)


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
    """Events of one or more lines of a plane, in file order.

    Attributes:
        line: Number of each event's line.
        metadata_id: Key into the plane's event_metadata.
        offset_ps: Start relative to the line; 0 when not set.
        duration_ps: Length; 0 when not set.
        aggregated: True where num_occurrences is set in place of an offset: such an event says
            how often something happened, and has no start.
        stats: The wanted stats that occur, by the name given to each.
        texts: Byte strings that text stats refer to.
        n_skipped: Events that were left out by their metadata id.
        n_without: Events that were left out since they lack the required stat.
    """

    line: I32
    metadata_id: I64
    offset_ps: I64
    duration_ps: I64
    aggregated: Bools
    stats: Mapping[str, StatColumn]
    texts: list[bytes]
    n_skipped: int = 0
    n_without: int = 0

    def __len__(self) -> int:
        return len(self.metadata_id)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to decode of a plane's events.

    Attributes:
        stats: Name of the column for each stat id; other stats are skipped.
        skip_ids: Sorted metadata ids of events to leave out, or empty.
        required: Name of a stat without which an event is left out; empty for all events.
        layouts: Layouts found so far with these stats, by size of the event, most useful first.
        progress: Told of the parts of the work.
    """

    stats: Mapping[int, str]
    skip_ids: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    required: str = ""
    layouts: dict[int, list[Layout]] = field(default_factory=dict)
    progress: Progress = NULL


def decode(block: Block, starts: I64, ends: I64, line: I32, wanted: Wanted) -> EventTable:
    """Columns of events.

    Args:
        block: The bytes.
        starts: First byte of each XEvent, position in the block.
        ends: End of each, exclusive.
        line: Number of the line of each.
        wanted: What to decode.

    Raises:
        WireError: An event is damaged.
    """
    n_skipped = 0
    if len(wanted.skip_ids):
        kept = np.flatnonzero(~_skipped(block, starts, wanted.skip_ids))
        n_skipped = len(starts) - len(kept)
        starts, ends, line = starts[kept], ends[kept], pick(line, kept)
    return _Decoder(block, starts, ends, line, wanted).table(n_skipped)


def _skipped(block: Block, starts: I64, skip_ids: I64) -> Bools:
    """Events whose first field is a metadata_id that is to be skipped."""
    ids, _ = read_varints(block, starts + 1)
    signed_ids = ids.view(np.int64)
    at = np.minimum(np.searchsorted(skip_ids, signed_ids), len(skip_ids) - 1)
    found: Bools = (skip_ids[at] == signed_ids) & (block.data[starts] == 1 << 3 | VARINT)
    return found


def _most_useful(fitted: list[tuple[int, Layout]], untried: list[Layout]) -> list[Layout]:
    """Layouts to try on the next events of the same size: those that served most, then others.

    Numbers get longer as time goes on, so layouts grow old; of those that served nothing only
    a few are kept.
    """
    used = sorted((pair for pair in fitted if pair[0]), key=lambda pair: -pair[0])
    unused = [layout for n_fit, layout in fitted if not n_fit]
    return ([layout for _, layout in used] + untried + unused[:_MOST_UNUSED])[:_MOST_LAYOUTS]


class _Decoder:
    """Fills the columns of one block's events."""

    def __init__(self, block: Block, starts: I64, ends: I64, line: I32, wanted: Wanted):
        self._line = line
        self._block = block
        self._starts = starts
        self._ends = ends
        self._wanted = wanted
        count = len(starts)
        self._numbers = {number: np.zeros(count, dtype=np.int64) for number in (1, 2, 3)}
        self._aggregated = np.zeros(count, dtype=bool)
        self._stats: dict[str, StatColumn] = {}
        self._texts: list[bytes] = []

    def table(self, n_skipped: int) -> EventTable:
        """All events of the block."""
        sizes = self._ends - self._starts
        rest = np.arange(len(sizes))
        if len(sizes) >= _LEAST_ALIKE:
            rest = self._alike(sizes)
        if len(rest):
            self._one_field_at_a_time(rest)
        numbers = (self._numbers[1], self._numbers[2], self._numbers[3])
        whole = EventTable(
            self._line, *numbers, self._aggregated, self._stats, self._texts, n_skipped
        )
        return self._required(whole) if self._wanted.required else whole

    def _required(self, whole: EventTable) -> EventTable:
        """Only the events that have the required stat."""
        column = whole.stats.get(self._wanted.required)
        rows = np.zeros(0, np.intp) if column is None else np.flatnonzero(column.field)
        return EventTable(
            pick(whole.line, rows),
            whole.metadata_id[rows],
            whole.offset_ps[rows],
            whole.duration_ps[rows],
            whole.aggregated[rows],
            {n: StatColumn(c.field[rows], c.value[rows]) for n, c in whole.stats.items()},
            whole.texts,
            whole.n_skipped,
            len(whole) - len(rows) - int(np.count_nonzero(whole.aggregated)),
        )

    def _alike(self, sizes: I64) -> Rows:
        """Decode events by layouts; returns the rows that fit none."""
        small = np.minimum(sizes, MAX_ROW_BYTES + 1).astype(np.uint16)
        order = np.argsort(small, kind="stable")
        cuts = np.flatnonzero(np.diff(small[order])) + 1
        rest: list[Rows] = []
        for rows in np.split(order, cuts):
            size = int(small[rows[0]])
            if size > MAX_ROW_BYTES or len(rows) < _LEAST_ALIKE:
                rest.append(rows)
                continue
            n_piece = max(1, _PIECE_BYTES // (8 * words_of(size)))
            pieces = (rows[at : at + n_piece] for at in range(0, len(rows), n_piece))
            rest += [self._by_layouts(size, piece) for piece in pieces]
        return np.concatenate(rest)

    def _by_layouts(self, size: int, rows: Rows) -> Rows:
        """Decode events of one size by layouts, known and new ones; returns what fits none.

        Known layouts are tried most useful first. New ones are looked for as long as they
        serve enough events to be worth it.
        """
        words = self._block.rows(self._starts[rows], words_of(size))
        known = self._wanted.layouts.setdefault(size, [])
        n_known, n_poor = len(known), 0
        fitted: list[tuple[int, Layout]] = []
        while len(rows) >= _LEAST_ALIKE and n_poor < _MOST_POOR_LAYOUTS:
            is_new = len(fitted) >= n_known
            layout = self._find_layout(int(rows[0])) if is_new else known[len(fitted)]
            fits = layout.matches(words)
            n_fit = int(np.count_nonzero(fits))
            n_poor += is_new and n_fit < _LEAST_ALIKE
            fitted.append((n_fit, layout))
            if n_fit == len(rows):
                self._take(layout, rows, words)
                rows = rows[:0]
            elif n_fit:
                self._take(layout, rows[fits], words[fits])
                rows, words = rows[~fits], words[~fits]
        self._wanted.layouts[size] = _most_useful(fitted, known[len(fitted) :])
        return rows

    def _find_layout(self, row: int) -> Layout:
        start, end = int(self._starts[row]), int(self._ends[row])
        try:
            return find_layout(self._block.data[start:end].tobytes(), self._wanted.stats)
        except WireError as damage:
            raise WireError(self._block.base + start + damage.offset, damage.reason) from damage

    def _take(self, layout: Layout, rows: Rows, words: U64) -> None:
        """Decode events of one layout, unless it lacks the required stat."""
        if self._wanted.required and self._wanted.required not in layout.stats:
            return
        for number, place in layout.numbers.items():
            self._numbers[number][rows] = column_values(words, place)
        if layout.aggregated:
            self._aggregated[rows] = True
        for name, (which, place) in layout.stats.items():
            column = self._column(name)
            column.field[rows] = which
            if which in _TEXT_MEMBERS:
                texts, numbers = column_bytes(words, place)
                column.value[rows] = numbers + len(self._texts)
                self._texts += texts
            elif which:
                column.value[rows] = column_values(words, place)

    def _column(self, name: str) -> StatColumn:
        """The column of a stat, made when it first occurs."""
        if name not in self._stats:
            count = len(self._starts)
            empty = StatColumn(np.zeros(count, np.uint8), np.zeros(count, np.int64))
            self._stats[name] = empty
        return self._stats[name]

    def _one_field_at_a_time(self, rows: Rows) -> None:
        """Decode events of any shape."""
        stats: list[tuple[Rows, I64, I64]] = []
        for step in field_steps(self._block, self._starts[rows], self._ends[rows]):
            for number, column in self._numbers.items():
                at = step.at(number, VARINT)
                column[rows[step.rows[at]]] = step.value[at].view(np.int64)
            self._aggregated[rows[step.rows[step.at(2, VARINT)]]] = False
            self._aggregated[rows[step.rows[step.at(5, VARINT)]]] = True
            at = step.at(4, LENGTH)
            if len(at) and self._wanted.stats:
                stats.append((rows[step.rows[at]], step.start[at], step.end[at]))
        if stats:
            event, start, end = (np.concatenate(part) for part in zip(*stats, strict=True))
            self._stats_of(event, start, end)

    def _stats_of(self, event: Rows, start: I64, end: I64) -> None:
        """Decode XStats of any shape; of equal stats of one event the last wins."""
        ids = np.zeros(len(event), dtype=np.int64)
        which = np.zeros(len(event), dtype=np.uint8)
        value = np.zeros((2, len(event)), dtype=np.int64)
        for step in field_steps(self._block, start, end):
            at = step.at(1, VARINT)
            ids[step.rows[at]] = step.value[at].view(np.int64)
            for member, wire in STAT_WIRES.items():
                at = step.at(member, wire)
                if len(at):
                    rows = step.rows[at]
                    which[rows] = member
                    is_text = member in _TEXT_MEMBERS
                    value[0, rows] = step.start[at] if is_text else step.value[at].view(np.int64)
                    value[1, rows] = step.end[at]
        for name in dict.fromkeys(self._wanted.stats.values()):
            same = [number for number, other in self._wanted.stats.items() if other == name]
            rows = np.flatnonzero(np.isin(ids, same))
            if len(rows):
                self._put(name, event[rows], which[rows], value[:, rows])

    def _put(self, name: str, event: Rows, which: U8, value: I64) -> None:
        """Put values of one stat into its column; texts are kept once."""
        column = self._column(name)
        is_text = np.isin(which, _TEXT_MEMBERS)
        positions: dict[bytes, int] = {}
        for at in np.flatnonzero(is_text):
            raw = self._block.data[value[0, at] : value[1, at]].tobytes()
            number = positions.setdefault(raw, len(self._texts))
            if number == len(self._texts):
                self._texts.append(raw)
            value[0, at] = number
        column.field[event] = which
        column.value[event] = value[0]
