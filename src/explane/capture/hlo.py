"""Reads a stored HloProto into a `Program`.

Messages and field numbers: xla/service/hlo.proto, xla/xla_data.proto. Both ways of storing source
lines are read: inline in OpMetadata (jax up to 0.8.0) and the module's frame tables.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from explane.capture._proto import hlo_pb2
from explane.capture.hlo_columns import InstructionColumns, read_columns
from explane.capture.hlo_split import OtherOrder, Split, as_text, in_order, split
from explane.capture.instructions import ByName, Instructions
from explane.capture.model import I64, StoredProgram
from explane.capture.program import Computation, Frame, Program
from explane.capture.wire import WireError
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
        try:
            found, columns, opcodes = _taken_apart(stored.hlo_proto)
        except (DecodeError, OtherOrder, WireError) as error:
            raise _damaged(stored, "its stored HLO is no valid HloProto") from error
        return _program(stored, found, columns, opcodes)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps the cycle collector off while many objects are made of which none is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _taken_apart(hlo_proto: bytes) -> tuple[Split, InstructionColumns, Sequence[str]]:
    """A module's parts; one that some other tool wrote is first written as a compiler would."""
    try:
        found = split(hlo_proto)
        return found, *read_columns(found.data, found.starts, found.ends)
    except OtherOrder:
        found = split(in_order(hlo_proto))
        return found, *read_columns(found.data, found.starts, found.ends)


def _program(
    stored: StoredProgram, found: Split, columns: InstructionColumns, opcodes: Sequence[str]
) -> Program:
    module = found.module
    if not found.computations:
        raise _damaged(stored, "its HLO module holds no computations")
    if _repeats(columns.id) or _repeats(np.array([c.id for c in found.computations])):
        raise _damaged(stored, "two of its instructions or computations share one id")
    computations = _computations(found, columns)
    owners = [computation.id for computation in found.computations]
    counts = [computation.n_instructions for computation in found.computations]
    instructions = Instructions(
        found.data,
        columns,
        opcodes,
        np.repeat(np.array(owners, np.int64), counts),
        tuple(module.payloads),
    )
    _check_links(stored, computations, instructions)
    return Program(
        program_id=stored.program_id,
        name=as_text(module.name),
        entry_id=_entry_id(found),
        computations=computations,
        instructions=instructions,
        by_name=ByName(instructions),
        schedule=_schedule(module, instructions),
        frames=_frames(module.stack_frame_index),
        num_replicas=module.device_assignment.replica_count,
        num_partitions=module.device_assignment.computation_count,
        proto=module,
    )


def _repeats(ids: I64) -> bool:
    """Whether a number stands twice."""
    return bool((np.diff(np.sort(ids)) == 0).any())


def _damaged(stored: StoredProgram, reason: str) -> CaptureError:
    subject = f"program {stored.name or stored.program_id}"
    return CaptureError(
        subject, reason, "its kernels keep the tracer's labels only", slug="damaged-program"
    )


def _computations(found: Split, columns: InstructionColumns) -> dict[int, Computation]:
    """The computations by id."""
    computations = {}
    last = 0
    for one in found.computations:
        first, last = last, last + one.n_instructions
        computations[one.id] = Computation(
            id=one.id,
            name=one.name,
            instruction_ids=tuple(columns.id[first:last].tolist()),
            root_id=one.root_id,
            is_fusion=one.is_fusion,
            execution_thread=one.execution_thread,
        )
    return computations


def _check_links(
    stored: StoredProgram, computations: dict[int, Computation], instructions: Instructions
) -> None:
    """Refuses dangling operands and calls, and calls in a circle, so that no walk has to."""
    if (instructions.rows_of(instructions.columns.operands.values) < 0).any():
        raise _damaged(stored, "an instruction takes an operand that it does not hold")
    called = instructions.columns.called
    owners = instructions.computation_id[called.owners]
    calls: dict[int, list[int]] = {}
    for owner, computation_id in zip(owners.tolist(), called.values.tolist(), strict=True):
        calls.setdefault(owner, []).append(computation_id)
        if computation_id not in computations:
            raise _damaged(stored, "an instruction calls a computation that it does not hold")
    sizes: dict[int, int] = {}
    for computation_id in _callees_first(stored, computations, calls):
        own = len(computations[computation_id].instruction_ids)
        sizes[computation_id] = own + sum(sizes[i] for i in calls.get(computation_id, ()))
    if max(sizes.values(), default=0) > MAX_EXPANDED:
        raise _damaged(stored, "its computations call each other too many times over")


def _callees_first(
    stored: StoredProgram, computations: Iterable[int], calls: Mapping[int, Sequence[int]]
) -> Iterable[int]:
    """Computations in an order in which each comes behind all that it calls."""
    place = {computation_id: number for number, computation_id in enumerate(computations)}
    if all(place[i] < place[owner] for owner, called in calls.items() for i in called):
        return place  # as compilers write them
    try:
        return tuple(TopologicalSorter(calls).static_order())
    except CycleError as error:
        raise _damaged(stored, "its computations call each other in a circle") from error


def _entry_id(found: Split) -> int:
    """The entry computation: by id, else by name, else the last one (operands come first)."""
    ids = [c.id for c in found.computations]
    if found.module.entry_computation_id in ids:
        return found.module.entry_computation_id
    name = as_text(found.module.entry_computation_name)
    for computation in found.computations:
        if computation.name == name:
            return computation.id
    return ids[-1]


def _schedule(
    module: hlo_pb2.HloModuleProto, instructions: Instructions
) -> dict[int, tuple[int, ...]]:
    """Sequences by computation id, without ids that the module does not hold."""
    found = {}
    for key, sequence in module.schedule.sequences.items():
        ids = np.array(sequence.instruction_ids, np.int64)
        found[key] = tuple(ids[instructions.rows_of(ids) >= 0].tolist())
    return found


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
