"""The planes of a capture as columns, before they become bytes.

A template holds what many events have in common (name, constant stats); an event adds times, a
correlation id and perhaps one number. Events are sorted by (line, start, longest first).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from explane.capture.model import I32, I64, MISSING, StoredProgram

StatValue = int | float | str
AnyInts = npt.NDArray[np.signedinteger[Any]]
_TYPES = (np.int32, np.int32, np.int64, np.int64, np.int64, np.int64)


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A stat stored as uint64."""

    value: int


@dataclass(frozen=True, slots=True)
class Text:
    """A stat stored as its own string, not as a reference to an interned one."""

    value: str


Stat = tuple[str, StatValue | Unsigned | Text]


@dataclass(frozen=True, slots=True)
class Template:
    """What events have in common.

    Attributes:
        name: Event name.
        before, after: Constant stats on both sides of the correlation id, as collectors order
            them.
        number_key: Stat that holds the event's own number; empty when it has none.
    """

    name: str
    before: tuple[Stat, ...] = ()
    after: tuple[Stat, ...] = ()
    number_key: str = ""


@dataclass(frozen=True, slots=True)
class LineSpec:
    """A line of a plane."""

    line_id: int
    name: str
    display_name: str = ""


@dataclass(frozen=True, slots=True)
class Events:
    """Columns of one plane's events.

    Attributes:
        line: Index into the plane's lines.
        template: Index into the plane's templates.
        start_ps, duration_ps: Session time.
        correlation_id: MISSING where there is none.
        number: Value of the template's `number_key`; MISSING where there is none.
    """

    line: I32
    template: I32
    start_ps: I64
    duration_ps: I64
    correlation_id: I64
    number: I64

    def __len__(self) -> int:
        return len(self.start_ps)

    def take(self, rows: I64) -> Events:
        """Some rows, in the order given."""
        return Events(
            self.line[rows],
            self.template[rows],
            self.start_ps[rows],
            self.duration_ps[rows],
            self.correlation_id[rows],
            self.number[rows],
        )


@dataclass(frozen=True)
class PlaneTable:
    """One plane."""

    name: str
    plane_id: int
    lines: tuple[LineSpec, ...] = ()
    templates: tuple[Template, ...] = ()
    events: Events | None = None
    stats: Mapping[str, StatValue | Unsigned] = field(default_factory=dict)
    modules: tuple[StoredProgram, ...] = ()


@dataclass
class TemplateSet:
    """Gives every distinct template a number."""

    templates: list[Template] = field(default_factory=list)
    _numbers: dict[Template, int] = field(default_factory=dict)

    def number(self, template: Template) -> int:
        """The template's number; a new one for a new template."""
        known = self._numbers.get(template)
        if known is None:
            known = self._numbers[template] = len(self.templates)
            self.templates.append(template)
        return known


@dataclass
class RowCollector:
    """Collects blocks of events whose columns broadcast against each other."""

    _blocks: list[tuple[AnyInts, ...]] = field(default_factory=list)

    def add(
        self,
        line: AnyInts | int,
        template: AnyInts | int,
        start_ps: AnyInts | int,
        duration_ps: AnyInts | int,
        extra: tuple[AnyInts | int, AnyInts | int] = (MISSING, MISSING),
    ) -> None:
        """Add events; `extra` holds their correlation ids and numbers."""
        columns = np.broadcast_arrays(line, template, start_ps, duration_ps, *extra)
        block = (np.asarray(c, dtype=t).ravel() for c, t in zip(columns, _TYPES, strict=True))
        self._blocks.append(tuple(block))

    def events(self) -> Events:
        """All events, sorted."""
        empty = tuple(np.zeros(0, dtype=t) for t in _TYPES)
        blocks = [empty, *self._blocks]
        columns = [np.concatenate([block[i] for block in blocks]) for i in range(len(_TYPES))]
        self._blocks.clear()
        return Events(*columns).take(np.lexsort((-columns[3], columns[2], columns[0])))
