"""How good the what-if estimates are: causes are simulated, estimated, then really taken away.

For each cause and seed a step is simulated with the cause and without it. The capture with the
cause is analysed as any other; the estimate holds when the true step without the cause lies in
its range. Prints a Markdown table:

    python tools/whatif_accuracy.py [--seeds N] [--program TITLE ...]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from explane.analysis.investigate import investigate_host
from explane.capture.discover import discover
from explane.capture.load import load_host
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Causes, Scenario
from explane.synth.simulate import simulate, write_capture

PROGRAMS = ("minigpt_fsdp4_h100", "minigpt_dp4_mi300")
SIZE_RATIO = 0.15
"""Length of a simulated cause as a share of the step without any."""


@dataclass(frozen=True)
class Case:
    """A cause of the simulator and the row of `advice` that must find it."""

    name: str
    removed: str
    advice: str
    what: str = ""


CASES = (
    Case("host gap", "host_gap", "host_late", "next_batch"),
    Case("copy", "copy", "copy", "*"),
    Case("straggler", "straggler", "straggler", "*"),
    Case("slow collective", "collective", "exposed_collective", "*"),
)


@dataclass(frozen=True)
class Trial:
    """One estimate against the truth, all in picoseconds."""

    now_ps: int
    truth_ps: int
    low_ps: int
    high_ps: int
    replay_ps: int
    subtraction_ps: int
    size_ps: int
    found_ps: int
    rank: int


def causes_of(case: Case, size_ps: int) -> Causes:
    """The simulator's causes for one case; the host gap needs a host that waits."""
    if case.removed == "host_gap":
        return Causes(host_gap_ps=size_ps, readback=True)
    if case.removed == "copy":
        return Causes(copy_ps=size_ps)
    if case.removed == "straggler":
        return Causes(straggler_device=1, straggler_ps=size_ps)
    return Causes(collective_ps=size_ps)


def median_step_ps(scenario: Scenario, title: str) -> int:
    """The true median step of a scenario, from the simulator's own record."""
    return int(simulate(bundled_program(title), scenario).meta["step_ps"])


def trial(case: Case, title: str, seed: int) -> Trial | None:
    """One seed of one case; None when the cause was not found at all."""
    base = Scenario(seed=seed, n_steps=8)
    size_ps = int(SIZE_RATIO * median_step_ps(base, title))
    scenario = replace(base, causes=causes_of(case, size_ps))
    with tempfile.TemporaryDirectory() as folder:
        made = simulate(bundled_program(title), scenario)
        write_capture(made, Path(folder), json_cap=0, truth=False)
        record = load_host(discover([folder]).hosts[0])
        advice = investigate_host(record).tables["advice"]
    truth_ps = median_step_ps(scenario.without(case.removed), title)
    rows = advice.filter(pl.col("cause") == case.advice)
    if case.what == "*":
        named = rows.filter(pl.col("what") != "")
        rows = named if named.height else rows
    elif case.what:
        rows = rows.filter(pl.col("what") == case.what)
    if not rows.height:
        return None
    row = rows.sort("critical_path_ps", descending=True).row(0, named=True)
    return Trial(
        now_ps=row["step_ps"],
        truth_ps=truth_ps,
        low_ps=row["low_ps"],
        high_ps=row["high_ps"],
        replay_ps=row["replay_ps"],
        subtraction_ps=row["subtraction_ps"],
        size_ps=size_ps,
        found_ps=row["critical_path_ps"],
        rank=row["rank"],
    )


def lines(n_seeds: int, programs: tuple[str, ...]) -> Iterator[str]:
    """The table, row by row."""
    yield (
        "| program | cause | seeds | found | in range | median error of replay | "
        "of subtraction | median size found / true |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for title in programs:
        for case in CASES:
            done = [trial(case, title, seed) for seed in range(n_seeds)]
            trials = [t for t in done if t is not None]
            yield _line(title, case, n_seeds, trials)


def _line(title: str, case: Case, n_seeds: int, trials: list[Trial]) -> str:
    if not trials:
        return f"| {title} | {case.name} | {n_seeds} | 0 | 0 | | | |"
    inside = sum(t.low_ps <= t.truth_ps <= t.high_ps for t in trials)
    replay = statistics.median(abs(t.replay_ps - t.truth_ps) / t.truth_ps for t in trials)
    left = statistics.median(abs(t.subtraction_ps - t.truth_ps) / t.truth_ps for t in trials)
    size = statistics.median(t.found_ps / (t.now_ps - t.truth_ps) for t in trials)
    return (
        f"| {title} | {case.name} | {n_seeds} | {len(trials)} | {inside} | {replay:.2%} | "
        f"{left:.2%} | {size:.3f} |"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--program", nargs="*", default=list(PROGRAMS))
    chosen = parser.parse_args()
    for line in lines(chosen.seeds, tuple(chosen.program)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
