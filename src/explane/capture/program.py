"""One HLO module as the compiler left it: computations, instructions, schedule, source frames.

Names follow hlo.proto and xla_data.proto. Ids are 64-bit. `Instruction.proto` keeps the message
for what only few need (dot dimensions, windows, replica groups); other layers than `capture` read
it through the functions of `hlo_fields` and never import protobuf.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from explane.capture.shape import Shape, shape_of_proto

if TYPE_CHECKING:
    from explane.capture._proto import hlo_pb2


@dataclass(frozen=True, slots=True)
class Frame:
    """One stack frame: a Python file, line and function as jax recorded them."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, eq=False)
class Instruction:
    """An HloInstructionProto; what is costly or rare is decoded when it is asked for.

    Two instructions are equal only if they are the same object.

    Attributes:
        id: 64-bit, unique in its module.
        name: Unique in its module.
        opcode: As in the proto, such as `fusion`, `custom-call`, `all-gather-start`.
        computation_id: The computation that lists it.
        proto: The HloInstructionProto itself (field numbers as in hlo.proto).
        payloads: HloModuleProto.payloads of its module.
    """

    id: int
    name: str
    opcode: str
    computation_id: int
    proto: hlo_pb2.HloInstructionProto = field(repr=False)
    payloads: Sequence[bytes] = field(default=(), repr=False)

    @cached_property
    def operand_ids(self) -> tuple[int, ...]:
        """Instructions whose results it takes, in order."""
        return tuple(self.proto.operand_ids)

    @cached_property
    def called_computation_ids(self) -> tuple[int, ...]:
        """The fused computation, the reducer, condition and body, …; in order."""
        return tuple(self.proto.called_computation_ids)

    @cached_property
    def shape(self) -> Shape:
        """The result's shape."""
        return shape_of_proto(self.proto.shape)

    @cached_property
    def op_name(self) -> str:
        """OpMetadata.op_name; empty when there is none."""
        return as_text(self.proto.metadata.op_name)

    @property
    def op_type(self) -> str:
        """OpMetadata.op_type; empty when there is none."""
        return as_text(self.proto.metadata.op_type)

    @property
    def deduplicated_name(self) -> str:
        """OpMetadata.deduplicated_name; equal values mark equal bodies."""
        return as_text(self.proto.metadata.deduplicated_name)

    @property
    def source_file(self) -> str:
        """Inline source file (jax up to 0.8.0); empty when there is none."""
        return as_text(self.proto.metadata.source_file)

    @property
    def source_line(self) -> int:
        """Inline source line; 0 when there is none."""
        return self.proto.metadata.source_line

    @property
    def stack_frame_id(self) -> int:
        """1-based id of the innermost frame in `Program.frames`; 0 = none."""
        return self.proto.metadata.stack_frame_id

    @property
    def custom_call_target(self) -> str:
        """Target of a custom call, such as `__cublas$lt$matmul`; else empty."""
        return as_text(self.proto.custom_call_target)

    @property
    def fusion_kind(self) -> str:
        """`kLoop`, `kInput`, `kOutput`, `kCustom`; empty for anything but a fusion."""
        return as_text(self.proto.fusion_kind)

    @cached_property
    def backend_config_bytes(self) -> bytes:
        """Field 43, or the payload of field 99: inline, or an index into the module's payloads."""
        payload = self.proto.backend_config_payload
        which = payload.WhichOneof("payload")
        if which == "value":
            return payload.value
        if which == "id":
            return self.payloads[payload.id] if 0 <= payload.id < len(self.payloads) else b""
        return self.proto.backend_config

    @cached_property
    def backend_config(self) -> Mapping[str, Any]:
        """The GPU backend config as JSON text decodes it; empty when absent or not JSON.

        int64 values are strings (protobuf's JSON form). Keys as in backend_configs.proto.
        """
        text = self.backend_config_bytes
        if not text.startswith(b"{"):
            return {}
        try:
            config = json.loads(text)
        except (ValueError, RecursionError):
            return {}
        return config if isinstance(config, dict) else {}


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
        proto: The HloModuleProto itself.
    """

    program_id: int
    name: str
    entry_id: int
    computations: Mapping[int, Computation]
    instructions: Mapping[int, Instruction] = field(repr=False)
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
        users: dict[int, list[int]] = {}
        for instruction in self.instructions.values():
            for operand_id in dict.fromkeys(instruction.operand_ids):
                users.setdefault(operand_id, []).append(instruction.id)
        return {key: tuple(value) for key, value in users.items()}

    @cached_property
    def callers(self) -> Mapping[int, tuple[int, ...]]:
        """Instructions that call a computation, by computation id, in file order."""
        callers: dict[int, list[int]] = {}
        for instruction in self.instructions.values():
            for computation_id in instruction.called_computation_ids:
                callers.setdefault(computation_id, []).append(instruction.id)
        return {key: tuple(value) for key, value in callers.items()}

    def frames_of(self, instruction: Instruction) -> tuple[Frame, ...]:
        """The stack of an instruction, innermost first, ending with the outermost caller.

        From the frame table; without a frame id the inline source is the only frame. Empty when
        the instruction has neither.
        """
        stack = self._stack(instruction.stack_frame_id)
        if not stack and instruction.source_file:
            return (Frame(instruction.source_file, instruction.source_line, ""),)
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
        """The operands that the module holds, in order."""
        found = (self.instructions.get(i) for i in instruction.operand_ids)
        return tuple(i for i in found if i is not None)

    def called_by(self, instruction: Instruction) -> tuple[Computation, ...]:
        """The called computations that the module holds, in order."""
        found = (self.computations.get(i) for i in instruction.called_computation_ids)
        return tuple(c for c in found if c is not None)

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


def as_text(value: str | bytes) -> str:
    """A proto string; bytes that are no UTF-8 (protobuf hands them out raw) are replaced."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
