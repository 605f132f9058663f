"""Fields of many small messages at once, one field position of all of them at a time.

This is the general way: any order, any field, any length. `layouts` is the fast one for the
messages that look alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explane.capture.blocks import U64, Block
from explane.capture.model import I64
from explane.capture.varints import read_varints
from explane.capture.wire import FIXED32, FIXED64, LENGTH, VARINT, WireError

Rows = npt.NDArray[np.intp]


class FieldStep(NamedTuple):
    """The next field of each message that has one.

    Attributes:
        rows: Which messages.
        number: Field number.
        wire: Wire type.
        value: Bits of VARINT, FIXED32 and FIXED64 fields.
        start, end: Content, positions in the block.
    """

    rows: Rows
    number: I64
    wire: I64
    value: U64
    start: I64
    end: I64

    def at(self, number: int, wire: int) -> Rows:
        """Positions in this step of the fields with a number and a wire type."""
        return np.flatnonzero((self.number == number) & (self.wire == wire))


def field_steps(
    block: Block, starts: I64, ends: I64, last: int | None = None
) -> Iterator[FieldStep]:
    """Walk all messages field by field.

    Args:
        block: The bytes.
        starts: First byte of each message, position in the block.
        ends: End of each message, exclusive.
        last: A message is left at its first field with a higher number; None reads all of it.

    Raises:
        WireError: Some message is damaged; the offset is that of its field in the file.
    """
    rows: Rows = np.flatnonzero(starts < ends)
    at, end = starts[rows], ends[rows]
    while len(rows):
        tag, tag_size = read_varints(block, at)
        number, wire = (
            (tag >> np.uint64(3)).astype(np.int64),
            (tag & np.uint64(7)).astype(np.int64),
        )
        after = at + tag_size
        value, size = read_varints(block, np.minimum(after, block.size))
        start, stop = after.copy(), after + size
        bad = (tag_size == 0) | (number == 0) | (after > end)
        bad |= ((wire == VARINT) | (wire == LENGTH)) & (size == 0)
        _other_wires(block, wire, start, stop, value, end)
        bad |= (wire != VARINT) & (wire != LENGTH) & (wire != FIXED32) & (wire != FIXED64)
        is_length = np.flatnonzero(wire == LENGTH)
        if len(is_length):
            begin = stop[is_length]
            room = end[is_length] - begin
            length = value[is_length]
            bad[is_length] |= (room < 0) | (length > np.maximum(room, 0).astype(np.uint64))
            start[is_length] = begin
            stop[is_length] = begin + np.minimum(length, np.uint64(block.size)).astype(np.int64)
        bad |= stop > end
        if bad.any():
            raise WireError(block.base + int(at[bad][0]), "a message is damaged")
        yield FieldStep(rows, number, wire, value, start, stop)
        more = stop < end
        if last is not None:
            more &= number <= last
        rows, at, end = rows[more], stop[more], end[more]


def _other_wires(block: Block, wire: I64, start: I64, stop: I64, value: U64, end: I64) -> None:
    """Values and ends of fixed-size fields."""
    for kind, size in ((FIXED64, 8), (FIXED32, 4)):
        fixed = np.flatnonzero(wire == kind)
        if len(fixed):
            words = block.words[np.minimum(start[fixed], block.size)]
            value[fixed] = words if size == 8 else words & np.uint64(0xFFFFFFFF)
            stop[fixed] = start[fixed] + size
