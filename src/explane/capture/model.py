"""What a capture holds, as frozen columns: the one form that readers make and analyses take.

Times are int64 picoseconds since the session start. A missing number is -1 (`MISSING`), a missing
text is code -1. Text columns are int32 codes into `Capture.strings`. All columns of one table have
the same length; no Python object exists per event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Rows = Bools | npt.NDArray[np.signedinteger[Any]] | slice
"""Some rows of a table: a mask, their numbers or a slice."""

MISSING: Final = -1
_SLICE_ROWS: Final = 1 << 18


class Kind(IntEnum):
    """What a device event is. Markers are no kernels and are never counted as work."""

    COMPUTE = 0
    COLLECTIVE = 1
    MEMCPY = 2
    MEMSET = 3
    MARKER = 4

    @property
    def word(self) -> str:
        """The fixed lower-case word used in tables."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Kernels:
    """Device events without markers, sorted by (device, start_ps, stream, file order).

    Attributes:
        device: Ordinal of the plane `/device:GPU:N`.
        stream: Line id as stored (XLine.id), any 64-bit value.
        start_ps, duration_ps: As stored, never corrected.
        name: Code of the kernel name as stored.
        kind: `Kind` values.
        correlation_id: Stat `correlation_id`; joins `Launches.correlation_id`.
        program_id: Stat `program_id`; key into `Capture.programs`.
        hlo_op: Code of stat `hlo_op`, the tracer's label.
        hlo_module: Code of stat `hlo_module`.
        scope_name: Code of stat `name` (op_name with the module's common prefix stripped).
        details: Code of stat `kernel_details`, `memcpy_details` or `memset_details`.
        graph_id: Stat `cuda_graph_id` (CUDA only).
        graph_node_id: Stat `cuda_graph_node_id` (CUDA only).
        time_ok: False for events whose times can't be true (negative duration, start and duration
            both 0 while others are not, far outside the window). They keep their row and are left
            out of every span, sum and window.
    """

    device: I32
    stream: I64
    start_ps: I64
    duration_ps: I64
    name: I32
    kind: U8
    correlation_id: I64
    program_id: I64
    hlo_op: I32
    hlo_module: I32
    scope_name: I32
    details: I32
    graph_id: I64
    graph_node_id: I64
    time_ok: Bools

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def end_ps(self) -> I64:
        """Exclusive end of each event."""
        return self.start_ps + self.duration_ps

    def ends(self, rows: Rows) -> I64:
        """Exclusive ends of some events; `end_ps` makes a column of all."""
        ends: I64 = self.start_ps[rows] + self.duration_ps[rows]
        return ends


@dataclass(frozen=True, slots=True)
class HostEvents:
    """Host events without the launch calls, sorted by (thread, start_ps, longest first).

    Attributes:
        thread: Index into `Capture.threads`.
        start_ps, duration_ps: As stored.
        name: Code of the event name.
        step_num: Stat `step_num`, set on step markers only.
        program_id: Stat `program_id` / `run_id`-like ids when the event carries one.
    """

    thread: I32
    start_ps: I64
    duration_ps: I64
    name: I32
    step_num: I64
    program_id: I64

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def end_ps(self) -> I64:
        """Exclusive end of each event."""
        return self.start_ps + self.duration_ps

    def ends(self, rows: Rows) -> I64:
        """Exclusive ends of some events; `end_ps` makes a column of all."""
        ends: I64 = self.start_ps[rows] + self.duration_ps[rows]
        return ends


@dataclass(frozen=True, slots=True)
class Launches:
    """Host API calls that carry a correlation id (launches, copies, memsets, graph launches).

    Sorted by (start_ps, thread). A launch may have no, one or many kernels.

    Attributes:
        thread: Index into `Capture.threads`.
        start_ps, duration_ps: The call on the host.
        name: Code of the event name (API name on ROCm, kernel symbol or `cuGraphLaunch…` on CUDA).
        correlation_id: Joins `Kernels.correlation_id`.
        program_id, hlo_op: Label on the host event (rocprofiler-sdk only).
        is_graph: True when the call launches a graph (by its name).
    """

    thread: I32
    start_ps: I64
    duration_ps: I64
    name: I32
    correlation_id: I64
    program_id: I64
    hlo_op: I32
    is_graph: Bools

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def end_ps(self) -> I64:
        """Exclusive end of each call."""
        return self.start_ps + self.duration_ps

    def ends(self, rows: Rows) -> I64:
        """Exclusive ends of some calls; `end_ps` makes a column of all."""
        ends: I64 = self.start_ps[rows] + self.duration_ps[rows]
        return ends


def latest_end_ps(table: Kernels | HostEvents | Launches) -> int:
    """End of the last of some events; in slices, since there can be many millions.

    Args:
        table: At least one event.
    """
    slices = (slice(at, at + _SLICE_ROWS) for at in range(0, len(table), _SLICE_ROWS))
    return max(int(table.ends(rows).max()) for rows in slices)


@dataclass(frozen=True, slots=True)
class Thread:
    """A host thread: line id and name as stored."""

    line_id: int
    name: str


@dataclass(frozen=True, slots=True)
class Device:
    """One `/device:GPU:N` plane.

    `stats` holds the plane's stats as stored (device_vendor, gpu_device_name, core_count,
    clock_rate, memory_bandwidth, memory_size, compute_cap_major, …); empty from a JSON.
    `streams` maps line id to line name, also for lines without events.
    """

    ordinal: int
    plane_name: str
    stats: Mapping[str, int | float | str]
    streams: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class StoredProgram:
    """One stored HLO module: its key, its `module(id)` name and the exact HloProto bytes."""

    program_id: int
    name: str
    hlo_proto: bytes


class NoteKind(IntEnum):
    """How much a reader's note matters."""

    INFO = 0
    LOSS = 1
    DAMAGE = 2


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the reader found and that the trust list must carry.

    Attributes:
        slug: Short fixed word (`invalid_utf8`, `truncated`, `dropped_events`, …).
        kind: INFO, LOSS (the collector lost records) or DAMAGE (the file is broken).
        count: How many, or MISSING when it can't be counted.
        text: One sentence for people.
    """

    slug: str
    kind: NoteKind
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Capture:
    """One process's capture from one file.

    Attributes:
        host: Host name (`XSpace.hostnames`, else the file's stem).
        path: The file it was read from.
        source: `xplane` or `json`.
        strings: Pool that all text codes refer to; bad UTF-8 is replaced and counted in `notes`.
        kernels, host_events, launches: Columns.
        markers: How many device events were markers, by name.
        threads, devices: In file order.
        programs: Stored HLO modules by program id (empty from a JSON).
        session: Stats of `Task Environment` (profile_start_time in ns, versions, …).
        errors, warnings: `XSpace.errors` and `.warnings`.
        other_planes: Names of planes that were not read.
        notes: What the reader found.
        partial: True when the file ended before its end.
        n_host_events: Host events in the file that are no launches, also those that were not kept.
        n_python_events: Those of the Python tracer (`$file.py:line function`) among them.
    """

    host: str
    path: Path
    source: str
    strings: Sequence[str]
    kernels: Kernels
    host_events: HostEvents
    launches: Launches
    threads: tuple[Thread, ...]
    devices: tuple[Device, ...]
    markers: Mapping[str, int] = field(default_factory=dict)
    programs: Mapping[int, StoredProgram] = field(default_factory=dict)
    session: Mapping[str, int | float | str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    other_planes: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    partial: bool = False
    n_host_events: int = 0
    n_python_events: int = 0

    def text(self, code: int) -> str:
        """The string of a code; empty for a missing one."""
        return self.strings[code] if code >= 0 else ""


@dataclass(frozen=True, slots=True)
class HostCapture:
    """What is known of one process: its main record and the JSON beside it, if there is one."""

    main: Capture
    json: Capture | None = None
    json_problem: str = ""
    xplane_problem: str = ""

    def without_host_events(self) -> HostCapture:
        """The same without host events other than launches, to free the memory that they take."""
        return replace(self, main=replace(self.main, host_events=_emptied(self.main.host_events)))

    def without_launches(self) -> HostCapture:
        """The same without launches, to free the memory that they take."""
        return replace(self, main=replace(self.main, launches=_emptied(self.main.launches)))


_Table = TypeVar("_Table", HostEvents, Launches)


def _emptied(table: _Table) -> _Table:
    columns = {column.name: getattr(table, column.name)[:0].copy() for column in fields(table)}
    return type(table)(**columns)
