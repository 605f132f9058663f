"""`explane verdict`: what bounds the step."""

from __future__ import annotations

from explane.cli.shared import FORCE, JOBS, Call, Captures, MaybeOutput, command


@command(FORCE, JOBS)
def verdict(captures: Captures, call: Call, output: MaybeOutput = None) -> int:
    """Say what bounds the step, and why.

    Host, GPU, communication or copies; or the reason why it can't be told. Works from an
    xplane.pb or a trace.json.gz alone. Prints its figures; with -o it also writes rows.csv,
    steps.csv, streams.csv, idle.csv and skip.json.
    """
    from explane.app import verdict as use_case

    options = call.options()
    return call.finish(call.run(lambda progress: use_case(captures, output, options, progress)))
