"""Which elements an instruction really reads, evaluates and writes.

XLA computes a fusion element by element from its result backwards: behind a slice or a gather only
the elements that come through it are ever read or computed, and an update in place touches the
updated part alone. The walk goes once through the fused computation, users before operands, and
adds up what each instruction is asked for, capped at its size (so parts read twice through
overlapping slices are at most counted to the whole).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from explane.capture.hlo_fields import parameter_number
from explane.capture.program import Computation, Instruction, Program
from explane.capture.shape import Shape

_SLICES: Final = frozenset({"slice", "dynamic-slice", "gather"})
# One element of the result needs about one element of each operand.
_ONE_TO_ONE: Final = frozenset(
    {
        "abs", "add", "add-dependency", "and", "atan2", "bitcast", "bitcast-convert", "broadcast",
        "cbrt", "ceil", "clamp", "compare", "complex", "concatenate", "convert", "copy", "cosine",
        "count-leading-zeros", "divide", "erf", "exponential", "exponential-minus-one", "floor",
        "imag", "is-finite", "log", "log-plus-one", "logistic", "map", "maximum", "minimum",
        "multiply", "negate", "not", "optimization-barrier", "or", "pad", "popcnt", "power",
        "real", "reduce-precision", "remainder", "reshape", "reverse", "round-nearest-afz",
        "round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic",
        "shift-right-logical", "sign", "sine", "sqrt", "stochastic-convert", "subtract", "tan",
        "tanh", "transpose", "xor",
    }
)  # fmt: skip
_LONGEST_CHAIN: Final = 64


@dataclass(frozen=True, slots=True)
class Touched:
    """What one execution of an instruction or of a fused computation touches, in elements.

    Attributes:
        operands: Elements read of each operand (parameter of the fusion), in order.
        evaluated: Elements computed of each instruction inside, by id; for a bare instruction
            only itself.
        written: Elements written of each array of the result, in order.
    """

    operands: tuple[int, ...]
    evaluated: dict[int, int]
    written: tuple[int, ...]


def touched_by(program: Program, instruction: Instruction) -> Touched:
    """Elements that one execution touches; a fusion is looked into."""
    called = program.called_by(instruction)
    if instruction.opcode == "fusion" and called:
        return _of_computation(program, called[0], len(instruction.operand_ids))
    operands = program.operands_of(instruction)
    written = tuple(n for n, _ in _written(program, (instruction,), in_place=True))
    asked = written[0] if len(written) == 1 else _size(instruction.shape)
    reads = _reads(program, instruction, operands, asked, in_place=True)
    return Touched(tuple(reads), {instruction.id: asked}, written)


def operand_bytes(shape: Shape, n_elements: int) -> int | None:
    """Bytes of some elements of an array, rounded up; None for an unknown type."""
    if not shape.is_array:
        return shape.size_bytes
    return (n_elements * shape.element_bits + 7) // 8 if shape.element_bits else None


def _of_computation(program: Program, computation: Computation, n_parameters: int) -> Touched:
    root = program.root_of(computation)
    if root is None:
        return Touched((), {}, ())
    results = program.operands_of(root) if root.opcode == "tuple" else (root,)
    in_place = {updated.id for _, updated in _written(program, results, True) if updated}
    written = tuple(n for n, _ in _written(program, results, True))
    asked: dict[int, int] = {}
    for result, count in zip(results, written, strict=False):
        asked[result.id] = asked.get(result.id, 0) + count
    parameters = [0] * n_parameters
    for instruction in reversed(list(program.instructions_of(computation))):
        count = min(asked.get(instruction.id, 0), _size(instruction.shape))
        asked[instruction.id] = count
        if instruction.opcode == "parameter":
            number = parameter_number(instruction)
            if number < n_parameters:
                parameters[number] = count
        elif count and instruction.opcode != "tuple":
            operands = program.operands_of(instruction)
            reads = _reads(program, instruction, operands, count, instruction.id in in_place)
            for operand, needed in zip(operands, reads, strict=True):
                asked[operand.id] = asked.get(operand.id, 0) + needed
    return Touched(tuple(parameters), asked, written)


def _written(
    program: Program, results: Iterable[Instruction], in_place: bool
) -> Iterator[tuple[int, Instruction | None]]:
    """Elements written per result array, with the update or scatter done in place, if any."""
    for result in results:
        updated = _update_in_place(program, result) if in_place else None
        if updated is not None:
            yield _update_size(program, updated), updated
        else:
            for leaf in result.shape.leaves:
                yield leaf.n_elements if leaf.is_array else 0, None


def _update_in_place(program: Program, result: Instruction) -> Instruction | None:
    """The dynamic-update-slice or scatter that makes a result inside its operand's buffer.

    Looked for behind views; what it updates must be the operand as it came (a parameter), else
    there is no buffer to update.
    """
    current = _behind_views(program, result)
    if current.opcode not in {"dynamic-update-slice", "scatter"} or not current.operand_ids:
        return None
    if not program.computations[current.computation_id].is_fusion:
        return current if current is result else None
    source = _behind_views(program, program.instructions[current.operand_ids[0]])
    return current if source.opcode == "parameter" else None


def _behind_views(program: Program, instruction: Instruction) -> Instruction:
    """What a chain of bitcasts and reshapes starts from; a damaged file may close the chain."""
    current = instruction
    for _ in range(_LONGEST_CHAIN):
        if current.opcode not in {"bitcast", "reshape"} or not current.operand_ids:
            break
        current = program.instructions[current.operand_ids[0]]
    return current


def _update_size(program: Program, updating: Instruction) -> int:
    """Elements of the update: operand 1 of a dynamic-update-slice, the last third of a scatter."""
    operands = program.operands_of(updating)
    if updating.opcode == "dynamic-update-slice":
        return _size(operands[1].shape) if len(operands) > 1 else 0
    n_arrays = (len(operands) - 1) // 2
    return sum(_size(o.shape) for o in operands[n_arrays + 1 :])


def _reads(
    program: Program,
    instruction: Instruction,
    operands: tuple[Instruction, ...],
    count: int,
    in_place: bool,
) -> list[int]:
    """Elements of each operand that `count` elements of the result need."""
    opcode = instruction.opcode
    sizes = [_size(operand.shape) for operand in operands]
    if opcode in _SLICES:
        return [min(count, size) for size in sizes[:1]] + sizes[1:]
    if opcode in _ONE_TO_ONE:
        return [min(count, size) for size in sizes]
    if opcode == "dynamic-update-slice":
        return [0 if in_place else min(count, size) for size in sizes[:1]] + sizes[1:]
    if opcode == "scatter":
        return _scatter_reads(program, instruction, sizes, in_place)
    if opcode == "reduce":
        full = max(_size(instruction.shape), 1)
        return [-(-size * min(count, full) // full) for size in sizes]
    if opcode == "get-tuple-element":
        return [count for _ in sizes]
    if opcode == "fusion" and program.called_by(instruction):
        inner = touched_by(program, instruction).operands
        return list(inner) + sizes[len(inner) :]
    return sizes  # dots, convolutions, sorts, windows, calls: all of it


def _scatter_reads(
    program: Program, scatter: Instruction, sizes: list[int], in_place: bool
) -> list[int]:
    """A scatter reads indices and updates; the target only where it combines with it."""
    n_arrays = (len(sizes) - 1) // 2
    updates = sizes[n_arrays + 1 :]
    if not in_place:
        return sizes
    combines = _combines(program, scatter)
    return [size if combines else 0 for size in updates] + sizes[n_arrays:]


def _combines(program: Program, scatter: Instruction) -> bool:
    """False for a scatter that only overwrites: its reducer returns the update itself."""
    called = program.called_by(scatter)
    root = program.root_of(called[0]) if called else None
    return root is None or root.opcode != "parameter"


def _size(shape: Shape) -> int:
    """Elements of an array, or of the first array of a tuple."""
    first = next((leaf for leaf in shape.leaves if leaf.is_array), None)
    return first.n_elements if first is not None else 0
