"""FLOPs and bytes of one execution of an instruction, from the shapes in its HLO.

Written for XLA:GPU programs as they are after optimisation: dots inside Triton fusions, GEMM,
convolution and attention library calls, elementwise and reduction fusions, slices and updates in
place. What the shapes do not tell stays unknown with its reason; it is never counted as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from explane.analysis.roofline.cost import VECTOR_F32, VECTOR_F64, Cost, MatrixWork, unknown_cost
from explane.analysis.roofline.flops_attention import attention_work, is_attention
from explane.analysis.roofline.flops_convolution import CONVOLUTION_CALLS, convolution_work
from explane.analysis.roofline.flops_dot import GEMM_CALLS, dot_work
from explane.analysis.roofline.touched import Touched, operand_bytes, touched_by
from explane.capture.classify import COLLECTIVES
from explane.capture.hlo_dimensions import window
from explane.capture.hlo_fields import async_wrapped
from explane.capture.program import Instruction, Program
from explane.capture.shape import HOST_MEMORY, Shape

_COLLECTIVES: Final = frozenset(COLLECTIVES) | {
    "all-gather-start", "all-reduce-start", "collective-permute-start",
}  # fmt: skip
_DOTS: Final = frozenset({"dot", "scaled-dot"})
_NOT_MODELLED: Final = frozenset(
    {
        "cholesky", "fft", "infeed", "outfeed", "ragged-dot", "rng", "rng-bit-generator", "sort",
        "scan", "triangular-solve", "topk", "while", "conditional", "call",
    }
)  # fmt: skip
_ARITHMETIC: Final = frozenset(
    {
        "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "cosine", "count-leading-zeros",
        "divide", "erf", "exponential", "exponential-minus-one", "floor", "log", "log-plus-one",
        "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power",
        "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "shift-left",
        "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "subtract", "tan",
        "tanh", "xor",
    }
)  # fmt: skip
_DOUBLE: Final = frozenset({"f64", "c128"})
_SCRATCH: Final = frozenset({"s8", "u8"})


class ProgramCosts(Mapping[str, Cost]):
    """Cost of each instruction of one program, by name, worked out once when asked for."""

    def __init__(self, program: Program, known: dict[str, Cost] | None = None) -> None:
        """Costs of `program`; those in `known` are taken from there, others are added to it."""
        self._program = program
        self._costs = {} if known is None else known

    def __getitem__(self, name: str) -> Cost:
        known = self._costs.get(name)
        if known is None:
            known = self._costs[name] = cost_of(self._program, self._program.by_name[name])
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._program.by_name)

    def __len__(self) -> int:
        return len(self._program.by_name)


def cost_of(program: Program, instruction: Instruction) -> Cost:
    """Work of one execution of one instruction, without what its operands took to make.

    An `async-start` costs what it wraps. Loops, branches and calls are not launched themselves.
    """
    if instruction.opcode == "async-start":
        wrapped = async_wrapped(program, instruction)
        return cost_of(program, wrapped) if wrapped is not None else unknown_cost("empty wrapper")
    if instruction.opcode in _COLLECTIVES:
        return unknown_cost("collective: bounded by the network, not by this GPU")
    if instruction.opcode in _NOT_MODELLED:
        return unknown_cost(f"{instruction.opcode}: not modelled")
    if _leaves_the_device(program, instruction):
        return unknown_cost("host memory: bounded by the link to the host")
    if instruction.opcode == "custom-call":
        return _library_cost(program, instruction)
    return _xla_cost(program, instruction)


def _leaves_the_device(program: Program, instruction: Instruction) -> bool:
    shapes = [instruction.shape, *(o.shape for o in program.operands_of(instruction))]
    return any(leaf.memory_space == HOST_MEMORY for s in shapes for leaf in s.leaves)


def _library_cost(program: Program, instruction: Instruction) -> Cost:
    """A GEMM, convolution or attention call; other custom calls are unknown."""
    work, reason = _library_work(program, instruction)
    n_bytes = _library_bytes(program, instruction)
    if work is None:
        generic = not _is_known_call(instruction.custom_call_target)
        return Cost(
            unknown=reason,
            n_bytes=None if generic else n_bytes,
            bytes_unknown=reason if generic or n_bytes is None else "",
        )
    no_type = "" if n_bytes is not None else "unknown element type"
    return Cost(matrix=work, n_bytes=n_bytes, bytes_unknown=no_type)


def _is_known_call(target: str) -> bool:
    return target in GEMM_CALLS or target in CONVOLUTION_CALLS or is_attention(target)


def _library_work(program: Program, call: Instruction) -> tuple[MatrixWork | None, str]:
    target = call.custom_call_target
    if target in GEMM_CALLS:
        return dot_work(program, call), "GEMM call: no dimension numbers that fit its shapes"
    if target in CONVOLUTION_CALLS:
        return convolution_work(program, call), "convolution call: window and shapes disagree"
    if is_attention(target):
        return attention_work(program, call)
    return None, f"custom call {target}: not modelled"


def _library_bytes(program: Program, call: Instruction) -> int | None:
    """Distinct operands and results, without the scratch space that comes as the last result."""
    results = list(call.shape.leaves)
    if len(results) > 1 and results[-1].element_type in _SCRATCH and _is_flat(results[-1]):
        results.pop()
    operands = {o.id: o.shape for o in program.operands_of(call)}
    return _total(shape.size_bytes for shape in (*operands.values(), *results))


def _is_flat(shape: Shape) -> bool:
    return len(shape.dimensions) == 1


def _total(sizes: Iterator[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def _xla_cost(program: Program, instruction: Instruction) -> Cost:
    """A fusion or a bare instruction that XLA compiles itself."""
    touched = touched_by(program, instruction)
    n_bytes = _moved_bytes(program, instruction, touched)
    cost = Cost(n_bytes=n_bytes, bytes_unknown="" if n_bytes is not None else "unknown type")
    works: list[MatrixWork] = []
    n_single = n_double = 0
    for inner, count in _evaluated(program, touched):
        reason = _why_unknown(inner)
        work = _matrix_work(program, inner)
        if work is None and not reason and _is_matrix(inner):
            reason = f"{inner.opcode}: dimension numbers and shapes disagree"
        if reason:
            is_link = reason.startswith("collective")
            return replace(cost, unknown=reason, bytes_unknown=reason if is_link else "")
        if work is not None:
            works.append(work)
            continue
        n_ops = _vector_ops(program, inner, count)
        if _first_type(inner.shape) in _DOUBLE:
            n_double += n_ops
        else:
            n_single += n_ops
    return replace(
        cost,
        matrix=_sum(works),
        vector_ops=n_single + n_double,
        vector_rate=VECTOR_F64 if n_double > n_single else VECTOR_F32,
    )


def _evaluated(program: Program, touched: Touched) -> Iterator[tuple[Instruction, int]]:
    """Instructions that run, with the elements computed; nested fusions are looked into."""
    for instruction_id, count in touched.evaluated.items():
        instruction = program.instructions[instruction_id]
        if instruction.opcode == "fusion" and program.called_by(instruction):
            yield from _evaluated(program, touched_by(program, instruction))
        elif count:
            yield instruction, count


def _is_matrix(instruction: Instruction) -> bool:
    return instruction.opcode in _DOTS or instruction.opcode in {"convolution", "custom-call"}


def _matrix_work(program: Program, instruction: Instruction) -> MatrixWork | None:
    if instruction.opcode in _DOTS:
        return dot_work(program, instruction)
    if instruction.opcode == "convolution":
        return convolution_work(program, instruction)
    if instruction.opcode == "custom-call":
        return _library_work(program, instruction)[0]
    return None


def _why_unknown(instruction: Instruction) -> str:
    if instruction.opcode == "fusion":  # one with a body was looked into
        return "fusion: its body is not stored"
    if instruction.opcode in _COLLECTIVES:
        return "collective: bounded by the network, not by this GPU"
    if instruction.opcode in _NOT_MODELLED:
        return f"{instruction.opcode}: not modelled"
    if instruction.opcode != "custom-call" or _is_known_call(instruction.custom_call_target):
        return ""
    return f"custom call {instruction.custom_call_target}: not modelled"


def _sum(works: list[MatrixWork]) -> MatrixWork | None:
    """Products of a fusion together, held against the peak of the largest of them."""
    if not works:
        return None
    largest = max(works, key=lambda work: work.flops)
    return replace(largest, flops=sum(work.flops for work in works))


def _vector_ops(program: Program, instruction: Instruction, count: int) -> int:
    """Arithmetic of `count` elements of one instruction."""
    opcode = instruction.opcode
    if opcode in _ARITHMETIC:
        return count
    if opcode == "reduce":
        operands = program.operands_of(instruction)
        n_in = operands[0].shape.n_elements if operands else 0
        n_out = max(_elements(instruction.shape), 1)
        return n_in * min(count, n_out) // n_out * _reducer_ops(program, instruction)
    if opcode == "reduce-window":
        size = 1
        for dimension in window(instruction):
            size *= dimension.size
        return count * size * _reducer_ops(program, instruction)
    if opcode in {"scatter", "map"}:
        return count * _reducer_ops(program, instruction)
    return 0


def _reducer_ops(program: Program, instruction: Instruction) -> int:
    """Arithmetic instructions in the computation that is applied per element."""
    called = program.called_by(instruction)
    if not called:
        return 1
    return sum(i.opcode in _ARITHMETIC for i in program.instructions_of(called[0]))


def _moved_bytes(program: Program, instruction: Instruction, touched: Touched) -> int | None:
    """Bytes read and written; an operand that is passed twice is read once."""
    operands = program.operands_of(instruction)
    if len(operands) != len(touched.operands):
        return None
    reads: dict[int, int] = {}
    shapes: dict[int, Shape] = {}
    for operand, count in zip(operands, touched.operands, strict=True):
        shapes[operand.id] = operand.shape
        reads[operand.id] = min(reads.get(operand.id, 0) + count, _elements(operand.shape))
    results = list(instruction.shape.leaves)
    if len(results) != len(touched.written):
        return None
    sizes = [operand_bytes(shapes[i], count) for i, count in reads.items()]
    sizes += [operand_bytes(s, n) for s, n in zip(results, touched.written, strict=True)]
    return _total(iter(sizes))


def _elements(shape: Shape) -> int:
    return sum(leaf.n_elements for leaf in shape.leaves if leaf.is_array)


def _first_type(shape: Shape) -> str:
    return next((leaf.element_type for leaf in shape.leaves), "")
