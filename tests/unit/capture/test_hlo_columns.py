"""Instructions as columns, against what protobuf makes of the same bytes."""

from __future__ import annotations

import random

import pytest

from explane.capture import hlo_columns, hlo_text
from explane.capture._proto import hlo_pb2
from explane.capture.hlo import read_program
from explane.capture.hlo_text import program_text
from explane.capture.model import StoredProgram
from explane.capture.program import Program
from explane.errors import CaptureError
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.wire_writer import bytes_field, int_field, packed_field


def module(n_adds: int = 3) -> bytes:
    body = HloComputation(
        "fused", [Hlo("p", "parameter", parameter_number=0), Hlo("n", "negate", operands=["p"])]
    )
    adds = [
        Hlo(f"add.{i}", "add", f"f32[{i + 1}]", ["x", "x"], op_name=f"jit/{i}", source=("a.py", i))
        for i in range(n_adds)
    ]
    entry = HloComputation(
        "main",
        [
            Hlo("x", "parameter", parameter_number=0),
            *adds,
            Hlo("f", "fusion", "f32[8]", ["add.0"], ["fused"], backend_config="{}"),
        ],
    )
    return HloModule("jit_f", [body, entry], first_id=(3 << 32) | 1).to_bytes()


def read(data: bytes) -> Program:
    return read_program(StoredProgram(1, "jit_f(1)", data))


def same_as_protobuf(data: bytes) -> None:
    program, proto = read(data), hlo_pb2.HloProto.FromString(data)
    expected = [i for c in proto.hlo_module.computations for i in c.instructions]
    assert list(program.instructions) == [i.id for i in expected]
    for message in expected:
        instruction = program.instructions[message.id]
        assert (instruction.name, instruction.opcode) == (message.name, message.opcode)
        assert instruction.operand_ids == tuple(message.operand_ids)
        assert instruction.called_computation_ids == tuple(message.called_computation_ids)
        assert instruction.proto.metadata == message.metadata
        assert instruction.proto.shape == message.shape
        assert program.by_name[message.name] is instruction


def test_every_instruction_is_what_protobuf_reads() -> None:
    same_as_protobuf(module())


@pytest.mark.parametrize(("name", "value"), [("_BATCH_MESSAGES", 7), ("_BATCH_BYTES", 100)])
def test_more_instructions_than_are_walked_together(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    whole = program_text(read(module(50)))
    monkeypatch.setattr(hlo_columns, name, value)
    monkeypatch.setattr(hlo_text, "_AT_ONCE", 9)
    monkeypatch.setattr(hlo_text, "_MOST_KEPT", 5)
    same_as_protobuf(module(50))
    assert program_text(read(module(50))) == whole
    assert whole.count(" add(%x, %x)") == 50


def fields_of(message: bytes) -> list[bytes]:
    """The serialised fields of an instruction, one piece each, packed lists unpacked."""
    proto = hlo_pb2.HloInstructionProto.FromString(message)
    pieces = []
    for field, value in proto.ListFields():
        if field.name in ("operand_ids", "called_computation_ids"):
            pieces += [int_field(field.number, one) for one in value]
            continue
        one = hlo_pb2.HloInstructionProto()
        if hasattr(value, "SerializeToString"):
            getattr(one, field.name).CopyFrom(value)
        else:
            setattr(one, field.name, value)
        pieces.append(one.SerializeToString())
    return pieces


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_fields_reads_the_same(seed: int) -> None:
    chance = random.Random(seed)
    proto = hlo_pb2.HloProto.FromString(module())
    body = b""
    for computation in proto.hlo_module.computations:
        inner = int_field(5, computation.id) + int_field(6, computation.root_id)
        for message in computation.instructions:
            pieces = fields_of(message.SerializeToString())
            chance.shuffle(pieces)
            # A field that stands twice: the last one counts. Unknown ones are passed over.
            pieces.insert(0, bytes_field(1, "an earlier name"))
            pieces.insert(chance.randrange(len(pieces)), bytes_field(5, "unknown"))
            inner += bytes_field(2, b"".join(pieces))
        body += bytes_field(3, inner + bytes_field(1, computation.name))
    data = bytes_field(1, body)
    same_as_protobuf(data)
    texts = [program_text(read(one)).splitlines() for one in (data, module())]
    assert texts[0][1:] == texts[1][1:]  # the header tells of ids and a schedule


def test_split_packed_lists_and_a_module_in_two_parts() -> None:
    extra = packed_field(36, [1]) + packed_field(36, [1])
    twice = HloComputation("main", [Hlo("x", "parameter"), Hlo("add", "add", extra=extra)])
    first = HloModule("jit_f", [twice]).module_bytes()
    data = bytes_field(1, first) + bytes_field(1, bytes_field(1, "jit_g"))
    program = read(data)
    assert program.name == "jit_g"
    assert program.by_name["add"].operand_ids == (1, 1)
    same_as_protobuf(data)


def test_a_module_without_instructions() -> None:
    program = read(bytes_field(1, bytes_field(3, bytes_field(1, "main"))))
    assert len(program.instructions) == 0
    assert program_text(program).splitlines()[1:] == ["", "ENTRY %main {", "}"]


def test_an_instruction_of_endless_fields_is_damaged() -> None:
    slices = bytes_field(17, int_field(1, 1)) * 5000
    body = bytes_field(3, bytes_field(1, "main") + bytes_field(2, slices + int_field(35, 1)))
    with pytest.raises(CaptureError, match="no valid HloProto"):
        read(bytes_field(1, body))


@pytest.mark.parametrize("broken", [b"\x3b\x3c", b"\x0a\x05ab", b"\x1a\x02\x18\xff"])
def test_damage_inside_an_instruction_is_found_before_anyone_asks(broken: bytes) -> None:
    body = bytes_field(3, bytes_field(1, "main") + bytes_field(2, int_field(35, 1) + broken))
    with pytest.raises(CaptureError, match="no valid HloProto"):
        read(bytes_field(1, body))
