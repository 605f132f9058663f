"""From plain columns to the tables of a `Capture`: what the xplane and the JSON reader share.

A reader fills `DeviceColumns` and `HostColumns` in file order and calls `assemble`, which tells
kinds, drops markers, splits host events from launches, judges times and sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.capture.classify import is_graph_launch, is_python_event, is_whole_graph, kind_of_name
from explane.capture.growing import Array, Columns, GrowingTable, is_constant, pick
from explane.capture.model import (
    I32,
    I64,
    MISSING,
    U8,
    Bools,
    HostEvents,
    Kernels,
    Kind,
    Launches,
    Note,
    NoteKind,
)
from explane.capture.options import ReadOptions
from explane.capture.short_events import kept_rows
from explane.capture.times import judge_times

NO_HINT: Final = 255


class StringPool:
    """Distinct texts in order of first use; their positions are the codes of text columns.

    Attributes:
        strings: The texts.
        n_invalid: How many of the byte strings handed to `code_of_bytes` were no UTF-8.
    """

    def __init__(self) -> None:
        self.strings: list[str] = []
        self.n_invalid = 0
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The code of a text, new or known."""
        code = self._codes.setdefault(text, len(self.strings))
        if code == len(self.strings):
            self.strings.append(text)
        return code

    def codes(self, texts: Iterable[str]) -> I32:
        """The codes of several texts."""
        return np.fromiter((self.code(text) for text in texts), dtype=np.int32)

    def code_of_bytes(self, raw: bytes) -> int:
        """The code of a byte string; bytes that are not UTF-8 become U+FFFD and are counted."""
        return self.code(self.decode(raw))

    def decode(self, raw: bytes) -> str:
        """Bytes as text; what is not UTF-8 becomes U+FFFD and is counted."""
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.n_invalid += 1
            return raw.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class DeviceColumns:
    """Device events in file order, markers included. Missing: -1 in ids and in text codes.

    Attributes:
        hint: `Kind` that a stat proves (memcpy_details, memset_details, memory events are
            MARKER), or NO_HINT. The others are as in `Kernels`.
    """

    device: I32
    stream: I64
    start_ps: I64
    duration_ps: I64
    name: I32
    hint: U8
    correlation_id: I64
    program_id: I64
    hlo_op: I32
    hlo_module: I32
    scope_name: I32
    details: I32
    graph_id: I64
    graph_node_id: I64


@dataclass(frozen=True, slots=True)
class HostColumns:
    """Host events in file order, launches included. Missing: -1. As in the model's tables.

    An event with a `correlation_id` is a launch.
    """

    thread: I32
    start_ps: I64
    duration_ps: I64
    name: I32
    correlation_id: I64
    program_id: I64
    hlo_op: I32
    step_num: I64


@dataclass(frozen=True, slots=True)
class Records:
    """The three tables of a capture, and what was found while making them.

    Attributes:
        markers: Device events that are no work, by name; they are in no table.
        n_host_events: Host events that were handed over, kept or not.
        n_python_events: Events of the Python tracer among them.
    """

    kernels: Kernels
    launches: Launches
    host_events: HostEvents
    markers: dict[str, int]
    notes: tuple[Note, ...]
    n_host_events: int
    n_python_events: int


def assemble(
    device: DeviceColumns,
    host: HostColumns,
    pool: StringPool,
    options: ReadOptions | None = None,
) -> Records:
    """Make the tables of a capture from columns in file order.

    Sorting is stable and leaves file order among equals, as `Kernels`, `Launches` and
    `HostEvents` promise.

    Args:
        device: Events of all device streams. Taken over: its columns are put in order in place.
        host: Events of all host threads, taken over too.
        pool: Pool of the name and text codes.
        options: Host events to leave out.
    """
    host_parts = split_host(host)
    del host
    return assemble_parts(device, *host_parts, pool, options or ReadOptions())


def split_host(host: HostColumns) -> tuple[HostColumns, HostColumns]:
    """Launches (events with a correlation id) and the other events."""
    called = host.correlation_id != MISSING
    n_called = int(np.count_nonzero(called))
    none = np.zeros(0, dtype=np.intp)
    if n_called in (0, len(called)):
        empty = take(host, none)
        return (host, empty) if n_called else (empty, host)
    return take(host, np.flatnonzero(called)), take(host, np.flatnonzero(~called))


def assemble_parts(
    device: DeviceColumns,
    called: HostColumns,
    others: HostColumns,
    pool: StringPool,
    options: ReadOptions,
) -> Records:
    """`assemble` of host events that are split already; all tables are taken over."""
    launches, n_host = _launches(called, pool), len(others.start_ps)
    others, n_python = _kept(others, pool, options)
    host_events = _host_events(others)
    if not options.short_events:
        host_events = take(host_events, kept_rows(host_events, pool.strings))
    kinds, markers = _kinds(device, pool)
    if markers:
        work = np.flatnonzero(kinds != Kind.MARKER)
        device, kinds = take(device, work), kinds[work]
    order = sort_order(device.device, device.start_ps, device.stream)
    reorder(device, order)
    kinds = kinds if order is None else kinds[order]
    time_ok, notes = judge_times(device, launches, host_events)
    kernels = _kernels(device, kinds, time_ok)
    notes += _graph_notes(kernels, pool)
    return Records(kernels, launches, host_events, markers, tuple(notes), n_host, n_python)


def sort_order(*keys: Array, descending: Array | None = None) -> npt.NDArray[np.intp] | None:
    """Stable order of rows by some keys, the first key first; None when they are in order.

    Args:
        keys: Ascending keys.
        descending: A last key of which the largest comes first.
    """
    equal = np.ones(max(len(keys[0]) - 1, 0), dtype=bool)
    in_order = True
    for key in keys:
        if not is_constant(key):
            in_order = in_order and not np.any(equal & (key[:-1] > key[1:]))
            equal &= key[:-1] == key[1:]
    if descending is not None:
        in_order = in_order and not np.any(equal & (descending[:-1] < descending[1:]))
    if in_order:
        return None
    last = () if descending is None else (-descending,)
    return np.lexsort((*last, *keys[::-1]))


def take(columns: Columns, rows: npt.NDArray[np.intp]) -> Columns:
    """Rows of all columns of a table whose fields are arrays; a copy."""
    parts = {f.name: pick(getattr(columns, f.name), rows) for f in fields(columns)}  # type: ignore[arg-type]
    return type(columns)(**parts)


def reorder(columns: object, order: npt.NDArray[np.intp] | None) -> None:
    """Put the rows of a table into another order, in place; None leaves them as they are."""
    if order is None:
        return
    for field in fields(columns):  # type: ignore[arg-type]
        column = getattr(columns, field.name)
        if not is_constant(column):
            column[:] = column[order]


def concatenate(tables: list[Columns], kind: type[Columns]) -> Columns:
    """One table of all; with the right types also when there is none. The list is emptied."""
    whole = GrowingTable(kind)
    tables.reverse()
    while tables:
        whole.append(tables.pop())
    return whole.finish()


def missing_numbers(count: int) -> I64:
    """A column of `count` missing numbers that takes no memory (read-only)."""
    return np.broadcast_to(np.int64(MISSING), (count,))


def missing_texts(count: int) -> I32:
    """A column of `count` missing texts that takes no memory (read-only)."""
    return np.broadcast_to(np.int32(MISSING), (count,))


def _by_name(codes: I32, pool: StringPool, test: Callable[[str], bool]) -> Bools:
    """A test of names, run once per distinct code, spread over the events."""
    answers = np.zeros(len(pool.strings) + 1, dtype=bool)
    for code in distinct(codes, len(pool.strings)):
        answers[code] = test(pool.strings[code])
    return answers[codes]


def distinct(codes: I32, n_codes: int) -> list[int]:
    """The distinct codes of a column, ascending, without the missing one."""
    seen = np.zeros(n_codes + 1, dtype=bool)
    seen[codes] = True
    return [int(code) for code in np.flatnonzero(seen[:n_codes])]


def _kinds(device: DeviceColumns, pool: StringPool) -> tuple[U8, dict[str, int]]:
    """Kind of each device event, and how many markers there are by name."""
    table = np.zeros(len(pool.strings) + 1, dtype=np.uint8)
    for code in distinct(device.name, len(pool.strings)):
        table[code] = kind_of_name(pool.strings[code])
    by_name = table[device.name]
    # A peer copy has copy details and is communication all the same.
    hinted = (device.hint != NO_HINT) & (by_name != Kind.COLLECTIVE)
    kinds = np.where(hinted, device.hint, by_name)
    marked = device.name[kinds == Kind.MARKER]
    counts = np.bincount(marked + 1, minlength=1) if len(marked) else np.zeros(1, dtype=np.int64)
    names = ((pool.strings[c - 1] if c else "", int(counts[c])) for c in np.flatnonzero(counts))
    return kinds, dict(sorted(names))


def _kernels(device: DeviceColumns, kinds: U8, time_ok: Bools) -> Kernels:
    parts = {f.name: getattr(device, f.name) for f in fields(device) if f.name != "hint"}
    return Kernels(kind=kinds, time_ok=time_ok, **parts)


def _kept(host: HostColumns, pool: StringPool, options: ReadOptions) -> tuple[HostColumns, int]:
    """Host events that the options keep, and the number of python events among all."""
    python = _by_name(host.name, pool, is_python_event)
    n_python = int(np.count_nonzero(python))
    if not options.host_events:
        return take(host, np.zeros(0, dtype=np.intp)), n_python
    if n_python and not options.python_events:
        return take(host, np.flatnonzero(~python)), n_python
    return host, n_python


def _launches(host: HostColumns, pool: StringPool) -> Launches:
    reorder(host, sort_order(host.start_ps, host.thread))
    return Launches(
        thread=host.thread,
        start_ps=host.start_ps,
        duration_ps=host.duration_ps,
        name=host.name,
        correlation_id=host.correlation_id,
        program_id=host.program_id,
        hlo_op=host.hlo_op,
        is_graph=_by_name(host.name, pool, is_graph_launch),
    )


def _host_events(host: HostColumns) -> HostEvents:
    reorder(host, sort_order(host.thread, host.start_ps, descending=host.duration_ps))
    return HostEvents(
        thread=host.thread,
        start_ps=host.start_ps,
        duration_ps=host.duration_ps,
        name=host.name,
        step_num=host.step_num,
        program_id=host.program_id,
    )


def _graph_notes(kernels: Kernels, pool: StringPool) -> list[Note]:
    whole = int(np.count_nonzero(_by_name(kernels.name, pool, is_whole_graph)))
    if not whole:
        return []
    text = (
        f"{whole} device events stand for whole graph launches (graph-level tracing): "
        "the kernels inside were not recorded"
    )
    return [Note("whole_graph_events", NoteKind.LOSS, whole, text)]
