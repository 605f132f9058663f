"""Reading stored HLO modules, against modules written byte by byte from the proto definition."""

from __future__ import annotations

import json

import pytest

from explane.capture.hlo import read_program
from explane.capture.hlo_fields import (
    Alias,
    async_wrapped,
    buffer_donors,
    constant_value,
    input_output_aliases,
    is_sync,
    known_trip_count,
    output_operand_aliases,
    parameter_number,
)
from explane.capture.model import StoredProgram
from explane.capture.program import Frame, Program
from explane.errors import CaptureError
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.wire_writer import bytes_field, int_field, packed_field

FRAMES = (
    ("/lib/optax.py", "update", 7, 2),
    ("/home/me/train.py", "step", 41, 3),
    ("/home/me/train.py", "main", 90, 0),
)


def read(module: HloModule, extra: bytes = b"") -> Program:
    proto = bytes_field(1, module.module_bytes() + extra)
    return read_program(StoredProgram(15, f"{module.name}(15)", proto))


def one(*instructions: Hlo, extra: bytes = b"") -> Program:
    return read(HloModule("jit_f", [HloComputation("main", list(instructions))]), extra)


def fused(**changes: object) -> HloModule:
    body = HloComputation(
        "fused_add",
        [Hlo("p", "parameter", parameter_number=0), Hlo("add.1", "add", operands=["p", "p"])],
        is_fusion=True,
    )
    entry = HloComputation(
        "main",
        [
            Hlo("x", "parameter", parameter_number=0),
            Hlo("loop_add_fusion", "fusion", "bf16[4,8]", ["x"], ["fused_add"], frame=1),
        ],
    )
    module = HloModule("jit_f", [body, entry], frames=FRAMES)
    for name, value in changes.items():
        setattr(module, name, value)
    return module


def test_computations_instructions_and_schedule() -> None:
    program = read(fused(num_partitions=4))
    entry = program.computations[program.entry_id]
    fusion = program.by_name["loop_add_fusion"]
    assert (program.program_id, program.name, entry.name) == (15, "jit_f", "main")
    assert [program.computations[i].name for i in fusion.called_computation_ids] == ["fused_add"]
    assert [o.name for o in program.operands_of(fusion)] == ["x"]
    assert str(fusion.shape) == "bf16[4,8]{1,0}"
    assert [program.instructions[i].name for i in program.schedule[entry.id]] == [
        "x",
        "loop_add_fusion",
    ]
    assert len(program.schedule) == 1  # a fusion's body has no order of its own
    assert (program.num_replicas, program.num_partitions) == (1, 4)
    root = program.root_of(program.called_by(fusion)[0])
    assert root is not None
    assert root.name == "add.1"
    assert program.users[program.by_name["x"].id] == (fusion.id,)
    assert program.users[program.by_name["p"].id] == (program.by_name["add.1"].id,)


def test_ids_beyond_32_bits() -> None:
    program = read(fused(first_id=(7 << 32) | 12))
    fusion = program.by_name["loop_add_fusion"]
    assert fusion.id > 1 << 32
    assert [o.name for o in program.operands_of(fusion)] == ["x"]
    assert program.called_by(fusion)[0].name == "fused_add"


def test_frames_go_from_the_innermost_to_the_outermost_caller() -> None:
    program = read(fused())
    assert program.frames_of(program.by_name["loop_add_fusion"]) == (
        Frame("/lib/optax.py", 7, "update"),
        Frame("/home/me/train.py", 41, "step"),
        Frame("/home/me/train.py", 90, "main"),
    )
    assert program.frames_of(program.by_name["add.1"]) == ()


def test_a_cycle_of_frames_ends() -> None:
    program = read(fused(frames=(("a.py", "f", 1, 2), ("b.py", "g", 2, 1))))
    frames = program.frames_of(program.by_name["loop_add_fusion"])
    assert [frame.file for frame in frames] == ["a.py", "b.py"]


def test_inline_source_is_the_frame_when_there_is_no_table() -> None:
    program = one(Hlo("add.1", "add", source=("train.py", 12)))
    assert program.frames_of(program.by_name["add.1"]) == (Frame("train.py", 12, ""),)


def test_dangling_frame_ids_are_no_error() -> None:
    program = read(fused(frames=(("a.py", "f", 1, 99),)))
    assert program.frames_of(program.by_name["loop_add_fusion"]) == (Frame("a.py", 1, "f"),)
    program = one(Hlo("add.1", "add", frame=5))
    assert program.frames_of(program.by_name["add.1"]) == ()


def test_backend_config_inline_and_as_payload() -> None:
    config = json.dumps({"known_trip_count": {"n": "4"}})
    by_id = bytes_field(99, int_field(2, 1))
    by_value = bytes_field(99, bytes_field(1, config))
    program = one(
        Hlo("a", "while", backend_config=config),
        Hlo("b", "while", extra=by_id),
        Hlo("c", "while", extra=by_value),
        Hlo("d", "while", extra=bytes_field(99, int_field(2, 9))),
        Hlo("e", "while", backend_config="\x00\x01"),
        Hlo("f", "while", backend_config="{broken"),
        Hlo("g", "while"),
        extra=bytes_field(22, "other") + bytes_field(22, config),
    )
    counts = {name: known_trip_count(i) for name, i in program.by_name.items()}
    assert counts == {"a": 4, "b": 4, "c": 4, "d": None, "e": None, "f": None, "g": None}


def test_payload_zero_is_an_index() -> None:
    # A oneof keeps presence: id 0 must not read as "no payload".
    zero = bytes_field(99, b"\x10\x00")
    program = one(
        Hlo("a", "while", extra=zero), extra=bytes_field(22, '{"known_trip_count":{"n":"3"}}')
    )
    assert known_trip_count(program.by_name["a"]) == 3


def test_is_sync() -> None:
    sync = '{"collective_backend_config":{"is_sync":true}}'
    program = one(
        Hlo("a", "all-reduce-start", backend_config=sync),
        Hlo("b", "all-reduce-start", backend_config=sync.replace("true", "false")),
        Hlo("c", "all-reduce-start"),
    )
    assert [is_sync(program.by_name[n]) for n in "abc"] == [True, False, False]


def test_donated_parameters() -> None:
    entry = packed_field(1, [2]) + int_field(2, 1) + int_field(4, 2)
    donor = int_field(2, 5) + packed_field(3, [1])
    program = one(
        Hlo("x", "parameter", parameter_number=0),
        extra=bytes_field(8, bytes_field(1, entry) + bytes_field(1, donor))
        + bytes_field(18, bytes_field(1, int_field(1, 3))),
    )
    assert input_output_aliases(program) == (Alias((2,), 1, (), True), Alias((), 5, (1,), False))
    assert buffer_donors(program) == ((3, ()),)


def test_output_operand_aliases() -> None:
    alias = bytes_field(74, packed_field(1, [0]) + int_field(2, 1))
    program = one(Hlo("f", "fusion", extra=alias))
    assert output_operand_aliases(program.by_name["f"]) == (((0,), 1, ()),)


def test_async_wrapper_leads_to_what_it_runs() -> None:
    wrapped = HloComputation("wrapped", [Hlo("reduce-scatter.1", "reduce-scatter")])
    start = Hlo("rs-start", "async-start", calls=["wrapped"])
    program = read(HloModule("jit_f", [wrapped, HloComputation("main", [start])]))
    inner = async_wrapped(program, program.by_name["rs-start"])
    assert inner is not None
    assert inner.name == "reduce-scatter.1"
    assert async_wrapped(program, inner) is None


def test_constants_and_parameters() -> None:
    seven = bytes_field(8, packed_field(4, [7]))
    program = one(
        Hlo("p", "parameter", parameter_number=3),
        Hlo("c", "constant", "s32[]", extra=seven),
        Hlo("d", "constant", "f32[8]"),
    )
    assert parameter_number(program.by_name["p"]) == 3
    assert constant_value(program.by_name["c"]) == 7
    assert constant_value(program.by_name["d"]) is None


def test_bad_utf8_in_a_name_is_replaced() -> None:
    proto = fused().to_bytes().replace(b"loop_add_fusion", b"loop_\xff\xfe!_fusion")
    program = read_program(StoredProgram(15, "jit_f(15)", proto))
    assert "loop_\ufffd\ufffd!_fusion" in program.by_name


def test_unknown_element_type_is_text() -> None:
    program = one(Hlo("x", "parameter", extra=bytes_field(3, int_field(2, 77))))
    assert program.by_name["x"].shape.element_type == "type_77"
    assert program.by_name["x"].shape.size_bytes is None


@pytest.mark.parametrize("keep", [1, 7, 60, 200])
def test_cut_proto_names_the_program(keep: int) -> None:
    with pytest.raises(CaptureError, match=r"program jit_f\(15\): "):
        read_program(StoredProgram(15, "jit_f(15)", fused().to_bytes()[:-keep]))


@pytest.mark.parametrize("data", [b"", b"\x0a\x00", b"\xff" * 40])
def test_what_is_no_module_is_refused(data: bytes) -> None:
    with pytest.raises(CaptureError, match=r"program jit_f\(15\): "):
        read_program(StoredProgram(15, "jit_f(15)", data))


def test_equal_ids_are_refused() -> None:
    twice = Hlo("a", "add", extra=int_field(35, 1)), Hlo("b", "add", extra=int_field(35, 1))
    with pytest.raises(CaptureError, match="share one id"):
        one(*twice)


def test_links_that_lead_nowhere_are_refused() -> None:
    with pytest.raises(CaptureError, match="an operand that it does not hold"):
        one(Hlo("a", "add", extra=packed_field(36, [99])))
    with pytest.raises(CaptureError, match="a computation that it does not hold"):
        one(Hlo("a", "fusion", extra=packed_field(38, [99])))


def test_calls_in_a_circle_are_refused() -> None:
    first = HloComputation("f", [Hlo("a", "fusion", calls=["g"])], is_fusion=True)
    second = HloComputation("g", [Hlo("b", "fusion", calls=["f"])], is_fusion=True)
    with pytest.raises(CaptureError, match="in a circle"):
        read(HloModule("jit_f", [first, second, HloComputation("main", [Hlo("c", "add")])]))
