"""Small programs and the captures that running them leaves, for tests of the attribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from explane.analysis.attribution.attribute import attribute
from explane.analysis.attribution.result import Attribution, Match
from explane.capture.hlo import read_program
from explane.capture.model import Capture, StoredProgram
from explane.capture.program import Program
from tests.builders_hlo import Hlo, HloComputation, HloModule


@dataclass
class Built:
    """A module under construction: its entry, and the computations that it calls."""

    name: str = "jit_f"
    program_id: int = 1
    entry: list[Hlo] = field(default_factory=list)
    bodies: list[HloComputation] = field(default_factory=list)

    def fusion(
        self, name: str, *, into: list[Hlo] | None = None, dedup: str = "", like: str = ""
    ) -> Hlo:
        """A loop fusion; bodies are equal only for the same `like` (default: its own name)."""
        size = sum(map(ord, like or name)) + len(like or name) * 1000
        body = HloComputation(
            f"fused_{name}",
            [
                Hlo(f"p_{name}", "parameter", f"f32[{size}]", parameter_number=0),
                Hlo(f"add_{name}", "add", f"f32[{size}]", (f"p_{name}", f"p_{name}")),
            ],
            is_fusion=True,
        )
        self.bodies.append(body)
        made = Hlo(
            name, "fusion", f"f32[{size}]", calls=(body.name,), dedup=dedup, fusion_kind="kLoop"
        )
        (self.entry if into is None else into).append(made)
        return made

    def fusions(self, names: str) -> None:
        """Fusions in schedule order, names separated by blanks."""
        for name in names.split():
            self.fusion(name)

    def add(self, name: str, opcode: str, **more: object) -> Hlo:
        """Any other instruction of the entry."""
        made = Hlo(name, opcode, **more)  # type: ignore[arg-type]
        self.entry.append(made)
        return made

    def loop(self, name: str, body: str, condition: str = "less", trips: int = -1) -> None:
        """A while loop of fusions; its condition is one fusion."""
        inner: list[Hlo] = []
        for one in body.split():
            self.fusion(one, into=inner)
        test: list[Hlo] = []
        self.fusion(condition, into=test)
        self.bodies += [
            HloComputation(f"body_{name}", inner),
            HloComputation(f"cond_{name}", test),
        ]
        config = f'{{"known_trip_count":{{"n":"{trips}"}}}}' if trips >= 0 else ""
        self.add(name, "while", calls=(f"body_{name}", f"cond_{name}"), backend_config=config)

    def stored(self) -> StoredProgram:
        """As a capture stores it."""
        entry = HloComputation("main", self.entry)
        module = HloModule(self.name, [*self.bodies, entry], self.program_id)
        return StoredProgram(self.program_id, f"{self.name}({self.program_id})", module.to_bytes())

    def program(self) -> Program:
        """Decoded."""
        return read_program(self.stored())


def found(attribution: Attribution) -> list[str]:
    """Instruction of each kernel with its class, such as `a/exact`; just `/` for none."""
    classes = ["" if m == Match.NONE else Match(m).word for m in attribution.match]
    return [f"{n}/{c}" for n, c in zip(attribution.instruction_names(), classes, strict=True)]


def attributed(capture: Capture, *built: Built) -> Attribution:
    """Attributes a capture of some programs and checks the result against itself."""
    programs = {b.program_id: b.program() for b in built}
    result = attribute(capture, programs)
    assert result.check(capture.kernels) == []
    return result


def reasons(attribution: Attribution) -> Sequence[str]:
    """The phrase of each kernel."""
    return [attribution.reasons[i] for i in attribution.reason]
