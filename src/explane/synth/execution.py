"""One execution of a plan on all devices: when every call and every kernel begins and ends.

Arrays have a row per device. All times are int64 picoseconds, whole nanoseconds as collectors
record them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from explane.capture.model import I64, Kind
from explane.synth.plan import MAIN, Call, CallKind, Plan
from explane.synth.scenario import Branches, Graphs
from explane.units import PS_PER_NS, PS_PER_US

SIDE = 50
"""Stream numbers from here on are streams that graphs use for their branches."""
N_SIDE = 2
_START_LATENCY_US = 3.2
_WAKE_UP_US = 7.0
_HEAD_START_US = 25.0
_COLLECTIVE_LEAST_PS = 1_000_000

Floats = npt.NDArray[np.float64]
I16 = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Costs:
    """What host calls cost, in microseconds: the least, and the spread of what comes on top."""

    launch_us: float
    graph_us: float
    graph_node_us: float
    between_us: float
    extra_ps: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """When the calls and kernels of one execution ran; rows are devices.

    Attributes:
        start_ps, duration_ps, stream: Per kernel of the plan.
        call_start_ps, call_duration_ps: Per call of the plan; 0 for those that are no API calls.
    """

    start_ps: I64
    duration_ps: I64
    stream: I16
    call_start_ps: I64
    call_duration_ps: I64


@dataclass
class Clocks:
    """Where host threads and streams have got to, per device."""

    host_ps: I64
    ready_ps: dict[int, I64] = field(default_factory=dict)
    async_end_ps: dict[int, I64] = field(default_factory=dict)

    def ready(self, stream: int) -> I64:
        """When a stream is free."""
        known = self.ready_ps.get(stream)
        return np.zeros_like(self.host_ps) if known is None else known

    def last_end_ps(self) -> I64:
        """When the last kernel of each device ends."""
        ends: I64 = np.max([np.zeros_like(self.host_ps), *self.ready_ps.values()], axis=0)
        return ends


@dataclass(frozen=True)
class Draws:
    """Random numbers of one execution, drawn at once so that causes don't shift them."""

    duration_ps: I64
    gap_ps: I64
    call_ps: I64
    between_ps: I64
    latency_ps: I64
    side: I16
    head_start_ps: I64


def draw(
    plan: Plan, n_devices: int, noise_ratio: float, costs: Costs, random: np.random.Generator
) -> Draws:
    """Durations, gaps and call costs of one execution.

    `side` holds a number below 1000 to compare with the wanted share of kernels that leave the
    main stream, plus 1000 times the side stream to take.
    """
    shape = (n_devices, len(plan.kernels))
    calls = (n_devices, len(plan.calls))
    noise = np.exp(random.normal(0.0, noise_ratio, shape))
    least = np.array([_call_us(call, costs) for call in plan.calls])
    cost_us = least * np.exp(np.abs(random.normal(0.0, 0.25, calls)))
    return Draws(
        duration_ps=_whole_ns(plan.base_ps() * noise),
        gap_ps=_whole_ns(random.uniform(0.6, 1.3, shape) * PS_PER_US),
        call_ps=_whole_ns(cost_us * PS_PER_US) + costs.extra_ps,
        between_ps=_whole_ns(costs.between_us * random.uniform(0.5, 1.5, calls) * PS_PER_US),
        latency_ps=_whole_ns(_START_LATENCY_US * random.uniform(1.0, 1.4, calls) * PS_PER_US),
        side=random.integers(0, 1000 * N_SIDE, shape, dtype=np.int16),
        head_start_ps=_whole_ns(random.uniform(0.0, _HEAD_START_US, shape) * PS_PER_US),
    )


def _call_us(call: Call, costs: Costs) -> float:
    if call.kind is CallKind.GRAPH:
        return costs.graph_us + costs.graph_node_us * call.count
    return costs.launch_us


def _whole_ns(time_ps: Floats) -> I64:
    return np.round(time_ps / PS_PER_NS).astype(np.int64) * PS_PER_NS


class Execution:
    """Plays one plan on clocks; the clocks move on to the end of the execution.

    Without `waits` the host does not wait for loop conditions that are copied back to it.
    """

    def __init__(
        self, plan: Plan, draws: Draws, clocks: Clocks, graphs: Graphs, *, waits: bool = True
    ) -> None:
        self._plan = plan
        self._draws = draws
        self._clocks = clocks
        self._graphs = graphs
        self._waits = waits
        shape, calls = draws.duration_ps.shape, draws.call_ps.shape
        planned = np.array([kernel.stream for kernel in plan.kernels], dtype=np.int16)
        self._stream: I16 = np.tile(planned, (shape[0], 1))
        self._start: I64 = np.zeros(shape, dtype=np.int64)
        self._duration: I64 = draws.duration_ps.copy()
        self._call_start: I64 = np.zeros(calls, dtype=np.int64)
        self._collective = plan.of_kind(Kind.COLLECTIVE)

    def play(self) -> Times:
        """All calls in order."""
        draws, clocks = self._draws, self._clocks
        for index, call in enumerate(self._plan.calls):
            if call.kind is CallKind.JOIN:
                self._join(call)
            elif call.kind is CallKind.WAIT:
                if not self._waits:
                    continue
                last = self._plan.calls[index - 1].first
                end = self._start[:, last] + self._duration[:, last]
                clocks.host_ps = np.maximum(clocks.host_ps, end + int(_WAKE_UP_US * PS_PER_US))
            else:
                begin = clocks.host_ps + draws.between_ps[:, index]
                self._call_start[:, index] = begin
                clocks.host_ps = begin + draws.call_ps[:, index]
                visible = clocks.host_ps + draws.latency_ps[:, index]
                if call.kind is CallKind.LAUNCH:
                    self._launch(call, visible)
                else:
                    self._graph(call, visible)
        api = np.array([call.is_api for call in self._plan.calls], dtype=np.bool_)
        call_duration = np.where(api, draws.call_ps, 0)
        return Times(self._start, self._duration, self._stream, self._call_start, call_duration)

    def _join(self, call: Call) -> None:
        end = self._clocks.async_end_ps.pop(call.async_id, None)
        if end is not None:
            self._clocks.ready_ps[MAIN] = np.maximum(self._clocks.ready(MAIN), end)

    def _launch(self, call: Call, visible: I64) -> None:
        """A kernel of its own; other streams wait for what the main stream has before it."""
        clocks, k = self._clocks, call.first
        start = np.maximum(clocks.ready(call.stream) + self._draws.gap_ps[:, k], visible)
        if call.stream != MAIN:
            start = np.maximum(start, clocks.ready(MAIN))
        self._put(k, start)
        end = start + self._duration[:, k]
        clocks.ready_ps[call.stream] = end
        if call.async_id:
            clocks.async_end_ps[call.async_id] = end

    def _put(self, kernel: int, start: I64) -> None:
        """Set a kernel's start; a collective ends on all devices when the last one has it."""
        self._start[:, kernel] = start
        if self._collective[kernel]:
            end = int(start.max()) + int(self._duration[0, kernel])
            self._duration[:, kernel] = np.maximum(end - start, _COLLECTIVE_LEAST_PS)

    def _graph(self, call: Call, visible: I64) -> None:
        if call.count == 0:
            return
        clocks = self._clocks
        begin = np.maximum(clocks.ready(MAIN), visible)
        members = slice(call.first, call.first + call.count)
        if self._graphs.branches is Branches.NONE and not self._collective[members].any():
            steps = self._duration[:, members] + self._draws.gap_ps[:, members]
            ends = begin[:, None] + np.cumsum(steps, axis=1)
            self._start[:, members] = ends - self._duration[:, members]
            clocks.ready_ps[MAIN] = ends[:, -1]
            return
        place = self._beside if self._graphs.branches is Branches.RANDOM else self._after_needs
        ready = {stream: begin for stream in (MAIN, *(SIDE + i for i in range(N_SIDE)))}
        for kernel in range(call.first, call.first + call.count):
            place(kernel, begin, ready)
        clocks.ready_ps[MAIN] = np.max(list(ready.values()), axis=0)

    def _beside(self, kernel: int, begin: I64, ready: dict[int, I64]) -> None:
        """Any kernel may leave the main stream, and then start before the one before it ends."""
        drawn, share = self._draws.side[:, kernel], int(1000 * self._graphs.branch_ratio)
        leaves = (drawn % 1000 < share) & (not self._collective[kernel])
        stream = np.where(leaves, SIDE + drawn // 1000, MAIN).astype(np.int16)
        own = self._own(stream, ready) + self._draws.gap_ps[:, kernel]
        early = ready[MAIN] - np.where(leaves, self._draws.head_start_ps[:, kernel], 0)
        start = np.maximum(begin, np.maximum(own, early))
        self._place(kernel, stream, start, ready)

    def _after_needs(self, kernel: int, begin: I64, ready: dict[int, I64]) -> None:
        """A kernel leaves the main stream only if it doesn't need the latest one there."""
        needs = self._plan.kernels[kernel].needs
        drawn, share = self._draws.side[:, kernel], int(1000 * self._graphs.branch_ratio)
        independent = kernel - 1 not in needs and not self._collective[kernel]
        leaves = (drawn[:1] % 1000 < share) & independent
        one = np.where(leaves, SIDE + drawn[:1] // 1000, MAIN)
        stream = np.broadcast_to(one, drawn.shape).astype(np.int16)
        start = self._own(stream, ready) + self._draws.gap_ps[:, kernel]
        for other in needs:
            end = self._start[:, other] + self._duration[:, other]
            start = np.maximum(start, end + self._draws.gap_ps[:, kernel])
        self._place(kernel, stream, np.maximum(begin, start), ready)

    @staticmethod
    def _own(stream: I16, ready: dict[int, I64]) -> I64:
        return np.select([stream == s for s in ready], list(ready.values()))

    def _place(self, kernel: int, stream: I16, start: I64, ready: dict[int, I64]) -> None:
        self._stream[:, kernel] = stream
        self._put(kernel, start)
        end = start + self._duration[:, kernel]
        for number, before in ready.items():
            ready[number] = np.where(stream == number, end, before)
