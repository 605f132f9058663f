"""The use case of `info`: what files hold, told without numbers of any analysis.

A module of its own, so that a look into a file loads neither the analysis nor polars.
"""

from __future__ import annotations

from collections.abc import Sequence

from explane.analysis.overview import labelled_ops, overview
from explane.capture.discover import discover
from explane.capture.load import load_host
from explane.capture.options import ReadOptions
from explane.options import Options
from explane.outcome import Outcome
from explane.progress import NULL, Progress
from explane.report.overview import op_lines, overview_lines


def info(captures: Sequence[str], options: Options, progress: Progress = NULL) -> Outcome:
    """What the files hold, in counts; with `options.show_ops` the time by labelled op.

    Time by op is of the GPUs alone: then the planes of the host are not read.

    Raises:
        CaptureError: No host's capture can be used.
    """
    found = discover(captures)
    lines: list[str] = []
    partial_capture = False
    for files in found.hosts:
        with progress.stage(f"reading {files.host}"):
            wanted = ReadOptions(host_events=False, host_planes=not options.show_ops)
            record = load_host(files, wanted)
        host_read = wanted.host_planes or record.main.source == "json"
        lines += overview_lines(overview(files.host, record), host_read)
        if options.show_ops:
            lines += op_lines(labelled_ops(record.main))
        partial_capture |= record.main.partial or bool(record.xplane_problem)
    lines += [f"not used: {item.path}: {item.reason}" for item in found.ignored]
    return Outcome(tuple(lines), partial_capture)
