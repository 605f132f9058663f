"""The programs of an investigation read once more, for what its tables have no columns for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import polars as pl

from explane.analysis.investigation import ProgramFile
from explane.analysis.lines.provenance import Provenance, provenance
from explane.capture.program import Frame, Program

InstructionKey = tuple[str, int, str]
"""Host, program id and name of an instruction."""


def programs_of(
    files: Iterable[ProgramFile], wanted: pl.DataFrame
) -> Mapping[tuple[str, int], Program]:
    """Parsed programs by host and id; a module that several hosts store is read once.

    Args:
        files: Modules of an investigation; those that could not be read are left out.
        wanted: Table with `host` and `program_id`; other programs are left out.
    """
    keys = set(wanted.select("host", "program_id").drop_nulls().unique().iter_rows())
    read: dict[tuple[int, bytes], Program] = {}
    found: dict[tuple[str, int], Program] = {}
    for file in files:
        if (file.host, file.program_id) not in keys or not file.readable:
            continue
        content = (file.program_id, file.hlo_proto)
        if content not in read:
            read[content] = file.parsed()
        found[file.host, file.program_id] = read[content]
    return found


def instruction_provenance(
    files: Iterable[ProgramFile], ops: pl.DataFrame, user_re: str | None = None
) -> Mapping[InstructionKey, Provenance]:
    """Where each instruction that launched kernels comes from; unknown ones are left out.

    Args:
        files: Modules of an investigation.
        ops: Table with `host`, `program_id` and `hlo_instruction`.
        user_re: As for the attribution.
    """
    answers = {
        key: provenance(program, user_re) for key, program in programs_of(files, ops).items()
    }
    rows = ops.select("host", "program_id", "hlo_instruction").drop_nulls().unique()
    return {
        (host, program_id, name): answers[host, program_id][name]
        for host, program_id, name in rows.iter_rows()
        if name in answers.get((host, program_id), {})
    }


def instruction_stacks(
    files: Iterable[ProgramFile], ops: pl.DataFrame, user_re: str | None = None
) -> Mapping[InstructionKey, tuple[Frame, ...]]:
    """The Python stack of each instruction that launched kernels, innermost frame first.

    It is the stack from which the instruction's line was chosen (see `provenance`), library
    frames included, frames that follow themselves said once. Instructions without a stack are
    left out. The arguments are those of `instruction_provenance`.
    """
    found = instruction_provenance(files, ops, user_re)
    return {key: without_repeats(one.stack) for key, one in found.items() if one.stack}


@cache
def without_repeats(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """A stack in which no run of frames follows itself.

    When XLA inlines a call it puts the stack of the call in front of each instruction's own,
    which begins with the same frames: `f g f g f g h` stands for `f g h`. A recursion through the
    very same lines is shortened too.
    """
    frames = list(stack)
    for size in range(1, len(frames) // 2 + 1):
        at = 0
        while at + 2 * size <= len(frames):
            if frames[at : at + size] == frames[at + size : at + 2 * size]:
                del frames[at : at + size]
            else:
                at += 1
    return tuple(frames)
