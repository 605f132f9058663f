"""The work of one execution of an instruction, as far as its HLO determines it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VECTOR_F32: Final = "vector_f32"
VECTOR_F64: Final = "vector_f64"
F32_DEFAULT: Final = "f32_default"
"""A float32 product at default precision: TF32 where the GPU and XLA use it, else float32."""


@dataclass(frozen=True, slots=True)
class MatrixWork:
    """Products of a dot, convolution or attention.

    Attributes:
        flops: Multiplications and additions, 2 per product term (8 for complex types).
        rate: The peak that bounds it: `bf16`, `f16`, `tf32`, `f32`, `f32_default`, `f64`, `f8`,
            `f6`, `f4`, `s8`, `s4`.
        n_passes: How often the hardware multiplies for one product of the program (the BF16x3
            algorithm needs 3), so that the peak is that much lower.
    """

    flops: int
    rate: str
    n_passes: int = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one execution; None stands for unknown and is never 0.

    Attributes:
        matrix: Dots and convolutions; None when there are none (or when `unknown` says so).
        vector_ops: Other arithmetic, one per element and operation, integer ones included;
            nothing for moving, converting, comparing or selecting.
        n_bytes: Device memory that must be read and written at least once: distinct operands and
            results, only the parts that slices, gathers and in-place updates touch. No scratch
            space, and nothing for caches.
        vector_rate: `vector_f32`, or `vector_f64` when most of the arithmetic is double.
        unknown: Why FLOPs are unknown; empty when they are known.
        bytes_unknown: Why the bytes are unknown; empty when they are known.
    """

    matrix: MatrixWork | None = None
    vector_ops: int = 0
    n_bytes: int | None = None
    vector_rate: str = VECTOR_F32
    unknown: str = ""
    bytes_unknown: str = ""

    @property
    def flops(self) -> int | None:
        """FLOPs of the products if there are any (epilogues run beside them), else vector_ops."""
        if self.unknown:
            return None
        return self.matrix.flops if self.matrix is not None else self.vector_ops

    @property
    def rate(self) -> str:
        """The kind of peak that `flops` is held against."""
        return self.matrix.rate if self.matrix is not None else self.vector_rate

    @property
    def n_passes(self) -> int:
        """Hardware passes per FLOP, see `MatrixWork`."""
        return self.matrix.n_passes if self.matrix is not None else 1


def unknown_cost(reason: str) -> Cost:
    """A cost of which nothing is known."""
    return Cost(unknown=reason, bytes_unknown=reason)
