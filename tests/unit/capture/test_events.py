"""Events decoded by layouts and field by field, against the protobuf library, on random events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explane.capture import lines
from explane.capture.events import EventTable, Wanted
from explane.capture.lines import event_tables, read_head
from explane.capture.wire import Span
from tests.builders import bytes_field, int_field, varint
from tests.unit.capture.xspace_oracle import XSpace

WANTED = {1: "a", 2: "b", 3: "a"}
FIELDS = {2: "double_value", 3: "uint64_value", 4: "int64_value", 5: "str_value", 7: "ref_value"}


def _stat(stat_id: int, member: int, value: int) -> bytes:
    head = int_field(1, stat_id)
    if member == 2:
        return head + varint(2 << 3 | 1) + value.to_bytes(8, "little")
    if member == 5:
        return head + bytes_field(5, "t" * (value % 7))
    return head + int_field(member, value)


STATS = st.builds(
    _stat,
    st.integers(1, 5),
    st.sampled_from(sorted(FIELDS)),
    st.sampled_from([0, 1, 127, 128, 300, 2**31, 2**63 - 1, 2**64 - 1]) | st.integers(0, 1000),
)
PARTS = st.one_of(
    st.builds(int_field, st.sampled_from([2, 3, 5, 9]), st.integers(-5, 2**40)),
    st.builds(bytes_field, st.just(4), STATS),
    st.builds(bytes_field, st.just(12), st.binary(max_size=3)),
)
EVENTS = st.builds(
    lambda number, parts: int_field(1, number) + b"".join(parts),
    st.integers(1, 300),
    st.lists(PARTS, max_size=5),
)


def _tables(bodies: list[bytes]) -> list[EventTable]:
    line = int_field(1, 7) + b"".join(bytes_field(4, body) for body in bodies)
    head = read_head(line, Span(0, len(line)))
    return list(event_tables(line, [head], Wanted(WANTED)))


def _oracle(bodies: list[bytes]) -> list[dict[str, Any]]:
    line = b"".join(bytes_field(4, body) for body in bodies)
    space = XSpace()
    space.ParseFromString(bytes_field(1, bytes_field(3, line)))
    return [_fields(event) for event in space.planes[0].lines[0].events]


def _fields(event: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "metadata_id": event.metadata_id,
        "duration_ps": event.duration_ps,
        "offset_ps": event.offset_ps,
    }
    for stat in event.stats:
        if stat.metadata_id in WANTED:
            # The declared message has no oneof: the last of the fields is not known from it.
            values = [(f.number, v) for f, v in stat.ListFields() if f.number != 1]
            found[WANTED[stat.metadata_id]] = values[-1] if values else (0, 0)
    return found


def _rows(tables: list[EventTable]) -> list[dict[str, Any]]:
    rows = []
    for table in tables:
        for at in range(len(table)):
            row: dict[str, Any] = {
                "metadata_id": int(table.metadata_id[at]),
                "duration_ps": int(table.duration_ps[at]),
                "offset_ps": int(table.offset_ps[at]),
            }
            for name, column in table.stats.items():
                if column.field[at]:
                    row[name] = _value(column.field[at], column.value[at], table.texts)
            rows.append(row)
    return rows


def _value(field: np.uint8, value: np.int64, texts: list[bytes]) -> tuple[int, Any]:
    if field == 5:
        return 5, texts[int(value)]
    if field == 2:
        return 2, float(np.array(value).view(np.float64))
    return int(field), int(value) if field == 4 else int(value) & (1 << 64) - 1


def _comparable(rows: list[dict[str, Any]]) -> str:
    return repr([sorted(row.items()) for row in rows])  # NaN equals NaN as text


@settings(max_examples=30, deadline=None)
@given(bodies=st.lists(EVENTS, min_size=1, max_size=5), n_times=st.sampled_from([1, 30]))
def test_random_events_equal_the_protobuf_reading(bodies: list[bytes], n_times: int) -> None:
    assert _comparable(_rows(_tables(bodies * n_times))) == _comparable(_oracle(bodies * n_times))


@pytest.mark.parametrize("block_bytes", [40, 100, 1000, 8 << 20])
def test_blocks_of_any_size_give_the_same(
    monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    bodies = [
        int_field(1, i % 4 + 1)
        + int_field(2, 3**i % 2**50)
        + int_field(3, i)
        + bytes_field(4, int_field(1, 1) + bytes_field(5, "x" * (i % 90)))
        for i in range(300)
    ]
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(lines, "_SHORT_LINE_BYTES", 0)
    assert _rows(_tables(bodies)) == _oracle(bodies)


def test_events_larger_than_a_row_and_larger_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    long = [bytes_field(4, int_field(1, 1) + bytes_field(5, "y" * n)) for n in (900, 5000, 70_000)]
    bodies = [int_field(1, 2) + int_field(2, 9) + stat for stat in long] * 30
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 4096)
    assert _rows(_tables(bodies)) == _oracle(bodies)
