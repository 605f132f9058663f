"""From a program and a scenario to a capture with known truth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from explane.capture.model import I64, StoredProgram
from explane.synth.correlation import number_calls
from explane.synth.device_rows import device_planes
from explane.synth.devices import device_of
from explane.synth.host_rows import HostRows
from explane.synth.program import CompiledProgram
from explane.synth.records import Timeline
from explane.synth.scenario import Scenario
from explane.synth.tables import PlaneTable, Unsigned
from explane.synth.timeline import Loop
from explane.synth.trace_json import CAP, write_trace_json
from explane.synth.truth import Truth, write_truth
from explane.synth.xspace import encode_space

_SESSION_START_NS = 1_790_000_000_000_000_000
_TAIL_PS = 3_000_000_000


@dataclass(frozen=True)
class SimulatedCapture:
    """One simulated process.

    Attributes:
        host: Host name, also the stem of its files.
        planes: Devices first.
        warnings: XSpace.warnings.
        truth: What is true of every recorded kernel.
        meta: The scenario's causes and the true times of every step (`step_times`).
    """

    host: str
    planes: tuple[PlaneTable, ...]
    warnings: tuple[str, ...]
    truth: Truth
    meta: Mapping[str, Any]

    @property
    def n_kernels(self) -> int:
        """Recorded device events."""
        return sum(len(block.code) for block in self.truth.blocks)


def simulate(program: CompiledProgram, scenario: Scenario) -> SimulatedCapture:
    """Play a scenario.

    Raises:
        UsageError: The program names no platform and the scenario no vendor.
    """
    device = device_of(program, scenario.vendor)
    timeline = Loop(program, scenario, device).play()
    correlations = number_calls(timeline)
    truth = Truth()
    devices = device_planes(timeline, correlations, truth)
    host = HostRows(timeline, correlations).build()
    end_ps = max(
        int((p.events.start_ps + p.events.duration_ps).max())
        for p in (*devices, host)
        if p.events is not None and len(p.events)
    )
    planes = (_metadata_plane(timeline), *devices, host, _session_plane(end_ps + _TAIL_PS))
    return SimulatedCapture(
        host=scenario.tracer.host,
        planes=planes,
        warnings=_warnings(truth, scenario),
        truth=truth,
        meta=_meta(timeline, truth),
    )


def write_capture(
    simulated: SimulatedCapture, folder: Path, *, json_cap: int = CAP, truth: bool = True
) -> Path:
    """Write `<host>.xplane.pb`, `<host>.trace.json.gz`, `truth.csv.gz` and `meta.json`.

    Args:
        simulated: The capture.
        folder: Made when it is not there.
        json_cap: How many events the JSON holds; 0 writes no JSON.
        truth: Whether to write truth and meta.

    Returns:
        The path of the xplane.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{simulated.host}.xplane.pb"
    with path.open("wb") as out:
        for part in encode_space(simulated.planes, simulated.host, simulated.warnings):
            out.write(part)
    if json_cap:
        write_trace_json(simulated.planes, folder / f"{simulated.host}.trace.json.gz", json_cap)
    if truth:
        write_truth(simulated.truth, folder / "truth.csv.gz")
        text = json.dumps(simulated.meta, indent=1) + "\n"
        (folder / "meta.json").write_text(text, encoding="utf-8")
    return path


def step_times(timeline: Timeline) -> list[dict[str, int]]:
    """The true begin and end of every step on every device, and on the host.

    A device's step is from the start of the first kernel of the step's first execution to the
    end of the last kernel of its last one, without the main thread's copies.
    """
    rows = []
    for d in range(timeline.n_devices):
        numbers = np.concatenate([run.step for run in timeline.runs if run.plan.kernels])
        begin = _per_run(timeline, d, end=False)
        end = _per_run(timeline, d, end=True)
        for step in np.unique(numbers):
            at = numbers == step
            rows.append(
                {
                    "step": int(step) + timeline.scenario.tracer.first_step,
                    "device": d,
                    "start_ps": int(begin[at].min()),
                    "end_ps": int(end[at].max()),
                }
            )
    return rows


def step_period_ps(times: list[dict[str, int]]) -> int:
    """Median span from one step's start to the next one's, on the device where it is longest.

    Of a single step its own length.
    """
    periods = []
    for device in {row["device"] for row in times}:
        rows = [row for row in times if row["device"] == device]
        starts = np.array([row["start_ps"] for row in rows], dtype=np.int64)
        length = rows[0]["end_ps"] - rows[0]["start_ps"]
        periods.append(int(np.median(np.diff(starts))) if len(rows) > 1 else length)
    return max(periods)


def _per_run(timeline: Timeline, device: int, *, end: bool) -> I64:
    blocks = []
    for run in timeline.runs:
        if run.plan.kernels:
            start, duration = run.times.start_ps[device], run.times.duration_ps[device]
            edge = (start + duration).max() if end else start.min()
            blocks.append(edge + run.offsets_ps)
    return np.concatenate(blocks) + timeline.scenario.tracer.clock_skew_ps


def _metadata_plane(timeline: Timeline) -> PlaneTable:
    modules = tuple(
        StoredProgram(program_id, f"{program.name}({program_id})", program.hlo_proto)
        for program_id, program in sorted(timeline.programs.items())
    )
    return PlaneTable("/host:metadata", 0, modules=modules)


def _session_plane(length_ps: int) -> PlaneTable:
    start = _SESSION_START_NS
    times = {
        "profile_start_time": Unsigned(start),
        "profile_stop_time": Unsigned(start + length_ps // 1000),
    }
    return PlaneTable("Task Environment", 1, stats=times)


def _warnings(truth: Truth, scenario: Scenario) -> tuple[str, ...]:
    if scenario.tracer.device_end_ps is None or not truth.n_lost:
        return ()
    kept = sum(len(block.code) for block in truth.blocks)
    found = f"Profiler has collected {kept} device events, dropped {truth.n_lost}."
    return (f"Detected GPU events dropped on {scenario.tracer.host}: {found}",)


def _meta(timeline: Timeline, truth: Truth) -> dict[str, Any]:
    scenario = timeline.scenario
    causes, tracer, graphs = scenario.causes, scenario.tracer, scenario.graphs
    times = step_times(timeline)
    return {
        "simulated": True,
        "seed": scenario.seed,
        "vendor": timeline.device.vendor.value,
        "programs": {str(i): program.title for i, program in sorted(timeline.programs.items())},
        "n_devices": timeline.n_devices,
        "n_steps": scenario.n_steps,
        "n_kernels": sum(len(block.code) for block in truth.blocks),
        "n_lost": truth.n_lost,
        "graph_labels": graphs.labels.value if graphs.enabled else "off",
        "branches": graphs.branches.value,
        "branch_ratio": graphs.branch_ratio,
        "clock_skew_ps": tracer.clock_skew_ps,
        "causes": {name: getattr(causes, name) for name in causes.__slots__},
        "step_ps": step_period_ps(times),
        "step_times": times,
    }
