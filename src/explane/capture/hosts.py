"""What several processes of one run say of each other: copies, shared GPUs, older sessions.

Works on identities, which are small enough to travel between the processes that read the hosts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explane.capture.model import Capture, HostCapture, Note, NoteKind
from explane.units import PS_PER_NS, format_ps

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd and without a pattern: 2**64 over the golden ratio."""

_FEW = 4
"""Events that are looked up first: captures that differ are told apart by these."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """What tells one process's capture from others.

    Attributes:
        host: Its label.
        source: `xplane` or `json`.
        machine: Stored host name; the label when none is stored.
        ordinals: Ordinals of its GPU planes.
        window_ns: Wall-clock start and stop of the session; None when the file has none.
        kernels: A checksum of device, start, length, correlation id and name of every GPU event;
            shape (n,).
    """

    host: str
    source: str
    machine: str
    ordinals: tuple[int, ...]
    window_ns: tuple[int, int] | None
    kernels: npt.NDArray[np.uint64]


def identify(record: HostCapture) -> HostIdentity:
    """The identity of one process's capture."""
    capture = record.main
    return HostIdentity(
        host=capture.host,
        source=capture.source,
        machine=str(capture.session.get("hostname", capture.host)),
        ordinals=tuple(device.ordinal for device in capture.devices),
        window_ns=_window_ns(capture),
        kernels=_checksums(capture),
    )


def _checksums(capture: Capture) -> npt.NDArray[np.uint64]:
    """One number per GPU event: a polynomial in its fields, so that no two events share one."""
    kernels = capture.kernels
    names = [zlib.crc32(text.encode("utf-8", "replace")) for text in capture.strings]
    of_name = np.array([*names, 0], dtype=np.int64)
    sums = kernels.start_ps.astype(np.uint64)
    for column in (kernels.duration_ps, kernels.correlation_id, kernels.device):
        sums *= _FACTOR
        sums += column.astype(np.uint64)
    sums *= _FACTOR
    sums += of_name[kernels.name].astype(np.uint64)
    return sums


def _window_ns(capture: Capture) -> tuple[int, int] | None:
    start = capture.session.get("profile_start_time")
    stop = capture.session.get("profile_stop_time")
    return (start, stop) if isinstance(start, int) and isinstance(stop, int) else None


def copies(hosts: Sequence[HostIdentity]) -> dict[str, str]:
    """Captures whose GPU events are all in another one: renamed copies, and extracts of a trace.

    Counting both would double the work. Two xplanes are only compared when they name the same
    host, since processes of a synchronous job can look alike.

    Returns:
        Label of the one that can be left out -> label of the fuller one. Of equal ones the first
        label stays.
    """
    order = sorted(hosts, key=lambda host: (-len(host.kernels), host.host))
    found: dict[str, str] = {}
    fuller: dict[tuple[str, str], list[HostIdentity]] = {}
    for small in order:
        machine = small.machine if small.source == "xplane" else ""
        comparable = fuller.setdefault((small.source, machine), [])
        holder = next((full for full in comparable if _holds(full, small)), None)
        if holder is None:
            comparable.append(small)
        else:
            found[small.host] = holder.host
    return found


def _holds(full: HostIdentity, small: HostIdentity) -> bool:
    """Whether every GPU event of one capture is in another one."""
    if not len(small.kernels):
        return False
    some = small.kernels[:: max(len(small.kernels) // _FEW, 1)][:_FEW]
    if not all((full.kernels == event).any() for event in some):
        return False
    return bool(np.isin(small.kernels, full.kernels).all())


def host_notes(hosts: Sequence[HostIdentity]) -> tuple[Note, ...]:
    """Notes on a run of several processes; none of them changes how the processes are analysed."""
    return (*_shared_gpus(hosts), *_older_sessions(hosts))


def _shared_gpus(hosts: Sequence[HostIdentity]) -> Iterator[Note]:
    """Processes of one machine that use the same ordinals.

    They are kept apart (a GPU is known by its file and its ordinal), but `GPU:0` of two processes
    may be one GPU or two: with CUDA_VISIBLE_DEVICES every process counts from 0.
    """
    owners: dict[str, dict[int, list[str]]] = {}
    for host in hosts:
        for ordinal in set(host.ordinals):
            owners.setdefault(host.machine, {}).setdefault(ordinal, []).append(host.host)
    for machine, ordinals in sorted(owners.items()):
        shared = {ordinal: labels for ordinal, labels in ordinals.items() if len(labels) > 1}
        if shared:
            labels = sorted({label for found in shared.values() for label in found})
            text = (
                f"{len(labels)} processes of {machine} ({', '.join(labels[:4])}) each have a "
                f"/device:GPU:{min(shared)}; they are kept apart and never added up"
            )
            yield Note("ordinals_collide", NoteKind.INFO, len(shared), text)


def _older_sessions(hosts: Sequence[HostIdentity]) -> Iterator[Note]:
    """Files whose session ended before the newest one began: left over from an earlier run."""
    windows = {host.host: host.window_ns for host in hosts if host.window_ns is not None}
    newest = max((start for start, _ in windows.values()), default=0)
    for label, (_, stop) in sorted(windows.items()):
        if stop < newest:
            ago = format_ps((newest - stop) * PS_PER_NS)
            text = f"{label} was captured {ago} before the newest file; is it of an earlier run?"
            yield Note("older_session", NoteKind.INFO, 1, text)
