"""Small collectives that could be one: latency each, where one would pay it once.

    now        ├lat┤b ├lat┤b ├lat┤b      each transfer: latency, then few bytes
    combined   ├lat┤b b b                one transfer of all of them

Two collectives of one computation can be combined when they are of the same kind, element type,
reduction and replica groups, and neither needs the other's result.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np

from explane.analysis.collectives.collectives import collective_inside, volume_of
from explane.analysis.replay.device import Shares
from explane.analysis.replay.facts import StepFacts
from explane.capture.program import Instruction, Program
from explane.capture.replica_groups import replica_groups
from explane.units import PS_PER_US

_KINDS: Final = frozenset({"all-gather", "all-reduce", "reduce-scatter"})
"""Kinds that XLA's combiner passes for GPUs merge, with a threshold that a flag sets."""

_SLOWEST_LINK: Final = 1e10
"""Bytes per second that any link between GPUs carries (PCIe of ten years ago): without a large
collective to compare with, slower transfers are latency."""

_MOST_BYTES: Final = 4 << 20
"""Larger transfers are not small, whatever they took."""

_MOST_LATENCY_PS: Final = 100 * PS_PER_US
"""A shortest transfer beyond this is no latency."""


def combinable(facts: StepFacts) -> Shares:
    """Share of its transfer that each kernel would need if small collectives were combined.

    1 for everything but the second and later of collectives that could be one.

    Args:
        facts: The capture and what is known of it; without matched GPUs nothing is claimed, since
            a lone GPU's collective may only be waiting.
    """
    shares = np.ones(len(facts.capture.kernels))
    seen, row = facts.transfers, facts.collectives.row
    if seen is None:
        return shares
    rate = max(seen.best_bytes_per_ps, _SLOWEST_LINK / 1e12)
    latency_ps = min(seen.shortest_ps, _MOST_LATENCY_PS)
    n_bytes = np.nan_to_num(seen.bus_bytes)
    small = seen.moved & (n_bytes / rate < latency_ps / 2) & (n_bytes <= _MOST_BYTES)
    later = _later(facts, row[small])
    joined = small & later[facts.attribution.instruction[row]]
    transfer_ps = seen.transfer_ps[joined]
    shares[row[joined]] = np.maximum(transfer_ps - latency_ps, 0) / transfer_ps
    return shares


def _later(facts: StepFacts, rows: np.ndarray) -> np.ndarray:
    """Instructions (by index, a last False for none) that others before them could take along."""
    instructions = facts.attribution.instructions
    later = np.zeros(len(instructions) + 1, bool)
    names: dict[int, dict[str, int]] = {}
    for index in np.unique(facts.attribution.instruction[rows]).tolist():
        if index >= 0:
            key = instructions[index]
            names.setdefault(key.program_id, {})[key.name] = index
    for program_id, wanted in names.items():
        program = facts.programs.get(program_id)
        for name in later_parts(program, frozenset(wanted)) if program else ():
            later[wanted[name]] = True
    return later


def later_parts(program: Program, names: frozenset[str]) -> list[str]:
    """Of some collectives, all but the first of each set that could be one, in their order.

    Args:
        program: The program.
        names: The collectives that are small enough.
    """
    found: list[str] = []
    by_computation: dict[int, list[Instruction]] = {}
    for name in names:
        instruction = program.by_name[name]
        by_computation.setdefault(instruction.computation_id, []).append(instruction)
    for computation_id, chosen in by_computation.items():
        needs = _needs(program, computation_id, {i.id: n for n, i in enumerate(chosen)})
        order = {i: n for n, i in enumerate(program.schedule.get(computation_id, ()))}
        sets: dict[Hashable, list[int]] = {}
        for instruction in sorted(chosen, key=lambda i: order.get(i.id, i.id)):
            key = _key(program, instruction)
            if key is None:
                continue
            place = chosen.index(instruction)
            # Bits of all that the set so far needs are no bar: only the new one may not need it.
            members = sets.setdefault(key, [])
            if any(needs[instruction.id] >> member & 1 for member in members):
                sets[key] = [place]
                continue
            if members:
                found.append(instruction.name)
            members.append(place)
    return found


def _needs(program: Program, computation_id: int, bits: Mapping[int, int]) -> dict[int, int]:
    """For each instruction of a computation, as bits, which of some others it depends on."""
    needs: dict[int, int] = {}
    for instruction in program.instructions_of(program.computations[computation_id]):
        mine = 0
        for operand_id in instruction.operand_ids:
            mine |= needs.get(operand_id, 0)
            if operand_id in bits:
                mine |= 1 << bits[operand_id]
        needs[instruction.id] = mine
    return needs


def _key(program: Program, instruction: Instruction) -> Hashable | None:
    """What must be equal for two collectives to become one; None for kinds that never do."""
    inner = collective_inside(program, instruction)
    volume = volume_of(program, instruction)
    if inner is None or volume is None or volume.opcode not in _KINDS:
        return None
    operands = program.operands_of(inner)
    element = operands[0].shape.element_type if operands else ""
    called = program.called_by(inner)
    root = program.root_of(called[0]) if called else None
    return volume.opcode, element, root.opcode if root is not None else "", replica_groups(inner)
