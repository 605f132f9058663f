"""How good the what-if estimates are: causes are simulated, estimated, then really taken away.

For each cause and seed a step is simulated with the cause and without it. The capture with the
cause is analysed as any other; the estimate holds when the true step without the cause lies in
its range. The size is what the replay saves in the median step, against the true difference of
this very step with the cause and without it (the median over the GPUs, which end a step at
slightly different times). Prints a Markdown table:

    python tools/whatif_accuracy.py [--seeds N] [--program TITLE ...] [--cause NAME ...]
        [--also NAME] [--devices N] [--branches] [--no-markers] [--jobs N]

`--also` adds a second cause, half as long, to every capture; it stays when the first one goes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from explane.analysis.investigate import investigate_host
from explane.analysis.replay.device import OUTSIDE
from explane.capture.discover import discover
from explane.capture.load import load_host
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Branches, Causes, Graphs, Scenario, Tracer
from explane.synth.simulate import simulate, write_capture

PROGRAMS = ("minigpt_fsdp4_h100", "minigpt_dp4_mi300")
SIZE_RATIO = 0.15
"""Length of a simulated cause as a share of the step without any."""


@dataclass(frozen=True)
class Case:
    """A cause of the simulator and the row of `advice` that must find it.

    `what` is the part of it that was simulated; empty: the row of the whole cause, `*`: the
    largest part.
    """

    name: str
    removed: str
    advice: str
    what: str = ""


CASES = (
    Case("host gap", "host_gap", "host_late", "next_batch"),
    Case("copy", "copy", "copy", OUTSIDE),
    Case("straggler", "straggler", "straggler", "*"),
    Case("read-back", "readback", "readback", "*"),
    Case("slow collective", "collective", "exposed_collective", "*"),
    Case("exposed communication", "transfers", "exposed_collective"),
    Case("loop condition", "loop_waits", "while_readback"),
)


@dataclass(frozen=True)
class Trial:
    """One estimate against the truth, all in picoseconds.

    `size_ps` is the true time of the cause in the median step, `found_ps` what was found of it;
    `rank` counts the causes ranked before it that share no time with it and save less.
    """

    now_ps: int
    truth_ps: int
    low_ps: int
    high_ps: int
    replay_ps: int
    subtraction_ps: int
    size_ps: int
    found_ps: int
    rank: int


def causes_of(case: Case, size_ps: int) -> dict[str, Any]:
    """The simulator's causes for one case; the host gap needs a host that waits."""
    if case.removed in ("host_gap", "readback"):
        return {"host_gap_ps": size_ps, "readback": True}
    if case.removed == "copy":
        return {"copy_ps": size_ps}
    if case.removed == "straggler":
        return {"straggler_device": 1, "straggler_ps": size_ps}
    return {"collective_ps": size_ps} if case.removed == "collective" else {}


def trial(case: Case, title: str, also: Case | None, base: Scenario, seed: int) -> Trial | None:
    """One seed of one case; None when the cause was not found at all."""
    base = replace(base, seed=seed)
    plain_ps = int(simulate(bundled_program(title), base).meta["step_ps"])
    second = causes_of(also, int(SIZE_RATIO / 2 * plain_ps)) if also is not None else {}
    causes = Causes(**{**second, **causes_of(case, int(SIZE_RATIO * plain_ps))})
    scenario = replace(base, causes=causes)
    with tempfile.TemporaryDirectory() as folder:
        made = simulate(bundled_program(title), scenario)
        write_capture(made, Path(folder), json_cap=0, truth=False)
        record = load_host(discover([folder]).hosts[0])
        advice = investigate_host(record).tables["advice"]
    without = simulate(bundled_program(title), scenario.without(case.removed)).meta
    row = _row_of(case, advice)
    if row is None:
        return None
    shared = [row["cause"], *row["overlaps_with"].split("; ")]
    saves = pl.col("step_ps") - pl.max_horizontal("replay_ps", "subtraction_ps")
    less = saves < row["step_ps"] - max(row["replay_ps"], row["subtraction_ps"])
    before = (pl.col("rank") < row["rank"]) & ~pl.col("cause").is_in(shared) & less
    now, then = (_lengths(meta) for meta in (made.meta, without))
    _, number = min(now, key=lambda key: abs(now[key] - row["step_ps"]))
    return Trial(
        now_ps=row["step_ps"],
        truth_ps=int(without["step_ps"]),
        low_ps=row["low_ps"],
        high_ps=row["high_ps"],
        replay_ps=row["replay_ps"],
        subtraction_ps=row["subtraction_ps"],
        size_ps=statistics.median_low([now[k] - then[k] for k in now if k[1] == number]),
        found_ps=row["step_ps"] - row["replay_ps"],
        rank=1 + advice.filter(before)["cause"].n_unique(),
    )


def _row_of(case: Case, advice: pl.DataFrame) -> dict[str, Any] | None:
    """The row that is about a case."""
    rows = advice.filter(pl.col("cause") == case.advice)
    if case.what == "*":
        named = rows.filter(pl.col("what") != "")
        rows = named if named.height else rows
    else:
        # A capture without copies of the program has the others under the whole cause.
        part = rows.filter(pl.col("what") == case.what)
        rows = part if part.height else rows.filter(pl.col("what") == "")
    return (
        rows.sort("critical_path_ps", descending=True).row(0, named=True) if rows.height else None
    )


def _lengths(meta: Mapping[str, Any]) -> dict[tuple[int, int], int]:
    """Length of each step but the first on each device, from the end of the one before."""
    ends = {(int(s["device"]), int(s["step"])): int(s["end_ps"]) for s in meta["step_times"]}
    before = {key: ends.get((key[0], key[1] - 1)) for key in ends}
    return {key: ends[key] - earlier for key, earlier in before.items() if earlier is not None}


def lines(
    cases: tuple[Case, ...], programs: tuple[str, ...], also: Case | None, base: Scenario,
    sizes: tuple[int, int],
) -> Iterator[str]:  # fmt: skip
    """The table, row by row; `sizes` are the seeds and the processes."""
    n_seeds, n_jobs = sizes
    yield (
        "| program | cause | seeds | found | first | in range | median error of replay | "
        "of subtraction | size found / true, median | worst |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    with ProcessPoolExecutor(n_jobs) as pool:
        for title in programs:
            for case in cases:
                if not _has(title, case):
                    continue
                one = partial(trial, case, title, also, base)
                trials = [t for t in pool.map(one, range(n_seeds)) if t is not None]
                yield _line(title, case, n_seeds, trials)


def _has(title: str, case: Case) -> bool:
    """Whether a program can have a cause: several GPUs, or a loop that asks the host."""
    if case.removed == "loop_waits":
        return title.startswith("solver")
    alone = bundled_program(title).n_devices < 2
    return not (alone and case.removed in ("straggler", "collective", "transfers"))


def _line(title: str, case: Case, n_seeds: int, trials: list[Trial]) -> str:
    if not trials:
        return f"| {title} | {case.name} | {n_seeds} | 0 | 0 | 0 | | | | |"
    inside = sum(t.low_ps <= t.truth_ps <= t.high_ps for t in trials)
    replay = statistics.median(abs(t.replay_ps - t.truth_ps) / t.truth_ps for t in trials)
    left = statistics.median(abs(t.subtraction_ps - t.truth_ps) / t.truth_ps for t in trials)
    sizes = [t.found_ps / t.size_ps for t in trials if t.size_ps]
    first = sum(t.rank == 1 for t in trials)
    return (
        f"| {title} | {case.name} | {n_seeds} | {len(trials)} | {first} | {inside} | "
        f"{replay:.2%} | {left:.2%} | {statistics.median(sizes):.3f} | "
        f"{max(sizes, key=lambda size: abs(size - 1)):.3f} |"
    )


def main() -> None:
    """Prints the table."""
    by_name = {case.name: case for case in CASES}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--program", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--cause", nargs="*", default=list(by_name), choices=list(by_name))
    parser.add_argument("--also", choices=list(by_name), help="a second cause in every capture")
    parser.add_argument("--devices", type=int, default=0, help="GPUs; 0: as compiled")
    parser.add_argument("--branches", action="store_true", help="graphs with branches")
    parser.add_argument("--no-markers", action="store_true", help="no step markers")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    branches = Branches.DEPENDENCIES if chosen.branches else Branches.NONE
    base = Scenario(
        n_steps=8,
        n_devices=chosen.devices,
        graphs=Graphs(branches=branches, branch_ratio=0.3 if chosen.branches else 0.0),
        tracer=Tracer(step_markers=not chosen.no_markers),
    )
    cases = tuple(by_name[name] for name in chosen.cause)
    also = by_name.get(chosen.also)
    sizes = (chosen.seeds, chosen.jobs)
    for line in lines(cases, tuple(chosen.program), also, base, sizes):
        print(line, flush=True)


if __name__ == "__main__":
    main()
