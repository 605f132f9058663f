"""One HLO module as the compiler left it: computations, instructions, schedule, source frames.

Names follow hlo.proto and xla_data.proto. Ids are 64-bit. `Instruction.proto` keeps the message
for what only few need (dot dimensions, windows, replica groups); other layers than `capture` read
it through accessors here and never import protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """A ShapeProto: an array (element type and dimensions) or a tuple of shapes.

    Attributes:
        element_type: Lower-case XLA name (`bf16`, `f32`, `f8e4m3fn`, `tuple`, `token`, …);
            `type_N` for a number that this version does not know.
        dimensions: Sizes; empty for scalars, tuples and tokens.
        tuple_shapes: Parts of a tuple.
        minor_to_major: Layout order; empty when the file has none.
        element_bits: Bits of one element as stored; 0 when unknown.
    """

    element_type: str
    dimensions: tuple[int, ...] = ()
    tuple_shapes: tuple[Shape, ...] = ()
    minor_to_major: tuple[int, ...] = ()
    element_bits: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """One stack frame: a Python file, line and function as jax recorded them."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Instruction:
    """An HloInstructionProto.

    Attributes:
        name: Unique in its module.
        opcode: As in the proto, such as `fusion`, `custom-call`, `all-gather-start`.
        computation_id: The computation that lists it.
        op_name: OpMetadata.op_name; empty when there is none.
        deduplicated_name: OpMetadata.deduplicated_name (equal value = equal body).
        source_file, source_line: Inline source (old jax); empty and 0 when there is none.
        stack_frame_id: 1-based id into `Program.frames_of`; 0 = none.
        fusion_kind: `kLoop`, `kInput`, `kOutput`, `kCustom` or empty.
        proto: The HloInstructionProto itself (field numbers as in hlo.proto).
    """

    id: int
    name: str
    opcode: str
    computation_id: int
    shape: Shape
    operand_ids: tuple[int, ...]
    called_computation_ids: tuple[int, ...]
    op_name: str
    deduplicated_name: str
    source_file: str
    source_line: int
    stack_frame_id: int
    custom_call_target: str
    fusion_kind: str
    proto: Any = field(repr=False, compare=False)

    @cached_property
    def backend_config(self) -> Mapping[str, Any]:
        """The GPU backend config as JSON text decodes it; empty when absent or not JSON.

        int64 values are strings (protobuf's JSON form). Keys as in backend_configs.proto.
        """
        raise NotImplementedError  # filled in by the reader


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
        by_name: Instructions by name (unique in a module).
        schedule: Instruction ids in launch order, by computation id; fusion bodies have none.
        num_partitions, num_replicas: From the device assignment; 0 when not stored.
        frames: All stack frames, index = stack_frame_id - 1: (frame, parent_frame_id).
    """

    program_id: int
    name: str
    entry_id: int
    computations: Mapping[int, Computation]
    instructions: Mapping[int, Instruction]
    by_name: Mapping[str, Instruction]
    schedule: Mapping[int, tuple[int, ...]]
    frames: tuple[tuple[Frame, int], ...]
    num_replicas: int = 0
    num_partitions: int = 0

    def frames_of(self, instruction: Instruction) -> tuple[Frame, ...]:
        """The stack of an instruction, innermost first, ending with the outermost caller."""
        raise NotImplementedError  # filled in with the reader
