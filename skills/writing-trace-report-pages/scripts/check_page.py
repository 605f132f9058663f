#!/usr/bin/env python3
"""Checks that every number of a page is a figure of an explane report, or marked as one's own.

    python check_page.py REPORT_DIR PAGE [PAGE ...]

A number counts when it stands in the page as the report prints it, unit included. Left alone are
blocks that begin with `> note:`, fenced code, links and numbers of list items.
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
AMOUNT = r"(?:[<>] )?-?\d(?:[\d,]*\d)?(?:\.\d+)?"
NUMBER = re.compile(rf"(?<![\w.,])({AMOUNT})(?:\s?({UNIT})(?![\w/]))?")
OWN = re.compile(r"```.*?```|\]\([^)]*\)|https?://\S+", re.DOTALL)


def printed_values(claims: dict[str, Any]) -> dict[str, set[tuple[str, int]]]:
    """Every value as the report prints it, by each number in it with the number's place in it."""
    values = {str(claim["printed"]) for claim in claims["claims"]}
    values |= {cell for grid in claims["grids"] for row in grid["printed"] for cell in row}
    for lines in claims["texts"].values():
        values |= {text for _, entries in lines for text, _ in entries}
    places: dict[str, set[tuple[str, int]]] = {}
    for value in map(plain, values):
        for found in NUMBER.finditer(value):
            places.setdefault(found[1], set()).add((value, found.start()))
    return places


def plain(text: str) -> str:
    """Text without Markdown's escapes and code fences, with single spaces."""
    return " ".join(re.sub(r"\\(?=[^\w\s])|`", "", text).split())


def is_backed(line: str, found: re.Match[str], places: dict[str, set[tuple[str, int]]]) -> bool:
    """Whether a number, its unit included, stands inside a printed value."""
    for value, offset in places.get(found[1], ()):
        begin = found.start() - offset
        end = begin + len(value)
        if begin >= 0 and end >= found.end() and line[begin:end] == value:
            return True
    return False


def loose_numbers(text: str, places: dict[str, set[tuple[str, int]]]) -> Iterator[tuple[int, str]]:
    """Line and text of every number that no printed value backs."""
    in_note = False
    for number, line in enumerate(OWN.sub(_blank, text).splitlines(), start=1):
        in_note = bool(line.strip()) and (in_note or line.strip().lower().startswith("> note:"))
        if in_note:
            continue
        line = plain(re.sub(r"^\s*\d+[.)]\s", "", line))
        for found in NUMBER.finditer(line):
            if not is_backed(line, found, places):
                yield number, found.group().strip()


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found.group())


def main() -> int:
    """Command line; exit code 1 when a number is not backed, 2 when files can't be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("report", type=Path, metavar="REPORT_DIR")
    parser.add_argument("pages", type=Path, nargs="+", metavar="PAGE")
    chosen = parser.parse_args()
    problems = 0
    try:
        claims = json.loads((chosen.report / "claims.json").read_text(encoding="utf-8"))
        places = printed_values(claims)
        for page in chosen.pages:
            for line, text in loose_numbers(page.read_text(encoding="utf-8"), places):
                problems += 1
                print(f"{page}, line {line}: {text!r} is no figure of {chosen.report}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"can't be read: {error}\n")
        return 2
    print(f"{problems} numbers are not backed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
