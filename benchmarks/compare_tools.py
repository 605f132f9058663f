"""Time and memory of explane and of other tools on large captures, in turn, in one run.

    python benchmarks/compare_tools.py FOLDER [--captures lean150 …] [--source XPLANE]
        [--repeats 3] [--xprof-python PYTHON] [--jax-python PYTHON] [--xprof-rs PROGRAM]
        [--other 'NAME=COMMAND {capture} {out}']

Every command is a process of its own, Python's start included, on a link to the capture in a new
folder. In each repeat every tool runs once, so that a slow minute of the machine hits all alike;
the ratios are those of one repeat. Prints a table per capture for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from large_captures import NAMES, large_captures
from measure import Usage, ratio, run, spread

from tools import Commands, ours, rivals

BASE = "explane report"
MEASURES = ("seconds", "cpu_s", "peak_mib")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--captures", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tools", nargs="+", help="parts of the names of the tools to run")
    parser.add_argument("--xprof-python")
    parser.add_argument("--jax-python")
    parser.add_argument("--xprof-rs", type=Path)
    parser.add_argument("--other", action="append", default=[])
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("--limit-gib", type=float, default=16)
    chosen = parser.parse_args()
    commands = ours() | rivals(
        chosen.xprof_python, chosen.jax_python, chosen.xprof_rs, chosen.other
    )
    if chosen.tools:
        commands = {n: c for n, c in commands.items() if any(part in n for part in chosen.tools)}
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}\n")
    for folder in large_captures(chosen.folder, chosen.captures, chosen.source):
        limits = (chosen.limit_s, chosen.limit_gib)
        results = measured(folder / "node.xplane.pb", commands, chosen.repeats, limits)
        for row in rows(folder / "node.xplane.pb", results):
            print(row, flush=True)


def measured(
    capture: Path, commands: Commands, repeats: int, limits: tuple[float, float]
) -> dict[str, list[Usage]]:
    """What each tool took, repeat by repeat; a tool that failed is not tried again."""
    found: dict[str, list[Usage]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, words in commands.items():
            if found[name] and found[name][-1].failed:
                continue
            with tempfile.TemporaryDirectory(dir=capture.parents[1]) as place:
                found[name].append(run(filled(words, capture, Path(place)), *limits))
            last = found[name][-1]
            print(capture.parent.name, name, last, file=sys.stderr, flush=True)
    return found


def filled(words: list[str], capture: Path, place: Path) -> list[str]:
    """A command with its capture, in a run folder of its own, and its output."""
    run_folder = place / "run"
    run_folder.mkdir()
    link = run_folder / capture.name
    os.link(capture, link)
    given = {"{capture}": str(link), "{out}": str(place / "out")}
    return [_replaced(word, given) for word in words]


def _replaced(word: str, given: dict[str, str]) -> str:
    for name, value in given.items():
        word = word.replace(name, value)
    return word


def rows(capture: Path, results: dict[str, list[Usage]]) -> Iterator[str]:
    size = capture.stat().st_size / 1e6
    yield f"{capture.parent.name}, {size:.0f} MB:\n"
    shown = "s: median (range) | CPU s | peak MiB"
    yield f"| tool | {shown} | s / report's | CPU / report's | MiB / report's |"
    yield "|---|---|---|---|---|---|---|"
    base = results.get(BASE, [])
    for name, usages in results.items():
        if usages[-1].failed:
            yield f"| {name} | {usages[-1].failed} | | {usages[-1].peak_mib:.0f} | | | |"
            continue
        columns = [[getattr(usage, measure) for usage in usages] for measure in MEASURES]
        cells = [name, spread(columns[0]), spread(columns[1]), spread(columns[2], 0)]
        if base and not base[-1].failed:
            for measure, values in zip(MEASURES, columns, strict=True):
                cells.append(ratio(values, [getattr(usage, measure) for usage in base]))
        yield f"| {' | '.join(cells)} |"
    yield ""


if __name__ == "__main__":
    main()
