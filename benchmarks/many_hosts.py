"""Time, memory and sizes of a report of many simulated hosts, and what one host costs.

    python benchmarks/many_hosts.py [--hosts 64] [--gpus 8] [--steps 6] [--jobs 2] [--folder DIR]

All hosts play one program in step; each has a clock of its own, and one GPU is slower than the
others. Prints rows for docs/scale.md. Processor time counts all processes, since wall time depends
on what else the machine does; memory is the sum over processes, sampled, and the largest one.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from explane.analysis.program_facts import KnownPrograms
from explane.capture.discover import discover
from explane.hosts import full
from explane.options import Options
from explane.progress import NULL
from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Causes, Scenario, Tracer
from explane.synth.simulate import simulate_hosts, write_capture
from explane.units import PS_PER_US

PROGRAM = "minigpt_fsdp4_h100"


@dataclass
class Cost:
    wall_s: float
    cpu_s: float
    peak_mib: float
    sum_mib: float


def make(run: Path, hosts: int, gpus: int, steps: int) -> None:
    """Writes the captures of all hosts into one run folder."""
    clocks = [
        HostClock(f"node{i:03d}", (i * 37 % 101) * 130 * PS_PER_US, i * 7 % 41 - 20)
        for i in range(hosts)
    ]
    scenario = Scenario(
        seed=3,
        n_devices=hosts * gpus,
        n_steps=steps,
        tracer=Tracer(python_events=100),
        causes=Causes(straggler_device=gpus + 1, straggler_ps=600 * PS_PER_US),
    )
    for made in simulate_hosts(bundled_program(PROGRAM), scenario, clocks):
        write_capture(made, run, json_cap=0, truth=False)


def measured(words: list[str]) -> Cost:
    """A command with all its processes."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    sums: list[float] = [0.0]
    watch = threading.Thread(target=_watch, args=(child, sums), daemon=True)
    watch.start()
    if child.wait() not in (0, 3):
        raise SystemExit(f"failed: {' '.join(words)}")
    watch.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - begin, cpu_s, after.ru_maxrss / 1024, max(sums))


def _watch(child: subprocess.Popen[bytes], sums: list[float]) -> None:
    """Memory of a process and those below it, summed, until it ends."""
    while child.poll() is None:
        family = {child.pid}
        for _ in range(2):
            family |= {pid for pid, parent in _parents().items() if parent in family}
        sums.append(sum(_rss_mib(pid) for pid in family))
        time.sleep(0.2)


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def _rss_mib(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = (line for line in text.splitlines() if line.startswith("VmRSS:"))
    return sum(int(line.split()[1]) for line in lines) / 1024


def size_mb(place: Path) -> float:
    files = [place] if place.is_file() else [p for p in place.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files) / 1e6


def one_host(run: Path) -> tuple[float, float, float]:
    """One host's task: processor seconds alone, and after an equal program; MB sent back."""
    hosts = discover([run]).hosts
    memory = KnownPrograms()
    full(hosts[0], Options(), NULL, memory)
    alone, again = [], []
    for _ in range(5):
        for taken, known in ((alone, None), (again, memory)):
            begin = time.process_time()
            result = full(hosts[1], Options(), NULL, known)
            taken.append(time.process_time() - begin)
    return median(alone), median(again), len(pickle.dumps(result)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        run, out = Path(folder) / "run", Path(folder) / "report"
        make(run, chosen.hosts, chosen.gpus, chosen.steps)
        alone_s, again_s, sent_mb = one_host(run)
        explane = [sys.executable, "-m", "explane"]
        verdict = measured([*explane, "verdict", str(run), "--jobs", str(chosen.jobs)])
        report = [*explane, "report", str(run), "-o", str(out), "--jobs", str(chosen.jobs)]
        cost = measured(report)
        print(f"{chosen.hosts} hosts, {chosen.gpus} GPUs each, {size_mb(run):.0f} MB of captures")
        print(
            f"task of one host: {alone_s:.2f} s of processor time, {again_s:.2f} s when its "
            f"worker has seen the program, {sent_mb:.1f} MB sent back"
        )
        for name, c in (("verdict", verdict), ("report", cost)):
            print(
                f"{name}: {c.wall_s:.0f} s, {c.cpu_s:.0f} s of processor time, largest process "
                f"{c.peak_mib:.0f} MiB, all together {c.sum_mib:.0f} MiB"
            )
        csv = sum(p.stat().st_size for p in out.rglob("*.csv")) / 1e6
        print(f"output {size_mb(out):.0f} MB, of it CSV {csv:.0f} MB")
        print(f"report.html {size_mb(out / 'report.html'):.1f} MB")
        print(f"report.md {size_mb(out / 'report.md') * 1000:.0f} kB")


if __name__ == "__main__":
    main()
