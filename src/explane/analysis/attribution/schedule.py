"""The launches that one execution of a program is expected to make, in the runtime's order.

XLA:GPU emits its thunks depth first over the schedule, and the runtime runs them in that order
(xla/service/gpu/thunk_emitter.cc). Loops are kept folded: their launches stand once, with the
loop's range beside them, so the size follows the program and not its trip counts. Kernels of the
condition of a loop with a known trip count are never launched and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Final

MIN_GRAPH: Final = 5
"""Fewest thunks of a command buffer by default (xla_gpu_graph_min_graph_size)."""


class LaunchKind(IntEnum):
    """What kind of device work an instruction starts."""

    CUSTOM = 0
    """One kernel that XLA compiled, named after an instruction."""
    COPY = 1
    MEMSET = 2
    GEMM = 3
    CONVOLUTION = 4
    LIBRARY = 5
    """Attention, normalisation and other calls: any number of kernels of any name."""
    FFT = 6
    SORT = 7
    COLLECTIVE = 8
    HOST_COPY = 9
    """A copy that may go from or to host memory."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What one instruction is expected to launch each time it runs.

    Attributes:
        instruction: Name of the instruction of the stored HLO that its kernels belong to.
        kind: What sort of work it is.
        names: Kernel names it can carry, likeliest first: its own, that of an inner sort, those of
            earlier instructions with an equal body (the kernel keeps the first one's name).
        aliases: Labels other than the instruction's name under which a tracer may show it
            (the async wrapper of an inner collective, the fusion around a library call).
        collective: Kind of collective such as `all-gather`; empty for anything else.
        alternatives: Other kinds of work that it may turn out to be (a fill done as a memset).
        max_kernels: Most kernels that one run may launch.
        optional: It may launch nothing at all.
        n_thunks: Thunks that it is made of, inner ones included.
        convertible: XLA can put it into a command buffer by default.
        command_buffer: HLO-level era: name of the `call` whose command buffer holds it; empty
            when it is in none or the program's graphs are not listed.
    """

    instruction: str
    kind: LaunchKind
    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    collective: str = ""
    alternatives: tuple[LaunchKind, ...] = ()
    max_kernels: int = 1
    optional: bool = False
    n_thunks: int = 1
    convertible: bool = True
    command_buffer: str = ""


@dataclass(frozen=True, slots=True)
class Loop:
    """A while loop: launches `first` (inclusive) to `end` (exclusive) repeat.

    Attributes:
        instruction: Name of the while instruction.
        first, end: Range in `Schedule.launches`: condition (if it is launched), then body.
        body: First launch of the body; equals `first` when the condition launches nothing.
        trip_count: Known number of iterations, or -1.
    """

    instruction: str
    first: int
    end: int
    body: int
    trip_count: int


@dataclass(frozen=True, slots=True)
class Branches:
    """A conditional: exactly one of the ranges runs.

    Attributes:
        instruction: Name of the conditional.
        ranges: (first, end) of each branch; they lie one after the other.
    """

    instruction: str
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Schedule:
    """Expected launches of one program, with loops folded.

    Attributes:
        program_id: The program.
        module: Name of its HLO module.
        launches: In emission order.
        loops, branches: Ranges of `launches`; inner ones after the ones that hold them.
        thunk_ids: Emission-order thunk id of each launch, one tuple per known numbering
            (`command_buffer_N` is named after the thunk id of its first member).
        cuts: Sorted positions p where a thunk that no command buffer takes by default (a wait, a
            loop's edge) stands between launches p - 1 and p.
        inner: Launch of each instruction inside a fusion; a tracer may label a kernel with the
            instruction that the fusion is about.
        after: For each launch the launches whose results it reads, directly or through
            instructions that launch nothing.
    """

    program_id: int
    module: str
    launches: tuple[Launch, ...]
    loops: tuple[Loop, ...] = ()
    branches: tuple[Branches, ...] = ()
    thunk_ids: tuple[tuple[int, ...], ...] = ()
    cuts: tuple[int, ...] = ()
    inner: Mapping[str, int] = field(default_factory=dict, repr=False)
    after: tuple[tuple[int, ...], ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.launches)

    @cached_property
    def by_instruction(self) -> Mapping[str, tuple[int, ...]]:
        """Launches of each instruction; more than one where a computation is called twice."""
        found: dict[str, tuple[int, ...]] = {}
        for index, launch in enumerate(self.launches):
            found[launch.instruction] = (*found.get(launch.instruction, ()), index)
        return found

    @cached_property
    def by_label(self) -> Mapping[str, tuple[int, ...]]:
        """Launches by every label that the tracer may show.

        Instruction names first, then aliases, then instructions inside fusions.
        """
        found: dict[str, tuple[int, ...]] = {n: (i,) for n, i in self.inner.items()}
        found |= self.by_instruction
        for index, launch in enumerate(self.launches):
            for alias in launch.aliases:
                found[alias] = (*found.get(alias, ()), index)
        return found

    @cached_property
    def by_kernel_name(self) -> Mapping[str, tuple[int, ...]]:
        """Launches by the kernel names they can carry."""
        found: dict[str, tuple[int, ...]] = {}
        for index, launch in enumerate(self.launches):
            for name in launch.names:
                found[name] = (*found.get(name, ()), index)
        return found

    @cached_property
    def graphs(self) -> tuple[tuple[int, int], ...]:
        """Ranges (first, end) that XLA turns into command buffers under its default flags.

        A run of consecutive convertible launches, uncut, of at least five
        (xla_gpu_graph_min_graph_size); in the HLO-level era the listed command buffers.
        """
        cuts = set(self.cuts)
        ranges = []
        first = 0
        for p in range(len(self.launches) + 1):
            if p < len(self.launches) and p > first and not self._starts_run(p, cuts):
                continue
            if p > first and self._is_graph(first, p):
                ranges.append((first, p))
            first = p
        return tuple(ranges)

    def _starts_run(self, p: int, cuts: set[int]) -> bool:
        """Whether launch p can't be in one graph with launch p - 1."""
        a, b = self.launches[p - 1], self.launches[p]
        if a.command_buffer or b.command_buffer:
            return a.command_buffer != b.command_buffer
        return p in cuts or not a.convertible or not b.convertible

    def _is_graph(self, first: int, end: int) -> bool:
        launch = self.launches[first]
        if any(x.command_buffer for x in self.launches):
            return bool(launch.command_buffer)
        return launch.convertible and end - first >= MIN_GRAPH
