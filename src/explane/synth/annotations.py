"""The stats that an annotation leaves on an event: program, operation, scope."""

from __future__ import annotations

from functools import lru_cache

from explane.capture.program import Instruction, Program
from explane.synth.program import CompiledProgram
from explane.synth.tables import Stat

_OUTERMOST = "XlaModule:"


def annotation_stats(program: CompiledProgram, program_id: int, label: str) -> tuple[Stat, ...]:
    """Stats for a thunk's annotation; without a label only the module's.

    In the order of the collectors: tf_op, name, hlo_op, hlo_module, program_id.
    """
    stats: list[Stat] = [("tf_op", _OUTERMOST)]
    instruction = program.hlo.by_name.get(label)
    scope = scope_name(program.hlo, instruction) if instruction else ""
    if scope:
        stats.append(("name", scope))
    if label:
        stats.append(("hlo_op", label))
    return (*stats, ("hlo_module", program.name), ("program_id", program_id))


@lru_cache(maxsize=65536)
def _scope(paths: tuple[str, ...]) -> str:
    """Longest common path of scopes."""
    parts = [path.split("/") for path in paths]
    common = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        common.append(names[0])
    return "/".join(common)


def scope_name(program: Program, instruction: Instruction) -> str:
    """Common prefix of the op_names of an instruction and the computations it calls."""
    paths = [instruction.op_name]
    for computation in program.called_by(instruction):
        paths += [inner.op_name for inner in program.instructions_of(computation)]
    return _scope(tuple(path for path in paths if path))
