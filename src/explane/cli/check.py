"""`explane check`: the fact check of a written report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explane.cli.output import show_lines
from explane.cli.shared import Call, command
from explane.errors import EXIT_DATA, EXIT_OK

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that explane report wrote.")]


@command()
def check(folder: Folder, call: Call) -> int:
    """Check every number of a written report.

    Each must belong to a claim, and each claim is computed again from the written tables. Exit
    code 1 when a number is unbacked, edited or different.
    """
    from explane.app import check as use_case

    result = call.run(lambda _progress: use_case(folder))
    show_lines(result.problems)
    n_problems = len(result.problems)
    ending = "" if n_problems == 1 else "s"
    show_lines([f"{result.n_claims} claims recomputed, {n_problems} problem{ending}"])
    return EXIT_DATA if n_problems else EXIT_OK
