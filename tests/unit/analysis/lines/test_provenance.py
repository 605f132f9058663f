"""Instruction to Python line: each way of finding one, in small modules built for it."""

from __future__ import annotations

import pytest

from explane.analysis.lines.provenance import Provenance, provenance
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.capture.program import Frame
from explane.errors import UsageError
from tests.builders_hlo import Hlo, HloComputation, HloModule, HloShape
from tests.wire_writer import int_field

LIB = "/v/lib/python3.12/site-packages/optax/_src/update.py"
FRAMES = (
    (LIB, "apply", 7, 2),  # 1: called from 2
    ("/me/train.py", "step", 41, 0),  # 2
    ("/me/model.py", "layer", 12, 2),  # 3
    (LIB, "lonely", 99, 0),  # 4: no user in the stack
    ("/me/model.py", "head", 30, 0),  # 5
)


def gte(name: str, of: str, index: int, shape: str = "f32[8]") -> Hlo:
    return Hlo(name, "get-tuple-element", shape, [of], extra=int_field(13, index))


def param(name: str, number: int = 0) -> Hlo:
    return Hlo(name, "parameter", parameter_number=number)


def find(
    name: str, entry: list[Hlo], *bodies: HloComputation, user_re: str | None = None
) -> Provenance:
    module = HloModule("jit_f", [*bodies, HloComputation("main", entry)], frames=FRAMES)
    program = read_program(StoredProgram(1, "jit_f(1)", module.to_bytes()))
    return provenance(program, user_re)[name]


def body(*instructions: Hlo) -> HloComputation:
    return HloComputation("fused", list(instructions), is_fusion=True)


def fusion(name: str = "f", operands: tuple[str, ...] = (), **more: str | int) -> Hlo:
    made = Hlo(name, "fusion", "f32[8]", operands, ["fused"])
    for key, value in more.items():
        setattr(made, key, value)
    return made


def place(found: Provenance) -> tuple[str, int, str]:
    return (found.source_file.rsplit("/", 1)[-1], found.source_line, found.line_from)


def test_own_metadata_and_the_library_that_it_went_through() -> None:
    found = find("a", [Hlo("a", "custom-call", op_name="jit(f)/x", frame=1)])
    assert found == Provenance(
        op_name="jit(f)/x",
        source_file="/me/train.py",
        source_line=41,
        function="step",
        line_from="own",
        lines=(("/me/train.py", 41),),
        via=Frame(LIB, 7, "apply"),
        stack=(Frame(LIB, 7, "apply"), Frame("/me/train.py", 41, "step")),
    )


def test_a_stack_without_the_user_gives_the_innermost_line_and_says_so() -> None:
    found = find("a", [Hlo("a", "custom-call", frame=4)])
    assert place(found) == ("update.py", 99, "own_library")
    assert found.via is None


def test_inline_source_of_older_jax() -> None:
    found = find("a", [Hlo("a", "copy", source=("/me/old.py", 5))])
    assert place(found) == ("old.py", 5, "own")


def test_the_fused_root() -> None:
    root = Hlo("r", "add", operands=["p"], op_name="jit(f)/add", frame=3)
    found = find("f", [fusion()], body(param("p"), Hlo("m", "multiply", frame=5), root))
    assert place(found) == ("model.py", 12, "fused_root")
    assert found.op_name == "jit(f)/add"


def test_the_heaviest_line_inside() -> None:
    # Two small ops on line 12 (2 x 8 elements) against one reduction of 64 on line 30.
    inner = body(
        Hlo("p", "parameter", "f32[64]", parameter_number=0),
        Hlo("r", "reduce", "f32[8]", ["p"], frame=5, op_name="jit(f)/sum"),
        Hlo("a", "add", "f32[8]", ["r"], frame=3),
        Hlo("b", "add", "f32[8]", ["a"], frame=3),
        Hlo("c", "convert", "bf16[8]", ["b"]),
    )
    found = find("f", [fusion()], inner)
    assert place(found) == ("model.py", 30, "inside")
    assert found.op_name == "jit(f)/sum"


def test_a_dot_outweighs_the_elementwise_work_around_it() -> None:
    inner = body(
        Hlo("x", "parameter", "f32[64,128]", parameter_number=0),
        Hlo("y", "parameter", "f32[128,64]", parameter_number=1),
        Hlo("d", "dot", "f32[64,64]", ["x", "y"], frame=3),
        Hlo("e", "exponential", "f32[64,128]", ["x"], frame=5),
        Hlo("g", "add", "f32[64,64]", ["d", "e"]),
    )
    assert place(find("f", [fusion()], inner)) == ("model.py", 12, "inside")


def test_all_lines_of_a_fusion_are_listed_the_heaviest_behind_the_chosen_one() -> None:
    inner = body(
        Hlo("p", "parameter", "f32[64]", parameter_number=0),
        Hlo("a", "add", "f32[8]", frame=2),
        Hlo("b", "add", "f32[64]", ["p"], frame=5),
        Hlo("c", "add", "f32[64]", ["p"], frame=5),
    )
    found = find("f", [fusion(frame=3)], inner)
    assert found.line_from == "own"
    assert found.lines == (("/me/model.py", 12), ("/me/model.py", 30), ("/me/train.py", 41))


def test_a_users_line_inside_goes_before_an_own_line_of_a_library() -> None:
    inner = body(param("p"), Hlo("r", "add", operands=["p"], frame=3))
    assert place(find("f", [fusion(frame=4)], inner)) == ("model.py", 12, "fused_root")


def test_what_an_async_wrapper_runs() -> None:
    wrapped = HloComputation("fused", [param("p"), Hlo("rs", "reduce-scatter", frame=3)])
    start = Hlo("rs-start", "async-start", calls=["fused"])
    assert place(find("rs-start", [start], wrapped)) == ("model.py", 12, "fused_root")


def test_reducers_are_not_what_an_instruction_does() -> None:
    reducer = HloComputation("fused", [Hlo("add", "add", frame=5)])
    entry = [Hlo("g", "dot", frame=3), Hlo("ar", "all-reduce", "f32[8]", ["g"], ["fused"])]
    assert place(find("ar", entry, reducer)) == ("model.py", 12, "operand")


def test_the_nearest_operand_through_tuples() -> None:
    entry = [
        Hlo("near", "dot", frame=3),
        Hlo("far", "dot", frame=5),
        Hlo("t", "tuple", HloShape(parts=(HloShape(), HloShape())), ["far", "near"]),
        gte("e", "t", 1),
        Hlo("c", "copy", operands=["e"]),
    ]
    assert place(find("c", entry)) == ("model.py", 12, "operand")


def test_a_user_when_no_operand_has_a_line() -> None:
    entry = [
        param("x"),
        Hlo("c", "copy", operands=["x"]),
        Hlo("u", "dot", "f32[8]", ["c"], frame=5),
    ]
    assert place(find("c", entry)) == ("model.py", 30, "user")


def test_the_nearer_of_operand_and_user() -> None:
    entry = [
        Hlo("far", "dot", frame=3),
        Hlo("b", "bitcast", operands=["far"]),
        Hlo("c", "copy", operands=["b"]),
        Hlo("u", "dot", "f32[8]", ["c"], frame=5),
    ]
    assert place(find("c", entry)) == ("model.py", 30, "user")


def test_siblings_in_a_tuple_are_no_neighbours() -> None:
    entry = [
        param("x"),
        Hlo("other", "dot", frame=3),
        Hlo("c", "copy", operands=["x"]),
        Hlo("t", "tuple", HloShape(parts=(HloShape(), HloShape())), ["c", "other"]),
    ]
    assert find("c", entry) == Provenance()


def test_a_copy_in_a_loop_is_traced_to_what_the_loop_was_given() -> None:
    parts = HloShape(parts=(HloShape(), HloShape()))
    loop = HloComputation(
        "fused",
        [
            Hlo("state", "parameter", parts, parameter_number=0),
            gte("s0", "state", 0),
            gte("s1", "state", 1),
            Hlo("c", "copy", operands=["s1"]),
            Hlo("next", "tuple", parts, ["s0", "c"]),
        ],
    )
    entry = [
        Hlo("i", "add", frame=5),
        Hlo("w", "dot", frame=3),
        Hlo("init", "tuple", parts, ["i", "w"]),
        Hlo("loop", "while", parts, ["init"], ["fused"]),
    ]
    assert place(find("c", entry, loop)) == ("model.py", 12, "operand")


def test_a_copy_before_the_next_iteration_is_traced_to_its_reader() -> None:
    parts = HloShape(parts=(HloShape(), HloShape()))
    loop = HloComputation(
        "fused",
        [
            Hlo("state", "parameter", parts, parameter_number=0),
            gte("s0", "state", 0),
            gte("s1", "state", 1),
            Hlo("use", "dot", "f32[8]", ["s0"], frame=3),
            Hlo("new", "rng-get-and-update-state"),
            Hlo("c", "copy", operands=["new"]),
            Hlo("next", "tuple", parts, ["c", "s1"]),
        ],
    )
    entry = [param("x"), Hlo("loop", "while", parts, ["x"], ["fused"])]
    assert place(find("c", entry, loop)) == ("model.py", 12, "user")


def test_the_own_op_name_stays_when_the_line_comes_from_elsewhere() -> None:
    entry = [Hlo("c", "copy", op_name="args[0]"), Hlo("u", "dot", "f32[8]", ["c"], frame=5)]
    assert find("c", entry).op_name == "args[0]"


def test_user_re_and_a_broken_one() -> None:
    entry = [Hlo("a", "custom-call", frame=3)]
    assert place(find("a", entry, user_re=r"train\.py")) == ("train.py", 41, "own")
    assert place(find("a", entry, user_re="nowhere")) == ("model.py", 12, "own_library")
    with pytest.raises(UsageError, match="no regular expression"):
        find("a", entry, user_re="(")


def test_every_instruction_has_an_entry() -> None:
    module = HloModule("m", [HloComputation("main", [Hlo("a", "add"), Hlo("b", "add")])])
    found = provenance(read_program(StoredProgram(1, "m(1)", module.to_bytes())))
    assert len(found) == 2
    assert dict(found) == {"a": Provenance(), "b": Provenance()}
    with pytest.raises(KeyError):
        found["c"]
