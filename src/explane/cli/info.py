"""`explane info`: what a capture holds."""

from __future__ import annotations

from explane.cli.shared import JOBS, OPS, Call, Captures, command


@command(OPS, JOBS)
def info(captures: Captures, call: Call) -> int:
    """Show what the files hold.

    Hosts, GPUs, streams, programs, counts, and what the reader noticed. With --ops only the GPUs'
    side is read. Without --jobs a process is started for each 50 MB at most.
    """
    from explane.contents import info as use_case

    options = call.options()
    return call.finish(call.run(lambda progress: use_case(captures, options, progress)))
