"""Collectives that only bring together what a foreign call takes.

    q ── all-gather ── transpose ── custom-call(attention)

The partitioner can't look into a call that it does not know (FFI, Pallas, Triton, library
attention), so it gives each GPU the whole operand. Where the call could as well work on a part
(by batch, by head), the collective and what it moves are needless.

Not counted are gathered weights: operands that come from a slice of stacked arrays in a loop, or
from a parameter that the program updates. Gathering those is what fully sharded training does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from explane.analysis.advice.hlo_moves import SLICES, inner_opcodes, is_move, real_users
from explane.analysis.collectives.collectives import collective_inside
from explane.analysis.roofline.flops_attention import is_attention
from explane.capture.classify import GROUP_COLLECTIVES
from explane.capture.hlo_fields import buffer_donors, input_output_aliases, parameter_number
from explane.capture.program import Instruction, Program

_BRINGS: Final = frozenset({"all-gather", "all-to-all", "collective-permute", "ragged-all-to-all"})
"""Collectives that change where data lies; the others compute something from all of it."""

_WRAPPERS: Final = frozenset({"async-start", "call", "fusion"})
_MAY_BRING: Final = _BRINGS | {f"{opcode}-start" for opcode in _BRINGS} | _WRAPPERS

_DONE: Final = frozenset({f"{opcode}-done" for opcode in GROUP_COLLECTIVES} | {"async-done"})
_KERNEL_CALLS: Final = frozenset({"__gpu$xla.gpu.triton", "triton_kernel_call"})
"""Targets of Pallas and jax-triton kernels, which XLA can't split either."""


def resharded_for(program: Program) -> Mapping[str, Instruction]:
    """The call that each needless collective of a program feeds, by the collective's name."""
    found: dict[str, Instruction] = {}
    calls = {i.id: i for i in program.instructions.with_opcodes({"custom-call"}) if _is_foreign(i)}
    if not calls or not (_MAY_BRING - _WRAPPERS).intersection(program.instructions.opcodes):
        return found
    for instruction in program.instructions.with_opcodes(_MAY_BRING):
        inner = collective_inside(program, instruction)
        if inner is None or inner.opcode.removesuffix("-start") not in _BRINGS:
            continue
        users = real_users(program, instruction, _DONE)
        if users and users <= calls.keys() and not _is_weight(program, instruction):
            found[instruction.name] = calls[min(users)]
    return found


def _is_foreign(instruction: Instruction) -> bool:
    """A custom call of code that XLA did not make and does not know how to split."""
    target = instruction.custom_call_target
    own = target.startswith(("__", "$")) or target in ("Sharding", "AllocateBuffer", "TopK")
    return is_attention(target) or target in _KERNEL_CALLS or bool(target and not own)


def _is_weight(program: Program, collective: Instruction) -> bool:
    """True where the operand is a slice of stacked arrays, or a parameter that is updated."""
    seen: set[int] = set()
    waiting = list(program.operands_of(collective))
    while waiting:
        source = waiting.pop()
        if source.id in seen:
            continue
        seen.add(source.id)
        if source.opcode == "parameter":
            if source.computation_id == program.entry_id and _is_updated(program, source):
                return True
        elif is_move(program, source, slices=True):
            if "dynamic-slice" in inner_opcodes(program, source) & SLICES:
                return True
            waiting += program.operands_of(source)
    return False


def _is_updated(program: Program, parameter: Instruction) -> bool:
    """A parameter whose buffer is donated, or that the program returns in the same form."""
    number = parameter_number(parameter)
    if number in {a.parameter_number for a in input_output_aliases(program)}:
        return True
    if number in {n for n, _ in buffer_donors(program)}:
        return True
    root = program.root_of(program.computations[program.entry_id])
    outputs = root.shape.leaves if root is not None else ()
    mine = parameter.shape
    return any(
        (leaf.element_type, leaf.dimensions) == (mine.element_type, mine.dimensions)
        for leaf in outputs
    )
