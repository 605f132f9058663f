"""Ids and stats of a plane's events to codes and numbers.

Writers differ in the type of a stat (the annotation parser types a value by its text, so a name
of digits is stored as an integer), hence every stat can be read as number or as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from explane.capture.assemble import StringPool
from explane.capture.events import StatColumn
from explane.capture.metadata import MetadataTable
from explane.capture.model import I32, I64, MISSING
from explane.capture.planes import (
    COMPRESSED,
    DOUBLE,
    INT64,
    REF,
    STR,
    UINT64,
    RawStat,
    double_of,
    expand,
)
from explane.capture.wire import Buffer, signed

_DENSE_KEYS: Final = 1 << 22
_UNKNOWN: Final = -2
_INTEGER: Final = re.compile(r"\s*([+-]?\d{1,20})\s*")


class _Names:
    """Codes of the names in one metadata map, made when they are first asked for."""

    def __init__(self, buffer: Buffer, metadata: MetadataTable, pool: StringPool):
        self._buffer = buffer
        self._metadata = metadata
        self._pool = pool
        self._keys = metadata.keys
        # One slot per key and a last one for ids that the map lacks.
        self._codes = np.full(len(self._keys) + 1, _UNKNOWN, dtype=np.int32)
        self._codes[-1] = MISSING
        top = int(self._keys[-1]) if len(self._keys) else -1
        self._dense: I32 | None = None
        if 0 <= top < _DENSE_KEYS and self._keys[0] >= 0:
            self._dense = np.full(top + 2, len(self._keys), dtype=np.int32)
            self._dense[self._keys] = np.arange(len(self._keys), dtype=np.int32)

    def codes(self, ids: I64) -> I32:
        """Pool code of each id's name; MISSING for ids that the map lacks."""
        slots = self._slots(ids)
        self._fill(slots)
        return self._codes[slots]

    def _slots(self, ids: I64) -> I64 | I32:
        if self._dense is not None:
            last = len(self._dense) - 1
            return self._dense[np.where((ids < 0) | (ids > last), last, ids)]
        at = np.searchsorted(self._keys, ids)
        at[at == len(self._keys)] = 0
        known = self._keys[at] == ids if len(self._keys) else np.zeros(len(ids), dtype=bool)
        return np.where(known, at, len(self._keys))

    def _fill(self, slots: I64 | I32) -> None:
        seen = np.zeros(len(self._codes), dtype=bool)
        seen[slots] = True
        for slot in np.flatnonzero(seen & (self._codes == _UNKNOWN)):
            start, end = self._metadata.name_start[slot], self._metadata.name_end[slot]
            raw = bytes(self._buffer[int(start) : int(end)])
            self._codes[slot] = self._pool.code_of_bytes(raw)


class PlaneValues:
    """Names and stat values of one plane, as codes into a pool or as numbers.

    Attributes:
        n_missing_names: Events whose metadata entry is missing.
        n_bad_compressed: Compressed strings that could not be expanded within bounds.
    """

    def __init__(
        self,
        buffer: Buffer,
        event_metadata: MetadataTable,
        stat_metadata: MetadataTable,
        pool: StringPool,
    ):
        self._events = _Names(buffer, event_metadata, pool)
        self._stats = _Names(buffer, stat_metadata, pool)
        self._pool = pool
        self.n_missing_names = 0
        self.n_bad_compressed = 0

    def event_names(self, ids: I64) -> I32:
        """Code of each event's name; `<metadata N missing>` where the plane has no entry N."""
        codes = self._events.codes(ids)
        lost = codes == MISSING
        if lost.any():
            self.n_missing_names += int(np.count_nonzero(lost))
            missing, inverse = np.unique(ids[lost], return_inverse=True)
            named = self._pool.codes(f"<metadata {int(i)} missing>" for i in missing)
            codes[lost] = named[inverse]
        return codes

    def texts(self, column: StatColumn, texts: Sequence[bytes]) -> I32:
        """A stat as text codes; MISSING where the event has none. Numbers are written out."""
        codes = np.full(len(column.field), MISSING, dtype=np.int32)
        for which in _members(column):
            rows = column.field == which
            values = column.value[rows]
            if which == REF:
                codes[rows] = self._stats.codes(values)
                continue
            distinct, inverse = np.unique(values, return_inverse=True)
            named = [self._text(which, int(value), texts) for value in distinct]
            codes[rows] = np.array(named, dtype=np.int32)[inverse]
        return codes

    def numbers(self, column: StatColumn, texts: Sequence[bytes]) -> I64:
        """A stat as int64; MISSING where the event has none or its text is no integer.

        Unsigned values keep their 64 bits.
        """
        numbers = np.full(len(column.field), MISSING, dtype=np.int64)
        for which in _members(column):
            rows = column.field == which
            values = column.value[rows]
            if which in (UINT64, INT64):
                numbers[rows] = values
                continue
            distinct, inverse = np.unique(values, return_inverse=True)
            parsed = [self._number(which, int(value), texts) for value in distinct]
            numbers[rows] = np.array(parsed, dtype=np.int64)[inverse]
        return numbers

    def value(self, stat: RawStat) -> int | float | str | bytes | None:
        """A single stat as a Python value; bytes stay bytes, references become their text."""
        if isinstance(stat.value, bytes):
            if stat.field == STR:
                return self._pool.decode(stat.value)
            if stat.field == COMPRESSED:
                expanded = self._expand(stat.value)
                return None if expanded is None else self._pool.decode(expanded)
            return stat.value
        if stat.field == REF:
            code = int(self._stats.codes(np.array([signed(stat.value)]))[0])
            return self._pool.strings[code] if code >= 0 else None
        if stat.field == DOUBLE:
            return double_of(stat.value)
        return signed(stat.value) if stat.field == INT64 else stat.value

    def stat_name(self, stat: RawStat) -> str:
        """Name of a stat; empty when the plane has no entry for it."""
        code = int(self._stats.codes(np.array([stat.metadata_id]))[0])
        return self._pool.strings[code] if code >= 0 else ""

    def _expand(self, raw: bytes) -> bytes | None:
        text = expand(raw)
        self.n_bad_compressed += text is None
        return text

    def _text(self, which: int, value: int, texts: Sequence[bytes]) -> int:
        if which == DOUBLE:
            return self._pool.code(repr(double_of(value & (1 << 64) - 1)))
        if which == INT64:
            return self._pool.code(str(value))
        if which == UINT64:
            return self._pool.code(str(value & (1 << 64) - 1))
        raw = self._expand(texts[value]) if which == COMPRESSED else texts[value]
        return MISSING if raw is None else self._pool.code_of_bytes(raw)

    def _number(self, which: int, value: int, texts: Sequence[bytes]) -> int:
        if which == DOUBLE:
            number = double_of(value & (1 << 64) - 1)
            return int(number) if number.is_integer() and abs(number) < 2**63 else MISSING
        if which == REF:
            code = int(self._stats.codes(np.array([value]))[0])
        else:
            code = self._text(which, value, texts)
        return integer(self._pool.strings[code]) if code >= 0 else MISSING


def _members(column: StatColumn) -> list[int]:
    """Members of the oneof that occur in a column."""
    counts = np.bincount(column.field, minlength=1)
    return [int(which) for which in np.flatnonzero(counts) if which]


def integer(text: str) -> int:
    """A text as a 64-bit integer (unsigned ones keep their bits), or MISSING."""
    match = _INTEGER.fullmatch(text)
    value = int(match.group(1)) if match else MISSING
    return signed(value & (1 << 64) - 1) if -(1 << 63) <= value < 1 << 64 else MISSING


def stat_ids(buffer: Buffer, metadata: MetadataTable, names: Mapping[str, str]) -> dict[int, str]:
    """Ids of the stats with one of some names.

    Args:
        buffer: The file.
        metadata: The plane's stat_metadata.
        names: Stat names, each with the column it is for.

    Returns:
        Column by stat id.
    """
    columns = {name.encode(): column for name, column in names.items()}
    sizes = metadata.name_end - metadata.name_start
    found = {}
    for row in np.flatnonzero(np.isin(sizes, [len(name) for name in columns])):
        start, end = int(metadata.name_start[row]), int(metadata.name_end[row])
        column = columns.get(bytes(buffer[start:end]))
        if column is not None:
            found[int(metadata.keys[row])] = column
    return found
