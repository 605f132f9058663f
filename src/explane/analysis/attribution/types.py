"""Kernel types of one program: what its kernels share that matters for matching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.labels import LabelKind, Labels, collective_of_label
from explane.analysis.attribution.launches import LaunchGroups
from explane.analysis.attribution.names import base_name, class_of_kernel
from explane.analysis.attribution.schedule import Schedule
from explane.analysis.attribution.scores import KernelType
from explane.analysis.distinct import Ints, distinct
from explane.capture.model import Bools, Capture, Kind


@dataclass(frozen=True, slots=True)
class Facts:
    """A capture with what is known of its kernels before any program is solved.

    Attributes:
        capture: The capture.
        labels: Meaning of its labels.
        groups: Its kernels by launch.
        loose: Per kernel, True where only its surroundings tie it to its program.
    """

    capture: Capture
    labels: Labels
    groups: LaunchGroups
    loose: Bools


@dataclass(frozen=True, slots=True)
class Types:
    """Kernel types of some rows.

    Attributes:
        of_row: Type of each row.
        types: The types.
        fixed: Per row, the launch that the label gives, or -1.
    """

    of_row: Ints
    types: tuple[KernelType, ...]
    fixed: Ints


def kernel_types(facts: Facts, schedule: Schedule, rows: Ints) -> Types:
    """Types of a program's kernels: name, label and, for library kernels, launch shape.

    Args:
        facts: The capture and what is known of its kernels.
        schedule: The program's schedule.
        rows: Rows of the kernels table that belong to the program.
    """
    capture, labels = facts.capture, facts.labels
    kernels = capture.kernels
    shaped = _name_flags(capture, schedule, kernels.name[rows])
    kind = labels.kind[rows]
    tells = (kind == LabelKind.INSTRUCTION) | (kind == LabelKind.ALIAS)
    found = distinct(
        kernels.name[rows],
        np.where(shaped, kernels.details[rows], -1),
        kernels.kind[rows],
        np.where(tells, kind, 0),
        np.where(tells, labels.name[rows], -1),
        facts.loose[rows],
        _copy_calls(facts, rows),
    )
    types = tuple(_type(facts, schedule, row) for row in found.rows())
    fixed = np.array([t.launches[0] if t.is_exact and t.launches else -1 for t in types])
    return Types(found.code, types, fixed.astype(np.int32)[found.code])


def _copy_calls(facts: Facts, rows: Ints) -> Ints:
    """Name code of the API call of each copy, or -1: it may tell a copy from or to the host."""
    calls = np.full(len(rows), -1, dtype=np.int32)
    copies = np.flatnonzero(facts.capture.kernels.kind[rows] == Kind.MEMCPY)
    group = facts.groups.group[rows[copies]]
    launch = facts.groups.launch[group]
    known = (launch >= 0) & ~facts.groups.is_graph[group]
    calls[copies[known]] = facts.capture.launches.name[launch[known]]
    return calls


def _name_flags(capture: Capture, schedule: Schedule, names: npt.NDArray[np.int32]) -> Ints:
    """1 for kernels whose launch shape tells more than their name: those XLA did not name."""
    found = distinct(names)
    flags = [base_name(capture.text(n)) not in schedule.by_kernel_name for (n,) in found.rows()]
    return np.array(flags, dtype=np.int32)[found.code]


def _type(
    facts: Facts,
    schedule: Schedule,
    row: Sequence[int],
) -> KernelType:
    name, details, kind, label_kind, label, loose, call = row
    capture, labels = facts.capture, facts.labels
    text = capture.text(name)
    family = class_of_kernel(text, kind, f"{capture.text(details)} {capture.text(call)}")
    if label_kind == LabelKind.INSTRUCTION:
        return KernelType(text, family, schedule.by_label.get(labels.names[label], ()), True)
    if label_kind == LabelKind.ALIAS:
        allowed, preferred = alias_launches(schedule, labels.names[label])
        return KernelType(text, family, allowed, False, preferred)
    return KernelType(text, family, is_loose=bool(loose))


def alias_launches(schedule: Schedule, label: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Launches that a collective's alias may stand for, and those whose name fits it best.

    The runtime drops `-start` from the name of an asynchronous collective in some versions, so
    asynchronous launches of that collective come into question, and all of them if none is.
    """
    collective = collective_of_label(label)
    every = [i for i, x in enumerate(schedule.launches) if x.collective == collective]
    asynchronous = [
        i
        for i in every
        if schedule.launches[i].aliases or schedule.launches[i].instruction.find("-start") >= 0
    ]
    allowed = tuple(asynchronous or every)
    preferred = tuple(
        i
        for i in allowed
        if label
        in (
            n.replace("-start", "")
            for n in (schedule.launches[i].instruction, *schedule.launches[i].aliases)
        )
    )
    return allowed, preferred
