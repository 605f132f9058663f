"""Batches of trace events to columns, with no Python statement per event on the usual path.

Usual events are `X` (complete) with numbers as numbers. Where a batch holds anything else (numbers
as texts, names that are no texts, missing fields) it is put in order event by event first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from explane.capture.assemble import StringPool
from explane.capture.model import I32, I64, MISSING

NUMBER_ARGS: Final = (
    "correlation_id",
    "program_id",
    "step_num",
    "cuda_graph_id",
    "cuda_graph_node_id",
)
TEXT_ARGS: Final = (
    "hlo_op",
    "hlo_module",
    "name",
    "kernel_details",
    "memcpy_details",
    "memset_details",
    "memalloc_details",
    "memfree_details",
    "memory_residency_details",
)
FAR_PS: Final = 1 << 62
"""Start given to events whose time is no number, so that the rule for times rejects them."""

_PHASES: Final = frozenset("abceGDfFiInNOpPRstSTv(),=")
_EPOCH_US: Final = 1e12
_EXACT_US: Final = 2**52 / 1e6
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Complete events of one batch, in file order.

    Attributes:
        pid, tid: As stored; ids beyond 63 bits wrap to negative.
        start_ps, duration_ps: Whole picoseconds.
        name: Codes of the pool.
        rows: Which events have arguments.
        args: Columns of arguments by name, aligned with `rows`; absent when no event of the batch
            has it. Numbers are int64 with -1 for none, texts are codes with -1 for none.
    """

    pid: I64
    tid: I64
    start_ps: I64
    duration_ps: I64
    name: I32
    rows: npt.NDArray[np.intp]
    args: Mapping[str, npt.NDArray[np.signedinteger[Any]]]


@dataclass
class ColumnReader:
    """Turns batches into columns and keeps what concerns the file as a whole.

    Attributes:
        pool: Pool of all texts.
        keeps_python: Whether events of the Python tracer are kept.
        n_events: Complete events, kept or not.
        n_python_events: Those of the Python tracer that were not kept.
        processes: `process_name` by pid.
        threads: `thread_name` by (pid, tid), in file order.
        thread_order: `thread_sort_index` by (pid, tid).
        n_surrogates: Texts with lone surrogates, replaced by U+FFFD.
        n_unmatched: `B` without `E` and `E` without `B`.
        n_bad_times: Events whose time is no finite number.
        n_without_duration: Complete events without `dur`; taken as 0.
        other_phases: Events that are neither complete nor a pair nor metadata, by phase.
        base_us: What was taken off each time: 0, or the first time when times count from 1970.
        is_exact: False when times are so large that picoseconds can't be told apart.
    """

    pool: StringPool
    keeps_python: bool = True
    n_events: int = 0
    n_python_events: int = 0
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    thread_order: dict[tuple[int, int], int] = field(default_factory=dict)
    n_surrogates: int = 0
    n_unmatched: int = 0
    n_bad_times: int = 0
    n_without_duration: int = 0
    other_phases: Counter[str] = field(default_factory=Counter)
    base_us: float | None = None
    is_exact: bool = True
    _open: dict[tuple[object, object], list[_Event]] = field(default_factory=dict)

    def columns(self, batch: Sequence[Any]) -> EventColumns:
        """Columns of the complete events of a batch; pairs end up in the batch of their end."""
        events = [event for event in batch if type(event) is dict]
        complete = [event for event in events if event.get("ph") == "X"]
        if len(complete) < len(events):
            for event in events:
                if event.get("ph") != "X":
                    self._other(event, complete)
        self.n_events += len(complete)
        if not self.keeps_python:
            complete = self._without_python(complete)
        try:
            return self._convert(complete)
        except (KeyError, TypeError, ValueError, OverflowError):
            ordered = map(self._ordered, complete)
            return self._convert([event for event in ordered if event is not None])

    def _without_python(self, complete: list[_Event]) -> list[_Event]:
        kept = [event for event in complete if not _text(event.get("name")).startswith("$")]
        self.n_python_events += len(complete) - len(kept)
        return kept

    def finish(self) -> None:
        """Counts the pairs that were never closed."""
        self.n_unmatched += sum(map(len, self._open.values()))
        self._open.clear()

    # ------------------------------------------------------------------------ events one by one

    def _other(self, event: _Event, complete: list[_Event]) -> None:
        """An event that is not complete: metadata, one end of a pair, or of no use here."""
        phase = event.get("ph")
        if phase == "M":
            self._metadata(event)
        elif phase in ("B", "E"):
            self._pair(event, complete)
        elif isinstance(phase, str):
            self.other_phases[phase if phase in _PHASES else "other"] += 1

    def _metadata(self, event: _Event) -> None:
        pid, tid = _whole(event.get("pid")), _whole(event.get("tid"))
        args = event.get("args")
        if pid is None or not isinstance(args, dict):
            return
        kind, name = event.get("name"), self._clean(_text(args.get("name", "")))
        if kind == "process_name":
            self.processes.setdefault(pid, name)
        elif tid is not None and kind == "thread_name":
            self.threads.setdefault((pid, tid), name)
        elif tid is not None and kind == "thread_sort_index":
            order = _whole(args.get("sort_index"))
            if order is not None:
                self.thread_order.setdefault((pid, tid), order)

    def _pair(self, event: _Event, complete: list[_Event]) -> None:
        """Joins `B` and `E` of a thread, innermost first, in the order of the file."""
        place = (_whole(event.get("pid")), _whole(event.get("tid")))
        if event["ph"] == "B":
            self._open.setdefault(place, []).append(event)
            return
        begun = self._open.get(place)
        begin = begun.pop() if begun else {}
        start, end = _real(begin.get("ts")), _real(event.get("ts"))
        if start is None or end is None or end < start:
            self.n_unmatched += 1 + bool(begin)
            return
        args = {**_dict(begin.get("args")), **_dict(event.get("args"))}
        complete.append({**begin, "ph": "X", "dur": end - start, "args": args})

    def _ordered(self, event: _Event) -> _Event | None:
        """The event with the types that conversion needs; None when it has no place or time."""
        pid, tid = _whole(event.get("pid")), _whole(event.get("tid", 0))
        start, length = _real(event.get("ts")), _real(event.get("dur"))
        if pid is None or tid is None or start is None:
            return None
        self.n_without_duration += length is None
        return {
            "pid": pid,
            "tid": tid,
            "ts": start,
            "dur": length or 0.0,
            "name": _text(event.get("name", "")),
            "args": _dict(event.get("args")),
        }

    # ------------------------------------------------------------------------------ many at once

    def _convert(self, events: Sequence[_Event]) -> EventColumns:
        count = len(events)
        pid = np.fromiter(map(itemgetter("pid"), events), np.int64, count)
        tid = np.fromiter(map(itemgetter("tid"), events), np.int64, count)
        start_us = np.fromiter(map(itemgetter("ts"), events), np.float64, count)
        length_us = np.fromiter(map(itemgetter("dur"), events), np.float64, count)
        names = self._codes(list(map(itemgetter("name"), events)))
        found = [event.get("args") for event in events]
        rows = [row for row, args in enumerate(found) if args and type(args) is dict]
        args = self._args([args for args in found if args and type(args) is dict])
        start_ps, duration_ps = self._times(start_us, length_us)
        return EventColumns(
            pid, tid, start_ps, duration_ps, names, np.array(rows, dtype=np.intp), args
        )

    def _times(
        self, start_us: npt.NDArray[np.float64], length_us: npt.NDArray[np.float64]
    ) -> tuple[I64, I64]:
        """Microseconds to whole picoseconds.

        XLA prints doubles with 17 digits, so the picosecond that it started from comes back by
        rounding. It writes at least 1 ps where the duration is 0; no tracer clock is finer than a
        nanosecond, so 1 ps is read as 0.
        """
        finite = np.isfinite(start_us) & np.isfinite(length_us)
        if self.base_us is None and finite.any():
            late = float(np.median(start_us[finite])) > _EPOCH_US
            self.base_us = float(np.floor(start_us[finite].min())) if late else 0.0
        start_us = start_us - (self.base_us or 0.0)
        finite &= (abs(start_us) < FAR_PS / 1e6) & (abs(length_us) < FAR_PS / 1e6)
        if not finite.all():
            self.n_bad_times += int(np.count_nonzero(~finite))
            start_us = np.where(finite, start_us, FAR_PS / 1e6)
            length_us = np.where(finite, length_us, 0.0)
        if self.base_us or (len(start_us) and abs(start_us[finite]).max(initial=0.0) > _EXACT_US):
            self.is_exact = False
        start_ps = np.rint(start_us * 1e6).astype(np.int64)
        duration_ps = np.rint(length_us * 1e6).astype(np.int64)
        duration_ps[duration_ps == 1] = 0
        return start_ps, duration_ps

    def _args(self, found: list[_Event]) -> dict[str, npt.NDArray[np.signedinteger[Any]]]:
        present = set(chain.from_iterable(found))
        columns: dict[str, npt.NDArray[np.signedinteger[Any]]] = {}
        for key in NUMBER_ARGS:
            if key in present:
                columns[key] = _numbers([args.get(key) for args in found])
        for key in TEXT_ARGS:
            if key in present:
                columns[key] = self._codes([args.get(key) for args in found])
        return columns

    def _codes(self, texts: list[Any]) -> I32:
        """Codes of texts, one look-up in the pool per distinct text; -1 for None."""
        try:
            distinct = set(texts)
        except TypeError:  # a list or dict among them
            texts = [None if text is None else _text(text) for text in texts]
            distinct = set(texts)
        codes = {text: self.pool.code(self._clean(_text(text))) for text in distinct - {None}}
        codes[None] = MISSING
        return np.fromiter(map(codes.__getitem__, texts), np.int32, len(texts))

    def _clean(self, text: str) -> str:
        """Text that can be encoded: lone surrogates become U+FFFD and are counted."""
        if text.isascii() or not _SURROGATES.search(text):
            return text
        self.n_surrogates += 1
        return _SURROGATES.sub("\ufffd", text)


def _numbers(values: list[Any]) -> I64:
    """Whole numbers, given as numbers or as texts; -1 for what is none."""
    count = len(values)
    try:
        return np.fromiter(
            (MISSING if value is None else int(value) for value in values), np.int64, count
        )
    except (TypeError, ValueError, OverflowError):
        read: Iterable[int | None] = map(_whole, values)
        return np.fromiter((MISSING if n is None else n for n in read), np.int64, count)


def _whole(value: object) -> int | None:
    """A whole number as int64 (ids beyond 63 bits wrap as they do in the xplane), else None."""
    try:
        number = int(str(value)) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        real = _real(value)
        if real is None or not math.isfinite(real):
            return None
        number = int(real)
    if not -(1 << 63) <= number < 1 << 64:
        return None
    return number - (1 << 64) if number >= 1 << 63 else number


def _real(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _dict(value: object) -> _Event:
    return value if isinstance(value, dict) else {}
