#!/usr/bin/env python3
"""Checks that every number of a page is a figure of an explane report, or marked as one's own.

    python check_page.py REPORT_DIR PAGE [PAGE ...]

A number counts when it stands in the page as the report prints it, unit included. Left alone are
blocks that begin with `> note:`, fenced code, text in backticks, numbers of list items and links.
Exit code 1 when something is not backed. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

UNIT = r"%|[pnµm]?s|(?:[KMGT]i)?B(?:/s)?|[kMGTP]?(?:FLOP|B)(?:/s)?"
NUMBER = re.compile(rf"(?<![\w.,])((?:[<>] )?-?\d[\d,]*(?:\.\d+)?)(?:\s?({UNIT})(?![\w/]))?")
OWN = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)


def printed_values(claims: dict[str, Any]) -> set[str]:
    """Every value as the report prints it, ranges and cells of tables included."""
    values = {str(claim["printed"]) for claim in claims["claims"]}
    values |= {cell for grid in claims["grids"] for row in grid["printed"] for cell in row}
    for lines in claims["texts"].values():
        values |= {text for _, entries in lines for text, _ in entries}
    return {" ".join(value.replace("\\", "").split()) for value in values}


def loose_numbers(text: str, values: set[str]) -> Iterator[tuple[int, str]]:
    """Line and text of every number that no printed value backs."""
    text = OWN.sub(lambda found: re.sub(r"\S", " ", found.group()), text)
    in_note = False
    for number, line in enumerate(text.splitlines(), start=1):
        in_note = bool(line.strip()) and (in_note or line.strip().lower().startswith("> note:"))
        if in_note:
            continue
        for found in NUMBER.finditer(re.sub(r"^\s*\d+[.)]\s", "", line)):
            value = found[1].rstrip(",")
            whole = f"{value} {found[2]}" if found[2] else value
            if whole not in values:
                yield number, whole


def main() -> int:
    """Command line; exit code 1 when a number is not backed, 2 when files can't be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("report", type=Path, metavar="REPORT_DIR")
    parser.add_argument("pages", type=Path, nargs="+", metavar="PAGE")
    chosen = parser.parse_args()
    problems = 0
    try:
        claims = json.loads((chosen.report / "claims.json").read_text(encoding="utf-8"))
        values = printed_values(claims)
        for page in chosen.pages:
            for line, text in loose_numbers(page.read_text(encoding="utf-8"), values):
                problems += 1
                print(f"{page}, line {line}: {text!r} is no figure of {chosen.report}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"can't be read: {error}\n")
        return 2
    print(f"{problems} numbers are not backed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
