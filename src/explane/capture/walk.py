"""Boundaries of a run of length-delimited fields with one tag: the events of a line.

Each field's place follows from the one before, so this is the sequential part of reading. A long
run is cut into lanes: in each, a place is guessed where a field seems to begin, and all lanes
walk on at once. Lanes that begin at a true boundary join up with the lane before; those that do
not are found out, and the walk goes on one by one from where the true chain leaves, until it
meets positions that were visited. A wrong guess costs time, never truth.

    lane 0  |--e--|---e---|-e-|---e---|
    lane 1               ?-e-|---e---|--e--|      guess ? is on the chain of lane 0: joined
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.capture.blocks import Block
from explane.capture.model import I64, Bools
from explane.capture.varints import read_varints

_LANE_BYTES: Final = 4096
_SEARCH_BYTES: Final = 256
_LEAST_LANES: Final = 32
_FEWEST_ABREAST: Final = 8
_VARINT_MORE: Final = 0x80
_ID_TAG: Final = 1 << 3
_OFFSET_TAG: Final = 2 << 3


@dataclass(frozen=True, slots=True)
class Run:
    """A run of fields in a block.

    Attributes:
        starts, ends: Content of each field, positions in the block.
        stop: Position after the last field.
    """

    starts: I64
    ends: I64
    stop: int


def walk_run(block: Block, position: int, tag: int, end: int | None = None) -> Run:
    """The fields with a one-byte tag that follow each other from a position.

    Args:
        block: The bytes.
        position: Of the first field.
        tag: The tag.
        end: End of the message that holds the fields, by default that of the block. With an end
            fields are walked one by one.

    The run ends before the first other tag, or before a field that the block does not hold
    whole; what it was is for the caller to find out.
    """
    if end is None and block.size - position >= _LEAST_LANES * _LANE_BYTES:
        positions = _walk_lanes(block, position, tag)
    else:
        last = block.size if end is None else end
        walked = _walk_one_by_one(block, position, tag, last, last)
        positions = np.array(walked, dtype=np.int64)
    starts, ends = _contents(block, positions)
    return Run(starts, ends, int(ends[-1]) if len(ends) else position)


def _walk_one_by_one(block: Block, position: int, tag: int, until: int, end: int) -> list[int]:
    """Positions of fields from `position` on, up to the first at or behind `until`.

    No field goes beyond `end`.
    """
    data = block.data.data
    positions: list[int] = []
    while position < until and data[position] == tag:
        length = data[position + 1]
        content = position + 2
        if length >= _VARINT_MORE:
            length, content = _long_length(data, position + 1, end)
        if length > end - content:
            break
        positions.append(position)
        position = content + length
    return positions


def _long_length(data: memoryview, position: int, size: int) -> tuple[int, int]:
    """A length of several bytes and the position after it; beyond `size` when it never ends."""
    value = shift = 0
    for at in range(position, min(position + 10, size)):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < _VARINT_MORE:
            return value, at + 1
        shift += 7
    return 0, size + 1


def _contents(block: Block, positions: I64) -> tuple[I64, I64]:
    """Content spans of fields that are known to lie whole in the block."""
    starts, ends = _spans(positions, block.words[positions].view(np.int64))
    odd = np.flatnonzero(starts < 0)
    if len(odd):
        values, sizes = read_varints(block, positions[odd] + 1)
        starts[odd] = positions[odd] + 1 + sizes
        ends[odd] = starts[odd] + values.astype(np.int64)
    return starts, ends


def _spans(positions: I64, words: I64) -> tuple[I64, I64]:
    """Content spans of fields whose length takes one to three bytes.

    Args:
        positions: Of the fields' tags.
        words: The words there: tag, length and first bytes of the content.

    Returns:
        Starts and ends; both -1 for longer lengths.
    """
    second = (words >> 15) & 1
    starts = positions + 2
    starts += second
    ends = (words >> 8) & 0x7F
    ends += ((words >> 9) & 0x3F80) * second
    third = np.flatnonzero((words >> 23) & second)
    if len(third):
        longer = words[third]
        ends[third] += (longer >> 10) & 0x1FC000
        starts[third] += 1
    ends += starts
    if len(third):
        beyond = third[(longer >> 31) & 1 == 1]
        starts[beyond] = ends[beyond] = -1
    return starts, ends


def _walk_lanes(block: Block, position: int, tag: int) -> I64:
    """Positions of a long run, by lanes."""
    heads = _lane_heads(block, position, tag)
    if len(heads) <= _FEWEST_ABREAST:
        return np.array(
            _walk_one_by_one(block, position, tag, block.size, block.size), dtype=np.int64
        )
    visited, following = _walk_abreast(block, heads, tag)
    if len(visited) == 0:
        return visited
    breaks = np.flatnonzero(following[:-1] != visited[1:])
    if len(breaks) == 0 and visited[0] == position:
        return visited
    return _join(block, position, tag, visited, following)


def _lane_heads(block: Block, position: int, tag: int) -> I64:
    """Where lanes begin: the true start, and per lane the first place that looks like a field.

    Such a place holds the tag, a length, the first two fields of an event, and the same tag again
    where it would end.
    """
    lanes = np.arange(position + _LANE_BYTES, block.size - _SEARCH_BYTES, _LANE_BYTES)
    windows = block.data[lanes[:, None] + np.arange(_SEARCH_BYTES)]
    lane, offset = np.nonzero(windows == tag)
    guesses = lanes[lane] + offset
    starts, ends = _spans(guesses, block.words[guesses].view(np.int64))
    fits = np.flatnonzero((starts > 0) & (ends < block.size))
    fits = fits[block.data[ends[fits]] == tag]
    fits = fits[_begins_like_event(block.words[starts[fits]].view(np.int64))]
    _, first = np.unique(lane[fits], return_index=True)
    return np.concatenate([[position], guesses[fits[first]]]).astype(np.int64)


def _begins_like_event(words: I64) -> Bools:
    """Which first words of a message look like an event's: metadata_id, then offset_ps.

    The stats inside of an event look alike but for the second field.
    """
    wide = (words >> 15) & 1
    wider = (words >> 23) & wide
    second_tag = (words >> (16 + 8 * (wide + wider))) & 0xFF
    alike: Bools = ((words & 0xFF) == _ID_TAG) & (second_tag == _OFFSET_TAG)
    return alike


def _walk_abreast(block: Block, heads: I64, tag: int) -> tuple[I64, I64]:
    """Positions visited by lanes, in order, and the position that follows each.

    The last few lanes under way are left where they are: one by one is faster for them.
    """
    lane, at, stops = np.arange(len(heads)), heads, np.append(heads[1:], block.size)
    steps: list[tuple[I64, I64, I64]] = []
    while len(at) > _FEWEST_ABREAST:
        words = block.words[at].view(np.int64)
        starts, ends = _spans(at, words)
        good = (words & 0xFF == tag) & (starts > 0) & (ends <= block.size)
        if not good.all():
            lane, at, ends, stops = lane[good], at[good], ends[good], stops[good]
        steps.append((lane, at, ends))
        alive = ends < stops
        at = ends
        if not alive.all():
            lane, at, stops = lane[alive], at[alive], stops[alive]
    counts = np.bincount(np.concatenate([step[0] for step in steps]), minlength=len(heads))
    slots = np.cumsum(counts) - counts
    visited = np.empty((2, int(counts.sum())), dtype=np.int64)
    for number, (lane, at, ends) in enumerate(steps):
        slot = slots[lane] + number
        visited[0, slot] = at
        visited[1, slot] = ends
    return visited[0], visited[1]


def _join(block: Block, position: int, tag: int, visited: I64, following: I64) -> I64:
    """The true chain through what lanes visited, walked one by one where they missed it."""
    breaks = np.append(np.flatnonzero(following[:-1] != visited[1:]), len(visited) - 1)
    parts: list[I64] = []
    while position < block.size:
        at = int(np.searchsorted(visited, position))
        if at < len(visited) and visited[at] == position:
            last = int(breaks[np.searchsorted(breaks, at)])
            parts.append(visited[at : last + 1])
            position = int(following[last])
            continue
        until = int(visited[at]) if at < len(visited) else block.size
        steps = _walk_one_by_one(block, position, tag, until, block.size)
        walked = np.array(steps, dtype=np.int64)
        if len(walked) == 0:
            break
        parts.append(walked)
        position = int(_contents(block, walked[-1:])[1][0])
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
