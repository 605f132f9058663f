"""Walks from an instruction to what feeds it and to what uses it, nearest first.

Both walks keep their direction: operands of operands, users of users, never down and up again,
which would reach unrelated siblings through a tuple. Loops and calls are crossed: the parameter of
a loop's body is what the loop was given, and the body's result is what the next iteration reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from explane.capture.hlo_fields import parameter_number, tuple_index
from explane.capture.program import Instruction, Program

# A walk that has not met a line by then says nothing about the instruction any more.
MAX_DISTANCE: Final = 12
MAX_VISITED: Final = 400
_ONE_TO_ONE: Final = frozenset({"fusion", "call", "async-start"})


@dataclass(frozen=True, slots=True)
class _Place:
    """An instruction, and which part of its tuple is meant (None: all of it)."""

    id: int
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The two walks over one program."""

    program: Program

    def by_distance(self, instruction: Instruction) -> Iterator[tuple[str, Instruction]]:
        """(`operand` or `user`, instruction) by distance; at equal distance operands first."""
        fronts = {"operand": [_Place(instruction.id)], "user": [_Place(instruction.id)]}
        steps = {"operand": self._towards_operands, "user": self._towards_users}
        seen = {"operand": set(fronts["operand"]), "user": set(fronts["user"])}
        for _ in range(MAX_DISTANCE):
            for how, front in fronts.items():
                reached = []
                for place in front:
                    for near in steps[how](place):
                        if near not in seen[how] and len(seen[how]) < MAX_VISITED:
                            seen[how].add(near)
                            reached.append(near)
                            yield how, self.program.instructions[near.id]
                fronts[how] = reached

    def _towards_operands(self, place: _Place) -> Iterator[_Place]:
        instruction = self.program.instructions[place.id]
        if instruction.opcode == "parameter":
            yield from self._what_was_given(instruction, place.part)
            return
        operands = self.program.operands_of(instruction)
        if instruction.opcode == "get-tuple-element":
            part = tuple_index(instruction)
            yield from (_Place(o.id, part) for o in operands)
        elif instruction.opcode == "tuple" and place.part is not None:
            if place.part < len(operands):
                yield _Place(operands[place.part].id)
        else:
            yield from (_Place(o.id) for o in operands)

    def _what_was_given(self, parameter: Instruction, part: int | None) -> Iterator[_Place]:
        """What the callers pass for a parameter."""
        number = parameter_number(parameter)
        for caller_id in self.program.callers.get(parameter.computation_id, ()):
            caller = self.program.instructions[caller_id]
            operands = self.program.operands_of(caller)
            if caller.opcode in _ONE_TO_ONE or caller.opcode == "while":
                yield from (_Place(o.id, part) for o in operands[number : number + 1])

    def _towards_users(self, place: _Place) -> Iterator[_Place]:
        for user_id in self.program.users.get(place.id, ()):
            user = self.program.instructions[user_id]
            if user.opcode == "tuple":
                yield from self._through_tuple(user, place.id)
            elif user.opcode != "get-tuple-element" or place.part in (None, tuple_index(user)):
                yield _Place(user_id)

    def _through_tuple(self, made: Instruction, element_id: int) -> Iterator[_Place]:
        """Users of one element of a tuple, also in the loop that the tuple goes around."""
        parts = [n for n, i in enumerate(made.operand_ids) if i == element_id]
        yield from (_Place(made.id, part) for part in parts)
        computation = self.program.computations[made.computation_id]
        if computation.root_id == made.id:
            for caller_id in self.program.callers.get(computation.id, ()):
                if self.program.instructions[caller_id].opcode == "while":
                    yield from self._readers(computation.id, parts)
                    yield from (_Place(caller_id, part) for part in parts)

    def _readers(self, computation_id: int, parts: list[int]) -> Iterator[_Place]:
        """Who reads these parts of a loop body's parameter."""
        for instruction in self.program.instructions_of(self.program.computations[computation_id]):
            if instruction.opcode == "get-tuple-element" and tuple_index(instruction) in parts:
                operands = self.program.operands_of(instruction)
                if operands and operands[0].opcode == "parameter":
                    yield _Place(instruction.id)
