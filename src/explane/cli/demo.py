"""`explane demo`: a report of a simulated capture."""

from __future__ import annotations

from pathlib import Path

from explane.cli.shared import FORCE, Call, Output, command


@command(FORCE)
def demo(call: Call, output: Output = Path("demo-report")) -> int:
    """Write the report of a simulated capture.

    A small GPT on 4 GPUs with command buffers, simulated; the report says so.
    """
    from explane.report.charts.process import converter_process

    with converter_process() as convert:
        from explane.app import demo as use_case

        options = call.options()
        return call.finish(call.run(lambda progress: use_case(output, options, progress, convert)))
