"""The `traceEvents` of a Chrome trace, read in batches so that memory stays bounded.

A batch is the text up to the last place where one event ends and the next begins. Whether such a
place lies between events, and not inside a name or a nested value, needs no scanner: only then is
`[` + text + `]` valid JSON. Text that is no valid JSON (raw control characters, NaN, lone
surrogates, bad UTF-8) is read again event by event, and what stays unreadable is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from explane.capture.natures import known_format
from explane.errors import CaptureError

MAX_EVENT_BYTES: Final = 64 << 20
N_TRIES: Final = 4
_ARRAY: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY: Final = re.compile(rb"[}l]\s*,\s*$")
_NEXT_EVENT: Final = re.compile(r"\}\s*,\s*(?=\{\s*(?:\"\w+\"\s*:|\}))")
_SKIPPED: Final = re.compile(r"[\s,]*")
_BYTES: Final = ("utf-8", "surrogateescape")
_LONGEST_TOKEN: Final = 8
_TOLERANT: Final = json.JSONDecoder(strict=False)


@dataclass
class EventReader:
    """Iterates over batches of trace events.

    Attributes:
        path: Named in errors.
        n_tolerated: Events that are no strict JSON but could be read.
        n_broken: Stretches that could not be read and were left out.
        first_broken_byte: Where the first of these begins in the (unpacked) text, or -1.
        is_closed: Whether the end of the array was seen.
    """

    path: object
    n_tolerated: int = 0
    n_broken: int = 0
    first_broken_byte: int = -1
    is_closed: bool = False
    _offset: int = 0

    def batches(self, blocks: Iterable[bytes]) -> Iterator[list[Any]]:
        """Lists of array elements: events as dicts, but possibly also null or other values.

        Raises:
            CaptureError: When the text is no JSON with a `traceEvents` array.
        """
        source = iter(blocks)
        text = self._skip_to_array(source)
        while not self.is_closed:
            block = next(source, b"")
            text += block
            is_last = not block
            batch, text = self._cut(text, is_last=is_last)
            yield batch
            if is_last:
                break
            if len(text) > MAX_EVENT_BYTES:
                self._broken(0)
                return
        for _ in source:  # the rest is no event, but its checksum counts
            pass

    def _skip_to_array(self, source: Iterator[bytes]) -> bytes:
        """Text behind the `[` of the events."""
        text = next(source, b"").removeprefix(b"\xef\xbb\xbf")
        start = text.lstrip()
        if start.startswith(b"["):
            self._offset = len(text) - len(start) + 1
            return start[1:]
        if not start.startswith(b"{"):
            raise _not_json(self.path, text)
        while not (match := _ARRAY.search(text)):
            block = next(source, b"")
            text += block
            if not block or len(text) > MAX_EVENT_BYTES:
                reason = "JSON without a traceEvents array"
                remedy = "give the .trace.json.gz that the profiler wrote"
                raise CaptureError(self.path, reason, remedy, "no-trace-events")
        self._offset = match.end()
        return text[match.end() :]

    def _cut(self, text: bytes, *, is_last: bool) -> tuple[list[Any], bytes]:
        """The events that end in this text, and the text behind them."""
        end = len(text)
        for _ in range(N_TRIES):
            end = _boundary_before(text, end)
            if end < 0:
                break
            try:
                batch = orjson.loads(b"".join((b"[", memoryview(text)[:end], b"]")))
            except orjson.JSONDecodeError:
                continue
            rest = text[end:].lstrip(b" \t\r\n,")
            if is_last:
                batch_end, rest = self._walk(rest, len(text) - len(rest), is_last=True)
                batch += batch_end
            self._offset += len(text) - len(rest)
            return batch, rest
        batch, rest = self._walk(text, 0, is_last=is_last)
        self._offset += len(text) - len(rest)
        return batch, rest

    def _walk(self, raw: bytes, start: int, *, is_last: bool) -> tuple[list[Any], bytes]:
        """Events one by one, tolerantly, up to the array's end or the last complete event."""
        text = raw.decode(*_BYTES)
        batch: list[Any] = []
        place = 0
        while True:
            place = _skip(text, place)
            if text.startswith("]", place):
                self.is_closed = True
                return batch, b""
            if place >= len(text):
                return batch, b""
            try:
                event, end = _TOLERANT.raw_decode(text, place)
                self.n_tolerated += not _is_strict(text[place:end])
                batch.append(event)
                place = end
            except (ValueError, RecursionError) as error:
                is_cut = _is_cut(error, text)
                following = None if is_cut else _NEXT_EVENT.search(text, place)
                if following is None and not is_last:
                    return batch, text[place:].encode(*_BYTES)
                if not is_cut:
                    self._broken(start + len(text[:place].encode(*_BYTES)))
                if following is None:
                    return batch, b""
                place = following.end()

    def _broken(self, place: int) -> None:
        self.n_broken += 1
        if self.first_broken_byte < 0:
            self.first_broken_byte = self._offset + place


def _is_cut(error: Exception, text: str) -> bool:
    """Whether a value can't be read because the text ends in it, not because it is malformed."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    at_end = error.pos >= len(text) - _LONGEST_TOKEN
    return at_end or error.msg.startswith("Unterminated string")


def _is_strict(text: str) -> bool:
    """Whether one value is JSON as RFC 8259 has it."""
    try:
        orjson.loads(text.encode(*_BYTES))
    except orjson.JSONDecodeError:
        return False
    return True


def _skip(text: str, place: int) -> int:
    match = _SKIPPED.match(text, place)
    return match.end() if match else place


def _boundary_before(text: bytes, end: int) -> int:
    """The last comma between a `}` (or the end of a `null`) and a `{` before `end`; -1 if none.

    Returns the place behind the value that ends there, so that `text[:place]` ends with a value.
    """
    while (end := text.rfind(b"{", 0, end)) > 0:
        match = _BOUNDARY.search(text, max(0, end - 256), end)
        if match:
            return match.start() + 1
    return -1


def _not_json(path: object, text: bytes) -> CaptureError:
    """The error for a file that is no JSON at all, naming what it looks like."""
    if not text.strip():
        return CaptureError(path, "the trace JSON is empty", "capture again", "empty-file")
    what = known_format(text)
    reason = f"not a trace JSON{f', but {what}' if what else ''}: it begins with {text[:8]!r}"
    remedy = "give the .trace.json.gz or .xplane.pb that the profiler wrote"
    return CaptureError(path, reason, remedy, "not-json")
