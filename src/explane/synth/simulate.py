"""From a program and a scenario to a capture with known truth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explane.capture.model import StoredProgram
from explane.errors import UsageError
from explane.synth.correlation import number_calls
from explane.synth.device_rows import device_planes
from explane.synth.devices import device_of
from explane.synth.host_clock import HostClock, block_in_clock, in_clock
from explane.synth.host_rows import HostRows
from explane.synth.meta import describe
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
    """Play a scenario on one host.

    Raises:
        UsageError: The program names no platform and the scenario no vendor.
    """
    device = device_of(program, scenario.vendor)
    timeline = Loop(program, scenario, device).play()
    return _record(timeline, HostClock(scenario.tracer.host))


def simulate_hosts(
    program: CompiledProgram, scenario: Scenario, hosts: Sequence[HostClock]
) -> list[SimulatedCapture]:
    """Play a scenario whose devices are spread evenly over hosts with clocks of their own.

    Collectives end together in true time. `meta` holds each host's offset and drift; its step
    times are in the host's own clock.

    Raises:
        UsageError: The devices can't be spread evenly, or as for `simulate`.
    """
    n_devices = scenario.n_devices or program.n_devices
    if not hosts or n_devices % len(hosts):
        reason = f"{n_devices} devices can't be spread evenly over {len(hosts)} hosts"
        raise UsageError(program.title, reason, slug="uneven_hosts")
    per_host = n_devices // len(hosts)
    timeline = Loop(program, scenario, device_of(program, scenario.vendor)).play()
    return [
        _record(timeline.part(range(i * per_host, (i + 1) * per_host), clock.host), clock)
        for i, clock in enumerate(hosts)
    ]


def _record(timeline: Timeline, clock: HostClock) -> SimulatedCapture:
    """What the collectors of one host write of a timeline."""
    scenario = timeline.scenario
    correlations = number_calls(timeline)
    truth = Truth()
    devices = device_planes(timeline, correlations, truth)
    host = HostRows(timeline, correlations).build()
    stored = [in_clock(plane, clock) for plane in (*devices, host)]
    truth.blocks = [block_in_clock(block, clock) for block in truth.blocks]
    end_ps = max(
        int((p.events.start_ps + p.events.duration_ps).max())
        for p in stored
        if p.events is not None and len(p.events)
    )
    planes = (_metadata_plane(timeline), *stored, _session_plane(end_ps + _TAIL_PS))
    return SimulatedCapture(
        host=scenario.tracer.host,
        planes=planes,
        warnings=_warnings(truth, scenario),
        truth=truth,
        meta=describe(timeline, truth, clock),
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
