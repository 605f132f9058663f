"""What a simulated capture is to show: every knob of the simulator, and causes of lost time.

A scenario and a program determine the capture to the byte. A cause can be taken away with
`without`; all random draws stay the same, so that the difference of two runs is the cause's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from explane.errors import UsageError
from explane.synth.devices import Vendor
from explane.synth.program import CompiledProgram
from explane.units import PS_PER_MS


class GraphLabels(Enum):
    """What the tracer says of a kernel that a command buffer launched."""

    COMMAND_BUFFER = "command_buffer"
    MODULE = "module"
    NOTHING = "nothing"
    TRUE = "true"


class Branches(Enum):
    """Which kernels of a graph run beside its main stream.

    DEPENDENCIES: those that don't need the kernel before them, and they wait for what they need.
    RANDOM: any of them, and each may start somewhat before the kernel before it has ended.
    """

    NONE = "none"
    DEPENDENCIES = "dependencies"
    RANDOM = "random"


class Era(Enum):
    """Which collector wrote the device events (formats differ between versions)."""

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Graphs:
    """Command buffers.

    Attributes:
        enabled: False launches their members one by one, as old profilers made XLA do.
        labels: What their kernels carry.
        branches, branch_ratio: How kernels leave the main stream, and which share of those that
            could.
        node_ids: Whether CUDA kernels carry `cuda_graph_node_id`.
    """

    enabled: bool = True
    labels: GraphLabels = GraphLabels.COMMAND_BUFFER
    branches: Branches = Branches.NONE
    branch_ratio: float = 0.0
    node_ids: bool = True


@dataclass(frozen=True, slots=True)
class Tracer:
    """What the profiler records, loses and gets wrong.

    Attributes:
        era: Version of the collectors; decides stream names and detail texts on ROCm.
        step_markers: Whether the loop has a `StepTraceAnnotation` (event `train`).
        first_step: step_num of the first marker.
        python_events: Events of the Python tracer per step; each costs host time.
        thunk_events: Whether the runtime marks every thunk on the launching thread.
        execute_events: Whether the host threads carry the runtime's own events.
        library_labels: Whether library kernels launched one by one carry their label.
        inner_async_labels: Asynchronous collectives are labelled without `-start`, as the
            runtime's inner operation, which the stored HLO does not list.
        lost_graph_ratio: Share of graph kernels that the collector loses.
        one_per_launch: Of a graph launch only the last kernel is kept, as ROCm collectors did
            that file records by correlation id.
        device_end_ps: Device events that start later are dropped (a full buffer); None = none.
        clock_skew_ps: Added to all device times.
        host: Host name.
        n_extra_devices: Planes of GPUs that did nothing.
    """

    era: Era = Era.NEW
    step_markers: bool = True
    first_step: int = 0
    python_events: int = 0
    thunk_events: bool = True
    execute_events: bool = True
    library_labels: bool = True
    inner_async_labels: bool = True
    lost_graph_ratio: float = 0.0
    one_per_launch: bool = False
    device_end_ps: int | None = None
    clock_skew_ps: int = 0
    host: str = "simulated-node"
    n_extra_devices: int = 0


@dataclass(frozen=True, slots=True)
class Causes:
    """Time that the step loses for a known reason; lengths are per step.

    Attributes:
        host_gap_ps, host_gap_name: The main thread is busy with a named host event before it
            dispatches. With `readback` nothing is queued meanwhile, so the devices idle as long.
        copy_ps: A host-to-device copy that the step's first kernel waits for.
        straggler_device, straggler_ps: One GPU's compute kernels are slower by this much.
        collective_ps: One collective, that with the least compute beside it, takes this much
            longer.
        readback: The host waits for the step's result before it goes on.
        launch_ps: Every launch call takes this much longer.
        transfers: False lets every collective end once its last GPU has joined.
        loop_waits: The host waits for each loop condition that is copied back to it, as XLA does;
            without, it launches on as if it knew, and the copies take no time.
        compile_steps, compile_ps: The step's function is compiled anew in these steps.
    """

    host_gap_ps: int = 0
    host_gap_name: str = "next_batch"
    copy_ps: int = 0
    straggler_device: int = 0
    straggler_ps: int = 0
    collective_ps: int = 0
    readback: bool = False
    launch_ps: int = 0
    transfers: bool = True
    loop_waits: bool = True
    compile_steps: tuple[int, ...] = ()
    compile_ps: int = 800 * PS_PER_MS


@dataclass(frozen=True)
class OtherProgram:
    """A second program that runs after the step's own, in every n-th step."""

    program: CompiledProgram
    every: int = 1
    executions: int = 1


REMOVED: dict[str, dict[str, object]] = {
    "host_gap": {"host_gap_ps": 0},
    "copy": {"copy_ps": 0},
    "straggler": {"straggler_ps": 0},
    "collective": {"collective_ps": 0},
    "readback": {"readback": False},
    "launch": {"launch_ps": 0},
    "transfers": {"transfers": False},
    "loop_waits": {"loop_waits": False},
    "compile": {"compile_steps": ()},
}
"""Cause -> the fields of `Causes` that take it away."""


@dataclass(frozen=True)
class Scenario:
    """Everything that the simulator is told beside the program.

    Attributes:
        seed: Determines every invented number and name.
        n_steps: Repetitions of the step.
        vendor: Whose GPUs; None = those that the program was compiled for.
        n_devices: GPUs; 0 = as many as the program was compiled for.
        program_id: Key of the program; others and recompiled ones get higher ones.
        noise_ratio: Spread of kernel durations between repetitions.
        time_scale: All kernel durations are multiplied with it.
        steps_ahead: How many executions the host may be ahead of the GPUs.
        n_simulated_steps: Steps that are worked out one by one; beyond, the last ones repeat.
            0 = as many as take a second or two.
        graphs, tracer, causes, others: See there.
    """

    seed: int = 0
    n_steps: int = 6
    vendor: Vendor | None = None
    n_devices: int = 0
    program_id: int = 17
    noise_ratio: float = 0.03
    time_scale: float = 1.0
    steps_ahead: int = 3
    n_simulated_steps: int = 0
    graphs: Graphs = field(default_factory=Graphs)
    tracer: Tracer = field(default_factory=Tracer)
    causes: Causes = field(default_factory=Causes)
    others: tuple[OtherProgram, ...] = ()

    def without(self, cause: str) -> Scenario:
        """The same scenario with one cause taken away.

        Raises:
            UsageError: No such cause.
        """
        if cause not in REMOVED:
            known = ", ".join(sorted(REMOVED))
            raise UsageError(cause, f"no such cause, known are {known}", slug="unknown_cause")
        causes = replace(self.causes, **REMOVED[cause])  # type: ignore[arg-type]
        return replace(self, causes=causes)
