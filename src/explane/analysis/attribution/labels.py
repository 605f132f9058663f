"""What the tracer's own labels (`hlo_op`) mean: an instruction, a graph, an alias, or nothing.

Each distinct (program, label) is looked up once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from explane.analysis.attribution.schedule import Schedule
from explane.analysis.distinct import distinct
from explane.capture.model import I32, U8, Capture
from explane.capture.program import Program

_COMMAND_BUFFER: Final = re.compile(r"command_buffer(?:[._](\d+))?(?:\.\d+)*")
_NOTE: Final = re.compile(r"\s*\((?:disabled|[a-z ]*profiling).*\)$")
_COLLECTIVE: Final = re.compile(
    r"(ragged-all-to-all|all-to-all|all-gather|all-reduce|reduce-scatter|collective-permute"
    r"|collective-broadcast|send|recv)(?:-start|-done)?(?:[.\d].*)?"
)


class LabelKind(IntEnum):
    """What a label stands for."""

    NONE = 0
    """No label."""
    INSTRUCTION = 1
    """An instruction of the stored HLO."""
    GRAPH = 2
    """A command buffer: `command_buffer_N`, or a call of one."""
    ALIAS = 3
    """A collective under a name that the stored HLO doesn't hold."""
    UNKNOWN = 4
    """Not in the stored HLO."""
    NO_PROGRAM = 5
    """A label whose program is not stored or not named."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Meaning of each kernel's label.

    Attributes:
        kind: `LabelKind` per kernel.
        name: Per kernel, index into `names`, or -1: instruction for INSTRUCTION, the label without
            decoration for GRAPH, ALIAS and UNKNOWN.
        names: Distinct names.
    """

    kind: U8
    name: I32
    names: tuple[str, ...]


def read_labels(
    capture: Capture, programs: Mapping[int, Program], schedules: Mapping[int, Schedule]
) -> Labels:
    """Looks up every distinct (program, label) of a capture."""
    kernels = capture.kernels
    pairs = distinct(kernels.program_id, kernels.hlo_op)
    kinds = np.zeros(len(pairs), dtype=np.uint8)
    codes = np.full(len(pairs), -1, dtype=np.int32)
    names: dict[str, int] = {}
    for i, (program_id, code) in enumerate(pairs.rows()):
        if code < 0 or not capture.text(code):
            continue
        kind, name = meaning(
            capture.text(code), programs.get(program_id), schedules.get(program_id)
        )
        kinds[i] = kind
        codes[i] = names.setdefault(name, len(names))
    return Labels(kinds[pairs.code], codes[pairs.code], tuple(names))


def meaning(
    label: str, program: Program | None, schedule: Schedule | None
) -> tuple[LabelKind, str]:
    """Kind and plain name of one label; the last of several parts joined by `::` decides."""
    for part in reversed(label.split("::")):
        name = _NOTE.sub("", part.strip()).removeprefix("%")  # HLO text writes names with %
        if name:
            break
    else:
        return LabelKind.NONE, ""
    if program is None or schedule is None:
        graph = _COMMAND_BUFFER.fullmatch(name) is not None
        return (LabelKind.GRAPH if graph else LabelKind.NO_PROGRAM), name
    instruction = program.by_name.get(name)
    if instruction is not None and instruction.opcode == "call":
        return LabelKind.GRAPH, name
    if instruction is not None:
        return LabelKind.INSTRUCTION, name
    if _COMMAND_BUFFER.fullmatch(name) or name.startswith("call."):
        return LabelKind.GRAPH, name
    if _COLLECTIVE.fullmatch(name):
        return LabelKind.ALIAS, name
    return LabelKind.UNKNOWN, name


def labelled_graphs(labels: Labels, schedule: Schedule, rows: I32) -> I32:
    """Index into `Schedule.graphs` that each row's label names, or -1.

    `command_buffer_N` is named after the thunk id of its first member (jaxlib 0.10.2); a call of
    a command buffer (jaxlib 0.6.2) by its name.
    """
    graph = labels.kind[rows] == LabelKind.GRAPH
    if not graph.any():
        return np.broadcast_to(np.int32(-1), len(rows))
    result = np.full(len(rows), -1, dtype=np.int32)
    for code in np.unique(labels.name[rows[graph]]).tolist():
        label = labels.names[code]
        for i, (first, _) in enumerate(schedule.graphs):
            ids = {numbering[first] for numbering in schedule.thunk_ids}
            if schedule.launches[first].command_buffer == label or graph_number(label) in ids:
                result[graph & (labels.name[rows] == code)] = i
                break
    return result


def collective_of_label(label: str) -> str:
    """The collective that an alias names (`all-gather.3` -> `all-gather`), or empty."""
    found = _COLLECTIVE.fullmatch(label)
    return found.group(1) if found else ""


def graph_number(label: str) -> int:
    """N of `command_buffer_N`, or -1."""
    found = _COMMAND_BUFFER.fullmatch(label)
    return int(found.group(1)) if found and found.group(1) else -1
