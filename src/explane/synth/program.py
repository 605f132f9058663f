"""A compiled XLA:GPU program: its HLO and the thunks that the runtime executes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.capture.program import Program

Dimensions = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Thunk:
    """One thunk of the runtime's sequence.

    Attributes:
        kind: XLA's word, such as `kCustomKernel`, `kWhile`, `kCommandBuffer`.
        thunk_id: Counted from 1 in emission order; 0 for command buffers.
        instruction: The HLO instruction that it was emitted for (from the thunk metadata).
        kernel: Kernel name; empty where a library or the driver names it.
        grid, block: Launch dimensions; empty where there is no kernel of its own.
        shared_bytes: Dynamic shared memory.
        stream: Stream of an asynchronous start.
        async_id: Joins `kAsyncStart` and `kAsyncDone`.
        distance: How many places before it its nearest predecessor stands; 0 = none.
        parts: Section name -> thunks: the empty name for command buffers, asynchronous starts
            and slice fusions; `condition` and `body`; the branches of a conditional.
    """

    kind: str
    thunk_id: int = 0
    instruction: str = ""
    kernel: str = ""
    grid: Dimensions = ()
    block: Dimensions = ()
    shared_bytes: int = 0
    stream: str = ""
    async_id: int = 0
    distance: int = 0
    parts: Mapping[str, tuple[Thunk, ...]] = field(default_factory=dict)

    @property
    def children(self) -> tuple[Thunk, ...]:
        """Thunks of the unnamed section."""
        return self.parts.get("", ())

    def walk(self) -> Iterator[Thunk]:
        """This thunk and all below it, in emission order."""
        yield self
        for part in self.parts.values():
            for child in part:
                yield from child.walk()


@dataclass(frozen=True)
class CompiledProgram:
    """One program as the compiler left it.

    Attributes:
        title: Name of the file or folder it came from.
        name: HloModuleProto.name, such as `jit_train_step`.
        platform: `CUDA` or `ROCM`; empty when the dump does not say.
        device: What it was compiled for, as the compiler describes it; may be empty.
        compiler: Version of the compiler; may be empty.
        n_devices: Devices of one execution.
        hlo_proto: The exact HloProto bytes.
        thunks: Top level of the sequence that the runtime executes.
        sources: Python files that the HLO points into, by base name.
    """

    title: str
    name: str
    platform: str
    device: str
    compiler: str
    n_devices: int
    hlo_proto: bytes
    thunks: tuple[Thunk, ...]
    sources: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def hlo(self) -> Program:
        """The decoded module."""
        return read_program(StoredProgram(0, self.name, self.hlo_proto))

    def walk(self) -> Iterator[Thunk]:
        """All thunks in emission order."""
        for thunk in self.thunks:
            yield from thunk.walk()
