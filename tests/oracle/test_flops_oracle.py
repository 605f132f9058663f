"""FLOPs of whole programs against XLA's own cost analysis, of functions compiled for the CPU.

Needs jax, which the project does not: in an environment that has it,
`PYTHONPATH=src:. python -m pytest -m oracle tests/oracle`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from explane.analysis.flops import ProgramCosts
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.capture.program import Program
from tests.wire_writer import bytes_field

jax = pytest.importorskip("jax", reason="jax is not installed")
pytestmark = pytest.mark.oracle


def compiled(function: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[Program, float]:
    """The program and XLA's count of its FLOPs."""
    args = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
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
