"""The frozen result of one investigation: tables by name and the facts that frame them.

Every table is a polars frame whose first columns are fixed and whose first column, where a row
belongs to one process, is `host`. Report and exports read these tables and nothing else, so each
number that they print can be recomputed from the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from explane.capture.hlo import read_program
from explane.capture.hlo_text import program_parts
from explane.capture.model import StoredProgram
from explane.capture.program import Program


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file that was looked at: whether it was used, and why (not)."""

    path: str
    used: bool
    note: str


@dataclass(frozen=True, slots=True)
class NotAnalysed:
    """A part of the report that has no result here, and the reason."""

    section: str
    reason: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What frames one process's results, read from the capture.

    Attributes:
        host: Host label used in every table (unique in this investigation).
        source: `xplane` or `json`: the main record.
        gpu: Name of the GPU as identified, or as much as the file tells.
        devices: Ordinals of all GPU planes in the file.
        active_devices: Ordinals with at least one kernel.
        versions: Version texts stored in the session (empty in older captures).
        partial: True when the file was damaged and only part of it was used.
        simulated: True when the capture says that it was made by the simulator.
    """

    host: str
    source: str
    gpu: str
    devices: tuple[int, ...]
    active_devices: tuple[int, ...]
    versions: Mapping[str, str]
    partial: bool
    simulated: bool


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """One stored HLO module to be written beside the attribution.

    Attributes:
        host: Host label.
        program_id: Key in the capture.
        name: Module name.
        hlo_proto: The exact bytes from the capture.
        readable: Whether the module can be parsed.
        structure: Digest that equal programs share (`analysis.hosts.same_programs`), where it is
            known.
        program: The parsed module, where it was kept; not handed on to other processes.
    """

    host: str
    program_id: int
    name: str
    hlo_proto: bytes
    readable: bool
    structure: str = ""
    program: Program | None = field(default=None, repr=False, compare=False)

    def parsed(self) -> Program:
        """The module.

        Raises:
            CaptureError: It can't be parsed.
        """
        if self.program is not None:
            return self.program
        return read_program(StoredProgram(self.program_id, self.name, self.hlo_proto))

    def parts(self) -> Iterator[str]:
        """The readable HLO in parts of whole lines; none when it can't be parsed."""
        return program_parts(self.parsed()) if self.readable else iter(())

    @property
    def text(self) -> str:
        """The readable HLO as a whole, made anew each time; empty when it can't be parsed."""
        return "".join(self.parts())

    def __reduce__(self) -> tuple[type[ProgramFile], tuple[object, ...]]:
        here = (self.host, self.program_id, self.name, self.hlo_proto, self.readable)
        return ProgramFile, (*here, self.structure)


@dataclass(frozen=True, slots=True)
class Investigation:
    """All results over all hosts of one run.

    `tables` is keyed by file stem (`kernels`, `ops`, `lines`, `how`, `steps`, `streams`, `idle`,
    `skip`, `rows`, `verdict`, `checks`, `advice`, `trust`, `swimlane`, …). A table without rows is
    present with its columns, and `not_analysed` says why.
    """

    hosts: tuple[HostFacts, ...]
    tables: Mapping[str, pl.DataFrame]
    sources: tuple[SourceFile, ...]
    not_analysed: tuple[NotAnalysed, ...]
    programs: tuple[ProgramFile, ...]
    partial: bool
