"""Make a large capture by repeating the events of a small one.

    python benchmarks/repeat_capture.py SOURCE OUT --kernels 150000 [--host-events]

Each repetition is the whole capture again, later by its length; correlation ids go on counting, so
every kernel keeps exactly one launch. Without --host-events only launches are kept of the host
("lean"). Everything else (plane stats, metadata, HLO) is copied as it is. Needs only the standard
library: it must not share code with the reader that it measures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

VARINT, LENGTH = 0, 2


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes, bytes]]:
    """(number, wire type, value, the whole field) of a message."""
    at = 0
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        value: int | bytes
        if tag & 7 == VARINT:
            value, at = read_varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(tag & 7)
            if size is None:
                size, at = read_varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, tag & 7, value, data[start:at]


def get(data: bytes, number: int, default: int | bytes) -> int | bytes:
    return next((v for n, _, v, _ in fields(data) if n == number), default)


def bytes_field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | LENGTH) + varint(len(body)) + body


class Event:
    """An event cut into the parts around its offset and its correlation id."""

    def __init__(self, raw: bytes, correlation_stats: set[int]):
        self.offset_ps = self.duration_ps = 0
        self.correlation: int | None = None
        before, after = b"", b""
        for number, _, value, whole in fields(raw):
            if number == 2:
                self.offset_ps = int(value)  # type: ignore[call-overload]
                continue
            if number == 3:
                self.duration_ps = int(value)  # type: ignore[call-overload]
            if number == 4 and get(value, 1, 0) in correlation_stats:  # type: ignore[arg-type]
                self._take_correlation(value)  # type: ignore[arg-type]
            elif number == 1:
                before += whole
            else:
                after += whole
        self._before, self._after = before + b"\x10", after

    def _take_correlation(self, stat: bytes) -> None:
        parts = list(fields(stat))
        self.correlation = int(parts[1][2])  # type: ignore[call-overload]
        self._stat_head = parts[0][3] + varint(parts[1][0] << 3)

    def at(self, shift_ps: int, shift_id: int) -> bytes:
        body = self._before + varint(self.offset_ps + shift_ps)
        if self.correlation is not None:
            stat = self._stat_head + varint(self.correlation + shift_id)
            return bytes_field(4, body + self._after_duration(stat))
        return bytes_field(4, body + self._after)

    def _after_duration(self, stat: bytes) -> bytes:
        head = b"\x18" + varint(self.duration_ps)
        return head + bytes_field(4, stat) + self._after.removeprefix(head)


def metadata_names(plane: bytes, number: int) -> dict[int, bytes]:
    entries = (value for n, _, value, _ in fields(plane) if n == number)
    return {get(e, 1, 0): get(get(e, 2, b""), 2, b"") for e in entries}  # type: ignore


class Plane:
    """A plane with its repeated lines apart from the rest."""

    def __init__(self, raw: bytes, *, host_events: bool):
        self.name = bytes(get(raw, 2, b""))  # type: ignore[arg-type]
        self.is_device = self.name.startswith(b"/device:GPU:")
        self.head = self.tail = b""
        self.lines: list[tuple[bytes, list[Event]]] = []
        ids = {k for k, v in metadata_names(raw, 5).items() if v == b"correlation_id"}
        repeated = self.is_device or self.name == b"/host:CPU"
        for number, _, value, whole in fields(raw):
            if number == 3 and repeated:
                self._add_line(bytes(value), ids, host_events)  # type: ignore[arg-type]
            elif number < 3:
                self.head += whole
            else:
                self.tail += whole

    def _add_line(self, raw: bytes, ids: set[int], host_events: bool) -> None:
        head, events = b"", []
        for number, _, value, whole in fields(raw):
            if number == 4:
                event = Event(bytes(value), ids)  # type: ignore[arg-type]
                if self.is_device or host_events or event.correlation is not None:
                    events.append(event)
            else:
                head += whole
        if events:
            self.lines.append((head, events))

    def write(self, out: BinaryIO, n_repeats: int, period_ps: int, ids: int) -> None:
        lines = []
        for head, events in self.lines:
            parts = [head]
            for k in range(n_repeats):
                parts += [event.at(k * period_ps, k * ids) for event in events]
            lines.append(bytes_field(3, b"".join(parts)))
        size = len(self.head) + sum(map(len, lines)) + len(self.tail)
        out.write(varint(1 << 3 | LENGTH) + varint(size) + self.head)
        out.writelines(lines)
        out.write(self.tail)


def repeat(source: Path, target: Path, n_kernels: int, *, host_events: bool) -> int:
    """Write the capture; returns its number of kernels."""
    space = source.read_bytes()
    planes = [Plane(v, host_events=host_events) for n, _, v, _ in fields(space) if n == 1]  # type: ignore[arg-type]
    events = [e for p in planes for _, line in p.lines for e in line]
    n_once = sum(len(line) for p in planes if p.is_device for _, line in p.lines)
    n_repeats = max(1, -(-n_kernels // n_once))
    period_ps = max(e.offset_ps + e.duration_ps for e in events) + 1_000_000
    n_ids = max(e.correlation or 0 for e in events) + 1
    with target.open("wb") as out:
        for plane in planes:
            plane.write(out, n_repeats, period_ps, n_ids)
        for number, _, _, whole in fields(space):
            if number != 1:
                out.write(whole)
    return n_once * n_repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--kernels", type=int, default=150_000)
    parser.add_argument("--host-events", action="store_true")
    args = parser.parse_args()
    count = repeat(args.source, args.target, args.kernels, host_events=args.host_events)
    size = args.target.stat().st_size
    print(f"{args.target}: {count:,} kernels, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
