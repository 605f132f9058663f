"""What several processes of one run say of each other: copies, shared GPUs, older sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from explane.capture.model import Capture, HostCapture, Note, NoteKind
from explane.units import PS_PER_NS, format_ps


def copies(hosts: Sequence[HostCapture]) -> dict[str, str]:
    """Captures whose GPU events are all in another one: renamed copies, and extracts of a trace.

    Counting both would double the work. Two xplanes are only compared when they name the same
    host, since processes of a synchronous job can look alike.

    Returns:
        Label of the one that can be left out -> label of the fuller one. Of equal ones the first
        label stays.
    """
    order = sorted(hosts, key=lambda host: (-len(host.main.kernels), host.main.host))
    found: dict[str, str] = {}
    for place, small in enumerate(order):
        for full in order[:place]:
            if full.main.host not in found and _holds(full.main, small.main):
                found[small.main.host] = full.main.host
                break
    return found


def _holds(full: Capture, small: Capture) -> bool:
    """Whether every GPU event of one capture is in another one of the same host."""
    if not len(small.kernels) or full.source != small.source:
        return False
    if full.source == "xplane" and _machine(full) != _machine(small):
        return False
    return bool(np.isin(_identity(small), _identity(full)).all())


def _identity(capture: Capture) -> npt.NDArray[np.void]:
    """Device, start, length and correlation id of every GPU event, as one column of records."""
    kernels = capture.kernels
    columns = (kernels.device, kernels.start_ps, kernels.duration_ps, kernels.correlation_id)
    table = np.stack([column.astype(np.int64) for column in columns], axis=1)
    return np.ascontiguousarray(table).view([("", np.int64)] * len(columns)).ravel()


def _machine(capture: Capture) -> str:
    return str(capture.session.get("hostname", capture.host))


def host_notes(hosts: Sequence[HostCapture]) -> tuple[Note, ...]:
    """Notes on a run of several processes; none of them changes how the processes are analysed."""
    return (*_shared_gpus(hosts), *_older_sessions(hosts))


def _shared_gpus(hosts: Sequence[HostCapture]) -> Iterator[Note]:
    """Processes of one machine that use the same ordinals.

    They are kept apart (a GPU is known by its file and its ordinal), but `GPU:0` of two processes
    may be one GPU or two: with CUDA_VISIBLE_DEVICES every process counts from 0.
    """
    owners: dict[str, dict[int, list[str]]] = {}
    for host in hosts:
        machine = _machine(host.main)
        for device in host.main.devices:
            owners.setdefault(machine, {}).setdefault(device.ordinal, []).append(host.main.host)
    for machine, ordinals in sorted(owners.items()):
        shared = {ordinal: labels for ordinal, labels in ordinals.items() if len(labels) > 1}
        if shared:
            labels = sorted({label for found in shared.values() for label in found})
            text = (
                f"{len(labels)} processes of {machine} ({', '.join(labels[:4])}) each have a "
                f"/device:GPU:{min(shared)}; they are kept apart and never added up"
            )
            yield Note("ordinals_collide", NoteKind.INFO, len(shared), text)


def _older_sessions(hosts: Sequence[HostCapture]) -> Iterator[Note]:
    """Files whose session ended before the newest one began: left over from an earlier run."""
    windows = {host.main.host: window for host in hosts if (window := _window_ns(host))}
    newest = max((start for start, _ in windows.values()), default=0)
    for label, (_, stop) in sorted(windows.items()):
        if stop < newest:
            ago = format_ps((newest - stop) * PS_PER_NS)
            text = f"{label} was captured {ago} before the newest file; is it of an earlier run?"
            yield Note("older_session", NoteKind.INFO, 1, text)


def _window_ns(host: HostCapture) -> tuple[int, int] | None:
    """Wall-clock start and stop of the session, when the file has them."""
    start = host.main.session.get("profile_start_time")
    stop = host.main.session.get("profile_stop_time")
    return (start, stop) if isinstance(start, int) and isinstance(stop, int) else None
