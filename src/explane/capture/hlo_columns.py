"""The instructions of an HLO module as columns: where each one's fields lie in the stored bytes.

A large module holds some hundred thousand instructions of which an analysis looks at few. So all
of them are walked together, field by field, and only what links them (names, opcodes, ids,
operands, called computations) is decoded; the rest is a range of bytes until someone asks:

    name │ opcode │ shape │ metadata │ more …  │ id │ operands │ called │ rest …
     1       2        3        7       8 to 34   35      36        38     from 39

That is the order of their numbers, in which every writer of these files puts them. A module with
another order, or a field twice, is brought into this form first (see `hlo.read_program`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Final

import numpy as np

from explane.capture.blocks import Block
from explane.capture.hlo_split import OtherOrder
from explane.capture.messages import field_steps
from explane.capture.model import I32, I64
from explane.capture.varints import read_varints
from explane.capture.wire import LENGTH, VARINT, WireError

_NAME: Final = 1
_OPCODE: Final = 2
_SHAPE: Final = 3
_METADATA: Final = 7
_ID: Final = 35
_OPERANDS: Final = 36
_CALLED: Final = 38
_WIRES: Final = np.full(_CALLED + 2, -1)
for _number in (_NAME, _OPCODE, _SHAPE, _METADATA, _OPERANDS, _CALLED):
    _WIRES[_number] = LENGTH
_WIRES[_ID] = VARINT
_ONCE: Final = _WIRES >= 0
_MOST_FIELDS: Final = 1000
"""Before the called computations; an honest instruction has about ten."""

_BATCH_BYTES: Final = 1 << 22
_BATCH_MESSAGES: Final = 1 << 15
_GOES_ON: Final = 0x80
"""Bit of all bytes of a number but its last."""


@dataclass(frozen=True)
class Lists:
    """A list of numbers for each instruction, as one array.

    Attributes:
        values: All numbers, those of one instruction together.
        counts: How many each instruction has.
    """

    values: I64
    counts: I64

    @cached_property
    def ends(self) -> I64:
        """Where the numbers of each instruction end, with a 0 in front."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    def at(self, row: int) -> tuple[int, ...]:
        """The numbers of one instruction."""
        start, end = self.ends.item(row), self.ends.item(row + 1)
        return tuple(self.values[start:end].tolist()) if start < end else ()

    def of(self, rows: I64) -> Lists:
        """The lists of some instructions, in their order."""
        counts = self.counts[rows]
        before = np.cumsum(counts) - counts
        place = np.repeat(self.ends[rows] - before, counts) + np.arange(counts.sum())
        return Lists(self.values[place], counts)

    @property
    def owners(self) -> I64:
        """Row of the instruction that each number belongs to."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


@dataclass(frozen=True, slots=True)
class Spans:
    """A range of bytes for each instruction, end exclusive; empty where the field is missing."""

    start: I32
    end: I32


@dataclass(frozen=True, slots=True)
class InstructionColumns:
    """Instructions in file order.

    Attributes:
        whole: Each message.
        shape: HloInstructionProto.shape.
        metadata: HloInstructionProto.metadata.
        more: Fields 8 to 34.
        rest: Fields from 39 on.
        names: Names.
        opcode: Index into the module's opcodes.
        id: 64-bit ids.
        operands: Ids of the operands.
        called: Ids of the called computations.
    """

    whole: Spans
    shape: Spans
    metadata: Spans
    more: Spans
    rest: Spans
    names: list[str]
    opcode: I32
    id: I64
    operands: Lists
    called: Lists


def read_columns(
    data: bytes, starts: Sequence[int], ends: Sequence[int]
) -> tuple[InstructionColumns, list[str]]:
    """Columns of the instructions at some places, and the opcodes that occur.

    Args:
        data: Bytes that hold them, at most 2 GiB.
        starts: First byte of each message, ascending.
        ends: End of each message, exclusive.

    Raises:
        OtherOrder: Fields of an instruction come in another order, twice, or in another wire type.
        WireError: A message is damaged.
    """
    opcodes: dict[bytes, int] = defaultdict(count().__next__)
    first, last = np.array(starts, np.int64), np.array(ends, np.int64)
    parts = [_read_part(data, first[a:b], last[a:b], opcodes) for a, b in _batches(starts, ends)]
    return _joined(parts), _decoded(list(opcodes))


def _batches(starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of messages that lie within a few megabytes, so that little is in memory at once."""
    first = 0
    if not starts:
        yield 0, 0
    while first < len(starts):
        most = min(first + _BATCH_MESSAGES, len(starts))
        last = bisect_right(ends, starts[first] + _BATCH_BYTES, first + 1, most)
        yield first, last
        first = last


def _joined(parts: Sequence[InstructionColumns]) -> InstructionColumns:
    def spans(name: str) -> Spans:
        found: list[Spans] = [getattr(part, name) for part in parts]
        return Spans(
            np.concatenate([one.start for one in found]),
            np.concatenate([one.end for one in found]),
        )

    def lists(name: str) -> Lists:
        found: list[Lists] = [getattr(part, name) for part in parts]
        values = np.concatenate([one.values for one in found])
        return Lists(values, np.concatenate([one.counts for one in found]))

    return InstructionColumns(
        whole=spans("whole"),
        shape=spans("shape"),
        metadata=spans("metadata"),
        more=spans("more"),
        rest=spans("rest"),
        names=[name for part in parts for name in part.names],
        opcode=np.concatenate([part.opcode for part in parts]),
        id=np.concatenate([part.id for part in parts]),
        operands=lists("operands"),
        called=lists("called"),
    )


def _read_part(
    data: bytes, starts: I64, ends: I64, opcodes: dict[bytes, int]
) -> InstructionColumns:
    """Columns of messages that are walked together; `opcodes` has a number for each new one."""
    fields = _Fields(data, starts, ends)
    base = fields.block.base
    codes = [opcodes[text] for text in fields.texts(_OPCODE)]
    before = fields.end[: _METADATA + 1].max(axis=0)
    more = fields.end[:_ID].max(axis=0)
    known = fields.end[: _CALLED + 1].max(axis=0)
    return InstructionColumns(
        whole=_spans(base, fields.starts, fields.ends),
        shape=_spans(base, fields.start[_SHAPE], fields.end[_SHAPE]),
        metadata=_spans(base, fields.start[_METADATA], fields.end[_METADATA]),
        more=_spans(base, before, more),
        rest=_spans(base, known, fields.ends),
        names=_decoded(fields.texts(_NAME)),
        opcode=np.array(codes, np.int32),
        id=fields.id,
        operands=fields.numbers(_OPERANDS),
        called=fields.numbers(_CALLED),
    )


def _spans(base: int, start: I64, end: I64) -> Spans:
    return Spans((start + base).astype(np.int32), (end + base).astype(np.int32))


def _decoded(texts: Sequence[bytes]) -> list[str]:
    """Texts of a file; all are decoded at once unless one of them holds a line break."""
    lines = b"\n".join(texts).decode("utf-8", "replace").split("\n")
    if len(lines) == len(texts):
        return lines
    return [text.decode("utf-8", "replace") for text in texts]


class _Fields:
    """Where each field of each message lies, by its number.

    Attributes:
        block: The bytes from the first message to the end of the last.
        starts, ends: The messages, as places in the block.
        start, end: Shape (fields, messages): content of each field up to the called computations;
            0 where it is missing, but for the number 0, which ends where the message begins.
        id: Their ids.
    """

    def __init__(self, data: bytes, starts: I64, ends: I64):
        base, end = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
        block = Block(data, base, end)
        starts, ends = starts - base, ends - base
        self._data, self.block, self.starts, self.ends = data, block, starts, ends
        self.start = np.zeros((_CALLED + 2, len(starts)), np.int64)
        self.end = np.zeros((_CALLED + 2, len(starts)), np.int64)
        self.id = np.zeros(len(starts), np.int64)
        previous = np.zeros(len(starts), np.int64)
        for n_steps, step in enumerate(field_steps(block, starts, ends, _CALLED)):
            if n_steps == _MOST_FIELDS:
                raise WireError(block.base + int(step.start[0]), "an instruction never ends")
            # What lies behind the called computations is of no interest: all in one row.
            number = np.minimum(step.number, _CALLED + 1)
            _check_order(previous[step.rows], number, step.wire)
            previous[step.rows] = number
            self.start[number, step.rows] = step.start
            self.end[number, step.rows] = step.end
            ids = step.at(_ID, VARINT)
            self.id[step.rows[ids]] = step.value[ids].view(np.int64)
        self.end[0] = starts
        self._ended = np.flatnonzero(block.data[: block.size] < _GOES_ON)

    def texts(self, number: int) -> list[bytes]:
        """Bytes of a field of all messages."""
        base = self.block.base
        starts, ends = self.start[number] + base, self.end[number] + base
        return [
            self._data[start:end]
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def numbers(self, number: int) -> Lists:
        """Values of a packed field of all messages."""
        ended, rows = self._ended, np.flatnonzero(self.end[number])
        first = np.zeros(len(self.starts), np.int64)
        counts = np.zeros(len(self.starts), np.int64)
        first[rows] = np.searchsorted(ended, self.start[number, rows])
        counts[rows] = np.searchsorted(ended, self.end[number, rows]) - first[rows]
        before = np.cumsum(counts) - counts
        place = np.repeat(first - before, counts) + np.arange(counts.sum())
        # A number begins where the one before it ends, the first one behind the field's length.
        values, _ = read_varints(self.block, ended[place - 1] + 1)
        return Lists(values.view(np.int64), counts)


def _check_order(previous: I64, number: I64, wire: I64) -> None:
    wrong = (number < previous) | ((number == previous) & _ONCE[number])
    wrong |= _ONCE[number] & (_WIRES[number] != wire)
    if wrong.any():
        raise OtherOrder
