"""What a simulated loop leaves behind: executions, steps, copies, with their times.

Arrays have a row per device. A record may stand for several repetitions of the same work.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from explane.capture.model import I32, I64
from explane.synth.devices import DeviceFacts
from explane.synth.execution import Times
from explane.synth.plan import Plan
from explane.synth.program import CompiledProgram
from explane.synth.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Run:
    """One execution, perhaps repeated: the repetitions differ by `offsets_ps` only.

    Attributes:
        plan, program_id: What ran.
        step: Step number, from 0, of every repetition.
        offsets_ps: Added to all times, one per repetition; the first is 0.
        times: Calls and kernels.
        dispatch_ps, returned_ps: The main thread's call.
        begin_ps, launch_ps, launched_ps, end_ps: Per device: thread begins, first thunk, last
            thunk done, thread done.
        waited_ps: Per device: how long the thread waited for a free slot before launching.
    """

    plan: Plan
    program_id: int
    step: I32
    offsets_ps: I64
    times: Times
    dispatch_ps: int
    returned_ps: int
    begin_ps: I64
    launch_ps: I64
    launched_ps: I64
    end_ps: I64
    waited_ps: I64


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy made by the main thread, per device: the call and the device's event."""

    direction: str
    devices: I64
    call_ps: I64
    start_ps: I64
    duration_ps: I64


@dataclass(frozen=True, slots=True)
class Step:
    """The main thread's part of one step; `spans` are (name, start, length)."""

    step: I32
    offsets_ps: I64
    begin_ps: int
    end_ps: int
    spans: tuple[tuple[str, int, int], ...] = ()
    copies: tuple[Copy, ...] = ()


@dataclass
class Timeline:
    """What happened, and what was executed."""

    scenario: Scenario
    device: DeviceFacts
    n_devices: int
    runs: list[Run] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    programs: dict[int, CompiledProgram] = field(default_factory=dict)

    def part(self, devices: range, host: str) -> Timeline:
        """The timeline of one host: some of the devices, numbered from 0.

        Every host has a main thread, and they all do the same.
        """
        rows = slice(devices.start, devices.stop)
        tracer = replace(self.scenario.tracer, host=host)
        return Timeline(
            scenario=replace(self.scenario, tracer=tracer),
            device=self.device,
            n_devices=len(devices),
            runs=[_part_of_run(run, rows) for run in self.runs],
            steps=[_part_of_step(step, devices) for step in self.steps],
            programs=self.programs,
        )


def _part_of_run(run: Run, rows: slice) -> Run:
    times = run.times
    return replace(
        run,
        times=Times(
            times.start_ps[rows],
            times.duration_ps[rows],
            times.stream[rows],
            times.call_start_ps[rows],
            times.call_duration_ps[rows],
        ),
        begin_ps=run.begin_ps[rows],
        launch_ps=run.launch_ps[rows],
        launched_ps=run.launched_ps[rows],
        end_ps=run.end_ps[rows],
        waited_ps=run.waited_ps[rows],
    )


def _part_of_step(step: Step, devices: range) -> Step:
    copies = []
    for copy in step.copies:
        kept = np.flatnonzero((copy.devices >= devices.start) & (copy.devices < devices.stop))
        if len(kept):
            numbers = copy.devices[kept] - devices.start
            times = (copy.call_ps[kept], copy.start_ps[kept], copy.duration_ps[kept])
            copies.append(Copy(copy.direction, numbers, *times))
    return replace(step, copies=tuple(copies))
