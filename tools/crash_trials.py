"""Ends explane at random moments and in bad places, and looks at what is left of its output.

    python tools/crash_trials.py CAPTURE OTHER_CAPTURE --trials 400

An output of CAPTURE lies in its place; explane is to replace it by one of OTHER_CAPTURE and is
disturbed: killed, ended, out of space, without permission, without its input, without a reader,
or by a second run. Afterwards the output must be the old one or the new one, to the byte; a run
that was not killed by force must leave nothing else and say one line. At the end of a row of
trials an undisturbed run must succeed. Needs Linux.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_CAPBSET_DROP, _DAC_OVERRIDE, _DAC_READ_SEARCH = 24, 1, 2


def digests(folder: Path) -> dict[str, str]:
    """Every file of a folder with its digest."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass
class Setting:
    """A capture to read, a place to write, and what may stand there."""

    place: Path
    capture: Path
    command: str
    random: Random
    old: dict[str, str]
    new: dict[str, str]
    spare: Path
    seconds: float

    @property
    def out(self) -> Path:
        """The output folder."""
        return self.place / "out"

    def words(self, capture: Path | None = None) -> list[str]:
        """The command."""
        read = str(capture or self.capture)
        return [sys.executable, "-m", "explane", self.command, read, "-o", str(self.out), "-q"]

    def start(self, capture: Path | None = None, **options: object) -> subprocess.Popen[str]:
        """Starts the command."""
        given = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen(self.words(capture), **given)  # type: ignore[call-overload,no-any-return]

    def run(self) -> int:
        """Runs the command undisturbed; its exit code."""
        process = self.start()
        process.communicate()
        return process.returncode

    def moment(self) -> float:
        """A random moment of a run, the second half of it more often: there it writes."""
        return self.seconds * 1.1 * max(self.random.random(), self.random.random())

    def reset(self) -> None:
        """Puts the old output in its place and removes all else."""
        for path in self.place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.spare, self.out)

    def state(self) -> str:
        """What the output is now."""
        found = digests(self.out) if self.out.exists() else {}
        names = {id(self.old): "old", id(self.new): "new"}
        for wanted in (self.old, self.new):
            if found == wanted:
                return names[id(wanted)]
        return "BROKEN" if found else "absent"

    def left(self) -> list[str]:
        """What lies beside the output."""
        return sorted(p.name for p in self.place.iterdir() if p != self.out)


Trial = Callable[[Setting], tuple[str, bool]]
"""Disturbs one run; a word for what happened, and whether it is right besides the output."""


def killed(setting: Setting) -> tuple[str, bool]:
    """A signal at a random moment."""
    number = setting.random.choice(SIGNALS)
    process = setting.start(start_new_session=True)
    time.sleep(setting.moment())
    process.send_signal(number)
    told = process.communicate()[1]
    if number == signal.SIGKILL:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its workers, in a session of their own
        return number.name, True
    quiet = "Traceback" not in told and not setting.left()
    return number.name, quiet and process.returncode in (0, 3, 130, 128 + number, -number)


def full(setting: Setting) -> tuple[str, bool]:
    """No file can grow beyond some size, as on a full disk."""
    largest = max(p.stat().st_size for p in setting.spare.rglob("*") if p.is_file())
    limit = setting.random.randrange(largest)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return _ended("full", setting, setting.start(preexec_fn=limited), (2,))


def small_disk(setting: Setting) -> tuple[str, bool]:
    """The output's file system has less room than the output needs."""
    total = sum(p.stat().st_size for p in setting.spare.rglob("*") if p.is_file())
    size = setting.random.randrange(4096, total)
    disk = setting.place / "disk"
    disk.mkdir()
    words = setting.words()
    words[words.index(str(setting.out))] = str(disk / "out")
    script = 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && "$@"; c=$?; ls -A "$D"; exit $c'
    made = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(size), str(disk), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "D": str(disk)},
    )
    disk.rmdir()
    if "unshare" in made.stderr or "mount" in made.stderr:
        return "small disk not possible here", True
    return "small disk", made.returncode == 2 and made.stdout == "" and _one_line(made.stderr)


def read_only(setting: Setting) -> tuple[str, bool]:
    """A folder that can't be written, also by the super-user."""

    def weak() -> None:
        system = ctypes.CDLL(None)
        for ability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            system.prctl(_PR_CAPBSET_DROP, ability, 0, 0, 0)

    setting.place.chmod(0o500)
    try:
        return _ended("read-only", setting, setting.start(preexec_fn=weak), (2,))
    finally:
        setting.place.chmod(0o700)


def vanished(setting: Setting) -> tuple[str, bool]:
    """The input goes away at a random moment."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "run"
        shutil.copytree(setting.capture, copy)
        process = setting.start(copy)
        time.sleep(setting.moment())
        shutil.rmtree(copy)
        return _ended("vanished", setting, process, (0, 1, 3))


def no_reader(setting: Setting) -> tuple[str, bool]:
    """Nobody reads what it prints."""
    process = setting.start(stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    told = process.communicate()[1]
    return "no reader", process.returncode in (0, 3, 141) and not told


def two(setting: Setting) -> tuple[str, bool]:
    """A second run into the same place."""
    first = setting.start()
    time.sleep(setting.moment() * 0.5)
    second = setting.start()
    told = [first.communicate()[1], second.communicate()[1]]
    codes = [first.returncode, second.returncode]
    right = not setting.left() and (0 in codes or 3 in codes)
    for code, text in zip(codes, told, strict=True):
        right &= code in (0, 3) or (code == 2 and "another explane is writing" in text)
    return "two at once", right


def _ended(
    word: str, setting: Setting, process: subprocess.Popen[str], codes: tuple[int, ...]
) -> tuple[str, bool]:
    told = process.communicate()[1]
    code = process.returncode
    right = code in codes and not setting.left() and (code in (0, 3) or _one_line(told))
    return word, right


def _one_line(text: str) -> bool:
    return len(text.splitlines()) == 1 and text.startswith("explane: ") and "internal" not in text


TRIALS: tuple[Trial, ...] = (
    *(killed, killed, full, killed, killed, small_disk, killed, killed, vanished),
    *(killed, killed, two, killed, no_reader, killed, killed, read_only),
)


def run_trials(setting: Setting, n_trials: int) -> Counter[str]:
    """Trials in turn, until an interruption; counts of `what: output, right or wrong`."""
    ends: Counter[str] = Counter()
    for number in range(n_trials):
        with suppress(KeyboardInterrupt):
            _one_trial(setting, number, ends)
            continue
        break
    code = setting.run()
    undisturbed = code in (0, 3) and setting.state() == "new" and not setting.left()
    ends[f"undisturbed run afterwards: {'new' if undisturbed else 'WRONG'}"] += 1
    return ends


def _one_trial(setting: Setting, number: int, ends: Counter[str]) -> None:
    """One trial: the old output in its place, nothing else."""
    setting.reset()
    word, right = TRIALS[number % len(TRIALS)](setting)
    state = setting.state()
    good = right and state in ("old", "new")
    ends[f"{word}: {state}{'' if good else ', WRONG'}"] += 1
    if not good:
        print(f"trial {number}: {word}: {state}, beside it {setting.left()}", file=sys.stderr)


def prepare(place: Path, command: str, captures: tuple[Path, Path], seed: int) -> Setting:
    """The outputs of both captures, and how long a run takes."""
    spare = place / "spare"
    setting = Setting(place / "work", captures[0], command, Random(seed), {}, {}, spare, 0.0)
    setting.place.mkdir()
    results = []
    for capture in captures:
        setting.capture = capture
        start_s = time.monotonic()
        if setting.run() not in (0, 3):
            raise SystemExit(f"{command} {capture} fails by itself")
        setting.seconds = time.monotonic() - start_s
        results.append(digests(setting.out))
        if not spare.exists():
            shutil.copytree(setting.out, spare)
    setting.old, setting.new = results
    return setting


def main() -> int:
    """Makes the trials and prints the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("captures", nargs=2, type=Path, help="run folders of two captures")
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--command", default="report", choices=["report", "attribute", "verdict"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
    with tempfile.TemporaryDirectory() as folder:
        captures = (arguments.captures[0].resolve(), arguments.captures[1].resolve())
        setting = prepare(Path(folder), arguments.command, captures, arguments.seed)
        ends = run_trials(setting, arguments.trials)
    for end, n in sorted(ends.items()):
        print(f"{n:>6}  {end}")
    wrong = sum(n for end, n in ends.items() if "WRONG" in end)
    print(f"{sum(ends.values()) - 1} trials of {arguments.command}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
