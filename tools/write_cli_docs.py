"""Writes docs/cli.md from `explane COMMAND --help`, so that the page can't drift from the program.

    python tools/write_cli_docs.py

A test compares the page with `page()`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

from explane.cli.application import COMMANDS
from explane.cli.main import main as explane

CLI_PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
COLUMNS = "80"
INTRODUCTION = """# Commands

Made from `--help` by `make docs`; don't edit by hand.

CAPTURE is a file, a run folder, `plugins/profile`, a log dir, a URL, or several. Results go to
standard output, everything else to standard error. An output is written whole or not at all; a
folder that explane did not write is never replaced, and the folder of a capture is never written
to.
"""


def page() -> str:
    """The whole page."""
    sections = [_section()] + [_section(command.__name__) for command in COMMANDS]
    return "\n".join([INTRODUCTION, *sections])


def _section(*words: str) -> str:
    """A heading and the help of one command, as a terminal of fixed width shows it."""
    os.environ["COLUMNS"] = COLUMNS
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        explane([*words, "--help"])
    text = "\n".join(line.rstrip() for line in shown.getvalue().splitlines()).strip()
    return f"## {' '.join(['explane', *words])}\n\n```text\n{text}\n```\n"


def main() -> int:
    """Writes the page."""
    CLI_PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {CLI_PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
