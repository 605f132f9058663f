"""Dimension numbers of dots, convolutions, gathers and windows, for counting work from shapes.

Messages: DotDimensionNumbers, ConvolutionDimensionNumbers, Window, PrecisionConfig of
xla_data.proto, and `gemm_backend_config` of backend_configs.proto for library calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from explane.capture.program import Instruction

if TYPE_CHECKING:
    from explane.capture._proto import hlo_pb2

_DOT_FIELDS: Final = (
    "lhs_batch_dimensions",
    "rhs_batch_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
)
# PrecisionConfig.Algorithm by number, as in xla_data.proto.
_ALGORITHMS: Final = {
    1: "ALG_DOT_ANY_F8_ANY_F8_F32",
    2: "ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM",
    3: "ALG_DOT_F16_F16_F16",
    4: "ALG_DOT_F16_F16_F32",
    5: "ALG_DOT_BF16_BF16_BF16",
    6: "ALG_DOT_BF16_BF16_F32",
    7: "ALG_DOT_BF16_BF16_F32_X3",
    8: "ALG_DOT_BF16_BF16_F32_X6",
    9: "ALG_DOT_TF32_TF32_F32",
    10: "ALG_DOT_TF32_TF32_F32_X3",
    11: "ALG_DOT_F32_F32_F32",
    12: "ALG_DOT_F64_F64_F64",
    13: "ALG_DOT_BF16_BF16_F32_X9",
}
_PRECISIONS: Final = {"DEFAULT": 0, "HIGH": 1, "HIGHEST": 2}


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """Which dimensions of the two operands are batched and which are summed over."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Precision:
    """PrecisionConfig: the algorithm by name (empty = unset), and the operands' precision.

    Attributes:
        algorithm: Such as `ALG_DOT_BF16_BF16_F32_X3`.
        highest_operand: 0 DEFAULT, 1 HIGH, 2 HIGHEST; the higher of the two operands.
    """

    algorithm: str
    highest_operand: int


class ConvolutionKind(IntEnum):
    """HloInstructionProto.conv_kind: which of its three tensors a convolution computes."""

    UNSET = 0
    FORWARD = 1
    BACKWARD_INPUT = 2
    BACKWARD_FILTER = 3


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a Window; dilations of 0 in the file mean 1."""

    size: int
    stride: int
    padding_low: int
    padding_high: int
    window_dilation: int
    base_dilation: int


@dataclass(frozen=True, slots=True)
class ConvolutionDimensions:
    """ConvolutionDimensionNumbers with the group counts (0 in the file means 1)."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]
    n_feature_groups: int
    n_batch_groups: int
    kind: int


def dot_dimensions(instruction: Instruction) -> DotDimensions | None:
    """Of a `dot`, or of a GEMM library call by its backend config; None when there are none."""
    proto = instruction.proto
    if proto.HasField("dot_dimension_numbers"):
        numbers = proto.dot_dimension_numbers
        return DotDimensions(*(tuple(getattr(numbers, name)) for name in _DOT_FIELDS))
    numbers_json = gemm_config(instruction).get("dot_dimension_numbers")
    return _dot_of_json(numbers_json) if isinstance(numbers_json, dict) else None


def gemm_config(instruction: Instruction) -> Mapping[str, Any]:
    """GemmBackendConfig of a GEMM library call (also inside a grouped GEMM's); may be empty."""
    config = instruction.backend_config
    gemm = config.get("gemm_backend_config")
    return gemm if isinstance(gemm, dict) else {}


def _dot_of_json(numbers: Mapping[str, Any]) -> DotDimensions | None:
    """JSON form: lists of int64, which are strings; None when something else stands there."""
    try:
        return DotDimensions(*(_integers(numbers.get(name, [])) for name in _DOT_FIELDS))
    except (TypeError, ValueError):
        return None


def _integers(values: Sequence[str | int]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def precision(instruction: Instruction) -> Precision:
    """PrecisionConfig of a dot or convolution, or of a GEMM library call."""
    config = gemm_config(instruction).get("precision_config")
    if isinstance(config, dict):
        words = config.get("operand_precision", [])
        algorithm = str(config.get("algorithm", ""))
        found = [_PRECISIONS.get(str(word), 0) for word in words]
        return Precision("" if algorithm == "ALG_UNSET" else algorithm, max(found, default=0))
    proto = instruction.proto.precision_config
    name = f"ALG_{proto.algorithm}" if proto.algorithm else ""
    return Precision(
        _ALGORITHMS.get(proto.algorithm, name), max(proto.operand_precision, default=0)
    )


def window(instruction: Instruction) -> tuple[WindowDimension, ...]:
    """The window of a convolution, reduce-window or select-and-scatter."""
    return tuple(_window_dimension(d) for d in instruction.proto.window.dimensions)


def _window_dimension(proto: hlo_pb2.WindowDimension) -> WindowDimension:
    return WindowDimension(
        size=proto.size,
        stride=max(proto.stride, 1),
        padding_low=proto.padding_low,
        padding_high=proto.padding_high,
        window_dilation=max(proto.window_dilation, 1),
        base_dilation=max(proto.base_dilation, 1),
    )


def convolution_dimensions(instruction: Instruction) -> ConvolutionDimensions | None:
    """Of a convolution or its library call; None when there are none."""
    proto = instruction.proto
    if not proto.HasField("convolution_dimension_numbers"):
        return None
    numbers = proto.convolution_dimension_numbers
    return ConvolutionDimensions(
        input_batch=numbers.input_batch_dimension,
        input_feature=numbers.input_feature_dimension,
        input_spatial=tuple(numbers.input_spatial_dimensions),
        kernel_input_feature=numbers.kernel_input_feature_dimension,
        kernel_output_feature=numbers.kernel_output_feature_dimension,
        kernel_spatial=tuple(numbers.kernel_spatial_dimensions),
        output_batch=numbers.output_batch_dimension,
        output_feature=numbers.output_feature_dimension,
        output_spatial=tuple(numbers.output_spatial_dimensions),
        n_feature_groups=max(proto.feature_group_count, 1),
        n_batch_groups=max(proto.batch_group_count, 1),
        kind=proto.conv_kind,
    )
