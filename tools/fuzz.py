"""Runs explane on damaged captures and counts how each run ends.

    python tools/fuzz.py CAPTURE_FILE… --mutants 20000 --seconds 600

Every mutant must end in a result (0), a partial result (3) or one clear line (1 or 2), within the
bounds of time and memory. Anything else is kept under the output folder with its seed, and the
exit code is then 1. A child process does the work; it is started again after a hang or a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from mutants import mutant

COMMANDS = ("info", "verdict", "attribute", "verdict", "attribute", "report")
RIGHT_ENDS = ("done", "partial", "refused")
MAX_GROWTH_MIB = 1024
_WORDS = {0: "done", 1: "refused", 2: "refused", 3: "partial"}


def main() -> int:
    """Runs until the mutants or the seconds are used up; prints the counts."""
    arguments = _arguments()
    if arguments.worker:
        return _work(arguments)
    ends: Counter[tuple[str, str]] = Counter()
    start_s, seed = time.monotonic(), arguments.seed
    last = arguments.seed + arguments.mutants
    while seed < last and time.monotonic() - start_s < arguments.seconds:
        seed = _run_worker(arguments, seed, last, start_s, ends)
    for (command, end), n in sorted(ends.items()):
        print(f"{command:<10} {end:<12} {n:>8}")
    wrong = sum(n for (_, end), n in ends.items() if end not in RIGHT_ENDS)
    print(f"{seed - arguments.seed} mutants in {time.monotonic() - start_s:.0f} s, {wrong} wrong")
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", type=Path, help="whole captures to damage")
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit-s", type=float, default=30.0, help="time for one mutant")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_worker(
    arguments: argparse.Namespace,
    seed: int,
    last: int,
    start_s: float,
    ends: Counter[tuple[str, str]],
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
                ends[event["command"], event["end"]] += 1
    if not n_lines:
        raise SystemExit(f"the child does not start: exit {child.returncode}")
    if began is None:
        return seed + 1
    end = "hang" if child.returncode == 1 else f"crash {child.returncode}"
    ends[began["command"], end] += 1
    _keep(arguments, seed, end)
    return seed + 1


def _work(arguments: argparse.Namespace) -> int:
    """The child: one mutant after the other, telling the parent before and after each run."""
    originals = [path.read_bytes() for path in arguments.files]
    start_s = time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.mutants):
        if time.monotonic() - start_s > arguments.seconds:
            break
        which = seed % len(originals)
        command = COMMANDS[(seed // len(originals)) % len(COMMANDS)]
        print(json.dumps({"seed": seed, "command": command}), flush=True)
        faulthandler.dump_traceback_later(arguments.limit_s, exit=True)
        end = _end_of(command, mutant(originals[which], seed), arguments.files[which].name)
        faulthandler.cancel_dump_traceback_later()
        if end not in RIGHT_ENDS:
            _keep(arguments, seed, end)
        print(json.dumps({"seed": seed, "command": command, "end": end}), flush=True)
    return 0


def _end_of(command: str, content: bytes, name: str) -> str:
    """Runs one command on one mutant in this process."""
    from explane.cli.main import main as explane

    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in" / name
        path.parent.mkdir()
        path.write_bytes(content)
        out = Path(folder) / "out"
        told = io.StringIO()
        words = [command, str(path), *([] if command == "info" else ["-o", str(out)])]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
            code = explane([*words, "--jobs", "1"])
        left = sorted(p.name for p in Path(folder).iterdir())
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    if "internal error" in told.getvalue() or "Traceback" in told.getvalue():
        print(told.getvalue().strip(), file=sys.stderr)
        return "bug"
    if code in (1, 2) and left != ["in"]:
        return "half-written"
    if grown_mib > MAX_GROWTH_MIB:
        return "memory"
    return _WORDS.get(code, f"exit {code}")


def _keep(arguments: argparse.Namespace, seed: int, end: str) -> None:
    """Keeps a mutant that ended wrongly."""
    which = arguments.files[seed % len(arguments.files)]
    folder = arguments.out / f"{end.replace(' ', '-')}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / which.name).write_bytes(mutant(which.read_bytes(), seed))


if __name__ == "__main__":
    sys.exit(main())
