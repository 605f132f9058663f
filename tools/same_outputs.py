"""Compare what two versions of explane write for the same captures, byte by byte.

    git worktree add /tmp/before HEAD~1
    python tools/same_outputs.py /tmp/before/src src CAPTURE …

For changes that must not change a result: every CSV table, text, page and picture must be the
same. Prints what differs and ends with exit code 1. Parquet files and digests are not compared:
they hold the same values in a form that may change.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_NOT_COMPARED = {".parquet"}
_HOLD_DIGESTS = {".explane", "claims.json"}


def write(source: Path, capture: Path, out: Path) -> None:
    """Writes the report of a capture with the package in a source folder."""
    words = [sys.executable, "-m", "explane", "report", "-q", str(capture), "-o", str(out)]
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, env=environment, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{capture}: exit code {done.returncode} from {source}")


def names(folder: Path) -> set[str]:
    """The files of a report that are compared, by path inside it."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in _NOT_COMPARED and path.name not in _HOLD_DIGESTS
    }


def differences(before: Path, after: Path) -> list[str]:
    """Names of the files that are in one folder only, or not the same in both."""
    both = names(before) & names(after)
    return sorted(
        (names(before) ^ names(after))
        | {name for name in both if not filecmp.cmp(before / name, after / name, shallow=False)}
    )


def main() -> int:
    """Compares the reports of every capture; 1 when a file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("captures", nargs="+", type=Path)
    chosen = parser.parse_args()
    n_different = 0
    for capture in chosen.captures:
        with tempfile.TemporaryDirectory() as folder:
            outs = [Path(folder) / "before", Path(folder) / "after"]
            for source, out in zip((chosen.before, chosen.after), outs, strict=True):
                write(source.resolve(), capture.resolve(), out)
            found = differences(*outs)
        n_different += bool(found)
        print(f"{capture}: {', '.join(found) or 'the same'}", flush=True)
    return 1 if n_different else 0


if __name__ == "__main__":
    sys.exit(main())
