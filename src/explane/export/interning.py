"""Strings written once and named by number afterwards, as Perfetto's InternedData has them.

https://perfetto.dev/docs/reference/trace-packet-proto#InternedData
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np
import polars as pl

from explane.capture.model import I64
from explane.errors import one_line
from explane.export import protobuf

CATEGORY: Final = 1
EVENT_NAME: Final = 2
ARGUMENT_NAME: Final = 3
ARGUMENT_TEXT: Final = 29
"""Field numbers of InternedData: event_categories, event_names, debug_annotation_names and
debug_annotation_string_values. Each entry has its iid as field 1 and its text as field 2."""

_LONGEST_TEXT: Final = 4_000
_ENTRIES_PER_PACKET: Final = 4_000


@dataclass
class Interner:
    """Numbers of the texts seen so far, by index, and the entries not yet written."""

    _numbers: dict[int, dict[str, int]] = field(default_factory=dict)
    _unwritten: list[bytes] = field(default_factory=list)

    def number(self, index: int, text: str) -> int:
        """The number of one text in an index, from 1."""
        known = self._numbers.setdefault(index, {})
        if text not in known:
            known[text] = len(known) + 1
            shown = one_line(text, _LONGEST_TEXT)
            entry = (protobuf.integer(1, known[text]), protobuf.text(2, shown))
            self._unwritten.append(protobuf.content(index, *entry))
        return known[text]

    def numbers(self, index: int, texts: pl.Series) -> I64:
        """The number of each text; 0 for a missing one."""
        distinct = texts.drop_nulls().unique(maintain_order=True)
        codes = [self.number(index, text) for text in distinct]
        if not codes:
            return np.zeros(len(texts), np.int64)
        found = texts.replace_strict(distinct, codes, default=0, return_dtype=pl.Int64)
        return found.to_numpy().astype(np.int64, copy=False)

    def take_unwritten(self) -> Iterator[bytes]:
        """InternedData contents with all entries since the last call, of bearable size each."""
        entries: Iterable[bytes] = iter(self._unwritten)
        self._unwritten = []
        while batch := list(islice(entries, _ENTRIES_PER_PACKET)):
            yield b"".join(batch)
