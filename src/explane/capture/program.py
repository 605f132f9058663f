"""One HLO module as the compiler left it: computations, instructions, schedule, source frames.

Names follow hlo.proto and xla_data.proto. Ids are 64-bit. `Instruction.proto` keeps the message
for what only few need (dot dimensions, windows, replica groups); other layers than `capture` read
it through the functions of `hlo_fields` and never import protobuf.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from explane.capture.hlo_split import as_text
from explane.capture.instructions import Instruction, Instructions, Owners

if TYPE_CHECKING:
    from explane.capture._proto import hlo_pb2

__all__ = ["Computation", "Frame", "Instruction", "Program"]


@dataclass(frozen=True, slots=True)
class Frame:
    """One stack frame: a Python file, line and function as jax recorded them."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Computation:
    """An HloComputationProto. `instruction_ids` in file order; `root_id` its result."""

    id: int
    name: str
    instruction_ids: tuple[int, ...]
    root_id: int
    is_fusion: bool
    execution_thread: str


@dataclass(frozen=True)
class Program:
    """One HLO module.

    Attributes:
        program_id: Key in the capture.
        name: HloModuleProto.name.
        entry_id: Id of the entry computation.
        computations: By id.
        instructions: By id, all computations.
        by_name: Instructions by name (unique in a module; the first one if they are not).
        schedule: Instruction ids in launch order, by computation id; fusion bodies have none.
        num_partitions, num_replicas: From the device assignment; 0 when not stored.
        frames: All stack frames, index = stack_frame_id - 1: (frame, parent_frame_id).
        proto: The HloModuleProto without its computations.
    """

    program_id: int
    name: str
    entry_id: int
    computations: Mapping[int, Computation]
    instructions: Instructions = field(repr=False)
    by_name: Mapping[str, Instruction] = field(repr=False)
    schedule: Mapping[int, tuple[int, ...]] = field(repr=False)
    frames: Sequence[tuple[Frame, int]] = field(repr=False)
    num_replicas: int = 0
    num_partitions: int = 0
    proto: hlo_pb2.HloModuleProto | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _stacks(self) -> dict[int, tuple[Frame, ...]]:
        return {}

    @cached_property
    def users(self) -> Mapping[int, tuple[int, ...]]:
        """Instructions that take an instruction's result, by id, in file order."""
        return Owners(self.instructions, self.instructions.columns.operands, once=True)

    @cached_property
    def callers(self) -> Mapping[int, tuple[int, ...]]:
        """Instructions that call a computation, by computation id, in file order."""
        return Owners(self.instructions, self.instructions.columns.called, once=False)

    def frames_of(self, instruction: Instruction) -> tuple[Frame, ...]:
        """The stack of an instruction, innermost first, ending with the outermost caller.

        From the frame table; without a frame id the inline source is the only frame. Empty when
        the instruction has neither.
        """
        return self.frames_in(instruction.metadata)

    def frames_in(self, metadata: hlo_pb2.OpMetadata) -> tuple[Frame, ...]:
        """The stack that metadata tells of, as `frames_of`."""
        stack = self._stack(metadata.stack_frame_id)
        if not stack and metadata.source_file:
            return (Frame(as_text(metadata.source_file), metadata.source_line, ""),)
        return stack

    def _stack(self, frame_id: int) -> tuple[Frame, ...]:
        """Frames from an id to the outermost caller; a cycle in a broken table ends the walk."""
        known = self._stacks.get(frame_id)
        if known is not None:
            return known
        stack: list[Frame] = []
        seen: set[int] = set()
        current = frame_id
        while 1 <= current <= len(self.frames) and current not in seen:
            seen.add(current)
            frame, current = self.frames[current - 1]
            stack.append(frame)
        return self._stacks.setdefault(frame_id, tuple(stack))

    def operands_of(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The operands, in order; reading a program made sure that it holds them."""
        return tuple(map(self.instructions.__getitem__, instruction.operand_ids))

    def called_by(self, instruction: Instruction) -> tuple[Computation, ...]:
        """The called computations, in order; reading a program made sure that it holds them."""
        return tuple(map(self.computations.__getitem__, instruction.called_computation_ids))

    def instructions_of(self, computation: Computation) -> Iterator[Instruction]:
        """A computation's instructions in file order (operands come before users)."""
        return (self.instructions[i] for i in computation.instruction_ids)

    def inside(self, instruction: Instruction, wrappers: Container[str]) -> Iterator[Instruction]:
        """What runs as part of an instruction, nested wrappers included; each computation once.

        Args:
            instruction: What calls the first computations.
            wrappers: Opcodes inside whose own computations are looked into too.
        """
        pending = list(self.called_by(instruction))
        seen: set[int] = set()
        while pending:
            computation = pending.pop()
            if computation.id in seen:
                continue
            seen.add(computation.id)
            for inner in self.instructions_of(computation):
                yield inner
                if inner.opcode in wrappers:
                    pending += self.called_by(inner)

    def root_of(self, computation: Computation) -> Instruction | None:
        """The instruction whose result a computation returns."""
        return self.instructions.get(computation.root_id)
