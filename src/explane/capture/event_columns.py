"""Decoded events to the columns of device and host tables, and to their lines.

Events without an own start (`num_occurrences`, aggregated) are left out: they say how often
something happened, not when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from explane.capture.assemble import (
    NO_HINT,
    DeviceColumns,
    HostColumns,
    missing_numbers,
    missing_texts,
    split_host,
)
from explane.capture.events import EventTable
from explane.capture.growing import GrowingTable, pick
from explane.capture.model import I32, I64, U8, Kind
from explane.capture.stats import PlaneValues
from explane.units import PS_PER_NS

# Stat name -> column. Names as in xplane_schema and the collectors.
DEVICE_STATS: Final = {
    "correlation_id": "correlation_id",
    "program_id": "program_id",
    "hlo_op": "hlo_op",
    "hlo_module": "hlo_module",
    "name": "scope_name",
    "cuda_graph_id": "graph_id",
    "cuda_graph_node_id": "graph_node_id",
    "kernel_details": "kernel_details",
    "memcpy_details": "memcpy_details",
    "memset_details": "memset_details",
    "memalloc_details": "memory",
    "memfree_details": "memory",
    "memory_residency_details": "memory",
}
HOST_STATS: Final = {
    "correlation_id": "correlation_id",
    "program_id": "program_id",
    "hlo_op": "hlo_op",
    "step_num": "step_num",
}
# What the presence of a details stat proves, least specific first.
_HINTS: Final = (
    ("memcpy_details", Kind.MEMCPY),
    ("memset_details", Kind.MEMSET),
    ("memory", Kind.MARKER),
)
_TIME_LIMIT_PS: Final = (1 << 63) - 1
#: No session lasts 26 days: a line that starts later counts from the epoch.
LATEST_SESSION_NS: Final = (1 << 61) // PS_PER_NS
_SLICE_ROWS: Final = 1 << 20


def device_columns(table: EventTable, ordinal: int, values: PlaneValues) -> DeviceColumns:
    """Device events of a plane. `stream` is the number of the line until `place` is called."""
    rows = np.flatnonzero(~table.aggregated)
    count = len(rows)

    def number(name: str) -> I64:
        column = table.stats.get(name)
        return (
            missing_numbers(count) if column is None else values.numbers(column, table.texts)[rows]
        )

    def text(name: str) -> I32:
        column = table.stats.get(name)
        if column is None:
            return missing_texts(count)
        return values.texts(column, table.texts)[rows]

    details = text("kernel_details")
    for name, _ in _HINTS:
        other = text(name)
        details = np.where(other >= 0, other, details)
    return DeviceColumns(
        device=np.broadcast_to(np.int32(ordinal), count),
        stream=pick(table.line, rows),
        start_ps=table.offset_ps[rows],
        duration_ps=table.duration_ps[rows],
        name=values.event_names(table.metadata_id[rows]),
        hint=_hints(table, rows),
        correlation_id=number("correlation_id"),
        program_id=number("program_id"),
        hlo_op=text("hlo_op"),
        hlo_module=text("hlo_module"),
        scope_name=text("scope_name"),
        details=details,
        graph_id=number("graph_id"),
        graph_node_id=number("graph_node_id"),
    )


def _hints(table: EventTable, rows: I64) -> U8:
    """Kind that a details stat proves, NO_HINT where there is none."""
    hint = np.full(len(rows), NO_HINT, dtype=np.uint8)
    for name, kind in _HINTS:
        column = table.stats.get(name)
        if column is not None:
            hint[column.field[rows] != 0] = kind
    return hint


def host_columns(table: EventTable, values: PlaneValues) -> tuple[HostColumns, HostColumns]:
    """Launches and other events of a plane. `thread` is the number of the line until `place`."""
    rows = np.flatnonzero(~table.aggregated)
    return split_host(_host_columns(table, rows, values))


def _host_columns(table: EventTable, rows: I64, values: PlaneValues) -> HostColumns:
    count = len(rows)

    def number(name: str) -> I64:
        column = table.stats.get(name)
        return (
            missing_numbers(count) if column is None else values.numbers(column, table.texts)[rows]
        )

    hlo_op = table.stats.get("hlo_op")
    return HostColumns(
        thread=pick(table.line, rows),
        start_ps=table.offset_ps[rows],
        duration_ps=table.duration_ps[rows],
        name=values.event_names(table.metadata_id[rows]),
        correlation_id=number("correlation_id"),
        program_id=number("program_id"),
        hlo_op=missing_texts(count) if hlo_op is None else values.texts(hlo_op, table.texts)[rows],
        step_num=number("step_num"),
    )


@dataclass(frozen=True, slots=True)
class Places:
    """What the number of a line stands for.

    Attributes:
        column: `stream` or `thread`: the column that holds the number.
        ids: What it becomes, by number.
        bases_ps: Start of each line since the session start.
        rooms_ps: Largest offset that int64 can hold with it; -1 (nothing fits) for lines that
            start beyond int64 themselves.
    """

    column: str
    ids: I64
    bases_ps: I64
    rooms_ps: I64

    @classmethod
    def of(cls, column: str, ids: list[int], starts_ns: list[int], epoch_ns: int) -> Places:
        """Places from ids and `XLine.timestamp_ns`; late ones count from `epoch_ns`."""
        since = [ns - epoch_ns if ns > LATEST_SESSION_NS else ns for ns in starts_ns]
        bases = [ns * PS_PER_NS for ns in since]
        rooms = [max(_TIME_LIMIT_PS - abs(base), -1) for base in bases]
        fitting = [base if room >= 0 else 0 for base, room in zip(bases, rooms, strict=True)]
        return cls(column, *(np.array(part, dtype=np.int64) for part in (ids, fitting, rooms)))


def place(table: GrowingTable[Any], first: int, places: Places) -> None:
    """Turn numbers of lines into ids, and count starts from the session instead of the line.

    What int64 can't hold becomes the largest int64, which the time rule then rejects.

    Args:
        table: The table.
        first: The first row that holds a number.
        places: What the numbers stand for.
    """
    if first == len(table):
        return
    bases_ps, rooms_ps = places.bases_ps, places.rooms_ps
    starts = table.rows("start_ps", first)
    number = table.constant(places.column)
    if number is not None and first == 0:
        _shift(starts, bases_ps[number], rooms_ps[number])
        table.fill(places.column, first, int(places.ids[number]))
        return
    numbers = table.rows(places.column, first)
    for at in range(0, len(starts), _SLICE_ROWS):
        part = numbers[at : at + _SLICE_ROWS]
        _shift(starts[at : at + _SLICE_ROWS], bases_ps[part], rooms_ps[part])
        part[:] = places.ids[part]


def _shift(starts: I64, base_ps: I64, room_ps: I64) -> None:
    beyond = np.flatnonzero((starts > room_ps) | (starts < -room_ps))
    starts[beyond] = 0
    starts += base_ps
    starts[beyond] = _TIME_LIMIT_PS
