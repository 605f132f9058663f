"""What an instruction costs: floating-point operations and bytes from its HLO, then time.

Rough on purpose: a simulated kernel needs a plausible duration below the device's peaks, not a
measured one. Nothing here is used to judge a capture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from explane.capture.program import Computation, Instruction, Program
from explane.capture.shape import Shape
from explane.synth.devices import DeviceFacts

_SLICES = frozenset({"dynamic-slice", "slice", "gather"})
_FREE = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "iota", "broadcast"}
)
_EXPENSIVE = frozenset({"exponential", "tanh", "log", "power", "sine", "cosine", "divide", "sqrt"})
_FLOOR_PS = 1_600_000
_SORT_PASSES = 24


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one execution: operations, bytes moved, and the element type of the product."""

    flops: float
    size_bytes: float
    element_type: str


def instruction_cost(program: Program, instruction: Instruction) -> Cost:
    """Operations and bytes of one instruction; unknown shapes count nothing."""
    called = program.called_by(instruction)
    operands = program.operands_of(instruction)
    moved = _bytes(operand.shape for operand in operands) + _bytes([instruction.shape])
    if instruction.opcode == "fusion" and called:
        return _fusion_cost(program, instruction, called[0])
    flops = _flops(program, instruction)
    if instruction.opcode == "sort":
        moved *= _SORT_PASSES
    return Cost(flops, moved, _product_type(program, [instruction]))


def duration_ps(cost: Cost, device: DeviceFacts, efficiency: float) -> float:
    """Time of a kernel that reaches a share of the device's peaks."""
    compute_s = cost.flops / (device.peak_flops(cost.element_type) * efficiency)
    memory_s = cost.size_bytes / (device.memory_bytes_per_s * efficiency)
    return _FLOOR_PS + max(compute_s, memory_s) * 1e12


def transfer_ps(size_bytes: float, device: DeviceFacts, n_devices: int) -> float:
    """Time that a collective needs once all devices are there (ring over the links)."""
    share = (n_devices - 1) / n_devices if n_devices > 1 else 0.5
    return 9_000_000 + size_bytes * share / device.link_bytes_per_s * 1e12


def _fusion_cost(program: Program, instruction: Instruction, body: Computation) -> Cost:
    inner = list(program.instructions_of(body))
    flops = sum(_flops(program, i) for i in inner)
    moved = sum(_parameter_bytes(program, i) for i in inner if i.opcode == "parameter")
    root = program.root_of(body)
    moved += _bytes([_written(program, root)]) if root else _bytes([instruction.shape])
    if any(i.opcode == "sort" for i in inner):
        moved *= _SORT_PASSES
    return Cost(flops, moved, _product_type(program, inner))


def _parameter_bytes(program: Program, parameter: Instruction) -> float:
    """Bytes read of a fusion's operand: only the slice, if nothing else is taken of it."""
    users = [program.instructions[i] for i in program.users.get(parameter.id, ())]
    if users and all(u.opcode in _SLICES for u in users):
        return min(_bytes(u.shape for u in users), _bytes([parameter.shape]))
    if users and all(u.opcode == "dynamic-update-slice" for u in users):
        return 0.0
    return _bytes([parameter.shape])


def _written(program: Program, root: Instruction) -> Shape:
    if root.opcode == "dynamic-update-slice":
        operands = program.operands_of(root)
        return operands[1].shape if len(operands) > 1 else root.shape
    return root.shape


def _flops(program: Program, instruction: Instruction) -> float:
    opcode = instruction.opcode
    if opcode in _FREE:
        return 0.0
    if opcode == "dot":
        return _dot_flops(program, instruction)
    if opcode in ("custom-call", "convolution"):
        return _library_flops(program, instruction)
    if opcode == "reduce":
        return float(sum(i.shape.n_elements for i in program.operands_of(instruction)[:1]))
    weight = 10.0 if opcode in _EXPENSIVE else 1.0
    return weight * sum(leaf.n_elements for leaf in instruction.shape.leaves)


def _dot_flops(program: Program, dot: Instruction) -> float:
    operands = program.operands_of(dot)
    numbers = dot.proto.dot_dimension_numbers.lhs_contracting_dimensions
    left = operands[0].shape.dimensions if operands else ()
    return 2.0 * dot.shape.n_elements * math.prod(left[d] for d in numbers if d < len(left))


def _library_flops(program: Program, call: Instruction) -> float:
    """Products of library calls from the sizes of their two operands and their result.

    For a product over k: |left| |right| / |result| = batch k². For a convolution the three sizes
    and the window give the multiplications, whichever of the three is the result.
    """
    target = call.custom_call_target
    operands = program.operands_of(call)
    if len(operands) < 2 or not ("matmul" in target or "cudnn" in target):
        return 0.0
    left, right = (float(operand.shape.n_elements) for operand in operands[:2])
    result = float(next(iter(call.shape.leaves)).n_elements)
    if "conv" in target:
        window = math.prod(d.size for d in call.proto.window.dimensions)
        return 2.0 * math.sqrt(left * right * result * window)
    return 2.0 * math.sqrt(left * right * result)


def _product_type(program: Program, instructions: Iterable[Instruction]) -> str:
    """Element type that the matrix units work on; `f32` of the vector units when there is none."""
    for instruction in instructions:
        if instruction.opcode in ("dot", "convolution", "custom-call"):
            operands = program.operands_of(instruction)
            if operands:
                return f"matrix {operands[0].shape.element_type}"
    return "vector"


def _bytes(shapes: Iterable[Shape]) -> float:
    return float(sum(shape.size_bytes or 0 for shape in shapes))
