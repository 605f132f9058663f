"""`explane annotate`: GPU time beside the program's source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explane.cli.shared import ATTRIBUTION, JOBS, REPLACE, SOURCES, Call, Captures, command

MaybeFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File to write: text if it ends in .txt, else HTML.",
    ),
]


@command(REPLACE, SOURCES, ATTRIBUTION, JOBS)
def annotate(captures: Captures, call: Call, output: MaybeFile = None) -> int:
    """Show GPU time beside the lines of your source.

    Each line has the time of its own kernels, of all kernels launched through it, and of other
    lines' kernels into which it was fused; the operations stand with it. With --source DIR the
    source is shown, else only line numbers.
    """
    from explane.app import annotate as use_case

    options = call.options()
    return call.finish(call.run(lambda progress: use_case(captures, output, options, progress)))
