"""Aligns sequences of kernels with a track of expected launches by dynamic programming.

A track is a line of M positions with M + 1 states between them; state s means "the first s
positions are behind". A kernel is matched to the position after the state (then the state moves
on), prepares that position (a cleared workspace; the state stays), follows the kernel before it at
the same position (one instruction, several kernels), or is left out at a cost. A position may be
passed without a kernel at a cost. Jumps between states make loops, branches and repetitions:

    state   0     1     2     3     4
            |-----|-----|-----|-----|
    position   0     1     2     3
                  ^-----------|          jump 3 -> 1: positions 1 and 2 are a loop's body

Many sequences are aligned at once: each step is a few numpy operations over all sequences and
states. Scores are integers, so results do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.distinct import Ints
from explane.capture.model import I64, Bools

FORBIDDEN: Final = -1_000_000
"""Score of a match that can't be; low enough that no sum of others outweighs it."""

_FLOOR: Final = -(1 << 40)
_INDEX_BITS: Final = 20
_INDEX_MASK: Final = (1 << _INDEX_BITS) - 1
_AGAIN: Final = 2
"""Added when a kernel follows one of its own type: an instruction may repeat a kernel."""

_TAKEN: Final = np.uint8(1)
_FOLLOWS: Final = np.uint8(2)
_PREPARES: Final = np.uint8(4)
_MAX_CELLS: Final = 24_000_000


@dataclass(frozen=True, slots=True)
class Jump:
    """A free move from one state to another, at `cost` once and `inside` within one launch."""

    source: int
    target: int
    cost: int = 0
    inside: int = 0


@dataclass(frozen=True, slots=True)
class Track:
    """Expected positions and how they may be walked.

    Attributes:
        skip_cost: Shape (M,): cost of passing a position without a kernel.
        jumps: Loops, branches and repetitions; applied in this order, so inner loops come first.
    """

    skip_cost: I64
    jumps: tuple[Jump, ...] = ()

    def __len__(self) -> int:
        return len(self.skip_cost)


@dataclass(frozen=True, slots=True)
class Scores:
    """What matching a kernel type to a position is worth.

    Attributes:
        first: Shape (T, M): the type's kernel is the main one of the position's instruction.
        before: Shape (T, M): it prepares the position for its main kernel.
        follow: Shape (T, M): it follows another kernel of the same instruction.
        leave_cost: Shape (T,): cost of matching a kernel of the type to nothing.
    """

    first: I64
    before: I64
    follow: I64
    leave_cost: I64


@dataclass(frozen=True, slots=True)
class Sequence_:
    """One sequence of kernels to align.

    Attributes:
        types: Kernel types, index into the scores' first axis.
        starts_launch: True where a kernel is the first of a launch of its own.
        begin: States where the alignment may begin; empty: anywhere.
        end: States where it must end (after passing positions); empty: anywhere.
    """

    types: Ints
    starts_launch: Bools
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Aligned:
    """One aligned sequence.

    Attributes:
        position: Position of each kernel, or -1 where it was left out.
        follows: True where the kernel belongs to the same run of an instruction as the kernel
            before it.
        score: Score of the whole alignment; comparable between tracks with equal scales.
    """

    position: I64
    follows: Bools
    score: int


def align(track: Track, scores: Scores, sequences: Sequence[Sequence_]) -> list[Aligned]:
    """Best alignment of each sequence; ties go to the earliest possible passing of positions."""
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i].types))
    results: dict[int, Aligned] = {}
    for batch in _batches(order, sequences, len(track) + 1):
        aligned = _Batch(track, scores, [sequences[i] for i in batch]).run()
        results.update(zip(batch, aligned, strict=True))
    return [results[i] for i in range(len(sequences))]


def _batches(
    order: Sequence[int], sequences: Sequence[Sequence_], n_states: int
) -> list[list[int]]:
    """Groups of sequences of similar length whose tables fit into bounded memory."""
    batches: list[list[int]] = []
    for index in order:
        length = max(len(sequences[index].types), 1)
        full = not batches or (len(batches[-1]) + 1) * length * n_states > _MAX_CELLS
        if full:
            batches.append([])
        batches[-1].append(index)
    return batches


class _Batch:
    """The tables of one batch; sequences are padded at their end."""

    def __init__(self, track: Track, scores: Scores, sequences: Sequence[Sequence_]) -> None:
        self.track = track
        self.scores = scores
        self.sequences = sequences
        self.n_rows = max(len(s.types) for s in sequences)
        self.n_states = len(track) + 1
        shape = (len(sequences), self.n_rows)
        self.types = np.full(shape, -1, dtype=np.int64)
        self.inside = np.zeros(shape, dtype=np.bool_)
        for row, sequence in enumerate(sequences):
            self.types[row, : len(sequence.types)] = sequence.types
            self.inside[row, : len(sequence.types)] = ~sequence.starts_launch
        self.passed = np.concatenate(([0], np.cumsum(track.skip_cost)))
        index = np.int16 if self.n_states < 1 << 15 else np.int32
        table = (self.n_rows + 1, len(sequences), self.n_states)
        self.origin = np.empty(table, dtype=index)
        self.step = np.zeros(table, dtype=np.uint8)

    def run(self) -> list[Aligned]:
        """Fills the tables row by row and walks them back."""
        state = np.full((len(self.sequences), self.n_states), _FLOOR, dtype=np.int64)
        for row, sequence in enumerate(self.sequences):
            state[row, list(sequence.begin) if sequence.begin else slice(None)] = 0
        matched = np.full_like(state, _FLOOR)
        state = self._pass_positions(0, state, np.zeros(len(self.sequences), dtype=np.bool_))
        finals = np.full_like(state, _FLOOR)
        lengths = np.array([len(s.types) for s in self.sequences])
        for i in range(self.n_rows):
            finals[lengths == i] = state[lengths == i]
            state, matched = self._row(i, state, matched)
        finals[lengths == self.n_rows] = state[lengths == self.n_rows]
        return self._walk_back(finals, lengths)

    def _row(self, i: int, state: I64, matched: I64) -> tuple[I64, I64]:
        """One kernel of each sequence: matched, following, preparing, or left out."""
        kinds = np.maximum(self.types[:, i], 0)
        fresh = np.full_like(state, _FLOOR)
        fresh[:, 1:] = state[:, :-1] + self.scores.first[kinds]
        follow = np.full_like(state, _FLOOR)
        again = _AGAIN * (kinds == self.types[:, i - 1]) if i else np.zeros_like(kinds)
        follow[:, 1:] = matched[:, 1:] + self.scores.follow[kinds] + again[:, None]
        matched = np.maximum(fresh, follow)
        left = state - self.scores.leave_cost[kinds][:, None]
        prepared = np.full_like(state, _FLOOR)
        prepared[:, :-1] = state[:, :-1] + self.scores.before[kinds]
        prepares = prepared > left
        left = np.maximum(left, prepared)
        taken = matched >= left
        self.step[i + 1] = taken * _TAKEN | (follow > fresh) * _FOLLOWS | prepares * _PREPARES
        last = i + 1 >= self.n_rows
        inside = self.inside[:, i + 1] if not last else np.zeros(len(state), dtype=np.bool_)
        after = self._pass_positions(i + 1, np.where(taken, matched, left), inside)
        return after, matched

    def _pass_positions(self, i: int, state: I64, inside: Bools) -> I64:
        """Passes positions without kernels and takes jumps; remembers where each state came from.

        The running maximum of (value + cost passed so far) carries its index in the low bits.
        """
        key = ((state + self.passed) << _INDEX_BITS) | np.arange(self.n_states)
        np.maximum.accumulate(key, axis=1, out=key)
        origin = key & _INDEX_MASK
        state = (key >> _INDEX_BITS) - self.passed
        for jump in self.track.jumps:
            cost = np.where(inside, jump.inside, jump.cost)
            landed = state[:, jump.source] - cost
            beyond = slice(jump.target, None)
            offer = landed[:, None] - (self.passed[beyond] - self.passed[jump.target])
            better = offer > state[:, beyond]
            np.copyto(state[:, beyond], offer, where=better)
            came_from = origin[:, jump.source][:, None].copy()
            np.copyto(origin[:, beyond], came_from, where=better)
        self.origin[i] = origin
        return state

    def _walk_back(self, finals: I64, lengths: npt.NDArray[np.int64]) -> list[Aligned]:
        states = np.empty(len(self.sequences), dtype=np.int64)
        for row, sequence in enumerate(self.sequences):
            ends = np.array(sequence.end) if sequence.end else np.arange(self.n_states)
            states[row] = ends[np.argmax(finals[row, ends])]
        rows = np.arange(len(states))
        scores = finals[rows, states]
        position = np.full((len(states), self.n_rows), -1, dtype=np.int64)
        follows = np.zeros((len(states), self.n_rows), dtype=np.bool_)
        held = np.zeros(len(states), dtype=np.bool_)
        for i in range(self.n_rows, 0, -1):
            live = lengths >= i
            origin = np.where(held, states, self.origin[i, rows, states])
            code = self.step[i, rows, origin]
            taken = live & (held | (code & _TAKEN).astype(np.bool_))
            following = taken & (code & _FOLLOWS).astype(np.bool_)
            preparing = live & ~taken & (code & _PREPARES).astype(np.bool_)
            position[taken, i - 1] = origin[taken] - 1
            position[preparing, i - 1] = origin[preparing]
            follows[:, i - 1] |= following
            if i < self.n_rows:
                follows[:, i] |= preparing & (position[:, i] == position[:, i - 1])
            moved = np.where(taken & ~following, origin - 1, origin)
            states = np.where(live, moved, states)
            held = following
        return [
            Aligned(position[r, :n].copy(), follows[r, :n].copy(), int(scores[r]))
            for r, n in enumerate(lengths)
        ]
