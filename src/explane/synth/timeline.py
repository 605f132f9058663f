"""All steps of a scenario: the main thread's loop around the executions.

One step of the main thread, causes in brackets:

    |marker ---------------------------------------------------------------------|
    |[host gap][Python][compile][copy]|dispatch: execution, other programs ||[read back]|

Device threads launch what the dispatch hands them. The host runs ahead of the devices by a few
executions at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from explane.capture.model import I32, I64, Kind
from explane.synth.devices import DeviceFacts, Vendor
from explane.synth.execution import Clocks, Costs, Draws, Execution, draw
from explane.synth.plan import MAIN, CallKind, Plan
from explane.synth.planner import Planner, n_variants
from explane.synth.program import CompiledProgram
from explane.synth.records import Copy, Run, Step, Timeline
from explane.synth.scenario import Scenario
from explane.units import PS_PER_MS, PS_PER_US

COPY: Final = 90
"""Stream number of copies that the main thread makes."""
START_PS: Final = 2 * PS_PER_MS
PYTHON_EVENT_PS: Final = 350_000
_BUDGET: Final = 60_000
_COSTS = {
    Vendor.NVIDIA: Costs(launch_us=2.6, graph_us=11.0, graph_node_us=0.10, between_us=0.9),
    Vendor.AMD: Costs(launch_us=5.2, graph_us=16.0, graph_node_us=0.14, between_us=1.2),
}
_DISPATCH_PS: Final = 24 * PS_PER_US
_THREAD_PS: Final = 3 * PS_PER_US
_PREPARE_PS: Final = 46 * PS_PER_US
_FINISH_PS: Final = 22 * PS_PER_US
_RETURN_PS: Final = 9 * PS_PER_US
_LOOP_PS: Final = 31 * PS_PER_US
_CALL_PS: Final = 5 * PS_PER_US
_READ_BACK_PS: Final = 2 * PS_PER_US
_WAKE_UP_PS: Final = 14 * PS_PER_US


class Loop:
    """The training loop."""

    def __init__(self, program: CompiledProgram, scenario: Scenario, device: DeviceFacts) -> None:
        n_devices = scenario.n_devices or program.n_devices
        self._scenario = scenario
        self._device = device
        self._n_devices = n_devices
        self._program = program
        self._costs = replace(_COSTS[device.vendor], extra_ps=scenario.causes.launch_ps)
        self._main_ps = START_PS
        self._clocks = Clocks(np.full(n_devices, START_PS, dtype=np.int64))
        self._ends: list[I64] = []
        self._plans: dict[tuple[int, int], Plan] = {}
        self._program_id = scenario.program_id
        self._timeline = Timeline(scenario, device, n_devices)

    def play(self) -> Timeline:
        """Every step, the ones beyond the simulated as repetitions of the last."""
        n_simulated, period = self._lengths()
        marks = [self._marks_ps()]
        for step in range(n_simulated):
            self._step(step)
            marks.append(self._marks_ps())
        if n_simulated < self._scenario.n_steps:
            shift_ps = int((marks[-1] - marks[-1 - period]).max())
            self._repeat(n_simulated, period, shift_ps)
        return self._timeline

    def _marks_ps(self) -> I64:
        """When the main thread, every host thread and every device are done so far."""
        clocks = self._clocks
        return np.concatenate([[self._main_ps], clocks.host_ps, clocks.last_end_ps()])

    def _lengths(self) -> tuple[int, int]:
        """How many steps to simulate, and how many of the last ones repeat."""
        scenario = self._scenario
        unit = math.lcm(*(o.every for o in scenario.others), n_variants(self._program))
        plan = self._plan(self._program, 0)
        per_step = len(plan.calls) + len(plan.kernels) // 4
        settled = max([*scenario.causes.compile_steps, 0]) + scenario.steps_ahead + 1
        wanted = scenario.n_simulated_steps or max(12, _BUDGET // max(per_step, 1))
        period = max(unit, (wanted // 2) // unit * unit)
        n_simulated = max(wanted, settled + period)
        if n_simulated >= scenario.n_steps:
            return scenario.n_steps, 0
        return n_simulated, period

    def _repeat(self, n_simulated: int, period: int, shift_ps: int) -> None:
        """Repeat the last steps, each time later by the same span, until all steps are there.

        One span for the host and all devices keeps every order within the repeated part.
        """
        timeline, first = self._timeline, n_simulated - period

        def places(step: int) -> tuple[I32, I64]:
            numbers = np.arange(step, self._scenario.n_steps, period, dtype=np.int32)
            return numbers, np.arange(len(numbers), dtype=np.int64) * shift_ps

        for i, run in enumerate(timeline.runs):
            if run.step[0] >= first:
                numbers, offsets = places(int(run.step[0]))
                timeline.runs[i] = replace(run, step=numbers, offsets_ps=offsets)
        for i, step in enumerate(timeline.steps):
            if step.step[0] >= first:
                numbers, offsets = places(int(step.step[0]))
                timeline.steps[i] = replace(step, step=numbers, offsets_ps=offsets)

    def _plan(self, program: CompiledProgram, variant: int) -> Plan:
        key = (id(program), variant)
        if key not in self._plans:
            planner = Planner(program, self._scenario, self._device, self._n_devices, variant)
            self._plans[key] = planner.build()
        return self._plans[key]

    def _step(self, step: int) -> None:
        causes, begin = self._scenario.causes, self._main_ps
        spans: list[tuple[str, int, int]] = []
        copies: list[Copy] = []
        if causes.host_gap_ps:
            self._span(spans, causes.host_gap_name, causes.host_gap_ps)
        if self._scenario.tracer.python_events:
            self._span(spans, "python", self._scenario.tracer.python_events * PYTHON_EVENT_PS)
        if step in causes.compile_steps:
            self._span(spans, "compile", causes.compile_ps)
            self._program_id += 1 + len(self._scenario.others)
        if causes.copy_ps:
            copies.append(self._copy_in(causes.copy_ps))
        self._execute(self._program, self._program_id, step, 0)
        for index, other in enumerate(self._scenario.others, 1):
            if step % other.every == other.every - 1:
                for i in range(other.executions):
                    self._execute(
                        other.program, self._scenario.program_id + index, step, 10 * index + i
                    )
        if causes.readback:
            copies.append(self._read_back(spans))
        end = self._main_ps
        self._main_ps += _LOOP_PS
        number, zero = np.array([step], dtype=np.int32), np.zeros(1, dtype=np.int64)
        self._timeline.steps.append(Step(number, zero, begin, end, tuple(spans), tuple(copies)))

    def _span(self, spans: list[tuple[str, int, int]], name: str, length_ps: int) -> None:
        spans.append((name, self._main_ps, length_ps))
        self._main_ps += length_ps + PS_PER_US

    def _copy_in(self, length_ps: int) -> Copy:
        """A copy to every device that its main stream waits for."""
        clocks = self._clocks
        calls = self._main_ps + np.arange(self._n_devices, dtype=np.int64) * _CALL_PS
        self._main_ps = int(calls[-1]) + _CALL_PS
        start = np.maximum(clocks.ready(MAIN), calls + _CALL_PS)
        duration = np.full(self._n_devices, length_ps, dtype=np.int64)
        clocks.ready_ps[MAIN] = clocks.ready_ps[COPY] = start + duration
        return Copy("H2D", np.arange(self._n_devices), calls, start, duration)

    def _read_back(self, spans: list[tuple[str, int, int]]) -> Copy:
        """The result of the first device comes back, and the main thread waits for it."""
        clocks, call = self._clocks, self._main_ps
        self._main_ps += _CALL_PS
        start = max(int(clocks.ready(MAIN)[0]), self._main_ps + PS_PER_US)
        end = start + _READ_BACK_PS
        clocks.ready_ps[MAIN] = clocks.ready(MAIN).copy()
        clocks.ready_ps[MAIN][0] = end
        self._span(spans, "read back", max(end + _WAKE_UP_PS - self._main_ps, PS_PER_US))
        one = np.ones(1, dtype=np.int64)
        return Copy("D2H", 0 * one, call * one, start * one, _READ_BACK_PS * one)

    def _execute(self, program: CompiledProgram, program_id: int, step: int, index: int) -> None:
        """Dispatch one execution and play it."""
        variants, clocks = n_variants(program), self._clocks
        plan = self._plan(program, step % variants)
        random = np.random.default_rng([self._scenario.seed, step, index])
        draws = self._with_causes(
            plan, draw(plan, self._n_devices, self._scenario.noise_ratio, self._costs, random)
        )
        dispatch = self._main_ps
        threads = np.arange(self._n_devices, dtype=np.int64)
        jitter = random.integers(0, 12, self._n_devices) * PS_PER_US
        begin = np.maximum(clocks.host_ps, dispatch + _DISPATCH_PS + threads * _THREAD_PS + jitter)
        free = self._ends[-self._scenario.steps_ahead] if self._full() else np.zeros_like(begin)
        waited = np.maximum(free - begin, 0)
        launch = begin + waited + _PREPARE_PS
        clocks.host_ps = launch
        waits = self._scenario.causes.loop_waits
        times = Execution(plan, draws, clocks, self._scenario.graphs, waits=waits).play()
        launched = clocks.host_ps
        end = launched + _FINISH_PS
        clocks.host_ps = end
        self._ends.append(clocks.last_end_ps())
        self._main_ps = int(end.max()) + _RETURN_PS
        number, zero = np.array([step], dtype=np.int32), np.zeros(1, dtype=np.int64)
        self._timeline.programs.setdefault(program_id, program)
        self._timeline.runs.append(
            Run(
                plan,
                program_id,
                number,
                zero,
                times,
                dispatch,
                self._main_ps,
                begin,
                launch,
                launched,
                end,
                waited,
            )
        )

    def _full(self) -> bool:
        return len(self._ends) >= self._scenario.steps_ahead

    def _with_causes(self, plan: Plan, draws: Draws) -> Draws:
        """The straggler's kernels, slow or free collectives, copies of loop conditions."""
        causes, duration = self._scenario.causes, draws.duration_ps.copy()
        if plan.program is not self._program:
            return draws
        if causes.straggler_ps:
            compute = plan.of_kind(Kind.COMPUTE)
            own = duration[causes.straggler_device]
            share = causes.straggler_ps / max(int(own[compute].sum()), 1)
            own[compute] += np.round(own[compute] * share / 1000).astype(np.int64) * 1000
        if not causes.loop_waits:
            duration[:, _condition_copies(plan)] = 0
        if not causes.transfers:
            duration[:, plan.of_kind(Kind.COLLECTIVE)] = 0
        elif causes.collective_ps:
            duration[:, slow_collective(plan)] += causes.collective_ps
        return replace(draws, duration_ps=duration)


def _condition_copies(plan: Plan) -> Sequence[int]:
    """Kernels that the host waits for in the middle of an execution."""
    calls = plan.calls
    return [calls[i - 1].first for i, call in enumerate(calls) if call.kind is CallKind.WAIT]


def slow_collective(plan: Plan) -> Sequence[int]:
    """The collective that a slow network shows in most: with the least compute beside it.

    Empty when the program has none.
    """
    found = np.flatnonzero(plan.of_kind(Kind.COLLECTIVE))
    return sorted((int(k) for k in found), key=lambda k: _hidden_ps(plan, k))[:1]


def _hidden_ps(plan: Plan, collective: int) -> float:
    """Planned time of the kernels that run beside a collective, up to where it is waited for."""
    if plan.kernels[collective].stream == MAIN:
        return 0.0
    at = next(i for i, c in enumerate(plan.calls) if c.first == collective and c.count)
    hidden = 0.0
    for call in plan.calls[at + 1 :]:
        if call.kind is CallKind.JOIN and call.async_id == plan.calls[at].async_id:
            break
        hidden += sum(k.base_ps for k in plan.kernels[call.first : call.first + call.count])
    return hidden
