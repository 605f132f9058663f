"""The use case of `info`: what files hold, told without numbers of any analysis.

A module of its own, so that a look into a file loads neither the analysis nor polars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from explane.analysis.overview import labelled_ops, overview
from explane.capture.discover import HostFiles, discover
from explane.capture.load import load_host
from explane.capture.options import ReadOptions
from explane.errors import CaptureError
from explane.options import Options
from explane.outcome import Outcome
from explane.progress import NULL, Progress
from explane.report.overview import op_lines, overview_lines

if TYPE_CHECKING:
    from concurrent.futures import Executor


_WORTH_BYTES: Final = 50_000_000
"""Bytes that are read while a process starts."""


def info(
    captures: Sequence[str],
    options: Options,
    progress: Progress = NULL,
    executor: Executor | None = None,
) -> Outcome:
    """What the files hold, in counts; with `options.show_ops` the time by labelled op.

    Time by op is of the GPUs alone: then the planes of the host are not read.

    Args:
        captures: As for `investigate`.
        options: Choices.
        progress: Told what is being done.
        executor: Reads the hosts, one task each, in place of processes of this machine; it stays
            open.

    Raises:
        CaptureError: A host's capture can't be used.
        UsageError: An option or path can't be meant.
    """
    with progress.stage("discover: captures"):
        found = discover(captures)
    lines: list[str] = []
    partial_capture = False
    for told in _each(found.hosts, options, progress, executor):
        if isinstance(told, CaptureError):
            raise told
        lines += told.lines
        partial_capture |= told.partial
    lines += [f"not used: {item.path}: {item.reason}" for item in found.ignored]
    return Outcome(tuple(lines), partial_capture)


def _each(
    hosts: Sequence[HostFiles], options: Options, progress: Progress, executor: Executor | None
) -> Sequence[Outcome | CaptureError]:
    """What each host's files hold, in order."""
    here = partial(_host, options, progress)
    if len(hosts) == 1 and executor is None and options.dask is None:
        return [here(hosts[0])]
    from explane.tasks import Task, each_host  # only here: processes take time to load

    return each_host(
        hosts, Task(here, partial(_host, options, NULL), _WORTH_BYTES), options, progress, executor
    )


def _host(options: Options, progress: Progress, files: HostFiles) -> Outcome | CaptureError:
    """What one host's files hold, or why they can't be used."""
    wanted = ReadOptions(host_events=False, host_planes=not options.show_ops)
    try:
        with progress.stage(f"read: {files.host}"):
            record = load_host(files, replace(wanted, progress=progress))
    except CaptureError as error:
        return error
    host_read = wanted.host_planes or record.main.source == "json"
    lines = overview_lines(overview(files.host, record), host_read)
    if options.show_ops:
        lines += op_lines(labelled_ops(record.main))
    return Outcome(tuple(lines), record.main.partial or bool(record.xplane_problem))
