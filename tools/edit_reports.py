"""Whether the fact check catches edits: single digits of written reports are changed at random.

A report is written for each capture and must pass. Then, again and again, one digit anywhere in
one of its files is changed to another; each must be named as a problem, and the report pass again
once it is put back. Half of the edits are made in the texts, half in the tables. Prints a Markdown
table, and the edits that were missed:

    python tools/edit_reports.py CAPTURE... [--edits N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from explane.app import report
from explane.options import Options
from explane.report import claims_file
from explane.report.factcheck.check import check_report, problems_of

DIGITS = [b"%d" % digit for digit in range(10)]
TEXTS = ("report.md", "summary.txt", "report.html")


@dataclass(frozen=True)
class Edit:
    """One digit of a file, and what it becomes."""

    file: Path
    position: int
    digit: bytes

    @property
    def kind(self) -> str:
        """The text's name, or `tables`."""
        return self.file.name if self.file.name in TEXTS else "tables"

    def applied(self, content: bytes) -> bytes:
        """The content with the digit changed."""
        return content[: self.position] + self.digit + content[self.position + 1 :]


def edits(folder: Path, n: int, seed: int) -> Iterator[Edit]:
    """Random edits, half of them in the texts and half in the tables.

    Args:
        folder: A written report.
        n: How many.
        seed: Seed.
    """
    draw = random.Random(seed)
    tables = sorted([*folder.glob("tables/*.csv"), *folder.glob("attribution/*.csv")])
    texts = [folder / name for name in TEXTS]
    digits = {f: [m.start() for m in re.finditer(rb"\d", f.read_bytes())] for f in texts + tables}
    full = [f for f in tables if digits[f]]
    for i in range(n):
        file = texts[(i // 2) % len(texts)] if i % 2 == 0 else draw.choice(full)
        position = draw.choice(digits[file])
        old = file.read_bytes()[position : position + 1]
        yield Edit(file, position, draw.choice([d for d in DIGITS if d != old]))


def caught(folder: Path, edit: Edit) -> bool:
    """Whether the check names a problem while the edit stands; the file is put back."""
    content = edit.file.read_bytes()
    edit.file.write_bytes(edit.applied(content))
    try:
        return next(problems_of(folder, claims_file.read(folder)), None) is not None
    finally:
        edit.file.write_bytes(content)


def main() -> int:
    """Writes, edits and checks the reports; 1 when an edit was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    made: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for capture in options.captures:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "report"
            report([capture], folder, Options())
            fresh = check_report(folder)
            if fresh.problems:
                print(f"{capture}: a fresh report does not pass: {fresh.problems[0]}")
                return 1
            for edit in edits(folder, options.edits, options.seed):
                made[edit.kind] += 1
                found[edit.kind] += caught(folder, edit)
            if check_report(folder).problems:
                print(f"{capture}: the report was not put back")
                return 1
    print("| edited | edits | caught |\n| --- | ---: | ---: |")
    for kind in (*TEXTS, "tables"):
        print(f"| {kind} | {made[kind]} | {found[kind]} |")
    return int(made != found)


if __name__ == "__main__":
    raise SystemExit(main())
