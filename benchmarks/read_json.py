"""Time the reading of large trace JSONs against `json.load`, in turn, in one run.

    python benchmarks/read_json.py [--events N …] [--repeats N]

The traces are made here, in the form that XLA writes: three of ten events are kernels with all
their arguments, three launch calls, four of the Python tracer. Each reading is a process of its
own; its processor time is taken, since wall time depends on what else the machine does.
`json.load` only parses; explane's reader also makes the columns of a capture, sorted and with
kinds told. `skip_stats.py` does the whole launch analysis. Prints a table for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from read_xplane import spread, timed

SCRIPT = Path(__file__).parents[1] / "skills/analyzing-jax-launch-overhead/scripts/skip_stats.py"
MEASURE = r"""
rss = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({"n": n, "work_s": time.process_time() - begin, "rss_mib": rss}))
"""
OURS = rf"""
import json, re, sys, time
from pathlib import Path
from explane.capture.trace_json import read_trace_json
begin = time.process_time()
n = read_trace_json(Path(sys.argv[1])).session["n_trace_events"]
{MEASURE}"""
THEIRS = rf"""
import gzip, json, re, sys, time
begin = time.process_time()
events = json.load(gzip.open(sys.argv[1]))["traceEvents"]
n = sum(event.get("ph") == "X" for event in events)
{MEASURE}"""
SKIP = rf"""
import json, re, runpy, sys, tempfile, time, contextlib, io
begin = time.process_time()
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    main = runpy.run_path({str(SCRIPT)!r})["main"]
    n = main([sys.argv[1], "-o", folder])
{MEASURE}"""
KERNEL = (
    '{"ph":"X","pid":%d,"tid":22,"ts":%.17g,"dur":%.17g,"name":"loop_add_multiply_fusion_%d",'
    '"args":{"context_id":"$$2","correlation_id":"%d","hlo_module":"jit_train_step","hlo_op":'
    '"loop_add_multiply_fusion.%d","occupancy_min_grid_size":"56","occupancy_suggested_block_size"'
    ':"1024","scope_range_id":"%d","tf_op":"XlaModule:","theoretical_occupancy_pct":"100"}},'
)
LAUNCH = (
    '{"ph":"X","pid":701,"tid":%d,"ts":%.17g,"dur":%.17g,"name":"cuLaunchKernel","args":'
    '{"context_id":"$$1","correlation_id":"%d","device_id":"%d","scope_range_id":"11"}},'
)
PYTHON = '{"ph":"X","pid":701,"tid":%d,"ts":%.17g,"dur":%.17g,"name":"$file_%d.py:%d function"},'


def head() -> Iterator[str]:
    yield '{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":['
    named = [(pid, "process_name", f"/device:GPU:{pid - 1}", "") for pid in range(1, 5)]
    named += [(pid, "thread_name", "Stream #22(Compute)", '"tid":22,') for pid in range(1, 5)]
    named += [(701, "process_name", "/host:CPU", "")]
    named += [(701, "thread_name", f"thread {n}", f'"tid":{1000 + n},') for n in range(8)]
    for pid, kind, name, tid in named:
        yield f'{{"ph":"M","pid":{pid},{tid}"name":"{kind}","args":{{"name":"{name}"}}}},'


def events(count: int) -> Iterator[str]:
    draw = random.Random(1)
    now = 2000.0
    for n in range(count):
        now = round(now + 3 * draw.random(), 3)
        length = round(20 * draw.random(), 3)
        thread = 1000 + n % 8
        if n % 10 < 3:
            yield KERNEL % (1 + n % 4, now, length, n % 700, n, n % 700, n % 99)
        elif n % 10 < 6:
            yield LAUNCH % (thread, now - 10, length / 4, n - 3, n % 4)
        else:
            yield PYTHON % (thread, now, length / 2, n % 50, n % 3000)


def make(path: Path, count: int) -> float:
    """Writes a trace; returns the size of its text in megabytes."""
    size = 0
    with gzip.open(path, "wt", compresslevel=1, encoding="ascii") as file:
        for part in itertools.chain(head(), events(count)):
            size += file.write(part)
        size += file.write("{}]}")
    return size / 1e6


def rows(path: Path, label: str, repeats: int, *, with_skip: bool) -> Iterator[str]:
    codes = {"explane": OURS, "json.load": THEIRS} | ({"skip_stats.py": SKIP} if with_skip else {})
    found: dict[str, list[dict[str, float]]] = {name: [] for name in codes}
    for _ in range(repeats):
        for name, code in codes.items():
            found[name].append(timed(sys.executable, code, path))
    if {r["n"] for r in found["explane"]} != {r["n"] for r in found["json.load"]}:
        raise SystemExit("the readers disagree on the number of events")
    rival = statistics.median(r["work_s"] for r in found["json.load"])
    for name, results in found.items():
        times, memory = ([r[key] for r in results] for key in ("work_s", "rss_mib"))
        ratio = rival / statistics.median(times)
        yield f"| {label} | {name} | {spread(times, 1)} | {ratio:.1f} | {spread(memory, 0)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    print("| trace | reader | processor s: median (range) | times json.load | peak memory, MiB |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for count in chosen.events:
            path = Path(folder) / "node.trace.json.gz"
            label = f"{count:,} events, {make(path, count):.0f} MB of text"
            for row in rows(path, label, chosen.repeats, with_skip=count <= 1_000_000):
                print(row, flush=True)


if __name__ == "__main__":
    main()
