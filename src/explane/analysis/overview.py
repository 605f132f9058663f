"""What one capture holds, in counts: the answer to `info`, without any attribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explane.capture.model import Capture, HostCapture, Kind, Note


@dataclass(frozen=True, slots=True)
class DeviceOverview:
    """One GPU plane: its ordinal, its streams with events, its kernels and their summed time."""

    ordinal: int
    n_streams: int
    n_kernels: int
    duration_ps: int
    first_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True)
class OpTime:
    """Kernels with one label: the program's id (-1 for none), the label (empty for none)."""

    program_id: int
    hlo_op: str
    n_kernels: int
    duration_ps: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What one process's files hold.

    Attributes:
        host: Host label.
        source: `xplane` or `json`.
        gpu: Device name or what the plane's stats tell; empty when nothing does.
        n_by_kind: Kernels by kind word, those without any left out.
        n_labelled: Kernels with an `hlo_op`.
        n_with_program: Kernels with a program id that is stored in the capture.
        n_launches, n_graph_launches: Host calls with a correlation id; those that launch graphs.
        n_host_events, n_python_events: Host events, and Python tracer events among them.
        n_threads: Host threads.
        n_programs: Stored HLO modules.
        n_json_kernels: Device events of the JSON beside it; None without one.
        notes: What the reader found.
    """

    host: str
    source: str
    gpu: str
    devices: tuple[DeviceOverview, ...]
    n_by_kind: dict[str, int]
    n_labelled: int
    n_with_program: int
    n_launches: int
    n_graph_launches: int
    n_host_events: int
    n_python_events: int
    n_threads: int
    n_programs: int
    n_json_kernels: int | None
    notes: tuple[Note, ...]


def overview(host: str, record: HostCapture) -> Overview:
    """Counts of one process's capture.

    Args:
        host: Host label.
        record: The capture and the JSON beside it.
    """
    capture = record.main
    kernels = capture.kernels
    counts = np.bincount(kernels.kind, minlength=len(Kind))
    stored = np.isin(kernels.program_id, list(capture.programs))
    return Overview(
        host=host,
        source=capture.source,
        gpu=gpu_text(capture),
        devices=_devices(capture),
        n_by_kind={k.word: int(counts[k]) for k in Kind if counts[k]},
        n_labelled=int((kernels.hlo_op >= 0).sum()),
        n_with_program=int(stored.sum()),
        n_launches=len(capture.launches),
        n_graph_launches=int(capture.launches.is_graph.sum()),
        n_host_events=capture.n_host_events,
        n_python_events=capture.n_python_events,
        n_threads=len(capture.threads),
        n_programs=len(capture.programs),
        n_json_kernels=None if record.json is None else len(record.json.kernels),
        notes=capture.notes,
    )


def labelled_ops(capture: Capture) -> tuple[OpTime, ...]:
    """Kernel time by the tracer's own label, most first; unlabelled kernels are one entry."""
    kernels = capture.kernels
    rows = np.flatnonzero(kernels.time_ok)
    program, code = kernels.program_id[rows], kernels.hlo_op[rows].astype(np.int64)
    _, of_program = np.unique(program, return_inverse=True)
    keys = of_program * (len(capture.strings) + 1) + code + 1
    distinct, first, of_key = np.unique(keys, return_index=True, return_inverse=True)
    n_kernels = np.bincount(of_key, minlength=len(distinct))
    duration_ps = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(duration_ps, of_key, kernels.duration_ps[rows])
    found = [
        OpTime(int(program[at]), capture.text(int(code[at])), int(n), int(time_ps))
        for at, n, time_ps in zip(first.tolist(), n_kernels, duration_ps, strict=True)
    ]
    return tuple(sorted(found, key=lambda op: (-op.duration_ps, op.program_id, op.hlo_op)))


def gpu_text(capture: Capture) -> str:
    """The GPU as the file names it: its name, else vendor, capability, units and memory."""
    stats = next((d.stats for d in capture.devices if len(d.stats) > 1), {})
    name = str(stats.get("gpu_device_name", ""))
    if name and name.casefold().startswith(("nvidia", "amd", "geforce", "tesla")):
        return name
    vendor = str(stats.get("device_vendor", ""))
    parts = [part for part in (vendor, name) if part]
    if "core_count" in stats:
        parts.append(f"{stats['core_count']} compute units")
    if isinstance(stats.get("memory_size"), int):
        parts.append(f"{int(stats['memory_size']) / 2**30:.0f} GiB")
    return ", ".join(parts)


def _devices(capture: Capture) -> tuple[DeviceOverview, ...]:
    found = []
    for device in capture.devices:
        rows = np.flatnonzero((capture.kernels.device == device.ordinal) & capture.kernels.time_ok)
        starts, ends = capture.kernels.start_ps[rows], capture.kernels.ends(rows)
        found.append(
            DeviceOverview(
                ordinal=device.ordinal,
                n_streams=len(np.unique(capture.kernels.stream[rows])),
                n_kernels=int((capture.kernels.device == device.ordinal).sum()),
                duration_ps=int(capture.kernels.duration_ps[rows].sum()),
                first_ps=int(starts.min()) if len(rows) else 0,
                end_ps=int(ends.max()) if len(rows) else 0,
            )
        )
    return tuple(found)
