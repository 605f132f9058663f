#!/usr/bin/env python3
"""Every kernel of a capture with its HLO instruction and Python line, in ./attribution/.

    python attribute_kernels.py CAPTURE_DIR [--program ID] [--user-re REGEX]

Runs `explane attribute` with the explane of this Python, else with the one on the PATH. An
attribution that explane wrote there before is replaced; a folder of any other origin never is.
Exit codes are explane's: 0 done, 1 the data can't be used, 2 wrong call, 3 parts were withheld.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

OUTPUT = Path("attribution")


def explane() -> list[str]:
    """The command that runs explane; empty when it is not installed."""
    if importlib.util.find_spec("explane") is not None:
        return [sys.executable, "-m", "explane"]
    found = shutil.which("explane")
    return [found] if found else []


def main() -> int:
    """Command line; returns explane's exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("capture", metavar="CAPTURE_DIR")
    parser.add_argument("--program", metavar="ID", type=int, action="append", default=[])
    parser.add_argument("--user-re", metavar="REGEX")
    chosen = parser.parse_args()
    command = explane()
    if not command:
        sys.stderr.write("explane is not installed: pip install explane\n")
        return 2
    options = [f"--program={program}" for program in chosen.program]
    options += [f"--user-re={chosen.user_re}"] if chosen.user_re is not None else []
    options += ["--force"] if OUTPUT.exists() else []
    call = [*command, "attribute", *options, "-o", str(OUTPUT), "--", chosen.capture]
    return subprocess.run(call, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
