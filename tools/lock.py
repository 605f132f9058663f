"""Writes the lock files: exact versions with hashes, no address of any registry.

    python tools/lock.py PATH_TO_UV

`requirements-dev.lock` has the newest versions of everything that use (the extra `cluster` too),
development and the build need, for every platform and Python that the package supports.
`requirements-lowest.lock` has the lowest versions that pyproject.toml allows of what the package
itself needs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMON = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url")
FILES = {
    "requirements-dev.lock": (
        "--upgrade",
        *("--extra", "cluster"),
        *("--group", "dev"),
        *("--group", "build"),
    ),
    "requirements-lowest.lock": ("--upgrade", "--resolution", "lowest-direct"),
}
HEADER = "# Written by `make lock`: exact versions with hashes. Don't edit.\n"


def main() -> int:
    """Writes both files."""
    uv = sys.argv[1]
    for name, choices in FILES.items():
        command = [uv, "pip", "compile", "pyproject.toml", "--quiet", "--no-header"]
        command += [*COMMON, *choices]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        if "://" in done.stdout:
            raise SystemExit(f"{name}: an address has slipped in")
        (ROOT / name).write_text(HEADER + done.stdout, encoding="utf-8")
        n_packages = sum("==" in line and line[0].isalnum() for line in done.stdout.splitlines())
        print(f"{name}: {n_packages} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
