"""A job that is traced kernel by kernel, and short ways to what explane says of it.

    job = Job()
    for step in range(4):
        job.step(step, 100 * step, 90)
        job.kernel("loop_add_fusion", 100 * step + 20, 30)
    found = analysed(job.space(), tmp_path)

Times are microseconds since the session start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from explane import app
from explane.analysis.investigation import Investigation
from explane.errors import CaptureError
from explane.options import Options
from tests.builders import (
    U64,
    Hlo,
    HloComputation,
    HloModule,
    Line,
    Module,
    Plane,
    Space,
    StatValue,
    gpu_plane,
    host_plane,
    metadata_plane,
    task_environment,
)

US = 1_000_000
MS = 1_000
"""A millisecond in microseconds."""
PROGRAM = 3


@dataclass
class Job:
    """One traced process.

    `lead` is the time from a launch call's start to its kernel, `call` the length of the call;
    `modules` are the stored programs (empty: one whose fusions are the names of all kernels).
    """

    n_gpus: int = 1
    vendor: str = "Nvidia"
    lead: float = 10
    call: float = 5
    modules: list[Module] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    gpus: list[Plane] = field(default_factory=list)
    host: Plane = field(default_factory=host_plane)
    n_calls: int = 0
    labels: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gpus = [gpu_plane(i, self.vendor) for i in range(self.n_gpus)]
        self.thread = self.host.line("python", line_id=1)

    def stream(self, gpu: int, number: int) -> Line:
        """The line of a stream, made when it is first used."""
        lines = self.gpus[gpu].lines
        found = next((line for line in lines if line.line_id == number), None)
        return found or self.gpus[gpu].line(f"Stream #{number}(Compute)", line_id=number)

    def kernel(
        self,
        name: str,
        start: float,
        duration: float,
        gpu: int = 0,
        stream: int = 7,
        *,
        op: str | None = None,
        launch: float | bool = True,
        call_name: str = "cuLaunchKernel",
        **stats: StatValue,
    ) -> int:
        """A kernel and its call; `op=""`: no label; `launch`: the call's start, or False."""
        self.n_calls += 1
        label = name if op is None else op
        if label:
            self.labels[label] = None
            stats = {
                "hlo_op": label,
                "hlo_module": "jit_step",
                "program_id": PROGRAM,
                **stats,
            }
        stats.setdefault("correlation_id", U64(self.n_calls))
        line = self.stream(gpu, stream)
        line.event(name, round(start * US), round(duration * US), **stats)
        if launch is not False:
            at = start - self.lead if launch is True else float(launch)
            self.launch(call_name, at, self.n_calls)
        return self.n_calls

    def launch(self, name: str, start: float, call: int, duration: float | None = None) -> None:
        """A launch call alone."""
        length = self.call if duration is None else duration
        self.thread.event(
            name, round(start * US), round(length * US), correlation_id=U64(call), device_id=0
        )

    def graph(
        self, names: Sequence[str], start: float, duration: float, gpu: int = 0, **stats: StatValue
    ) -> int:
        """One graph launch and its kernels, back to back."""
        self.n_calls += 1
        self.launch("cuGraphLaunch (CudaGraph:1)", start - self.lead, self.n_calls)
        for i, name in enumerate(names):
            at = round((start + i * duration) * US)
            made: dict[str, StatValue] = {"correlation_id": U64(self.n_calls), **stats}
            self.stream(gpu, 7).event(name, at, round(duration * US), **made)
        return self.n_calls

    def step(self, number: int, start: float, duration: float) -> None:
        """A step marker on the launching thread."""
        self.event("train", start, duration, step_num=number)

    def event(self, name: str, start: float, duration: float, **stats: StatValue) -> None:
        """A host event."""
        self.thread.event(name, round(start * US), round(duration * US), **stats)

    def space(self, *, host: bool = True) -> Space:
        """The capture."""
        modules = self.modules or [program(list(self.labels))]
        planes = [*self.gpus, self.host, metadata_plane(*modules), task_environment()]
        kept = planes if host else self.gpus
        return Space(kept, errors=self.errors, warnings=self.warnings)


def steps_of(
    job: Job,
    names: Sequence[str] = ("loop_add_fusion", "input_reduce_fusion"),
    n_steps: int = 5,
    kernel: float = 30,
    period: float = 0,
    markers: bool = True,
) -> Job:
    """A loop whose host is far enough ahead: kernels back to back on every GPU."""
    length = period or kernel * len(names)
    for step in range(n_steps):
        start = 1000 + step * length
        if markers:
            job.step(step, start - 200, length)
        for gpu in range(job.n_gpus):
            for i, name in enumerate(names):
                job.kernel(name, start + i * kernel, kernel, gpu, launch=start - 190 + 7 * i)
    return job


def fusion(name: str, line: int = 10, **more: Any) -> Hlo:
    """A fusion of parameter `x` with an op name and a line in the user's file."""
    given: dict[str, Any] = {
        "op_name": f"jit(step)/{name}",
        "source": ("/home/me/train.py", line),
        "operands": ("x",),
        "fusion_kind": "kLoop",
    }
    return Hlo(name, "fusion", **{**given, **more})


def program(
    names: Sequence[str],
    program_id: int = PROGRAM,
    name: str = "jit_step",
    first_line: int = 10,
    **module: Any,
) -> Module:
    """A stored program whose entry runs one fusion after the other, one line each."""
    body = [Hlo("x", "parameter", parameter_number=0)]
    body += [fusion(op, first_line + i) for i, op in enumerate(names)]
    made = HloModule(name, [HloComputation("main", body)], program_id=program_id, **module)
    return Module(program_id, f"{name}({program_id})", made.to_bytes())


def stored(hlo: HloModule) -> Module:
    """A module as the profiler stores it."""
    return Module(hlo.program_id, f"{hlo.name}({hlo.program_id})", hlo.to_bytes())


def analysed(space: Space | Path, folder: Path, **options: Any) -> Investigation:
    """Everything that explane finds in a capture."""
    run = space if isinstance(space, Path) else space.write(folder / "run").parent
    return app.investigate([run], Options(jobs=1, **options))


def refusal(space: Space | Path, folder: Path, **options: Any) -> str:
    """The one line with which a capture is refused."""
    with pytest.raises(CaptureError) as caught:
        analysed(space, folder, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def rows(found: Investigation, table: str, **where: object) -> list[dict[str, Any]]:
    """Rows of a table, those only in which the named columns have these values."""
    made = found.tables[table].to_dicts()
    return [row for row in made if all(row[key] == value for key, value in where.items())]


def row(found: Investigation, table: str, **where: object) -> dict[str, Any]:
    """The one row of a table that matches."""
    made = rows(found, table, **where)
    assert len(made) == 1, made
    return made[0]


def verdict(found: Investigation) -> dict[str, Any]:
    """The verdict of a capture of one process."""
    return row(found, "verdict")


def doubts(found: Investigation) -> str:
    """The trust list as text, one line per item."""
    return "\n".join(f"{r['item']} [{r['count']}]: {r['why']}" for r in rows(found, "trust"))


def check(found: Investigation, start: str) -> dict[str, Any]:
    """The one check whose name starts so."""
    made = [r for r in rows(found, "checks") if r["check"].startswith(start)]
    assert len(made) == 1, [r["check"] for r in rows(found, "checks")]
    return made[0]


def total_ps(found: Investigation) -> int:
    """Duration of all kernels whose times are possible."""
    return sum(r["duration_ps"] for r in rows(found, "kernels") if r["time_ok"])


def written(space: Space | Path, folder: Path, **options: Any) -> tuple[Path, str]:
    """The report of a capture: its folder and report.md."""
    run = space if isinstance(space, Path) else space.write(folder / "run").parent
    out = folder / "out"
    app.report([str(run)], out, Options(jobs=1, **options))
    return out, (out / "report.md").read_text(encoding="utf-8")
