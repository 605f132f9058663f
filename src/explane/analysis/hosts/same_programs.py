"""Stored modules of several processes that are the same program.

Every process of a job stores the program that it compiled. The bytes differ (ids, metadata, tuning
choices), so programs are compared by their text without these: the same computations with the same
instructions, names, shapes, operands and devices in the same order.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from explane.analysis.investigation import ProgramFile

_VARYING: Final = re.compile(
    r", (?:metadata=\{|backend_config=)[^\n]*|, (?:channel|program)_id=-?\d+", re.ASCII
)
_SCHEMA: Final = {
    "structure": pl.String,
    "name": pl.String,
    "n_hosts": pl.Int64,
    "n_versions": pl.Int64,
    "host": pl.String,
    "program_id": pl.Int64,
    "others": pl.String,
}
_MOST_NAMED: Final = 4


def structures(programs: Sequence[ProgramFile]) -> list[str]:
    """What each program is, as a short digest that equal programs share.

    Args:
        programs: Stored modules. One that could not be parsed is compared by its bytes.
    """
    by_bytes: dict[str, str] = {}
    found = []
    for program in programs:
        key = hashlib.sha256(program.hlo_proto).hexdigest()
        if key not in by_bytes:
            by_bytes[key] = program.structure or text_structure(program.parts()) or key[:16]
        found.append(by_bytes[key])
    return found


def text_structure(parts: Iterable[str]) -> str:
    """The digest of one program, from its text in parts of whole lines; empty without any."""
    digest = None
    for part in parts:
        digest = digest or hashlib.sha256()
        digest.update(_VARYING.sub("", part).encode("utf-8", "replace"))
    return digest.hexdigest()[:16] if digest is not None else ""


def program_table(programs: Sequence[ProgramFile], found: Sequence[str]) -> pl.DataFrame:
    """One row per distinct program, the most common first.

    Args:
        programs: Stored modules of all processes.
        found: Their `structures`.

    Returns:
        `structure`, `name`, `n_hosts`, `n_versions` (different bytes), `host` and `program_id` of
        the one that is written, `others` (the first few other processes that have it).
    """
    groups: dict[str, list[ProgramFile]] = {}
    for program, structure in zip(programs, found, strict=True):
        groups.setdefault(structure, []).append(program)
    rows = []
    for structure, same in groups.items():
        first, hosts = same[0], list(dict.fromkeys(p.host for p in same))
        versions = {hashlib.sha256(p.hlo_proto).digest() for p in same}
        others = ", ".join(hosts[1 : 1 + _MOST_NAMED]) + (", …" if len(hosts) > 5 else "")
        row = (structure, first.name, len(hosts), len(versions), first.host, first.program_id)
        rows.append((*row, others or None))
    made = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    return made.sort(["n_hosts", "name", "structure"], descending=[True, False, False])


def shared(programs: Sequence[ProgramFile], found: Sequence[str]) -> tuple[ProgramFile, ...]:
    """The programs with the bytes of equal ones kept once, those of the first.

    Args:
        programs: Stored modules of all processes.
        found: Their `structures`.
    """
    first: dict[str, ProgramFile] = {}
    kept = []
    for program, structure in zip(programs, found, strict=True):
        one = first.setdefault(structure, program)
        kept.append(replace(program, hlo_proto=one.hlo_proto, program=None))
    return tuple(kept)
