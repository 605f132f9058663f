"""Runs explane on damaged captures and counts how each run ends.

    python tools/fuzz.py CAPTURE_FILE… --mutants 20000 --seconds 600

Every mutant must end in a result (0), a partial result (3) or one clear line (1 or 2), within the
bounds of time and memory. Anything else is kept under the output folder with its seed, and the
exit code is then 1. A child process does the work; it is started again after a hang or a crash.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from fuzz_case import RIGHT_ENDS, Case, case_of, run_case

WALL_LIMIT_S = 900.0
"""For one that waits for ever; on a busy machine little CPU time takes long."""
MAX_DATA_BYTES = 6 * 2**30


class Tally:
    """How the runs ended, and the most that one of them took."""

    def __init__(self) -> None:
        self.ends: Counter[tuple[str, str]] = Counter()
        self.said_s = time.monotonic()
        self.most: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def add(self, event: dict[str, float | str]) -> None:
        """Counts one run."""
        command = str(event["command"])
        self.ends[command, str(event["end"])] += 1
        for i, key in enumerate(("seconds", "grown_mib")):
            self.most[command][i] = max(self.most[command][i], float(event.get(key, 0)))

    def say_now_and_then(self, n_done: int) -> None:
        """Tells standard error how far it is, once a minute."""
        if time.monotonic() - self.said_s >= 60:
            self.said_s = time.monotonic()
            print(f"{n_done} mutants, {self.wrong()} wrong", file=sys.stderr)

    def wrong(self) -> int:
        """Runs that ended in none of the right ways."""
        return sum(n for (_, end), n in self.ends.items() if end not in RIGHT_ENDS)

    def lines(self) -> list[str]:
        """A table: command, end, number; and the bounds that were held."""
        made = [
            f"{command:<10} {end:<14} {n:>8}" for (command, end), n in sorted(self.ends.items())
        ]
        for command, (seconds, grown) in sorted(self.most.items()):
            made.append(f"{command:<10} at most {seconds:.1f} s and {grown:.0f} MiB for one run")
        return made


def main() -> int:
    """Runs until the mutants or the seconds are used up; prints the counts."""
    arguments = _arguments()
    if arguments.worker:
        return _work(arguments)
    tally = Tally()
    start_s, seed = time.monotonic(), arguments.seed
    last = arguments.seed + arguments.mutants
    while seed < last and time.monotonic() - start_s < arguments.seconds:
        seed = _run_worker(arguments, seed, last, start_s, tally)
    print("\n".join(tally.lines()))
    spent_s = time.monotonic() - start_s
    print(f"{seed - arguments.seed} mutants in {spent_s:.0f} s, {tally.wrong()} wrong")
    return 1 if tally.wrong() else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", type=Path, help="whole captures to damage")
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit-s", type=float, default=60.0, help="CPU time for one mutant")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_worker(
    arguments: argparse.Namespace, seed: int, last: int, start_s: float, tally: Tally
) -> int:
    """Lets a child work from a seed on; the seed to go on from."""
    words = [sys.executable, __file__, *map(str, arguments.files), "--worker"]
    words += ["--seed", str(seed), "--mutants", str(last - seed), "--out", str(arguments.out)]
    words += ["--limit-s", str(arguments.limit_s)]
    words += ["--seconds", str(arguments.seconds - (time.monotonic() - start_s))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        began, n_lines = None, 0
        for line in child.stdout:
            event = json.loads(line)
            n_lines += 1
            began = event if "end" not in event else None
            seed = max(seed, event["seed"])
            if "end" in event:
                tally.add(event)
                tally.say_now_and_then(seed - arguments.seed)
    if not n_lines:
        raise SystemExit(f"the child does not start: exit {child.returncode}")
    if began is None:
        return seed + 1
    end = "hang" if child.returncode in (1, -signal.SIGPROF) else f"crash {child.returncode}"
    tally.add({**began, "end": end})
    _keep(arguments, case_of(arguments.files, seed), end)
    return seed + 1


def _work(arguments: argparse.Namespace) -> int:
    """The child: one mutant after the other, telling the parent before and after each run."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_DATA_BYTES, MAX_DATA_BYTES))
    faulthandler.register(signal.SIGPROF, chain=True)
    start_s = time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.mutants):
        if time.monotonic() - start_s > arguments.seconds:
            break
        case = case_of(arguments.files, seed)
        print(json.dumps({"seed": seed, "command": case.command}), flush=True)
        faulthandler.dump_traceback_later(WALL_LIMIT_S, exit=True)
        signal.setitimer(signal.ITIMER_PROF, arguments.limit_s)
        runs = run_case(case)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        for run in runs:
            if run.end not in RIGHT_ENDS:
                print(f"seed {seed}: {run.end}: {run.told}", file=sys.stderr)
                _keep(arguments, case, run.end)
            told = {"command": run.command, "end": run.end, "seconds": run.seconds}
            print(json.dumps({"seed": seed, **told, "grown_mib": run.grown_mib}), flush=True)
    return 0


def _keep(arguments: argparse.Namespace, case: Case, end: str) -> None:
    """Keeps a mutant that ended wrongly."""
    folder = arguments.out / f"{end.replace(' ', '-')}-{case.command}-{case.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / case.file.name).write_bytes(case.content)


if __name__ == "__main__":
    sys.exit(main())
