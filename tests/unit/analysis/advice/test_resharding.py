"""Collectives that only feed a foreign call, and those that do something else as well."""

from __future__ import annotations

from collections.abc import Sequence

from explane.analysis.advice.resharding import resharded_for
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.wire_writer import bytes_field, int_field


def parameter(name: str = "p", number: int = 0, shape: str = "f32[8]") -> Hlo:
    return Hlo(name, "parameter", shape, parameter_number=number)


def found(
    entry: Sequence[Hlo], bodies: Sequence[HloComputation] = (), extra: bytes = b""
) -> dict[str, str]:
    """Collective and target of the call that it only feeds."""
    module = HloModule("jit_f", [*bodies, HloComputation("main", list(entry))], 1)
    stored = module.to_bytes()
    if extra:  # HloProto.hlo_module again: protobuf merges it into the first one
        stored += bytes_field(1, extra)
    program = read_program(StoredProgram(1, "jit_f(1)", stored))
    return {name: call.custom_call_target for name, call in resharded_for(program).items()}


def gathered(opcode: str = "all-gather", operand: str = "add") -> list[Hlo]:
    return [
        parameter(),
        Hlo("add", "add", operands=["p", "p"]),
        Hlo("gather", opcode, "f32[32]", operands=[operand]),
    ]


def call(operand: str = "gather", target: str = "my_attention_ffi") -> Hlo:
    return Hlo("attention", "custom-call", operands=[operand], target=target)


def test_a_gather_that_only_feeds_a_foreign_call_is_needless() -> None:
    assert found([*gathered(), call()]) == {"gather": "my_attention_ffi"}
    assert found([*gathered("all-to-all"), call()]) == {"gather": "my_attention_ffi"}


def test_moves_between_the_gather_and_the_call_don_t_matter() -> None:
    moved = HloComputation(
        "moves",
        [
            parameter("q"),
            Hlo("t", "transpose", operands=["q"]),
            Hlo("c", "convert", operands=["t"]),
        ],
        is_fusion=True,
    )
    entry = [
        *gathered("all-gather-start"),
        Hlo("done", "all-gather-done", operands=["gather"]),
        Hlo("fusion", "fusion", operands=["done"], calls=["moves"]),
        call("fusion"),
    ]
    assert found(entry, [moved]) == {"gather": "my_attention_ffi"}


def test_what_also_feeds_other_work_or_leaves_the_program_is_needed() -> None:
    other = Hlo("sum", "add", operands=["gather", "gather"])
    assert found([*gathered(), call(), other]) == {}
    result = Hlo("result", "tuple", operands=["attention", "gather"])
    assert found([*gathered(), call(), result]) == {}


def test_reductions_and_calls_that_xla_makes_itself_are_left_alone() -> None:
    assert found([*gathered("all-reduce"), call()]) == {}
    assert found([*gathered(), call(target="__cublas$lt$matmul")]) == {}
    assert found([*gathered(), call(target="__cudnn$fmhaSoftmax")]) != {}
    assert found([*gathered(), call(target="__gpu$xla.gpu.triton")]) != {}
    assert found(gathered()) == {}


def test_gathered_weights_are_what_sharded_training_does() -> None:
    # A slice of stacked layers in a loop, converted before it is gathered.
    layer = [
        parameter("stacked", shape="f32[4,8]"),
        Hlo("slice", "dynamic-slice", operands=["stacked"]),
        Hlo("cast", "convert", "bf16[8]", operands=["slice"]),
        Hlo("gather", "all-gather", "bf16[32]", operands=["cast"]),
        call(),
    ]
    assert found(layer) == {}


def test_an_input_is_no_weight_but_a_parameter_that_the_program_updates_is() -> None:
    entry = [
        parameter(shape="f32[8]"),
        Hlo("gather", "all-gather", "f32[32]", operands=["p"]),
        Hlo("attention", "custom-call", "f32[32]", operands=["gather"], target="my_ffi"),
    ]
    assert found(entry) == {"gather": "my_ffi"}
    donated = bytes_field(1, int_field(2, 0) + int_field(4, 1))
    assert found(entry, extra=bytes_field(8, donated)) == {}
    entry[2] = Hlo("attention", "custom-call", "f32[8]", operands=["gather"], target="my_ffi")
    assert found(entry) == {}  # the result has the parameter's form: it may be its new value
