"""FLOPs of convolutions: HLO `convolution` and the cuDNN and MIOpen library calls.

All three directions of a convolution do the same products as the forward one. A library call keeps
the dimension numbers and the window of the forward convolution and only permutes the tensors:

    forward          (input, kernel)          -> output
    backward input   (output, kernel)         -> input
    backward filter  (input, output)          -> kernel

Products with padding, and with the holes of a dilated input, are not counted (XLA's own cost
analysis does the same), although a kernel may well compute them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from explane.analysis.roofline.cost import MatrixWork
from explane.analysis.roofline.flops_dot import flops_per_term, matrix_rate
from explane.capture.hlo_dimensions import (
    ConvolutionDimensions,
    ConvolutionKind,
    WindowDimension,
    convolution_dimensions,
    precision,
    window,
)
from explane.capture.program import Instruction, Program
from explane.capture.shape import Shape

_FORWARD: Final = ConvolutionKind.FORWARD
CONVOLUTION_CALLS: Final = {
    "__cudnn$convForward": _FORWARD,
    "__cudnn$convForwardGraph": _FORWARD,
    "__cudnn$convBiasActivationForward": _FORWARD,
    "__cudnn$convBackwardInput": ConvolutionKind.BACKWARD_INPUT,
    "__cudnn$convBackwardFilter": ConvolutionKind.BACKWARD_FILTER,
}


@dataclass(frozen=True, slots=True)
class _Tensors:
    """The three tensors of the forward convolution."""

    input: Shape
    kernel: Shape
    output: Shape


def convolution_work(program: Program, instruction: Instruction) -> MatrixWork | None:
    """Work of a convolution; None when its dimensions are missing or contradict each other."""
    dims = convolution_dimensions(instruction)
    operands = program.operands_of(instruction)
    result = next((leaf for leaf in instruction.shape.leaves), None)
    if dims is None or len(operands) < 2 or result is None:
        return None
    lhs, rhs = operands[0].shape, operands[1].shape
    for kind in _possible_kinds(instruction, dims):
        terms = _terms(_tensors(kind, lhs, rhs, result), dims, window(instruction))
        if terms is not None:
            rate, n_passes = matrix_rate(lhs, rhs, precision(instruction))
            return MatrixWork(terms * flops_per_term(lhs), rate, n_passes)
    return None


def _possible_kinds(instruction: Instruction, dims: ConvolutionDimensions) -> tuple[int, ...]:
    """The direction by call target or conv_kind; a plain convolution has the forward form."""
    if instruction.custom_call_target:
        return (CONVOLUTION_CALLS[instruction.custom_call_target],)
    return (dims.kind, _FORWARD) if dims.kind > _FORWARD else (_FORWARD,)


def _tensors(kind: int, lhs: Shape, rhs: Shape, result: Shape) -> _Tensors:
    if kind == ConvolutionKind.BACKWARD_INPUT:
        return _Tensors(input=result, kernel=rhs, output=lhs)
    if kind == ConvolutionKind.BACKWARD_FILTER:
        return _Tensors(input=lhs, kernel=result, output=rhs)
    return _Tensors(input=lhs, kernel=rhs, output=result)


def _terms(
    tensors: _Tensors, dims: ConvolutionDimensions, windows: tuple[WindowDimension, ...]
) -> int | None:
    """Products of the forward convolution, without those that meet padding or holes."""
    spatial = (dims.input_spatial, dims.kernel_spatial, dims.output_spatial)
    try:
        sizes = [
            (
                tensors.input.dimensions[i],
                tensors.kernel.dimensions[k],
                tensors.output.dimensions[o],
            )
            for i, k, o in zip(*spatial, strict=True)
        ]
        n_batch = tensors.input.dimensions[dims.input_batch] // dims.n_batch_groups
        # kernel_input_feature already is per group
        n_in = tensors.kernel.dimensions[dims.kernel_input_feature]
        n_out = tensors.output.dimensions[dims.output_feature]
    except (IndexError, ValueError):
        return None
    if len(windows) != len(sizes) or any(
        w.size != kernel or _output_size(w, size) != out
        for w, (size, kernel, out) in zip(windows, sizes, strict=True)
    ):
        return None
    valid = [
        valid_positions(w, size, out) for w, (size, _, out) in zip(windows, sizes, strict=True)
    ]
    return n_batch * n_in * n_out * prod(valid)


def _output_size(w: WindowDimension, size: int) -> int:
    """How often the dilated window fits into the padded, dilated input."""
    padded = w.padding_low + w.padding_high + ((size - 1) * w.base_dilation + 1 if size else 0)
    reach = (w.size - 1) * w.window_dilation + 1
    return max((padded - reach) // w.stride + 1, 0)


def valid_positions(w: WindowDimension, input_size: int, output_size: int) -> int:
    """Pairs of (output, kernel) positions in one dimension that meet a real input element.

    Output o and kernel k meet the dilated input at o · stride + k · window_dilation - padding_low;
    it holds an element where that lies inside and is a multiple of base_dilation.
    """
    count = 0
    end = (input_size - 1) * w.base_dilation
    for k in range(w.size):
        offset = k * w.window_dilation - w.padding_low
        if w.base_dilation == 1:
            first = max(-(offset // w.stride), 0)  # least o with o * stride + offset >= 0
            last = min((end - offset) // w.stride, output_size - 1)
            count += max(last - first + 1, 0)
        else:
            places = range(offset, offset + output_size * w.stride, w.stride)
            count += sum(0 <= p <= end and p % w.base_dilation == 0 for p in places)
    return count
