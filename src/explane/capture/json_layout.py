"""From process and thread ids of a trace JSON to devices, streams and host threads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from explane.capture.assemble import (
    NO_HINT,
    DeviceColumns,
    HostColumns,
    concatenate,
    missing_numbers,
    missing_texts,
)
from explane.capture.classify import LineRole, role_of_line
from explane.capture.json_columns import EventColumns
from explane.capture.model import I32, I64, MISSING, U8, Bools, Device, Kind, Thread

_DEVICE: Final = re.compile(r"(?:^|\s)/device:GPU:(\d{1,9})(?!\d)")
_HOST: Final = re.compile(r"(?:^|\s)/host:CPU\b")
_HINTS: Final = (
    ("memcpy_details", Kind.MEMCPY),
    ("memset_details", Kind.MEMSET),
    ("memalloc_details", Kind.MARKER),
    ("memfree_details", Kind.MARKER),
    ("memory_residency_details", Kind.MARKER),
)
_DETAILS: Final = ("kernel_details", "memcpy_details", "memset_details")
_Rows = npt.NDArray[np.intp]
_Place = tuple[int, int]


class Layout:
    """Which process is which device, and which of its threads are streams.

    Args:
        processes: `process_name` by pid, in file order.
        threads: `thread_name` by (pid, tid), in file order.
        order: `thread_sort_index` by (pid, tid).

    Attributes:
        threads: Host threads by their sort index, which is the order of lines in the xplane;
            threads without a name come last.
        other_planes: Names of processes that are neither a GPU nor the host, and of those that
            call themselves a GPU which another process is already.
        n_homeless: Events of processes without a name.
    """

    def __init__(
        self,
        processes: Mapping[int, str],
        threads: Mapping[_Place, str],
        order: Mapping[_Place, int],
    ) -> None:
        self.threads: list[Thread] = []
        self.other_planes: list[str] = []
        self.n_homeless = 0
        self._names = dict(processes)
        self._ordinals: dict[int, int] = {}
        self._hosts: list[int] = []
        for pid, name in processes.items():
            self._tell(pid, name)
        self._streams: dict[int, dict[int, str]] = {pid: {} for pid in self._ordinals}
        self._indices: dict[_Place, int] = {}
        for place, name in sorted(threads.items(), key=lambda t: order.get(t[0], len(order))):
            if place[0] in self._hosts:
                self._add_thread(place, name)
        for (pid, tid), name in threads.items():
            if pid in self._streams:
                self._streams[pid][tid] = name

    def _tell(self, pid: int, name: str) -> None:
        match = _DEVICE.search(name)
        if match and int(match[1]) not in self._ordinals.values():
            self._ordinals[pid] = int(match[1])
        elif _HOST.search(name) and not match:
            self._hosts.append(pid)
        else:
            self.other_planes.append(name)

    def _add_thread(self, place: _Place, name: str) -> None:
        self._indices[place] = len(self.threads)
        self.threads.append(Thread(place[1], name))

    @property
    def devices(self) -> tuple[Device, ...]:
        """GPUs in file order; streams also when they have no event."""
        return tuple(
            Device(ordinal, self._names[pid], {}, self._working_streams(pid))
            for pid, ordinal in self._ordinals.items()
        )

    def _working_streams(self, pid: int) -> dict[int, str]:
        return {
            tid: name
            for tid, name in self._streams[pid].items()
            if role_of_line(name, tid) is LineRole.STREAM
        }

    def tables(self, batches: list[EventColumns]) -> tuple[DeviceColumns, HostColumns]:
        """Device and host events of all batches; the list is emptied to free memory on the way."""
        devices, hosts = [], []
        batches.reverse()
        while batches:
            batch = batches.pop()
            known = np.isin(batch.pid, list(self._names))
            self.n_homeless += len(batch.pid) - int(np.count_nonzero(known))
            for pid in map(int, np.unique(batch.pid)):
                mine = batch.pid == pid
                if pid in self._ordinals:
                    devices.append(self._device_columns(batch, pid, mine))
                elif pid in self._hosts:
                    hosts.append(self._host_columns(batch, pid, mine))
        return concatenate(devices, DeviceColumns), concatenate(hosts, HostColumns)

    def _device_columns(self, batch: EventColumns, pid: int, mine: Bools) -> DeviceColumns:
        streams = self._streams[pid]
        idle = []
        for tid in map(int, np.unique(batch.tid[mine])):
            if role_of_line(streams.setdefault(tid, ""), tid) is not LineRole.STREAM:
                idle.append(tid)
        rows = np.flatnonzero(mine & ~np.isin(batch.tid, idle)) if idle else np.flatnonzero(mine)
        args = _Args(batch, rows)
        return DeviceColumns(
            device=np.full(len(rows), self._ordinals[pid], np.int32),
            stream=batch.tid[rows],
            start_ps=batch.start_ps[rows],
            duration_ps=batch.duration_ps[rows],
            name=batch.name[rows],
            hint=args.hint(),
            correlation_id=args.numbers("correlation_id"),
            program_id=args.numbers("program_id"),
            hlo_op=args.texts("hlo_op"),
            hlo_module=args.texts("hlo_module"),
            scope_name=args.texts("name"),
            details=args.texts(*_DETAILS),
            graph_id=args.numbers("cuda_graph_id"),
            graph_node_id=args.numbers("cuda_graph_node_id"),
        )

    def _host_columns(self, batch: EventColumns, pid: int, mine: Bools) -> HostColumns:
        rows = np.flatnonzero(mine)
        tids, inverse = np.unique(batch.tid[rows], return_inverse=True)
        for tid in map(int, tids):
            if (pid, tid) not in self._indices:
                self._add_thread((pid, tid), "")
        indices = np.array([self._indices[pid, int(tid)] for tid in tids], dtype=np.int32)
        args = _Args(batch, rows)
        return HostColumns(
            thread=indices[inverse],
            start_ps=batch.start_ps[rows],
            duration_ps=batch.duration_ps[rows],
            name=batch.name[rows],
            correlation_id=args.numbers("correlation_id"),
            program_id=args.numbers("program_id"),
            hlo_op=args.texts("hlo_op"),
            step_num=args.numbers("step_num"),
        )


class _Args:
    """Arguments of some events of a batch, spread to one value per event."""

    def __init__(self, batch: EventColumns, rows: _Rows) -> None:
        self._batch = batch
        self._count = len(rows)
        place = np.full(len(batch.pid), MISSING, dtype=np.intp)
        place[batch.rows] = np.arange(len(batch.rows))
        self._source = place[rows]
        self._has = self._source != MISSING

    def numbers(self, name: str) -> I64:
        """Whole numbers; -1 for none."""
        column = self._spread((name,), np.int64)
        return missing_numbers(self._count) if column is None else column

    def texts(self, *names: str) -> I32:
        """Text codes; the first of several arguments that an event has, -1 for none."""
        column = self._spread(names, np.int32)
        return missing_texts(self._count) if column is None else column

    def hint(self) -> U8:
        """The kind that an argument proves."""
        hint = np.full(self._count, NO_HINT, np.uint8)
        for name, kind in _HINTS:
            column = self._spread((name,), np.int32)
            if column is not None:
                hint[column != MISSING] = kind
        return hint

    def _spread(self, names: tuple[str, ...], dtype: type[np.signedinteger[Any]]) -> Any:
        made = None
        for name in reversed(names):
            column = self._batch.args.get(name)
            if column is None:
                continue
            if made is None:
                made = np.full(self._count, MISSING, dtype)
            values = column[self._source[self._has]]
            filled = np.flatnonzero(self._has)[values != MISSING]
            made[filled] = values[values != MISSING]
        return made
