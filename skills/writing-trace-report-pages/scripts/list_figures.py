#!/usr/bin/env python3
"""Figures of an explane report that a page may quote: as printed, with label, range and query.

    python list_figures.py REPORT_DIR [WORD ...]

Words narrow the list to figures whose query or print holds all of them. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST_QUERY = 160
"""Letters of a query that are printed; claims.json has it whole."""


def figures(claims: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each claim and each row of a printed table: how to quote it, and its query."""
    lines = (line for text in claims["texts"].values() for line in text)
    printed = {name: text for _, entries in lines for text, name in entries}
    for claim in claims["claims"]:
        low, high = (printed.get(f"{claim['id']}.{part}", "") for part in ("low", "high"))
        several = f", from {low} to {high}, n = {claim['n']}" if low and high else ""
        yield f"{claim['printed']} [{claim['label']}{several}]", claim["sql"]
    for grid in claims["grids"]:
        titles = [column["title"] for column in grid["columns"]]
        for row in grid["printed"]:
            cells = (f"{title}: {cell}" for title, cell in zip(titles, row, strict=True))
            yield " | ".join(cells), grid["sql"]


def one_line(text: str, longest: int = 10_000) -> str:
    """Text without control characters and with single spaces, cut where it is longer."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def main() -> int:
    """Command line; exit code 1 when the folder is no report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("report", type=Path, metavar="REPORT_DIR")
    parser.add_argument("words", nargs="*", metavar="WORD")
    chosen = parser.parse_args()
    try:
        claims = json.loads((chosen.report / "claims.json").read_text(encoding="utf-8"))
        found = list(figures(claims))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{chosen.report}: no readable claims.json ({error})\n")
        return 1
    for text, query in found:
        if all(word.lower() in f"{text} {query}".lower() for word in chosen.words):
            print(one_line(text), "<-", one_line(query, LONGEST_QUERY))
    return 0


def piped() -> int:
    """`main`, quiet when the reader of its output goes away."""
    try:
        return main()
    except BrokenPipeError:
        sys.stdout = None  # nothing more can be written, not even at exit
        return 0


if __name__ == "__main__":
    sys.exit(piped())
