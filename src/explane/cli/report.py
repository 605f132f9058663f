"""`explane report`: the main job, from a capture to a report."""

from __future__ import annotations

from pathlib import Path

from explane.cli.shared import (
    ATTRIBUTION,
    FORCE,
    JOBS,
    PEAKS,
    SOURCES,
    Call,
    Captures,
    Output,
    command,
)


@command(FORCE, ATTRIBUTION, PEAKS, SOURCES, JOBS)
def report(captures: Captures, call: Call, output: Output = Path("explane-report")) -> int:
    """Write a report: what to change, and what this trace can't tell.

    Reads the capture, never writes into its folder, and sends nothing anywhere.
    """
    from explane.report.charts.process import converter_process

    with converter_process() as convert:
        from explane.app import report as use_case

        options = call.options()
        inputs = captures, output, options
        return call.finish(call.run(lambda progress: use_case(*inputs, progress, convert)))
