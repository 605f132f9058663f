"""Captures made of plain tuples, for tests of analyses: no file, no reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from explane.capture.classify import is_graph_launch, kind_of_name
from explane.capture.model import (
    Capture,
    Device,
    HostEvents,
    Kernels,
    Launches,
    Note,
    StoredProgram,
    Thread,
)


@dataclass
class K:
    """A device event; `call` is its correlation id."""

    start: int
    duration: int
    name: str = "fusion"
    call: int = -1
    device: int = 0
    stream: int = 7
    op: str = ""
    program: int = -1
    module: str = ""
    graph: int = -1
    node: int = -1
    ok: bool = True
    details: str = ""


@dataclass
class L:
    """A launch call."""

    start: int
    duration: int
    call: int
    name: str = "cuLaunchKernel"
    thread: int = 0
    device: int = 0


@dataclass
class E:
    """A host event; `step` makes it a step marker."""

    start: int
    duration: int
    name: str
    thread: int = 0
    step: int = -1


@dataclass
class Pool:
    """Strings and their codes."""

    strings: list[str] = field(default_factory=list)

    def codes(self, texts: Sequence[str]) -> np.ndarray:
        for text in texts:
            if text and text not in self.strings:
                self.strings.append(text)
        return np.array([self.strings.index(t) if t else -1 for t in texts], dtype=np.int32)


def whole(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def capture(
    kernels: Sequence[K] = (),
    launches: Sequence[L] = (),
    events: Sequence[E] = (),
    *,
    devices: Sequence[int] | None = None,
    threads: Sequence[str] | None = None,
    notes: Sequence[Note] = (),
    warnings: Sequence[str] = (),
    programs: Mapping[int, StoredProgram] | None = None,
    n_python_events: int = 0,
) -> Capture:
    """A capture with sorted columns, as a reader makes them."""
    pool = Pool()
    rows = sorted(kernels, key=lambda k: (k.device, k.start, k.stream))
    calls = sorted(launches, key=lambda c: (c.start, c.thread))
    host = sorted(events, key=lambda e: (e.thread, e.start, -e.duration))
    used = [c.thread for c in calls] + [e.thread for e in host]
    n_threads = max(used, default=-1) + 1
    names = threads if threads is not None else [f"thread {i}" for i in range(n_threads)]
    ordinals = devices if devices is not None else sorted({k.device for k in rows})
    lines = {d: {k.stream: f"Stream #{k.stream}" for k in rows if k.device == d} for d in ordinals}
    return Capture(
        host="node",
        path=Path("node.xplane.pb"),
        source="xplane",
        kernels=_kernels(rows, pool),
        launches=_launches(calls, pool),
        host_events=HostEvents(
            thread=np.array([e.thread for e in host], dtype=np.int32),
            start_ps=whole([e.start for e in host]),
            duration_ps=whole([e.duration for e in host]),
            name=pool.codes([e.name for e in host]),
            step_num=whole([e.step for e in host]),
            program_id=whole([-1] * len(host)),
        ),
        strings=pool.strings,
        threads=tuple(Thread(i, name) for i, name in enumerate(names)),
        devices=tuple(Device(d, f"/device:GPU:{d}", {}, lines[d]) for d in ordinals),
        programs=programs or {},
        notes=tuple(notes),
        warnings=tuple(warnings),
        n_python_events=n_python_events,
    )


def _kernels(rows: Sequence[K], pool: Pool) -> Kernels:
    return Kernels(
        device=np.array([k.device for k in rows], dtype=np.int32),
        stream=whole([k.stream for k in rows]),
        start_ps=whole([k.start for k in rows]),
        duration_ps=whole([k.duration for k in rows]),
        name=pool.codes([k.name for k in rows]),
        kind=np.array([kind_of_name(k.name) for k in rows], dtype=np.uint8),
        correlation_id=whole([k.call for k in rows]),
        program_id=whole([k.program for k in rows]),
        hlo_op=pool.codes([k.op for k in rows]),
        hlo_module=pool.codes([k.module for k in rows]),
        scope_name=pool.codes([""] * len(rows)),
        details=pool.codes([k.details for k in rows]),
        graph_id=whole([k.graph for k in rows]),
        graph_node_id=whole([k.node for k in rows]),
        time_ok=np.array([k.ok for k in rows], dtype=bool),
    )


def _launches(calls: Sequence[L], pool: Pool) -> Launches:
    return Launches(
        thread=np.array([c.thread for c in calls], dtype=np.int32),
        start_ps=whole([c.start for c in calls]),
        duration_ps=whole([c.duration for c in calls]),
        name=pool.codes([c.name for c in calls]),
        correlation_id=whole([c.call for c in calls]),
        program_id=whole([-1] * len(calls)),
        hlo_op=pool.codes([""] * len(calls)),
        is_graph=np.array([is_graph_launch(c.name) for c in calls], dtype=bool),
    )
