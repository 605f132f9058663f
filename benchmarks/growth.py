"""How time and memory grow with kernels, GPUs, programs and the size of a program.

    python benchmarks/growth.py FOLDER [--axes kernels gpus programs module] [--largest N]
        [--commands verdict attribute report]

Makes simulated captures in FOLDER, where they are kept, and runs explane's commands on them, each
once in a process of its own. CPU seconds are shown, since they depend least on what else the
machine does, and beside them the exponent: 1 where ten times as much takes ten times as long.
Prints a table for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Usage, run

from tools import ours

MAKE = Path(__file__).with_name("growth_captures.py")
AXES = {
    "kernels": (15_000, 150_000, 1_500_000, 15_000_000),
    "gpus": (1, 8, 64),
    "programs": (1, 100, 1000),
    "module": (1, 10, 100),
}


def rows(axis: str, folder: Path, largest: int, commands: list[str]) -> Iterator[str]:
    before: dict[str, tuple[int, Usage]] = {}
    for size in AXES[axis]:
        if size > largest:
            continue
        capture = folder / f"{axis}{size}"
        if not any(capture.glob("*.xplane.pb")):
            capture.mkdir(parents=True, exist_ok=True)
            words = [sys.executable, str(MAKE), str(capture), axis, str(size)]
            subprocess.run(words, check=True, stdout=sys.stderr)
        file = next(capture.glob("*.xplane.pb"))
        cells = [f"{size:,} {axis}", f"{file.stat().st_size / 1e6:.0f}"]
        for command in commands:
            usage = measured(command, capture, folder)
            cells += [
                usage.failed or f"{usage.cpu_s:.1f}",
                exponent(before.get(command), size, usage),
            ]
            cells.append(f"{usage.peak_mib:.0f}")
            before[command] = size, usage
        yield f"| {' | '.join(cells)} |"


def measured(command: str, capture: Path, folder: Path) -> Usage:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        given = {"{capture}": str(capture), "{out}": f"{place}/out"}
        words = [given.get(word, word) for word in ours()[f"explane {command}"]]
        usage = run(words, limit_s=3000, limit_gib=20)
    print(capture.name, command, usage, file=sys.stderr, flush=True)
    return usage


def exponent(before: tuple[int, Usage] | None, size: int, usage: Usage) -> str:
    if before is None or usage.failed or before[1].failed:
        return ""
    return f"{math.log(usage.cpu_s / before[1].cpu_s) / math.log(size / before[0]):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--axes", nargs="+", default=list(AXES), choices=AXES)
    parser.add_argument("--largest", type=int, default=sys.maxsize)
    parser.add_argument("--commands", nargs="+", default=["verdict", "attribute", "report"])
    chosen = parser.parse_args()
    heads = [f"{command}: CPU s | exponent | peak MiB" for command in chosen.commands]
    print(f"| capture | MB | {' | '.join(heads)} |")
    print("|---|---|" + "---|" * 3 * len(heads))
    for axis in chosen.axes:
        for row in rows(axis, chosen.folder, chosen.largest, chosen.commands):
            print(row, flush=True)


if __name__ == "__main__":
    main()
