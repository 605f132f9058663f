"""The launches of one execution of a program, loops unrolled, in launch order.

A plan is small (one object per launched kernel of one execution); the timeline repeats it for
every step and device with arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from explane.capture.model import Bools, Kind
from explane.synth.dialect import DeviceWork
from explane.synth.program import CompiledProgram

MAIN = 0
"""Number of the compute stream; communication streams count up from 1."""


class CallKind(IntEnum):
    """What one entry of the launch order does."""

    LAUNCH = 0
    GRAPH = 1
    JOIN = 2
    WAIT = 3


@dataclass(frozen=True, slots=True)
class Call:
    """One host call, or a wait.

    Attributes:
        kind: LAUNCH and GRAPH are API calls with kernels; JOIN makes the main stream wait for an
            asynchronous operation; WAIT blocks the host until the kernel before it has ended.
        annotation: What the runtime calls the thunk: an instruction or `command_buffer_N`.
        api: Name of the host event.
        first, count: Range of its kernels in the plan.
        stream: MAIN or a communication stream.
        async_id: Of an asynchronous start, or the one that a JOIN waits for.
        graph: Number of the command buffer, from 1; 0 for others.
        commands: Members of the command buffer.
        opens, closes: First and last call of one thunk.
    """

    kind: CallKind
    annotation: str = ""
    api: str = ""
    first: int = 0
    count: int = 0
    stream: int = MAIN
    async_id: int = 0
    graph: int = 0
    commands: int = 0
    opens: bool = True
    closes: bool = True

    @property
    def is_api(self) -> bool:
        """True for calls that the tracer records on the host."""
        return self.kind in (CallKind.LAUNCH, CallKind.GRAPH)


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """One device event of an execution.

    Attributes:
        work: Name, kind and details.
        instruction: The true HLO instruction.
        label: What the tracer says: an instruction, `command_buffer_N`, or nothing.
        iteration: Path of loop iterations, such as `while.31:0/`.
        stream: MAIN or a communication stream.
        base_ps: Duration before noise; of a collective the time from the last arrival on.
        graph, node: Number of its command buffer (0 = none) and of the node in it.
        needs: Of a graph's kernel: places, in the plan, of the graph's kernels that it waits for.
    """

    work: DeviceWork
    instruction: str
    label: str
    iteration: str
    stream: int
    base_ps: float
    graph: int = 0
    node: int = 0
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """All launches of one execution of a program."""

    program: CompiledProgram
    kernels: tuple[PlannedKernel, ...]
    calls: tuple[Call, ...]

    def base_ps(self) -> npt.NDArray[np.float64]:
        """Durations before noise, in picoseconds."""
        return np.array([kernel.base_ps for kernel in self.kernels], dtype=np.float64)

    def of_kind(self, kind: Kind) -> Bools:
        """Which kernels are of a kind."""
        return np.array([kernel.work.kind is kind for kernel in self.kernels], dtype=np.bool_)
