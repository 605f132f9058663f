"""The fast way through messages that look alike.

Most events of a line have the same fields, written in the same order with numbers of the same
length: they differ only in payload bits. Such a *layout* is found by reading one event, and turned
into a mask of the bits that make the structure: tags, lengths, ids of stats, and the bits that
say where a number ends. An event with the same length and the same bits under the mask has the
same layout, so every field of it is known to lie at the same place:

    event     08 05 10 a3 8f 02 18 c4 01 22 04 08 09 18 2a
    mask      ff 80 ff 80 80 80 ff 80 80 ff ff ff ff ff 80

and each field is decoded for all events at once from one column of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from explane.capture.blocks import U64
from explane.capture.model import I64, U8, Bools
from explane.capture.planes import STAT_WIRES
from explane.capture.varints import pack_groups, with_tail
from explane.capture.wire import FIXED64, LENGTH, VARINT, Field, fields, signed

_WORD_BYTES: Final = 8
_MORE_BITS: Final = 0x80
_TILE_ROWS: Final = 64
_SLICE_ROWS: Final = 2048


class Place(NamedTuple):
    """Where a value lies in every event of a layout.

    Attributes:
        column: First byte.
        n_bytes: Length.
        wire: VARINT, FIXED64 or LENGTH (text).
    """

    column: int
    n_bytes: int
    wire: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How the bytes of some events are laid out.

    Attributes:
        n_words: Words per row: the event's bytes, and one word more for reading at its end.
        mask_tile: Bits that make the structure, as words, for some rows one after the other.
        pattern: The event it was found on, under the mask.
        numbers: Place of metadata_id 1, offset_ps 2 and duration_ps 3 by field number.
        aggregated: True when num_occurrences is set in place of an offset.
        stats: Wanted stats: column name, member of the oneof, place.
    """

    n_words: int
    mask_tile: U64
    pattern: U64
    numbers: Mapping[int, Place]
    aggregated: bool
    stats: Mapping[str, tuple[int, Place]]

    def matches(self, rows: U64) -> Bools:
        """Which rows (events of the layout's length) have this layout."""
        kind = np.dtype((np.void, _WORD_BYTES * self.n_words))
        pattern = self.pattern.view(kind)[0]
        same = np.empty(len(rows), dtype=bool)
        # Slices and scratch space that stay in the processor's cache.
        scratch = np.empty((min(_SLICE_ROWS, len(rows)), self.n_words), dtype=np.uint64)
        for at in range(0, len(rows), _SLICE_ROWS):
            part = rows[at : at + _SLICE_ROWS]
            masked = scratch[: len(part)]
            self._mask(part, masked)
            same[at : at + len(part)] = masked.view(kind)[:, 0] == pattern
        return same

    def _mask(self, rows: U64, masked: U64) -> None:
        """Rows under the mask; many rows are masked as if they were one, for long inner loops."""
        n_tiled = len(rows) - len(rows) % _TILE_ROWS
        tiled = (-1, _TILE_ROWS * self.n_words)
        np.bitwise_and(
            rows[:n_tiled].reshape(tiled), self.mask_tile, out=masked[:n_tiled].reshape(tiled)
        )
        np.bitwise_and(rows[n_tiled:], self.mask_tile[: self.n_words], out=masked[n_tiled:])


def words_of(size: int) -> int:
    """Words of a row for events of some bytes, so that a word can be read at each byte."""
    return (size + _WORD_BYTES - 1) // _WORD_BYTES + 1


def find_layout(event: bytes, wanted: Mapping[int, str]) -> Layout:
    """The layout of one event.

    Raises:
        WireError: The event is damaged; the offset is relative to its start.
    """
    mask = np.zeros(_WORD_BYTES * words_of(len(event)), dtype=np.uint8)
    numbers: dict[int, Place] = {}
    stats: dict[str, tuple[int, Place]] = {}
    aggregated = False
    position = 0
    for item in fields(event, 0, len(event)):
        _mark(mask, item, position)
        if item.wire == VARINT and item.number <= 3:
            numbers[item.number] = _place(item)
            aggregated &= item.number != 2
        elif item.wire == VARINT and item.number == 5:
            aggregated = True
        elif item.wire == LENGTH and item.number == 4:
            _mark_stat(mask, event, item, wanted, stats)
        position = item.end
    row = np.zeros(len(mask), dtype=np.uint8)
    row[: len(event)] = np.frombuffer(event, dtype=np.uint8)
    words = mask.view(np.uint64)
    pattern = row.view(np.uint64) & words
    tile = np.tile(words, _TILE_ROWS)
    return Layout(len(words), tile, pattern, numbers, aggregated, stats)


def _mark(mask: U8, item: Field, position: int) -> None:
    """Mark tag and length of a field, and where its number ends."""
    mask[position : item.start] = 0xFF
    if item.wire == VARINT:
        mask[item.start : item.end] = _MORE_BITS


def _mark_stat(
    mask: U8,
    event: bytes,
    stat: Field,
    wanted: Mapping[int, str],
    stats: dict[str, tuple[int, Place]],
) -> None:
    """Mark the structure of a stat; its id belongs to it."""
    metadata_id, which, place = 0, 0, Place(0, 0, VARINT)
    position = stat.start
    for item in fields(event, stat.start, stat.end):
        _mark(mask, item, position)
        if item.number == 1 and item.wire == VARINT:
            metadata_id = signed(item.value)
            mask[item.start : item.end] = 0xFF
        elif STAT_WIRES.get(item.number) == item.wire:
            which, place = item.number, _place(item)
        position = item.end
    name = wanted.get(metadata_id)
    if name is not None:
        stats[name] = (which, place)


def _place(item: Field) -> Place:
    return Place(item.start, item.end - item.start, item.wire)


def column_values(rows: U64, place: Place) -> I64:
    """The number at a place, of all rows."""
    words = _words_at(rows, place.column)
    if place.wire == FIXED64:
        return words.view(np.int64)
    if place.n_bytes <= _WORD_BYTES:
        return pack_groups(words, place.n_bytes).view(np.int64)
    tail = _words_at(rows, place.column + _WORD_BYTES)
    return with_tail(pack_groups(words, _WORD_BYTES), tail).view(np.int64)


def column_bytes(rows: U64, place: Place) -> tuple[list[bytes], I64]:
    """The distinct byte strings at a place, and which of them each row has."""
    if place.n_bytes == 0:
        return [b""], np.zeros(len(rows), dtype=np.int64)
    raw = rows.view(np.uint8)[:, place.column : place.column + place.n_bytes]
    kind = np.dtype((np.void, place.n_bytes))
    distinct, inverse = np.unique(np.ascontiguousarray(raw).view(kind)[:, 0], return_inverse=True)
    return [bytes(text) for text in distinct], inverse.astype(np.int64)


def _words_at(rows: U64, column: int) -> U64:
    """A copy of the words that start at a byte column."""
    view = np.ndarray(
        (len(rows),), dtype="<u8", buffer=rows.data, offset=column, strides=(rows.strides[0],)
    )
    return view.astype(np.uint64)
