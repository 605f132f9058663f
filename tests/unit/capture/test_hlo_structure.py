"""Digests of stored modules: what equal programs share, and what tells programs apart."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from explane.capture._proto import hlo_pb2
from explane.capture.hlo import read_program
from explane.capture.hlo_structure import Structure, structure_of
from explane.capture.model import StoredProgram
from explane.synth.program_files import bundled_program, bundled_programs
from tests.other_process import other_process

Module = hlo_pb2.HloModuleProto
Instruction = hlo_pb2.HloInstructionProto


def digests(data: bytes) -> Structure:
    return structure_of(read_program(StoredProgram(1, "jit_f(1)", data)))


@pytest.mark.parametrize("title", bundled_programs())
def test_copies_of_one_program_are_equal_though_their_bytes_differ(title: str) -> None:
    data = bundled_program(title).hlo_proto
    one, other = digests(data), digests(other_process(data))
    assert other_process(data) != data
    assert one.structure == other.structure
    assert one.origin != other.origin, "their files lie elsewhere"


def test_programs_that_are_compiled_differently_differ() -> None:
    found = {digests(bundled_program(title).hlo_proto).structure for title in bundled_programs()}
    assert len(found) == len(bundled_programs())


def first(module: Module, opcode: str) -> Instruction:
    """The first instruction with an opcode."""
    return next(i for c in module.computations for i in c.instructions if i.opcode == opcode)


def entry(module: Module) -> hlo_pb2.HloComputationProto:
    """The entry computation."""
    return next(c for c in module.computations if c.id == module.entry_computation_id)


def set_name(module: Module) -> None:
    first(module, "fusion").name += "x"


def set_opcode(module: Module) -> None:
    first(module, "add").opcode = "subtract"


def set_shape(module: Module) -> None:
    first(module, "add").shape.element_type += 1


def set_layout(module: Module) -> None:
    first(module, "fusion").shape.layout.memory_space = 5


def swap_operands(module: Module) -> None:
    operands = next(
        i.operand_ids for c in module.computations for i in c.instructions if i.opcode == "divide"
    )
    operands.reverse()


def swap_schedule(module: Module) -> None:
    ids = module.schedule.sequences[module.entry_computation_id].instruction_ids
    ids[-1], ids[-2] = ids[-2], ids[-1]


def drop_sequence(module: Module) -> None:
    del module.schedule.sequences[module.entry_computation_id]


def set_root(module: Module) -> None:
    entry(module).root_id = entry(module).instructions[0].id


def set_entry(module: Module) -> None:
    module.entry_computation_id = module.computations[0].id


def set_trips(module: Module) -> None:
    loop = first(module, "while")
    config = json.loads(loop.backend_config)
    config["known_trip_count"]["n"] = "77"
    loop.backend_config = json.dumps(config).encode()


def set_body(module: Module) -> None:
    loop = first(module, "while")
    loop.called_computation_ids[:] = list(reversed(loop.called_computation_ids))


def set_twin(module: Module) -> None:
    first(module, "fusion").metadata.deduplicated_name = "twin"


def set_constant(module: Module) -> None:
    constant = first(module, "constant")
    constant.literal.s32s.append(9)


def set_partitions(module: Module) -> None:
    module.device_assignment.computation_count += 1


def set_module_name(module: Module) -> None:
    module.name += "_2"


def set_channel_inside_a_fusion(module: Module) -> None:
    first(module, "divide").channel_id = 7


@pytest.mark.parametrize(
    "change",
    [
        set_name, set_opcode, set_shape, set_layout, swap_operands, swap_schedule, drop_sequence,
        set_root, set_entry, set_trips, set_body, set_twin, set_constant, set_partitions,
        set_module_name, set_channel_inside_a_fusion,
    ],
)  # fmt: skip
def test_what_changes_launches_or_costs_changes_the_structure(
    change: Callable[[Module], None],
) -> None:
    data = bundled_program("minigpt1_h100").hlo_proto
    proto = hlo_pb2.HloProto.FromString(data)
    change(proto.hlo_module)
    one, other = digests(data), digests(proto.SerializeToString())
    assert one.structure != other.structure


def set_op_name(module: Module) -> None:
    first(module, "fusion").metadata.op_name += "/again"


def set_frame(module: Module) -> None:
    first(module, "fusion").metadata.stack_frame_id += 1


def set_line(module: Module) -> None:
    module.stack_frame_index.file_locations[0].line += 1


@pytest.mark.parametrize("change", [set_op_name, set_frame, set_line])
def test_what_changes_a_line_changes_the_origin_alone(change: Callable[[Module], None]) -> None:
    data = bundled_program("minigpt1_h100").hlo_proto
    proto = hlo_pb2.HloProto.FromString(data)
    change(proto.hlo_module)
    one, other = digests(data), digests(proto.SerializeToString())
    assert one.structure == other.structure
    assert one.origin != other.origin


def test_a_config_is_compared_by_what_it_says_and_stored_in_either_place() -> None:
    data = bundled_program("minigpt1_h100").hlo_proto
    proto = hlo_pb2.HloProto.FromString(data)
    loop = first(proto.hlo_module, "while")
    proto.hlo_module.payloads.append(loop.backend_config)
    loop.backend_config_payload.id = len(proto.hlo_module.payloads) - 1
    loop.backend_config = b""
    one, other = digests(data), digests(proto.SerializeToString())
    assert one == other


@pytest.mark.parametrize(("where", "is_same"), [("launched", True), ("fused", False)])
def test_the_order_of_a_config_counts_inside_fusions_where_bodies_are_compared(
    where: str, is_same: bool
) -> None:
    proto = hlo_pb2.HloProto.FromString(bundled_program("minigpt1_h100").hlo_proto)
    module = proto.hlo_module
    fused = next(c for c in module.computations if c.is_fusion_computation)
    instruction = (fused if where == "fused" else entry(module)).instructions[-1]
    instruction.backend_config = b'{"a":1,"b":2}'
    one = digests(proto.SerializeToString())
    instruction.backend_config = b'{"b":2,"a":1}'
    assert (digests(proto.SerializeToString()) == one) == is_same


@pytest.mark.parametrize(
    ("target", "is_same"),
    [("__cublas$lt$matmul", True), ("__cudnn$fmhaSoftmax", True), ("__gpu$xla.gpu.triton", False),
     ("te_fused_attn_forward_ffi", False), ("__cudnn$triton", False)],
)  # fmt: skip
def test_the_order_of_a_config_counts_for_calls_of_which_the_text_is_read(
    target: str, is_same: bool
) -> None:
    proto = hlo_pb2.HloProto.FromString(bundled_program("minigpt1_h100").hlo_proto)
    call = entry(proto.hlo_module).instructions[-1]
    call.opcode, call.custom_call_target = "custom-call", target
    call.backend_config = b'{"a":1,"b":2}'
    one = digests(proto.SerializeToString())
    call.backend_config = b'{"b":2,"a":1}'
    assert (digests(proto.SerializeToString()) == one) == is_same


@pytest.mark.parametrize("config", [b"{", b'{"a":' * 5000, b"{a = 1 : i64}", b"\xff"])
def test_a_config_that_is_no_json_is_compared_as_it_is(config: bytes) -> None:
    proto = hlo_pb2.HloProto.FromString(bundled_program("minigpt1_h100").hlo_proto)
    instruction = entry(proto.hlo_module).instructions[-1]
    instruction.backend_config = config
    one = digests(proto.SerializeToString())
    assert one == digests(proto.SerializeToString())
    instruction.backend_config = config + b" "
    assert one != digests(proto.SerializeToString())
