"""`explane export`: results for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explane.cli.shared import ATTRIBUTION, JOBS, REPLACE, Call, Captures, command
from explane.errors import UsageError
from explane.export.targets import By, Target, target_of

To = Annotated[
    Target | None,
    typer.Option("--to", help="Format [default: told from the ending of FILE]."),
]
Frames = Annotated[
    By, typer.Option("--by", help="pprof: frames of the Python stack, or scopes of op_name.")
]
File = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.", show_default=False)
]


@command(REPLACE, ATTRIBUTION, JOBS)
def export(
    captures: Captures, call: Call, output: File, to: To = None, by: Frames = By.STACK
) -> int:
    """Write results for other tools.

    perfetto: a trace for ui.perfetto.dev (.pftrace), with GPU streams, launches, steps, idle
    gaps and the critical path; kernels carry instruction, op_name, Python line and match class.
    pprof: GPU time by Python stack or by named scope (.pb.gz), for go tool pprof and
    speedscope.app.
    """
    from explane.app import export as use_case

    form = to or target_of(output)
    if form is None:
        reason = "its ending tells no format"
        raise UsageError(output, reason, "give --to perfetto or --to pprof", "export-format")
    options, target = call.options(), (form, by)
    return call.finish(
        call.run(lambda progress: use_case(captures, output, target, options, progress))
    )
