"""FLOPs of whole programs against XLA's own cost analysis, of functions compiled for the CPU.

Needs jax, which the project does not: in an environment that has it,
`PYTHONPATH=src:. python -m pytest -m oracle tests/oracle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from explane.analysis.roofline.flops import ProgramCosts
from explane.capture.hlo import read_program
from explane.capture.hlo_fields import known_trip_count
from explane.capture.model import StoredProgram
from explane.capture.program import Program
from tests.wire_writer import bytes_field

jax = pytest.importorskip("jax", reason="jax is not installed")
pytestmark = pytest.mark.oracle


def compiled(
    function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32"
) -> tuple[Program, float]:
    """The program and XLA's count of its FLOPs."""
    args = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    executable = jax.jit(function).lower(*args).compile()
    module = executable.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    program = read_program(StoredProgram(1, "oracle", bytes_field(1, module)))
    return program, executable.cost_analysis()["flops"]


def products_of(program: Program) -> int:
    """FLOPs of all dots and convolutions, each computation's counted once."""
    total = 0
    costs = ProgramCosts(program)
    for instruction in program.instructions.values():
        if instruction.opcode in {"dot", "convolution"}:
            flops = costs[instruction.name].flops
            assert flops is not None, instruction.name
            total += flops
    return total


def flops_of(program: Program) -> int:
    """FLOPs and other arithmetic of the entry computation."""
    costs = ProgramCosts(program)
    entry = program.computations[program.entry_id]
    found = [costs[i.name] for i in program.instructions_of(entry)]
    return sum((c.matrix.flops if c.matrix else 0) + c.vector_ops for c in found)


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("mk,kn->mn", [(32, 48), (48, 16)]),
        ("bmk,bkn->bmn", [(3, 32, 48), (3, 48, 16)]),
        ("bshd,bthd->bhst", [(2, 16, 4, 8), (2, 24, 4, 8)]),
        ("abk,cak->cb", [(5, 6, 7), (8, 5, 7)]),
        ("mk,k->m", [(32, 48), (48,)]),
        ("abcd,abde->abce", [(2, 3, 16, 8), (2, 3, 8, 16)]),
        ("ijk,jkl->il", [(4, 5, 6), (5, 6, 7)]),
    ],
)
def test_dots_are_exact(spec: str, shapes: list[tuple[int, ...]]) -> None:
    program, expected = compiled(lambda x, y: jax.numpy.einsum(spec, x, y), *shapes)
    assert products_of(program) == expected


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("dilation", "groups"), [(1, 1), (2, 1), (1, 4)])
def test_convolutions_are_exact(padding: str, stride: int, dilation: int, groups: int) -> None:
    def convolve(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), padding, rhs_dilation=(dilation, dilation),
            feature_group_count=groups,
        )  # fmt: skip

    program, expected = compiled(convolve, (2, 8, 15, 17), (16, 8 // groups, 3, 3))
    assert products_of(program) == expected


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "float8_e4m3fn"])
def test_the_type_does_not_change_the_number_of_operations(dtype: str) -> None:
    def multiply(x: Any, y: Any) -> Any:
        wide = "int32" if dtype == "int8" else "float32"
        return jax.lax.dot(x, y, preferred_element_type=wide)

    with jax.enable_x64(dtype == "float64"):
        program, _ = compiled(multiply, (32, 48), (48, 16), dtype=dtype)
    # The processor converts what it can't multiply, which XLA counts on top.
    assert products_of(program) == 2 * 32 * 48 * 16


@pytest.mark.parametrize(
    ("window", "shapes"),
    [
        ({"lhs_dilation": (2, 2), "padding": [(1, 2), (2, 1)]}, [(2, 8, 9, 7), (16, 8, 3, 3)]),
        ({"batch_group_count": 2}, [(4, 8, 9, 7), (16, 8, 3, 3)]),
        ({"feature_group_count": 8}, [(2, 8, 9, 7), (8, 1, 3, 3)]),
        ({"window_strides": (3, 2), "padding": [(0, 4), (3, 0)]}, [(2, 8, 9, 7), (16, 8, 4, 2)]),
        ({"rhs_dilation": (3, 2), "padding": [(5, 5), (5, 5)]}, [(2, 8, 9, 7), (16, 8, 3, 3)]),
    ],
)
def test_windows_of_all_kinds_are_exact(
    window: dict[str, Any], shapes: list[tuple[int, ...]]
) -> None:
    def convolve(x: Any, kernel: Any) -> Any:
        asked = {"window_strides": (1, 1), "padding": "SAME", **window}
        return jax.lax.conv_general_dilated(x, kernel, **asked)

    program, expected = compiled(convolve, *shapes)
    assert products_of(program) == expected


@pytest.mark.parametrize("n_dimensions", [1, 3])
def test_convolutions_over_other_dimensions_are_exact(n_dimensions: int) -> None:
    def convolve(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(x, kernel, (1,) * n_dimensions, "SAME")

    size = (7, 6, 5)[:n_dimensions]
    program, expected = compiled(convolve, (2, 4, *size), (8, 4, *(3,) * n_dimensions))
    assert products_of(program) == expected


def attend(q: Any, k: Any, v: Any) -> Any:
    """Softmax attention over heads, without a mask."""
    scores = jax.numpy.einsum("bshd,bthd->bhst", q, k) / q.shape[-1] ** 0.5
    return jax.numpy.einsum("bhst,bthd->bshd", jax.nn.softmax(scores, -1), v)


def test_products_of_attention_and_of_its_gradient_are_exact() -> None:
    shape = (2, 16, 4, 8)
    product = 2 * 2 * 4 * 16 * 16 * 8  # 2 · batch · heads · queries · keys · size
    forward, _ = compiled(attend, shape, shape, shape)
    assert products_of(forward) == 2 * product

    def gradients(q: Any, k: Any, v: Any) -> Any:
        return jax.grad(lambda *all: (attend(*all) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)

    backward, expected = compiled(gradients, shape, shape, shape)
    # Two forward, and for each of them one for either operand.
    assert products_of(backward) == 6 * product
    assert flops_of(backward) == pytest.approx(expected, rel=0.1)


def test_a_loop_s_body_is_one_iteration_s_work() -> None:
    def layers(x: Any, weights: Any) -> Any:
        return jax.lax.scan(lambda x, w: (jax.numpy.tanh(x @ w), None), x, weights)[0]

    program, _ = compiled(layers, (32, 64), (5, 64, 64))
    (loop,) = [i for i in program.instructions.values() if i.opcode == "while"]
    assert known_trip_count(loop) == 5
    assert products_of(program) == 2 * 32 * 64 * 64


@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_of_convolutions_are_exact(stride: int) -> None:
    def loss(x: Any, kernel: Any) -> Any:
        made = jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME")
        return (made * made).sum()

    def gradients(x: Any, kernel: Any) -> Any:
        return jax.grad(loss, argnums=(0, 1))(x, kernel)

    program, expected = compiled(gradients, (2, 3, 12, 12), (4, 3, 3, 3))
    n_outputs = 2 * 4 * (12 // stride) ** 2
    # XLA counts the gradient of the square, two operations per output, on top.
    assert products_of(program) == expected - 2 * n_outputs


def test_a_whole_step_is_close() -> None:
    def step(x: Any, w1: Any, w2: Any) -> Any:
        def loss(w1: Any, w2: Any) -> Any:
            hidden = jax.nn.gelu(x @ w1)
            return jax.numpy.square(hidden @ w2).mean()

        g1, g2 = jax.grad(loss, argnums=(0, 1))(w1, w2)
        return w1 - 0.1 * g1, w2 - 0.1 * g2

    program, expected = compiled(step, (256, 128), (128, 256), (256, 128))
    assert flops_of(program) == pytest.approx(expected, rel=0.05)
