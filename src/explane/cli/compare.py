"""`explane compare`: two captures of the same work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explane.cli.shared import ATTRIBUTION, FORCE, JOBS, PEAKS, Call, Output, command

Before = Annotated[
    str, typer.Argument(metavar="A", help="The capture before a change.", show_default=False)
]
After = Annotated[
    str, typer.Argument(metavar="B", help="The capture after it.", show_default=False)
]


@command(FORCE, ATTRIBUTION, PEAKS, JOBS)
def compare(before: Before, after: After, call: Call, output: Output = Path("comparison")) -> int:
    """Compare two captures of the same work.

    Steps, budgets, operations and Python lines side by side, each difference with its noise; new
    and vanished work; and which predictions made on A came true in B. Operations are matched by
    op_name, line and structure. Captures of different work are refused.
    """
    from explane.report.charts.process import converter_process

    with converter_process() as convert:
        from explane.app import compare as use_case

        options, captures = call.options(), (before, after)
        inputs = captures, output, options
        return call.finish(call.run(lambda progress: use_case(*inputs, progress, convert)))
