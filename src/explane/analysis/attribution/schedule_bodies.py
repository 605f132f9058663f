"""Which fusions have equal bodies, so that one compiled kernel may serve them all.

XLA marks most groups by `deduplicated_name`; fusions made later (wrapped single operations) and
old modules have none, so their bodies are compared here: everything in the fused computation but
names, ids and metadata, as XLA's kernel cache does. Fields that explane's own proto leaves out
(sharding, the statistics of a visualiser) don't count: a pair held for equal by mistake only adds
a candidate.
"""

from __future__ import annotations

import hashlib

from explane.capture.hlo_fields import without_identity
from explane.capture.program import Instruction, Program


def body_key(program: Program, instruction: Instruction) -> str:
    """A key that is equal for fusions whose bodies are equal; empty for anything else."""
    if instruction.opcode != "fusion":
        return ""
    if instruction.deduplicated_name:
        return f"name:{instruction.deduplicated_name}"
    digest = hashlib.blake2b(digest_size=16)
    for computation_id in instruction.called_computation_ids:
        _add_computation(program, computation_id, digest)
    return f"body:{instruction.fusion_kind}:{digest.hexdigest()}"


def _add_computation(program: Program, computation_id: int, digest: hashlib.blake2b) -> None:
    computation = program.computations.get(computation_id)
    if computation is None:
        return
    place = {key: i for i, key in enumerate(computation.instruction_ids)}
    digest.update(f"root {place.get(computation.root_id)}".encode())
    for key in computation.instruction_ids:
        instruction = program.instructions[key]
        digest.update(without_identity(instruction))
        digest.update(f"{[place.get(o) for o in instruction.operand_ids]}".encode())
        for called in instruction.called_computation_ids:
            _add_computation(program, called, digest)
