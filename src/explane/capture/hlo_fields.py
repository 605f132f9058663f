"""Rarely needed fields of instructions and modules, so that no other layer touches protobuf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from explane.capture._proto import hlo_pb2
from explane.capture.hlo_split import as_text
from explane.capture.program import Instruction, Program
from explane.capture.replica_groups import replica_groups, source_target_pairs

__all__ = [
    "Alias",
    "async_wrapped",
    "buffer_donors",
    "channel_id",
    "constant_value",
    "control_predecessor_ids",
    "frontend_attributes",
    "input_output_aliases",
    "is_sync",
    "known_trip_count",
    "output_operand_aliases",
    "parameter_number",
    "replica_groups",
    "source_target_pairs",
    "tuple_index",
    "without_identity",
]

MUST_ALIAS: Final = 2
_LONGEST_KEPT: Final = 1 << 11
_INTEGER_FIELDS: Final = ("s32s", "s64s", "u32s", "u64s", "preds")


@dataclass(frozen=True, slots=True)
class Alias:
    """An entry parameter whose buffer an output of the module reuses (a donated argument).

    Attributes:
        output_index, parameter_index: Path into the tuple shape; empty for a whole value.
        parameter_number: Number of the entry parameter.
        must: True when XLA was told that they must share the buffer, False for may.
    """

    output_index: tuple[int, ...]
    parameter_number: int
    parameter_index: tuple[int, ...]
    must: bool


def input_output_aliases(program: Program) -> tuple[Alias, ...]:
    """HloModuleProto.input_output_alias: outputs that reuse a parameter's buffer."""
    if program.proto is None:
        return ()
    return tuple(
        Alias(
            tuple(entry.output_shape_index),
            entry.parameter_number,
            tuple(entry.parameter_shape_index),
            entry.kind == MUST_ALIAS,
        )
        for entry in program.proto.input_output_alias.entries
    )


def buffer_donors(program: Program) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """HloModuleProto.buffer_donor: donated parameters without a fixed output, (number, path)."""
    if program.proto is None:
        return ()
    entries = program.proto.buffer_donor.entries
    return tuple((e.parameter_number, tuple(e.parameter_shape_index)) for e in entries)


def known_trip_count(instruction: Instruction) -> int | None:
    """Iterations of a while loop as the compiler proved them; None when it could not."""
    trip = instruction.backend_config.get("known_trip_count")
    return _integer(trip.get("n", 0)) if isinstance(trip, dict) else None


def is_sync(instruction: Instruction) -> bool:
    """True when a -start op is run on the compute stream (`collective_backend_config.is_sync`)."""
    config = instruction.backend_config.get("collective_backend_config")
    return isinstance(config, dict) and config.get("is_sync") is True


def channel_id(instruction: Instruction) -> int:
    """Channel of a collective; 0 when it has none (cross-replica)."""
    return instruction.proto.channel_id


def parameter_number(instruction: Instruction) -> int:
    """Number of a `parameter` instruction in its computation."""
    return instruction.proto.parameter_number


def tuple_index(instruction: Instruction) -> int:
    """Index of a `get-tuple-element`."""
    return instruction.proto.tuple_index


def control_predecessor_ids(instruction: Instruction) -> tuple[int, ...]:
    """Instructions that must run before, although no data flows."""
    return tuple(instruction.proto.control_predecessor_ids)


def frontend_attributes(instruction: Instruction) -> Mapping[str, str]:
    """FrontendAttributes of an instruction, such as `_xla_stream_annotation`."""
    attributes = instruction.proto.frontend_attributes.map
    return {as_text(key): as_text(value) for key, value in attributes.items()}


def output_operand_aliases(
    instruction: Instruction,
) -> tuple[tuple[tuple[int, ...], int, tuple[int, ...]], ...]:
    """(output path, operand number, operand path) that share one buffer, of fusions and calls."""
    return tuple(
        (tuple(a.output_shape_index), a.operand_index, tuple(a.operand_shape_index))
        for a in instruction.proto.output_operand_aliasing
    )


def async_wrapped(program: Program, instruction: Instruction) -> Instruction | None:
    """What an `async-start` runs: the root of the computation it wraps; None for others."""
    if instruction.opcode != "async-start":
        return None
    called = program.called_by(instruction)
    return program.root_of(called[0]) if called else None


def constant_value(instruction: Instruction) -> int | None:
    """The value of a scalar integer or boolean constant; None for anything else."""
    if instruction.opcode != "constant" or instruction.shape.dimensions:
        return None
    literal = instruction.proto.literal
    for name in _INTEGER_FIELDS:
        values: Sequence[int] = getattr(literal, name)
        if len(values) == 1:
            return int(values[0])
    return None


def without_identity(instruction: Instruction) -> bytes:
    """What an instruction does, in bytes that are equal for equal work.

    Its names, ids, links and metadata are left out, and fields that explane does not know.
    """
    content = instruction.content
    known = len(content[-1]) <= _LONGEST_KEPT
    return _in_one_form(*content) if known else _in_one_form.__wrapped__(*content)


@lru_cache(maxsize=1 << 14)
def _in_one_form(opcode: str, shape: bytes, rest: bytes) -> bytes:
    proto = hlo_pb2.HloInstructionProto.FromString(rest)
    proto.opcode = opcode
    proto.shape.ParseFromString(shape)
    proto.ClearField("frontend_attributes")
    proto.DiscardUnknownFields()
    return proto.SerializeToString(deterministic=True)


def _integer(value: object) -> int | None:
    """An int64 in protobuf's JSON form: a string of digits (or a number)."""
    try:
        return int(value) if isinstance(value, str | int) else None
    except ValueError:
        return None
