"""The host plane of a timeline: main thread, launching threads, API calls.

On CUDA the API calls lie inside the line of the thread that makes them and are named after their
kernel; on ROCm they lie on lines of their own (`Host Threads/<tid>`) and carry labels. A process
with one device launches from its main thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from explane.capture.model import I32, I64, MISSING
from explane.synth.annotations import annotation_stats
from explane.synth.correlation import Correlations
from explane.synth.devices import Vendor
from explane.synth.dialect import Dialect
from explane.synth.plan import Call, CallKind, Plan
from explane.synth.python_events import python_events, python_names
from explane.synth.records import Copy, Run, Step, Timeline
from explane.synth.scenario import Era, GraphLabels
from explane.synth.tables import (
    LineSpec,
    PlaneTable,
    RowCollector,
    Stat,
    Template,
    TemplateSet,
    Text,
    Unsigned,
)
from explane.units import PS_PER_US

STEP_MARKER = "train"
_PLANE_ID = 99
_MAIN = 0
_COPY_CALL_PS = 4 * PS_PER_US
_EXECUTABLE = "PjRtStreamExecutorLoadedExecutable"


class HostRows:
    """Builds the `/host:CPU` plane."""

    def __init__(self, timeline: Timeline, correlations: Correlations) -> None:
        self._timeline = timeline
        self._correlations = correlations
        self._scenario = timeline.scenario
        self._vendor = timeline.device.vendor
        self._templates = TemplateSet()
        self._rows = RowCollector()
        self._random = Random(f"{self._scenario.seed} {self._scenario.tracer.host}")
        n = timeline.n_devices
        self._agents = [self._random.randrange(600, 60_000) for _ in range(n)]
        single = n == 1
        self._thread = np.zeros(1, np.int64) if single else np.arange(1, n + 1)
        n_threads = 1 if single else n + 1
        amd = self._vendor is Vendor.AMD
        self._api = np.arange(n) + n_threads if amd else self._thread
        self._main_api = n_threads + n if amd else _MAIN
        self._lines = self._line_specs(n_threads)

    def build(self) -> PlaneTable:
        """The plane with all lines, also those that stay empty."""
        for run, ids in zip(self._timeline.runs, self._correlations.runs, strict=True):
            if self._scenario.tracer.execute_events:
                self._add_execution(run)
            self._add_calls(run, ids)
        for step, ids_of in zip(self._timeline.steps, self._correlations.copies, strict=True):
            self._add_step(step)
            for copy, copy_ids in zip(step.copies, ids_of, strict=True):
                self._add_copy(copy, step.offsets_ps, copy_ids)
        events = self._rows.events()
        used = np.unique(events.line)
        lines = tuple(self._lines[int(i)] for i in used)
        events.line[:] = np.searchsorted(used, events.line)
        return PlaneTable("/host:CPU", _PLANE_ID, lines, tuple(self._templates.templates), events)

    def _line_specs(self, n_threads: int) -> list[LineSpec]:
        """Runtime threads have hashed ids; API lines of ROCm the operating system's."""
        random = self._random
        specs = [LineSpec(random.getrandbits(62), "python3", "python3")]
        for _ in range(n_threads - 1):
            number = random.getrandbits(63) - (1 << 62)
            name = f"py_xla_execute/{number}"
            specs.append(LineSpec(number, name, name))
        if self._vendor is Vendor.AMD:
            tid = random.randrange(300, 900)
            for i in range(self._timeline.n_devices + 1):
                name = f"Host Threads/{tid + 3 * i}"
                specs.append(LineSpec(tid + 3 * i, name, name))
        return specs

    def _name(self, name: str, *stats: Stat, number_key: str = "") -> int:
        return self._templates.number(Template(name, stats, (), number_key))

    # ------------------------------------------------------------------ launching threads

    def _add_execution(self, run: Run) -> None:
        """The runtime's own events around the launches of every device, and on the main thread."""
        offsets = run.offsets_ps
        module = run.plan.program.name
        dispatch = run.dispatch_ps + offsets
        length = run.returned_ps - run.dispatch_ps
        function = f"PjitFunction({module.removeprefix('jit_')})"
        execute = 19 * PS_PER_US
        for name, after, shorter in (
            (function, 0, 0),
            (function, PS_PER_US // 2, PS_PER_US),
            ("ParseArguments", 2 * PS_PER_US, length - 4 * PS_PER_US),
            ("PJRT_LoadedExecutable_Execute", execute - 3 * PS_PER_US, execute - PS_PER_US),
            (f"{_EXECUTABLE}::Execute", execute, execute + 2 * PS_PER_US),
        ):
            self._rows.add(_MAIN, self._name(name), dispatch + after, length - shorter)
        for template, begin, end in self._thread_spans(run, module):
            start = begin + offsets[:, None]
            self._rows.add(self._thread, template, start, np.maximum(end - begin, 0))

    def _thread_spans(self, run: Run, module: str) -> Iterator[tuple[int, I64, I64]]:
        us = PS_PER_US
        begin, launch, launched, end = run.begin_ps, run.launch_ps, run.launched_ps, run.end_ps
        slot = begin + 6 * us
        thunks = ("module_name", module)
        yield self._name(f"{_EXECUTABLE}::ExecuteHelper"), begin, end
        yield self._name(f"{_EXECUTABLE}::EnqueueExecution"), begin + us, end - 5 * us
        yield self._name("ComputeSemaphoreAcquire"), slot, slot + us + run.waited_ps
        yield self._name("Resolve constant globals"), launch - 34 * us, launch - 33 * us
        yield self._name("Build buffer allocations"), launch - 32 * us, launch - 14 * us
        yield (
            self._name("GpuExecutable::ExecuteThunks", thunks),
            launch - 10 * us,
            launched + 3 * us,
        )
        yield self._name(f"{module}:XLA GPU module"), launch - 7 * us, launched + 2 * us
        yield self._name("Thunks::Prepare"), launch - 5 * us, launch - 3 * us
        yield self._name("Thunks::Initialize"), launch - 3 * us, launch - us
        yield self._name("ThenExecuteCallback"), launched + 5 * us, launched + 9 * us
        yield self._name("MakeOutputBuffers"), launched + 11 * us, launched + 16 * us
        yield self._name("RecordUsage"), launched + 13 * us, launched + 14 * us

    def _add_calls(self, run: Run, ids: I64) -> None:
        """API calls, and what the runtime marks around them."""
        plan, times = run.plan, run.times
        api = np.array([i for i, call in enumerate(plan.calls) if call.is_api], dtype=np.int64)
        if not len(api):
            return
        offsets = run.offsets_ps[:, None, None]
        start = times.call_start_ps[:, api] + offsets
        duration = times.call_duration_ps[:, api]
        templates = self._call_templates(plan, run.program_id, api)
        self._rows.add(self._api[:, None], templates, start, duration, (ids[:, :, api], MISSING))
        if self._scenario.tracer.thunk_events:
            self._add_thunks(run)
        if self._scenario.tracer.execute_events:
            self._add_graph_executes(run)

    def _call_templates(self, plan: Plan, program_id: int, api: I64) -> I32:
        """Template of every call on every device."""
        numbers = [
            [
                self._templates.number(self._call(plan, plan.calls[int(i)], program_id, device))
                for i in api
            ]
            for device in range(self._timeline.n_devices)
        ]
        return np.array(numbers, dtype=np.int32)

    def _call(self, plan: Plan, call: Call, program_id: int, device: int) -> Template:
        if self._vendor is Vendor.NVIDIA:
            return self._cuda_call(self._graph_api(call, device), device, call)
        before: tuple[Stat, ...] = (("device_id", Unsigned(self._agents[device])),)
        label = plan.kernels[call.first].label if call.kind is CallKind.LAUNCH else ""
        labels = self._scenario.graphs.labels
        if call.kind is CallKind.GRAPH and labels is not GraphLabels.MODULE:
            label = call.annotation
        bare = call.kind is CallKind.GRAPH and labels is GraphLabels.NOTHING
        unlabelled = call.kind is CallKind.LAUNCH and not label
        if bare or unlabelled:
            return Template(call.api, before)
        return Template(call.api, before, annotation_stats(plan.program, program_id, label))

    def _graph_api(self, call: Call, device: int) -> str:
        if call.kind is not CallKind.GRAPH:
            return call.api
        number = call.graph * self._timeline.n_devices + device + 1
        return Dialect(self._vendor, self._scenario.tracer.era, 0).graph_launch(number)

    def _cuda_call(self, name: str, device: int, call: Call | None = None) -> Template:
        after: tuple[Stat, ...] = ()
        if self._scenario.tracer.era is Era.NEW:
            after += (("scope_range_id", 11 + device),)
        after += (("context_id", Text(f"$${device + 1}")),)
        return Template(name, (("device_id", Unsigned(device)),), after)

    def _add_thunks(self, run: Run) -> None:
        """One event per thunk on the launching thread, around its calls."""
        calls = run.plan.calls
        first = [i for i, call in enumerate(calls) if call.is_api and call.opens]
        last = [i for i, call in enumerate(calls) if call.is_api and call.closes]
        times, pad = run.times, PS_PER_US // 4
        start = times.call_start_ps[:, first] - pad
        end = times.call_start_ps[:, last] + times.call_duration_ps[:, last] + pad // 2
        names = np.array([self._name(calls[i].annotation) for i in first], dtype=np.int32)
        offsets = run.offsets_ps[:, None, None]
        self._rows.add(self._thread[:, None], names, start + offsets, end - start)

    def _add_graph_executes(self, run: Run) -> None:
        """`command_buffer::execute` around every graph launch."""
        calls = run.plan.calls
        graphs = [i for i, call in enumerate(calls) if call.kind is CallKind.GRAPH]
        times, pad, offsets = run.times, PS_PER_US // 10, run.offsets_ps[:, None, None]
        for device in range(self._timeline.n_devices):
            names = np.array(
                [
                    self._name(
                        "command_buffer::execute",
                        ("device", device),
                        ("num_commands", calls[i].commands),
                    )
                    for i in graphs
                ],
                dtype=np.int32,
            )
            start = times.call_start_ps[device, graphs] - pad
            duration = times.call_duration_ps[device, graphs] + 2 * pad
            line = self._thread[min(device, len(self._thread) - 1)]
            self._rows.add(line, names, start + offsets[:, 0], duration)

    # ------------------------------------------------------------------------- main thread

    def _add_step(self, step: Step) -> None:
        tracer, offsets = self._scenario.tracer, step.offsets_ps
        if tracer.step_markers:
            template = self._name(STEP_MARKER, ("_r", 1), number_key="step_num")
            length = step.end_ps - step.begin_ps
            number = step.step.astype(np.int64) + tracer.first_step
            self._rows.add(_MAIN, template, step.begin_ps + offsets, length, (MISSING, number))
        for name, start, length in step.spans:
            if name == "python":
                self._add_python(start + offsets, length)
            for event, after, part in _SPAN_EVENTS.get(name, ((name, 0.0, 1.0),)):
                if name != "python":
                    begin = start + int(after * length)
                    self._rows.add(_MAIN, self._name(event), begin + offsets, int(part * length))

    def _add_python(self, starts_ps: I64, length_ps: int) -> None:
        names = python_names(self._scenario.seed)
        templates = np.array([self._name(name) for name in names], dtype=np.int32)
        start, duration, number = python_events(
            self._scenario.tracer.python_events,
            len(names),
            (starts_ps, length_ps),
            self._scenario.seed,
        )
        self._rows.add(_MAIN, templates[number], start, duration)

    def _add_copy(self, copy: Copy, offsets_ps: I64, ids: I64) -> None:
        """The main thread's call of a copy."""
        for i, device in enumerate(copy.devices):
            work = Dialect(self._vendor, self._scenario.tracer.era, 0).copy(copy.direction, 0)
            if self._vendor is Vendor.NVIDIA:
                template = self._cuda_call(work.api, int(device))
            else:
                details = ("memcpy_details", "kind:Unknown size:0 dest:512 async:1")
                agent = ("device_id", Unsigned(self._agents[int(device)]))
                template = Template(work.api, (agent,), (details,))
            number = self._templates.number(template)
            start = int(copy.call_ps[i]) + offsets_ps
            self._rows.add(self._main_api, number, start, _COPY_CALL_PS, (ids[:, i], MISSING))


_SPAN_EVENTS = {
    "read back": (("PjRtBuffer::ToLiteral", 0.0, 1.0), ("PjRtBuffer::Await", 0.01, 0.98)),
    "compile": (
        ("PjitFunction(train_step)", 0.0, 1.0),
        ("lower_sharding_computation", 0.02, 0.12),
        ("backend_compile", 0.15, 0.84),
        ("XlaCompile", 0.16, 0.82),
    ),
}
"""Span of a step -> its events: name, begin and length as parts of the span."""
