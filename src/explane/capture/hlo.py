"""Reads a stored HloProto into a `Program`.

Messages and field numbers: xla/service/hlo.proto, xla/xla_data.proto. Both ways of storing source
lines are read: inline in OpMetadata (jax up to 0.8.0) and the module's frame tables.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from typing import Final

from google.protobuf.message import DecodeError

from explane.capture._proto import hlo_pb2
from explane.capture.model import StoredProgram
from explane.capture.program import Computation, Frame, Instruction, Program, as_text
from explane.errors import CaptureError

MAX_EXPANDED: Final = 20_000_000
"""Most instructions of a module with every call written out: a walk through it has to end."""


def read_program(stored: StoredProgram) -> Program:
    """Decodes one stored HLO module.

    Args:
        stored: The exact HloProto bytes and the program's key in the capture.

    Raises:
        CaptureError: The bytes are no HloProto, or the module is empty or contradicts itself.
    """
    with _no_collection():
        return _read(stored, _parse(stored).hlo_module)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps the cycle collector off while many objects are made of which none is garbage.

    It would walk all of them again and again and take half of the time for a large module.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(stored: StoredProgram, module: hlo_pb2.HloModuleProto) -> Program:
    if not module.computations:
        raise _damaged(stored, "its HLO module holds no computations")
    instructions: dict[int, Instruction] = {}
    computations: dict[int, Computation] = {}
    payloads = tuple(module.payloads)
    for proto in module.computations:
        computations[proto.id] = _computation(proto, payloads, instructions)
    n_listed = sum(len(c.instruction_ids) for c in computations.values())
    if n_listed != len(instructions) or len(computations) != len(module.computations):
        raise _damaged(stored, "two of its instructions or computations share one id")
    _check_links(stored, computations, instructions)
    by_name: dict[str, Instruction] = {}
    for instruction in instructions.values():
        by_name.setdefault(instruction.name, instruction)
    return Program(
        program_id=stored.program_id,
        name=as_text(module.name),
        entry_id=_entry_id(module),
        computations=computations,
        instructions=instructions,
        by_name=by_name,
        schedule=_schedule(module, instructions),
        frames=_frames(module.stack_frame_index),
        num_replicas=module.device_assignment.replica_count,
        num_partitions=module.device_assignment.computation_count,
        proto=module,
    )


def _parse(stored: StoredProgram) -> hlo_pb2.HloProto:
    proto = hlo_pb2.HloProto()
    try:
        proto.ParseFromString(stored.hlo_proto)
    except DecodeError as error:
        raise _damaged(stored, "its stored HLO is no valid HloProto") from error
    return proto


def _damaged(stored: StoredProgram, reason: str) -> CaptureError:
    subject = f"program {stored.name or stored.program_id}"
    return CaptureError(
        subject, reason, "its kernels keep the tracer's labels only", slug="damaged-program"
    )


def _computation(
    proto: hlo_pb2.HloComputationProto,
    payloads: Sequence[bytes],
    instructions: dict[int, Instruction],
) -> Computation:
    """One computation; its instructions are added to `instructions`."""
    computation_id = proto.id
    ids = []
    for message in proto.instructions:
        instruction_id = message.id
        ids.append(instruction_id)
        instructions[instruction_id] = Instruction(
            id=instruction_id,
            name=as_text(message.name),
            opcode=as_text(message.opcode),
            computation_id=computation_id,
            proto=message,
            payloads=payloads,
        )
    return Computation(
        id=computation_id,
        name=as_text(proto.name),
        instruction_ids=tuple(ids),
        root_id=proto.root_id,
        is_fusion=proto.is_fusion_computation,
        execution_thread=as_text(proto.execution_thread),
    )


def _check_links(
    stored: StoredProgram,
    computations: dict[int, Computation],
    instructions: dict[int, Instruction],
) -> None:
    """Refuses dangling operands and calls, and calls in a circle, so that no walk has to."""
    calls: dict[int, list[int]] = {}
    known = set(instructions)
    for instruction in instructions.values():
        if not known.issuperset(instruction.proto.operand_ids):
            raise _damaged(stored, "an instruction takes an operand that it does not hold")
        called = instruction.proto.called_computation_ids
        if called:
            calls.setdefault(instruction.computation_id, []).extend(called)
    if not all(i in computations for called in calls.values() for i in called):
        raise _damaged(stored, "an instruction calls a computation that it does not hold")
    try:
        order = tuple(TopologicalSorter(calls).static_order())
    except CycleError as error:
        raise _damaged(stored, "its computations call each other in a circle") from error
    sizes: dict[int, int] = {}
    for computation_id in order:
        own = len(computations[computation_id].instruction_ids)
        sizes[computation_id] = own + sum(sizes[i] for i in calls.get(computation_id, ()))
    if max(sizes.values(), default=0) > MAX_EXPANDED:
        raise _damaged(stored, "its computations call each other too many times over")


def _entry_id(module: hlo_pb2.HloModuleProto) -> int:
    """The entry computation: by id, else by name, else the last one (operands come first)."""
    ids = [c.id for c in module.computations]
    if module.entry_computation_id in ids:
        return module.entry_computation_id
    for computation in module.computations:
        if computation.name == module.entry_computation_name:
            return computation.id
    return ids[-1]


def _schedule(
    module: hlo_pb2.HloModuleProto, instructions: dict[int, Instruction]
) -> dict[int, tuple[int, ...]]:
    """Sequences by computation id, without ids that the module does not hold."""
    return {
        key: tuple(i for i in sequence.instruction_ids if i in instructions)
        for key, sequence in module.schedule.sequences.items()
    }


def _frames(index: hlo_pb2.StackFrameIndexProto) -> tuple[tuple[Frame, int], ...]:
    """The frame table with its names resolved; a dangling id gives an empty name or line 0."""
    files = ["", *map(as_text, index.file_names)]
    functions = ["", *map(as_text, index.function_names)]
    locations = [Frame("", 0, "")]
    for location in index.file_locations:
        file = _at(files, location.file_name_id)
        locations.append(Frame(file, location.line, _at(functions, location.function_name_id)))
    return tuple(
        (_at_frame(locations, frame.file_location_id), frame.parent_frame_id)
        for frame in index.stack_frames
    )


def _at(names: Sequence[str], index: int) -> str:
    return names[index] if 0 <= index < len(names) else ""


def _at_frame(locations: Sequence[Frame], index: int) -> Frame:
    return locations[index] if 0 <= index < len(locations) else locations[0]
