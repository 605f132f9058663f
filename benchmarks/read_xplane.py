"""Time the reading of large captures against jax.profiler.ProfileData, in turn, in one run.

    python benchmarks/read_xplane.py [--source CAPTURE] [--kernels N …] [--jax-python PYTHON]

Each reading is a process of its own. explane's reads all device events and launches with their
stats, metadata and HLO modules into columns; ProfileData opens the file and goes once through all
device events asking for start, duration and stats, as a Python tool must. Both give the time of
the work alone (without starting Python and importing) and of the whole process. Prints a table
for docs/benchmarks.md. Without --source the capture is explane's own simulated one.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from repeat_capture import repeat

OURS = r"""
import json, re, sys, time
from pathlib import Path
begin = time.perf_counter()
from explane.capture.options import ReadOptions
from explane.capture.xplane import read_xplane
imported = time.perf_counter()
capture = read_xplane(Path(sys.argv[1]), ReadOptions(python_events=False))
done = time.perf_counter()
rss = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({"n": len(capture.kernels), "work_s": done - imported, "rss_mib": rss}))
"""
THEIRS = r"""
import json, re, sys, time
from jax.profiler import ProfileData
begin = time.perf_counter()
data = ProfileData.from_file(sys.argv[1])
count = 0
for plane in data.planes:
    if plane.name.startswith("/device:GPU"):
        for line in plane.lines:
            for event in line.events:
                event.name, event.start_ns, event.duration_ns
                for stat in event.stats:
                    pass
                count += 1
done = time.perf_counter()
rss = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({"n": count, "work_s": done - begin, "rss_mib": rss}))
"""
Result = dict[str, float]


def timed(python: str, code: str, path: Path) -> Result:
    begin = time.perf_counter()
    run = subprocess.run(
        [python, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    result: Result = json.loads(run.stdout)
    return result | {"whole_s": time.perf_counter() - begin}


def spread(values: list[float], digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def compare(path: Path, jax_python: str, repeats: int) -> list[str]:
    """Rows of the table for one capture."""
    pairs = []
    for _ in range(repeats):
        pairs.append((timed(sys.executable, OURS, path), timed(jax_python, THEIRS, path)))
    ours, theirs = [p[0] for p in pairs], [p[1] for p in pairs]
    if {r["n"] for r in ours} != {r["n"] for r in theirs}:
        raise SystemExit(f"{path}: the readers disagree on the number of device events")
    size = path.stat().st_size / 1e6
    kernels = int(ours[0]["n"])
    label = f"{kernels:,} kernels, {size:.0f} MB"
    rows = []
    for what, key, digits in (
        ("reading", "work_s", 2),
        ("whole process", "whole_s", 2),
        ("peak memory, MiB", "rss_mib", 0),
    ):
        mine, other = [r[key] for r in ours], [r[key] for r in theirs]
        ratio = spread([b / a for a, b in zip(mine, other, strict=True)], 1)
        rows.append(
            f"| {label} | {what} | {spread(mine, digits)} | {spread(other, digits)} | {ratio} |"
        )
    return rows


def source_capture(folder: Path) -> Path:
    from explane.synth.demo import demo_capture

    return next(demo_capture(folder).glob("*.xplane.pb"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--kernels", type=int, nargs="+", default=[150_000, 1_500_000])
    parser.add_argument("--host-events", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jax-python", default=sys.executable)
    args = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}\n")
    print("| capture | what | explane: median (range) | ProfileData | ratio |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        source = args.source or source_capture(Path(folder))
        for kernels in args.kernels:
            path = Path(folder) / f"{kernels}.xplane.pb"
            repeat(source, path, kernels, host_events=args.host_events)
            for row in compare(path, args.jax_python, args.repeats):
                print(row, flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
