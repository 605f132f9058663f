"""Walks a program's schedule in the order in which XLA:GPU emits thunks, and numbers them.

Thunk ids count from 1 in emission order (AOT dumps of jaxlib 0.10.2): a while and a dynamic-slice
fusion take their id before their contents, an async start and a conditional after theirs. jaxlib
0.8.3 numbers a while and its two sequences after their contents, and gives async starts and slice
fusions one id; both numberings are kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from explane.analysis.attribution.schedule import Branches, Launch, LaunchKind, Loop, Schedule
from explane.analysis.attribution.schedule_bodies import body_key
from explane.analysis.attribution.schedule_kernels import (
    NO_LAUNCH,
    Work,
    work_of,
)
from explane.capture.program import Instruction, Program

_MAX_DEPTH: Final = 64
_N_NUMBERINGS: Final = 2


def expected_launches(program: Program) -> Schedule:
    """The launches of one execution of a program, loops folded, in emission order."""
    walk = _Walk(program)
    walk.computation(program.entry_id)
    launches = _share_names(program, walk.launches)
    return Schedule(
        program_id=program.program_id,
        module=program.name,
        launches=tuple(launches),
        loops=tuple(loop for loop in walk.loops if loop is not None),
        branches=tuple(b for b in walk.branches if b is not None),
        thunk_ids=tuple(tuple(ids) for ids in walk.thunk_ids),
        cuts=tuple(sorted(walk.cuts)),
        inner=_inner(program, launches),
        after=tuple(tuple(sorted(s)) for s in walk.after),
    )


def _inner(program: Program, launches: list[Launch]) -> dict[str, int]:
    """Launch of each instruction inside a fusion."""
    found: dict[str, int] = {}
    for index, launch in enumerate(launches):
        instruction = program.by_name.get(launch.instruction)
        if instruction is None or instruction.opcode != "fusion":
            continue
        for computation_id in instruction.called_computation_ids:
            computation = program.computations.get(computation_id)
            for key in computation.instruction_ids if computation is not None else ():
                inner = program.instructions[key]
                if inner.opcode not in NO_LAUNCH:
                    found.setdefault(inner.name, index)
    return found


def _share_names(program: Program, launches: list[Launch]) -> list[Launch]:
    """Adds the names of earlier launches with an equal body (KernelReuseCache)."""
    first: dict[str, tuple[str, ...]] = {}
    result = []
    for launch in launches:
        instruction = program.by_name.get(launch.instruction)
        group = body_key(program, instruction) if instruction is not None else ""
        if group and launch.names:
            earlier = first.get(group, ())
            names = tuple(dict.fromkeys((*launch.names, *earlier)))
            first[group] = tuple(dict.fromkeys((*earlier, *launch.names)))
            launch = replace(launch, names=names)
        result.append(launch)
    return result


class _Walk:
    """State of one depth-first walk."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.launches: list[Launch] = []
        self.loops: list[Loop | None] = []
        self.branches: list[Branches | None] = []
        self.thunk_ids: list[list[int]] = [[] for _ in range(_N_NUMBERINGS)]
        self.after: list[set[int]] = []
        self.cuts: set[int] = set()
        self.next_id = [1] * _N_NUMBERINGS
        self.sources: dict[int, frozenset[int]] = {}
        self.depth = 0
        self.command_buffer = ""

    def computation(self, computation_id: int) -> None:
        """Everything that a computation launches, in schedule order."""
        if self.depth > _MAX_DEPTH or computation_id not in self.program.computations:
            return
        self.depth += 1
        order = self.program.schedule.get(computation_id)
        if order is None:
            order = self.program.computations[computation_id].instruction_ids
        for instruction_id in order:
            self._instruction(self.program.instructions[instruction_id])
        self.depth -= 1

    def _instruction(self, instruction: Instruction) -> None:
        first = len(self.launches)
        opcode = instruction.opcode
        if opcode == "while":
            self._while(instruction)
        elif opcode == "conditional":
            self._conditional(instruction)
        elif opcode == "call":
            self._call(instruction)
        elif opcode == "async-start":
            self._async(instruction)
        elif opcode.endswith("-done"):
            if not _is_sync(self.program, instruction):
                self._count()
                self.cuts.add(len(self.launches))
        else:
            work = work_of(self.program, instruction)
            if work is not None:
                self._launch(instruction, work)
        self._follow(instruction, first)

    def _follow(self, instruction: Instruction, first: int) -> None:
        """Records which launches an instruction's result comes from, and what its own read."""
        reads: set[int] = set()
        for operand in instruction.operand_ids:
            reads |= self.sources.get(operand, frozenset())
        own = range(first, len(self.launches))
        for index in own:
            self.after[index] |= {r for r in reads if r < first}
        self.sources[instruction.id] = frozenset(own) if own else frozenset(reads)

    def _launch(self, instruction: Instruction, work: Work) -> None:
        is_async = bool(work.collective) and instruction.opcode.endswith("-start")
        self._add(instruction, work)
        if is_async and not _is_sync(self.program, instruction):
            self._count(1, 0)

    def _add(self, instruction: Instruction, work: Work) -> None:
        self.launches.append(
            Launch(
                instruction=work.hero or instruction.name,
                kind=work.kind,
                names=work.names,
                aliases=(instruction.name,) if work.hero else (),
                collective=work.collective,
                alternatives=work.alternatives,
                max_kernels=work.max_kernels,
                optional=work.optional,
                n_thunks=work.n_thunks,
                convertible=work.convertible,
                command_buffer=self.command_buffer,
            )
        )
        self.after.append(set())
        for ids, number in zip(self.thunk_ids, self.next_id, strict=True):
            ids.append(number)
        self._count(work.n_thunks, min(work.n_thunks, 1))

    def _count(self, new: int = 1, old: int = 1) -> None:
        """Takes thunk ids: in the numbering of jaxlib 0.10.2, and in that of 0.8.3."""
        self.next_id[0] += new
        self.next_id[1] += old

    def _while(self, instruction: Instruction) -> None:
        called = instruction.called_computation_ids
        if len(called) < 2:
            return
        body, condition = called[0], called[1]
        trips = known_trip_count(instruction)
        slot = len(self.loops)
        self.loops.append(None)
        self._count(1, 0)
        first = len(self.launches)
        self.computation(condition)
        if trips >= 0:
            self._forget(first)
        else:
            self._read_back(instruction)
        start = len(self.launches)
        self.computation(body)
        self._count(0, 3)
        self.loops[slot] = Loop(instruction.name, first, len(self.launches), start, trips)
        self.cuts |= {first, start, len(self.launches)}

    def _read_back(self, instruction: Instruction) -> None:
        """The host reads a predicate: a copy to the host, no thunk of its own."""
        work = Work(
            LaunchKind.HOST_COPY, max_kernels=2, optional=True, convertible=False, n_thunks=0
        )
        self._add(instruction, work)

    def _forget(self, first: int) -> None:
        """Drops launches that never happen; their thunk ids stay taken."""
        del self.launches[first:], self.after[first:]
        self.cuts = {c for c in self.cuts if c <= first}
        for ids in self.thunk_ids:
            del ids[first:]
        for key, value in self.sources.items():
            if value and max(value) >= first:
                self.sources[key] = frozenset(v for v in value if v < first)

    def _conditional(self, instruction: Instruction) -> None:
        slot = len(self.branches)
        self.branches.append(None)
        self._read_back(instruction)
        ranges = []
        for computation_id in instruction.called_computation_ids:
            first = len(self.launches)
            self.computation(computation_id)
            ranges.append((first, len(self.launches)))
            self.cuts |= {first, len(self.launches)}
        self._count()
        self.branches[slot] = Branches(instruction.name, tuple(ranges))

    def _call(self, instruction: Instruction) -> None:
        outer = self.command_buffer
        called = [self.program.computations.get(c) for c in instruction.called_computation_ids]
        if any(c is not None and c.name.startswith("command_buffer") for c in called):
            self.command_buffer = instruction.name
        for computation_id in instruction.called_computation_ids:
            self.computation(computation_id)
        self.command_buffer = outer

    def _async(self, instruction: Instruction) -> None:
        """An async wrapper launches what it holds; only a real async start has its own thunk."""
        first = len(self.launches)
        for computation_id in instruction.called_computation_ids:
            self.computation(computation_id)
        for index in range(first, len(self.launches)):
            launch = self.launches[index]
            self.launches[index] = replace(
                launch, aliases=(*launch.aliases, instruction.name), convertible=False
            )
        if not _is_sync(self.program, instruction):
            self._count(1, 0)


def known_trip_count(instruction: Instruction) -> int:
    """WhileLoopBackendConfig.known_trip_count of a while, or -1."""
    count = instruction.backend_config.get("known_trip_count")
    try:
        return int(count["n"]) if isinstance(count, dict) else -1
    except (KeyError, ValueError, TypeError):
        return -1


def _is_sync(program: Program, instruction: Instruction) -> bool:
    """Whether a collective's start (or the start of this done) runs on the main stream.

    CollectiveBackendConfig.is_sync, which stands on the start.
    """
    while instruction.opcode.endswith(("-done", "-update")) and instruction.operand_ids:
        start = program.instructions.get(instruction.operand_ids[0])
        if start is None:
            break
        instruction = start
    config = instruction.backend_config.get("collective_backend_config")
    return isinstance(config, dict) and bool(config.get("is_sync"))
