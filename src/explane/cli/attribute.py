"""`explane attribute`: kernel to HLO instruction to Python line."""

from __future__ import annotations

from pathlib import Path

from explane.cli.shared import ATTRIBUTION, FORCE, JOBS, Call, Captures, Output, command


@command(FORCE, ATTRIBUTION, JOBS)
def attribute(captures: Captures, call: Call, output: Output = Path("attribution")) -> int:
    """Give every kernel its HLO instruction and Python line.

    Kernels of command buffers (CUDA and HIP graphs) included. Each row says how it was matched:
    exact, name, order or none.
    """
    from explane.app import attribute as use_case

    options = call.options()
    return call.finish(call.run(lambda progress: use_case(captures, output, options, progress)))
