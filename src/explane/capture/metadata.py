"""Maps of metadata in a plane: id to name, as columns; names stay undecoded.

`event_metadata` (field 4 of XPlane) and `stat_metadata` (5) are maps, stored as one message per
entry: key 1, value 2 {id 1, name 2, …, stats 5}. A plane can hold hundreds of thousands, of which
few are used, so entries are found and cut many at a time and names are read on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.capture.blocks import Block
from explane.capture.messages import field_steps
from explane.capture.model import I64
from explane.capture.walk import walk_run
from explane.capture.wire import LENGTH, VARINT, Buffer, Field, Span, fields, signed

_BLOCK_BYTES: Final = 1 << 20
# Entries with an HLO module inside are read one by one, where they lie.
_LARGE_ENTRY_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """Entries of one map, by ascending key. Of equal keys the last entry counts.

    Attributes:
        keys: Map keys (which beat an inner id that differs).
        name_start: Offset in the file of each name.
        name_end: End of each name, exclusive.
        stats: Spans of XStats of the entries that have some, by key.
    """

    keys: I64
    name_start: I64
    name_end: I64
    stats: Mapping[int, tuple[Span, ...]]

    @classmethod
    def empty(cls) -> MetadataTable:
        """A table without entries."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, none, {})

    def __len__(self) -> int:
        return len(self.keys)

    def names(self, buffer: Buffer) -> Iterator[tuple[int, bytes]]:
        """Key and name of each entry."""
        spans = zip(self.name_start.tolist(), self.name_end.tolist(), strict=True)
        for key, (start, end) in zip(self.keys.tolist(), spans, strict=True):
            yield key, bytes(buffer[start:end])


class MetadataReader:
    """Collects the entries of one map while a plane is scanned.

    Args:
        buffer: The file.
        number: Field number of the map in XPlane.
    """

    def __init__(self, buffer: Buffer, number: int):
        self._buffer = buffer
        self._tag = number << 3 | LENGTH
        self._parts: list[I64] = []
        self._stats: dict[int, list[Span]] = {}

    def read(self, position: int, entry: Field, end: int) -> int:
        """Read entries from a position on.

        Args:
            position: Where the first entry's field begins.
            entry: That field.
            end: End of the plane.

        Returns:
            The position after the last entry that was read.
        """
        if entry.end - entry.start < _LARGE_ENTRY_BYTES:
            block = Block(self._buffer, position, min(end, position + _BLOCK_BYTES))
            run = walk_run(block, 0, self._tag)
            if len(run.starts):
                self._read_many(block, run.starts, run.ends)
                return position + run.stop
        self._read_one(entry)
        return entry.end

    def table(self) -> MetadataTable:
        """All entries."""
        if not self._parts:
            return MetadataTable.empty()
        rows = np.concatenate(self._parts, axis=1)
        # The last of equal keys: the first one from behind.
        keys, last = np.unique(rows[0, ::-1], return_index=True)
        rows = rows[:, ::-1][:, last]
        stats = {key: tuple(spans) for key, spans in self._stats.items()}
        return MetadataTable(keys, rows[1], rows[2], stats)

    def _read_many(self, block: Block, starts: I64, ends: I64) -> None:
        keys = np.zeros(len(starts), dtype=np.int64)
        values = np.zeros((2, len(starts)), dtype=np.int64)
        for step in field_steps(block, starts, ends):
            at = step.at(1, VARINT)
            keys[step.rows[at]] = step.value[at].view(np.int64)
            at = step.at(2, LENGTH)
            values[:, step.rows[at]] = step.start[at], step.end[at]
        names = np.zeros((2, len(starts)), dtype=np.int64)
        for step in field_steps(block, values[0], values[1]):
            at = step.at(2, LENGTH)
            names[:, step.rows[at]] = step.start[at], step.end[at]
            for row in step.at(5, LENGTH):
                span = Span(block.base + int(step.start[row]), block.base + int(step.end[row]))
                self._stats.setdefault(int(keys[step.rows[row]]), []).append(span)
        self._parts.append(np.stack([keys, *(names + block.base)]))

    def _read_one(self, entry: Field) -> None:
        key, value, name, stats = 0, Span(0, 0), Span(0, 0), []
        for item in fields(self._buffer, entry.start, entry.end):
            if item.number == 1 and item.wire == VARINT:
                key = signed(item.value)
            elif item.number == 2 and item.wire == LENGTH:
                value = Span(item.start, item.end)
        for item in fields(self._buffer, value.start, value.end):
            if item.number == 2 and item.wire == LENGTH:
                name = Span(item.start, item.end)
            elif item.number == 5 and item.wire == LENGTH:
                stats.append(Span(item.start, item.end))
        self._parts.append(np.array([[key], [name.start], [name.end]], dtype=np.int64))
        if stats:
            self._stats.setdefault(key, []).extend(stats)
