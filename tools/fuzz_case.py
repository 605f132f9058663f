"""One damaged capture, the command that is run on it, and what of the outcome can be wrong."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from mutants import damaged_bytes, is_cut, mutant

_CHEAP = (
    *("info", "verdict", "attribute", "verdict", "annotate", "attribute", "verdict", "pprof"),
    *("info", "attribute", "verdict", "perfetto", "annotate", "attribute", "verdict"),
)
COMMANDS = (*_CHEAP, *_CHEAP, "report", *_CHEAP, *_CHEAP, "compare")
"""Each as often as it is cheap; the ones that draw are the rarest."""

RIGHT_ENDS = ("done", "partial", "refused")
MAX_GROWTH_MIB = 1024
"""Memory that one run on a capture of less than a MiB may need beyond what the process holds."""

_WORDS = {0: "done", 1: "refused", 2: "refused", 3: "partial"}
_PARTS = ("compute_ps", "collective_ps", "memcpy_ps", "memset_ps", "idle_ps")


@dataclass(frozen=True)
class Case:
    """A mutant and its command; `partner` is the intact other file of the pair, if it is given."""

    seed: int
    command: str
    file: Path
    content: bytes
    partner: Path | None


@dataclass(frozen=True)
class Run:
    """How a command ended, its CPU time; `told` is what it said when that was wrong."""

    command: str
    end: str
    seconds: float
    grown_mib: float
    told: str = ""


def case_of(files: Sequence[Path], seed: int) -> Case:
    """The case of a seed, the same one every time."""
    file = files[seed % len(files)]
    command = COMMANDS[(seed // len(files)) % len(COMMANDS)]
    random = Random(f"case {seed}")
    content = mutant(_bytes_of(file), seed)
    for _ in range(random.choice((0, 0, 0, 1, 4))):
        content = mutant(content, random.randrange(2**32)) if content else content
    partners = [f for f in files if f.parent == file.parent and f.name != file.name]
    partner = partners[0] if partners and random.random() < 0.3 else None
    return Case(seed, command, file, content, partner)


@cache
def _bytes_of(file: Path) -> bytes:
    return file.read_bytes()


def run_case(case: Case) -> list[Run]:
    """Runs the command in this process; a report is checked, then damaged and checked again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "in" / case.file.name
        path.parent.mkdir()
        path.write_bytes(case.content)
        if case.partner is not None:
            shutil.copy(case.partner, path.parent)
        out = folder / ("out.txt" if case.command == "annotate" else "out")
        runs = [_run(case, _words(case, path, out), out)]
        if case.command == "report" and out.exists():
            runs.append(_checked(case, out))
            runs.append(_checked_damage(case, out))
        return runs


def _words(case: Case, path: Path, out: Path) -> list[str]:
    capture = str(path.parent if case.partner else path)
    words = {
        "info": ["info", capture],
        "pprof": ["export", capture, "--to", "pprof"],
        "perfetto": ["export", capture, "--to", "perfetto"],
        "compare": ["compare", *((capture, str(case.file))[:: 1 if case.seed % 2 else -1])],
    }.get(case.command, [case.command, capture])
    return [*words, *([] if case.command == "info" else ["-o", str(out)]), "--jobs", "1"]


def _run(case: Case, words: list[str], out: Path) -> Run:
    """One run, and what of its outcome is wrong."""
    start_s = time.process_time()
    with _grown_mib() as grown:
        code, said, told = _explane(words)
    seconds = time.process_time() - start_s
    end = _WORDS.get(code, f"exit {code}")
    wrong = _wrong_end(code, told, out) or _wrong_claim(case, code, said, out)
    if not wrong and grown[0] > MAX_GROWTH_MIB:
        wrong = "memory"
    return Run(case.command, wrong or end, seconds, grown[0], f"{told} {said}" if wrong else "")


def _explane(words: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    from explane.cli.main import main as explane

    said, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        code = explane(words)
    return code, said.getvalue(), told.getvalue()


def _wrong_end(code: int, told: str, out: Path) -> str:
    """What is wrong with the end itself; empty when nothing is."""
    if "internal error" in told or "Traceback" in told or "out of memory" in told:
        return "bug"
    left = {p.name for p in out.parent.iterdir()} - {"in", "out", "out.txt"}
    if left or (code in (1, 2) and out.exists()):
        return "half-written"
    if code in (1, 2) and len(told.splitlines()) != 1:
        return "not one line"
    return ""


def _wrong_claim(case: Case, code: int, said: str, out: Path) -> str:
    """What is wrong with a result: damage that it does not admit, or a claim of health."""
    if code == 0 and case.partner is None and is_cut(case.content):
        return "damage unsaid"
    if code not in (0, 3) or case.command != "verdict":
        return ""
    with (out / "streams.csv").open(newline="", encoding="utf-8") as file:
        streams = list(csv.DictReader(file))
    n_kernels = sum(int(s["n_kernels"]) - int(s["n_invalid"]) for s in streams)
    if n_kernels <= 0 and re.search(r"^Verdict: (?!withheld)", said, re.MULTILINE):
        return "healthy nothing"
    for stream in streams:
        parts = [int(stream[part]) for part in _PARTS]
        if sum(parts) != int(stream["span_ps"]) or min(parts) < 0:
            return "wrong sum"
    return ""


def _checked(case: Case, out: Path) -> Run:
    """The fact check of the report that was just written: nothing in it may be wrong."""
    start_s = time.process_time()
    with _grown_mib() as grown:
        code, said, told = _explane(["check", str(out)])
    end = "done" if code == 0 else "unfounded"
    told = said + told if code else ""
    return Run("check", end, time.process_time() - start_s, grown[0], told)


def _checked_damage(case: Case, out: Path) -> Run:
    """The fact check of the report with one file damaged: it finds it, or says that it can't."""
    random = Random(f"check {case.seed}")
    tables = sorted(p for p in out.rglob("*") if p.suffix in (".csv", ".json", ".md", ".html"))
    chosen = random.choice([*tables, out / "claims.json", out / "report.md", out / ".explane"])
    chosen.write_bytes(damaged_bytes(chosen.read_bytes(), random))
    start_s = time.process_time()
    with _grown_mib() as grown:
        code, said, told = _explane(["check", str(out)])
    wrong = "bug" if "internal error" in told else ""
    told = f"{chosen.relative_to(out)}: {told} {said[:300]}"
    end = wrong or _WORDS.get(code, f"exit {code}")
    return Run("check", end, time.process_time() - start_s, grown[0], told)


@contextlib.contextmanager
def _grown_mib() -> Iterator[list[float]]:
    """The peak of this process's memory inside the block, above what it held before."""
    grown = [0.0]
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status_kib("VmRSS")
    yield grown
    grown[0] = (_status_kib("VmHWM") - before) / 1024


def _status_kib(key: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]
