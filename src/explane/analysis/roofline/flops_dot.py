"""FLOPs of matrix products: dots, also inside Triton fusions, and GEMM library calls.

2 · batch · M · N · K from the operands' dimensions, whatever the layout, the library's own idea of
transposition or split-K make of it. FP8 calls carry their scales as further operands: only the
first two are the matrices.
"""

from __future__ import annotations

from math import prod
from typing import Final

from explane.analysis.roofline.cost import F32_DEFAULT, MatrixWork
from explane.capture.hlo_dimensions import DotDimensions, Precision, dot_dimensions, precision
from explane.capture.program import Instruction, Program
from explane.capture.shape import Shape

GEMM_CALLS: Final = frozenset(
    {
        "__cublas$gemm",
        "__cublas$lt$matmul",
        "__cublas$lt$matmul$f8",
        "__cublas$lt$matmul$mx",
        "__triton$gemm",
    }
)
_COMPLEX: Final = frozenset({"c64", "c128"})
_RATES: Final = {
    "f16": "f16",
    "bf16": "bf16",
    "f64": "f64",
    "c128": "f64",
    "s8": "s8",
    "u8": "s8",
    "s4": "s4",
    "u4": "s4",
    "f4e2m1fn": "f4",
    "f6e2m3fn": "f6",
    "f6e3m2fn": "f6",
}
# Algorithms that split float32 into several products of a smaller type: (rate, passes).
_ALGORITHM_RATES: Final = {
    "ALG_DOT_ANY_F8_ANY_F8_F32": ("f8", 1),
    "ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM": ("f8", 1),
    "ALG_DOT_F16_F16_F16": ("f16", 1),
    "ALG_DOT_F16_F16_F32": ("f16", 1),
    "ALG_DOT_BF16_BF16_BF16": ("bf16", 1),
    "ALG_DOT_BF16_BF16_F32": ("bf16", 1),
    "ALG_DOT_BF16_BF16_F32_X3": ("bf16", 3),
    "ALG_DOT_BF16_BF16_F32_X6": ("bf16", 6),
    "ALG_DOT_BF16_BF16_F32_X9": ("bf16", 9),
    "ALG_DOT_TF32_TF32_F32": ("tf32", 1),
    "ALG_DOT_TF32_TF32_F32_X3": ("tf32", 3),
    "ALG_DOT_F32_F32_F32": ("f32", 1),
    "ALG_DOT_F64_F64_F64": ("f64", 1),
}


def dot_work(program: Program, instruction: Instruction) -> MatrixWork | None:
    """Work of a `dot` or a GEMM library call; None when its dimensions are missing or wrong."""
    dims = dot_dimensions(instruction)
    operands = program.operands_of(instruction)
    if dims is None or len(operands) < 2:
        return None
    lhs, rhs = operands[0].shape, operands[1].shape
    terms = product_terms(lhs, rhs, dims)
    if terms is None:
        return None
    rate, n_passes = matrix_rate(lhs, rhs, precision(instruction))
    return MatrixWork(terms * flops_per_term(lhs), rate, n_passes)


def product_terms(lhs: Shape, rhs: Shape, dims: DotDimensions) -> int | None:
    """Product terms, batch · M · N · K; None when the dimension numbers do not fit the shapes."""
    try:
        batch = prod(lhs.dimensions[i] for i in dims.lhs_batch)
        summed = prod(lhs.dimensions[i] for i in dims.lhs_contracting)
        batch_too = prod(rhs.dimensions[i] for i in dims.rhs_batch)
        summed_too = prod(rhs.dimensions[i] for i in dims.rhs_contracting)
    except IndexError:
        return None
    if (batch, summed) != (batch_too, summed_too):
        return None
    if batch * summed == 0:
        return 0
    # lhs = batch M K, rhs = batch N K
    return lhs.n_elements * (rhs.n_elements // (batch * summed))


def flops_per_term(shape: Shape) -> int:
    """2 for a multiplication and an addition; complex ones take 4 of each."""
    return 8 if shape.element_type in _COMPLEX else 2


def matrix_rate(lhs: Shape, rhs: Shape, asked: Precision) -> tuple[str, int]:
    """Which peak bounds a product, and how many hardware products it takes.

    By the algorithm when the program names one, else by the wider of the two operand types.
    float32 at default precision may run as TF32; HIGH and HIGHEST may not.
    """
    known = _ALGORITHM_RATES.get(asked.algorithm)
    if known is not None:
        return known
    wider = max(lhs, rhs, key=lambda shape: shape.element_bits)
    kind = wider.element_type
    if kind in {"f32", "c64"}:
        return (F32_DEFAULT if asked.highest_operand == 0 else "f32"), 1
    if kind.startswith("f8"):
        return "f8", 1
    return _RATES.get(kind, kind), 1
