"""Reads `<host>.xplane.pb` (XSpace) into a `Capture`.

The file is mapped, not loaded. Planes and lines are found by their length fields; what no
analysis needs is never decoded. Of a damaged file the complete planes are kept, the capture is
marked partial and a note carries the byte offset.

Sources: tsl/profiler/protobuf/xplane.proto; plane, line and stat names as XLA's collectors write
them (cupti_collector, rocm_collector, xplane_schema, metadata_collector).
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from explane.capture.assemble import StringPool, assemble_parts
from explane.capture.blocks import MappedFile
from explane.capture.event_columns import LATEST_SESSION_NS
from explane.capture.model import (
    MISSING,
    Capture,
    Device,
    Note,
    NoteKind,
    StoredProgram,
)
from explane.capture.options import ReadOptions
from explane.capture.plane_reader import PlaneReader
from explane.capture.planes import (
    XPlane,
    XSpace,
    plane_name,
    read_stat,
    scan_plane,
    scan_space,
)
from explane.capture.stats import integer
from explane.capture.wire import Buffer, WireError
from explane.capture.xplane_notes import count_notes, limit_notes, message_notes, nature_of
from explane.errors import CaptureError

_DEVICE_PLANE: Final = re.compile(r"/device:GPU:(\d{1,9})$")
# Collectors' own host planes; the profiler merges them into the first before it saves a file.
_HOST_PLANES: Final = frozenset(
    {"/host:CPU", "/host:CUPTI", "/host:ROCTRACER", "/host:python-tracer", "/host:NVTX-CUPTI"}
)
_METADATA_PLANE: Final = "/host:metadata"
_SESSION_PLANE: Final = "Task Environment"
_PROGRAM_STAT: Final = "hlo proto"
_PROGRAM_ID: Final = re.compile(r"\((\d{1,20})\)$")


def read_xplane(path: Path, options: ReadOptions | None = None) -> Capture:
    """Read one xplane file.

    Args:
        path: The file.
        options: What to leave out.

    Returns:
        The capture; `partial` when damage cost a part of it. What kind of capture it is (GPU,
        TPU, host only) is for the caller to judge.

    Raises:
        CaptureError: The file can't be opened, is empty, or holds no complete plane.
    """
    options = options or ReadOptions()
    with _mapped(path, options.advance) as (buffer, size):
        return _Reader(path, buffer, size, options).read()


@contextmanager
def _mapped(path: Path, advance: Callable[[int], None]) -> Iterator[tuple[Buffer, int]]:
    """The file as a read-only map, and its size."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size == 0:
                raise CaptureError(
                    path,
                    "empty file (0 bytes): the profiler died while writing it, or the capture "
                    "passed protobuf's 2 GiB limit",
                    "capture again, with fewer steps",
                    "empty_file",
                )
            with MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                mapped.advance = advance
                yield mapped, size
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise CaptureError(path, f"can't be read: {reason}", slug="unreadable") from problem


class _Reader:
    """One pass over one file."""

    def __init__(self, path: Path, buffer: Buffer, size: int, options: ReadOptions):
        self.path = path
        self.buffer = buffer
        self.size = size
        self.options = options
        self.pool = StringPool()
        self.planes = PlaneReader(buffer, self.pool, options)
        self.damages: list[Note] = []
        self.devices: list[Device] = []
        self.programs: dict[int, StoredProgram] = {}
        self.session: dict[str, int | float | str] = {}
        self.other: list[str] = []

    def read(self) -> Capture:
        """The capture."""
        with self.options.progress.stage("scan: planes"):
            space = scan_space(self.buffer, self.size)
            if space.damage is not None:
                self._damaged(space.damage, "the file")
            planes = list(self._scanned(space))
        with self.options.progress.stage("decode: events"):
            return self._decoded(space, planes)

    def _decoded(self, space: XSpace, planes: list[XPlane]) -> Capture:
        sessions = [plane for plane in planes if plane.name == _SESSION_PLANE]
        others = [plane for plane in planes if plane.name != _SESSION_PLANE]
        n_read = sum(self._undamaged(plane) for plane in sessions)
        self._set_epoch(others)
        n_read += sum(self._undamaged(plane) for plane in others)
        if not n_read:
            self._refuse(space)
        return self._capture(space)

    def _scanned(self, space: XSpace) -> Iterator[XPlane]:
        """Planes without their events, but for damaged ones."""
        for span in space.planes:
            name = "without a readable name"
            try:
                name = self.pool.decode(plane_name(self.buffer, span))
                yield scan_plane(self.buffer, span, name)
            except WireError as damage:
                self._damaged(damage, f"plane {name}")

    def _undamaged(self, plane: XPlane) -> bool:
        """Read a plane; False when it is damaged."""
        try:
            self._read_plane(plane)
        except WireError as damage:
            self._damaged(damage, f"plane {plane.name}")
            return False
        return True

    def _set_epoch(self, planes: list[XPlane]) -> None:
        """Find out whether lines count from the epoch, which saved captures do not.

        Picoseconds since the epoch do not fit into int64, so those lines are counted from the
        start of the session, or from the first of them when the file does not say it.
        """
        heads: list[int] = []
        for plane in planes:
            if _DEVICE_PLANE.match(plane.name) or plane.name in _HOST_PLANES:
                heads += self.planes.timestamps_ns(plane)
        late = [head for head in heads if head > LATEST_SESSION_NS]
        if late:
            start = self.session.get("profile_start_time", 0)
            known = isinstance(start, int) and LATEST_SESSION_NS < start <= min(late)
            self.planes.epoch_ns = int(start) if known else min(late)

    def _read_plane(self, plane: XPlane) -> None:
        device = _DEVICE_PLANE.match(plane.name)
        if device:
            self._read_device(plane, int(device.group(1)))
        elif plane.name in _HOST_PLANES:
            if self.options.host_planes:
                self.planes.read_host(plane)
        elif plane.name == _METADATA_PLANE:
            self._read_programs(plane)
        elif plane.name == _SESSION_PLANE:
            self.session |= self.planes.plane_stats(plane, self.planes.values(plane))
        else:
            self.other.append(plane.name)

    def _read_device(self, plane: XPlane, ordinal: int) -> None:
        """Reads a GPU's plane. A second one with events is no part of the first: files joined."""
        if plane.lines and any(d.ordinal == ordinal and d.streams for d in self.devices):
            text = f"the file has several planes {plane.name} (captures joined into one?)"
            note = Note("repeated_plane", NoteKind.DAMAGE, 1, f"{text}; the first is used")
            self.damages.append(note)
            return
        device = self.planes.read_device(plane, ordinal)
        self.devices = [d for d in self.devices if d.ordinal != ordinal or d.streams]
        if device.streams or not any(d.ordinal == ordinal for d in self.devices):
            self.devices.append(device)

    def _read_programs(self, plane: XPlane) -> None:
        values = self.planes.values(plane)
        stats = self.planes.plane_stats(plane, values)
        self.session = {**stats, **self.session}
        if not self.options.programs:
            return
        for key, raw in plane.event_metadata.names(self.buffer):
            name = self.pool.decode(raw)
            found = {}
            for span in plane.event_metadata.stats.get(key, ()):
                stat = read_stat(self.buffer, span)
                found[values.stat_name(stat).lower()] = values.value(stat)
            proto = found.get(_PROGRAM_STAT)
            if isinstance(proto, bytes):
                program_id = _program_id(key, name, found.get("program_id"))
                self.programs[program_id] = StoredProgram(program_id, name, proto)

    def _damaged(self, damage: WireError, where: str) -> None:
        text = f"{where} is damaged: {damage}; complete planes were kept"
        self.damages.append(Note("truncated", NoteKind.DAMAGE, 1, text))

    def _refuse(self, space: XSpace) -> None:
        head = bytes(self.buffer[: 1 << 16])
        if space.damage is not None or space.planes:
            reason = self.damages[0].text.removesuffix("; complete planes were kept")
        else:
            reason = "it holds no plane"
        raise CaptureError(
            self.path,
            f"no complete plane in {self.size} bytes: {reason}{nature_of(head)}",
            "copy the file again in binary form, or use the trace.json.gz beside it",
            "corrupt" if self.damages else "not_xspace",
        )

    def _capture(self, space: XSpace) -> Capture:
        planes = self.planes
        tables = planes.devices.finish(), planes.called.finish(), planes.others.finish()
        records = assemble_parts(*tables, self.pool, self.options)
        texts = [
            tuple(map(self.pool.decode, raws))
            for raws in (space.errors, space.warnings, space.hostnames)
        ]
        errors, warnings, hostnames = texts
        found = [*self.damages, *message_notes(errors + warnings), *records.notes]
        found += limit_notes(records, self.planes.epoch_ns)
        found += count_notes(planes.counts, self.pool.n_invalid)
        return Capture(
            host=next(filter(None, hostnames), self.path.name.removesuffix(".xplane.pb")),
            path=self.path,
            source="xplane",
            strings=self.pool.strings,
            kernels=records.kernels,
            host_events=records.host_events,
            launches=records.launches,
            threads=tuple(planes.threads),
            devices=tuple(self.devices),
            markers=records.markers,
            programs=self.programs,
            session=self.session,
            errors=errors,
            warnings=warnings,
            other_planes=tuple(self.other),
            notes=tuple(found),
            partial=bool(self.damages),
            n_host_events=records.n_host_events + planes.counts.n_left_out,
            n_python_events=records.n_python_events + planes.counts.n_python_events,
        )


def _program_id(key: int, name: str, stat: object) -> int:
    """Id of a stored program: its stat (jax 0.10), else the one in `module(id)`, else the key.

    The key is the id in older files only; in newer ones it counts entries.
    """
    if isinstance(stat, int | str) and integer(str(stat)) != MISSING:
        return integer(str(stat))
    found = _PROGRAM_ID.search(name)
    return integer(found.group(1)) if found else key
