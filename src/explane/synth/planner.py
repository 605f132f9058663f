"""From a program's thunks to its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from explane.capture.model import Kind
from explane.synth.costs import duration_ps, instruction_cost, transfer_ps
from explane.synth.devices import DeviceFacts
from explane.synth.dialect import COLLECTIVES, GEMMS, DeviceWork, Dialect
from explane.synth.plan import MAIN, Call, CallKind, Plan, PlannedKernel
from explane.synth.producers import producers
from explane.synth.program import CompiledProgram, Thunk
from explane.synth.scenario import GraphLabels, Scenario

_INNER_KINDS = frozenset(COLLECTIVES) | GEMMS
_UNDECIDED_KINDS = ("kWhile", "kConditional")
_COPY_EFFICIENCY = 0.4
_READ_BACK_PS = 1_900_000.0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the nesting a thunk stands."""

    stream: int = MAIN
    iteration: str = ""
    async_id: int = 0
    graph: int = 0
    graph_label: str = ""


def n_variants(program: CompiledProgram) -> int:
    """How many plans differ: 1, or 3 when only the device decides on loops or branches."""
    hlo = program.hlo
    for thunk in program.walk():
        if thunk.kind in _UNDECIDED_KINDS:
            config = hlo.by_name[thunk.instruction].backend_config
            if "known_trip_count" not in config:
                return 3
    return 1


@dataclass
class Planner:
    """Builds the plan of one execution; variants differ in what only the device decides."""

    program: CompiledProgram
    scenario: Scenario
    device: DeviceFacts
    n_devices: int
    variant: int = 0
    _kernels: list[PlannedKernel] = field(default_factory=list)
    _calls: list[Call] = field(default_factory=list)
    _graphs: dict[int, int] = field(default_factory=dict)
    _nodes: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _streams: dict[str, int] = field(default_factory=dict)
    _works: dict[int, list[tuple[DeviceWork, float]]] = field(default_factory=dict)

    def build(self) -> Plan:
        """The plan of one execution."""
        self._sequence(self.program.thunks, _Place())
        return Plan(self.program, tuple(self._kernels), tuple(self._calls))

    @property
    def _dialect(self) -> Dialect:
        return Dialect(self.device.vendor, self.scenario.tracer.era, self.scenario.seed)

    def _sequence(self, thunks: Sequence[Thunk], place: _Place) -> None:
        for thunk in thunks:
            if thunk.kind == "kWhile":
                self._loop(thunk, place)
            elif thunk.kind == "kConditional":
                self._branch(thunk, place)
            elif thunk.kind == "kCommandBuffer" and self.scenario.graphs.enabled:
                self._command_buffer(thunk, place)
            elif thunk.kind in ("kCommandBuffer", "kSequential"):
                self._sequence(thunk.children, place)
            elif thunk.kind == "kAsyncStart":
                number = self._streams.setdefault(thunk.stream, len(self._streams) + 1)
                inside = replace(place, stream=number, async_id=thunk.async_id)
                self._sequence(thunk.children, inside)
            elif thunk.kind == "kAsyncDone":
                self._calls.append(Call(CallKind.JOIN, async_id=thunk.async_id))
            else:
                self._add(thunk, place, self._work(thunk))

    def _loop(self, thunk: Thunk, place: _Place) -> None:
        """A while loop; with a known trip count its condition is never launched."""
        instruction = self.program.hlo.by_name[thunk.instruction]
        known = instruction.backend_config.get("known_trip_count", {}).get("n")
        random = Random(f"{self.scenario.seed} trips {thunk.instruction} {self.variant}")
        n_trips = int(known) if known is not None else random.randint(2, 9)
        for trip in range(n_trips + (known is None)):
            name = "end" if trip == n_trips else str(trip)
            inside = replace(place, iteration=f"{place.iteration}{thunk.instruction}:{name}/")
            if known is None:
                self._sequence(thunk.parts.get("condition", ()), inside)
                self._read_back(thunk, inside)
            if trip < n_trips:
                self._sequence(thunk.parts.get("body", ()), inside)

    def _branch(self, thunk: Thunk, place: _Place) -> None:
        self._read_back(thunk, place)
        random = Random(f"{self.scenario.seed} branch {thunk.instruction} {self.variant}")
        self._sequence(thunk.parts[random.choice(sorted(thunk.parts))], place)

    def _read_back(self, thunk: Thunk, place: _Place) -> None:
        """The host reads a predicate and waits for it; inside a graph the device decides."""
        if place.graph:
            return
        self._add(thunk, place, [(self._dialect.copy("D2H", 1), _READ_BACK_PS)])
        self._calls.append(Call(CallKind.WAIT))

    def _command_buffer(self, thunk: Thunk, place: _Place) -> None:
        number = self._graphs.setdefault(id(thunk), len(self._graphs) + 1)
        annotation = f"command_buffer_{next(t.thunk_id for t in thunk.walk() if t.thunk_id)}"
        inside = replace(place, async_id=0, graph=number, graph_label=annotation)
        first, n_calls = len(self._kernels), len(self._calls)
        ends: list[int] = []
        for child in thunk.children:
            begin = len(self._kernels)
            self._sequence([child], inside)
            after = ends[-child.distance] if 0 < child.distance <= len(ends) else -1
            self._connect(first, begin, after)
            ends.append(len(self._kernels) - 1)
        del self._calls[n_calls:]
        api = self._dialect.graph_launch(number)
        count = len(self._kernels) - first
        self._calls.append(
            Call(
                CallKind.GRAPH,
                annotation,
                api,
                first,
                count,
                place.stream,
                graph=number,
                commands=len(thunk.children),
            )
        )

    def _connect(self, first: int, begin: int, after: int) -> None:
        """Give the kernels from `begin` on what they wait for in the graph that starts at `first`.

        What an instruction's operands come from, and what the compiler's own order says. Further
        kernels of one instruction follow each other.
        """
        last_of = {self._kernels[i].instruction: i for i in range(first, begin)}
        for i in range(begin, len(self._kernels)):
            kernel = self._kernels[i]
            if i > begin:
                needs = {i - 1}
            else:
                sources = producers(self.program.hlo, kernel.instruction)
                needs = {last_of[name] for name in sources if name in last_of}
                needs |= {after} if after >= first else set()
            self._kernels[i] = replace(kernel, needs=tuple(sorted(needs)))

    def _work(self, thunk: Thunk) -> list[tuple[DeviceWork, float]]:
        """Device events of a thunk and their durations; the same at every launch."""
        known = self._works.get(id(thunk))
        if known is None:
            instruction = self.program.hlo.by_name[thunk.instruction]
            inner = next((c for c in thunk.children if c.kind in _INNER_KINDS), thunk)
            works = self._dialect.work_of(inner, instruction, self.program.hlo)
            total_ps = self._total_ps(thunk, works[0].kind)
            known = [(work, total_ps * work.share) for work in works]
            self._works[id(thunk)] = known
        return known

    def _total_ps(self, thunk: Thunk, kind: Kind) -> float:
        scenario = self.scenario
        cost = instruction_cost(self.program.hlo, self.program.hlo.by_name[thunk.instruction])
        random = Random(f"{scenario.seed} efficiency {thunk.instruction}")
        if kind is Kind.COLLECTIVE:
            took = transfer_ps(cost.size_bytes, self.device, self.n_devices)
            return scenario.time_scale * took * random.uniform(0.9, 1.6)
        efficiency = random.uniform(0.3, 0.75)
        if kind in (Kind.MEMCPY, Kind.MEMSET):
            efficiency *= _COPY_EFFICIENCY
        return scenario.time_scale * duration_ps(cost, self.device, efficiency)

    def _add(self, thunk: Thunk, place: _Place, works: Sequence[tuple[DeviceWork, float]]) -> None:
        """One launch call per device event."""
        for index, (work, base_ps) in enumerate(works):
            kernel = PlannedKernel(
                work,
                instruction=thunk.instruction,
                label=self._label(thunk, work, place),
                iteration=place.iteration,
                stream=place.stream,
                base_ps=base_ps,
                graph=place.graph,
                node=self._node(thunk, place, index),
            )
            call = Call(
                CallKind.LAUNCH,
                annotation=thunk.instruction,
                api=work.api,
                first=len(self._kernels),
                count=1,
                stream=place.stream,
                async_id=place.async_id,
                opens=index == 0,
                closes=index == len(works) - 1,
            )
            self._kernels.append(kernel)
            self._calls.append(call)

    def _node(self, thunk: Thunk, place: _Place, index: int) -> int:
        if not place.graph:
            return 0
        return self._nodes.setdefault((place.graph, id(thunk), index), len(self._nodes) + 1)

    def _label(self, thunk: Thunk, work: DeviceWork, place: _Place) -> str:
        """The tracer's hlo_op."""
        labels, tracer = self.scenario.graphs.labels, self.scenario.tracer
        if place.graph and labels is not GraphLabels.TRUE:
            return place.graph_label if labels is GraphLabels.COMMAND_BUFFER else ""
        if work.kind is Kind.COLLECTIVE:
            inner = place.stream != MAIN and tracer.inner_async_labels
            return thunk.instruction.replace("-start", "") if inner else thunk.instruction
        return thunk.instruction if thunk.kernel or tracer.library_labels else ""
