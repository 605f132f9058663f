"""One run to its results: every process analysed by itself, then all of them together.

A process of the run is a task of its own, a pure function of its files, so tasks may run anywhere
and again; only what is merged afterwards knows of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final

from explane.analysis.hosts.across import compare_hosts
from explane.analysis.investigate import (
    Told,
    investigate_attribution,
    investigate_host,
    investigate_verdict,
    merge,
    no_one,
)
from explane.analysis.investigation import Investigation, SourceFile
from explane.analysis.program_facts import KnownPrograms
from explane.analysis.trust.run_notes import with_notes
from explane.capture.discover import Discovery, HostFiles
from explane.capture.hosts import HostIdentity, copies, host_notes, identify
from explane.capture.load import load_host
from explane.capture.model import HostCapture
from explane.capture.options import ReadOptions
from explane.errors import CaptureError, one_line
from explane.memory import give_back
from explane.options import Options
from explane.progress import NULL, Progress
from explane.tasks import Task, each_host, size_bytes
from explane.timings import TimedProgress, add_beside, by_part

HostAnalysis = Callable[[HostFiles, Options, Progress, KnownPrograms | None], "HostResult"]


@dataclass(frozen=True, slots=True)
class HostResult:
    """Results on one process, and what tells its capture from those of others.

    Attributes:
        investigation: The results.
        identity: What tells its capture from those of others.
        seconds: What its stages took on a worker, by the part that they belong to.
    """

    investigation: Investigation
    identity: HostIdentity
    seconds: Mapping[str, float] = field(default_factory=dict)


def full(
    files: HostFiles,
    options: Options,
    progress: Progress,
    memory: KnownPrograms | None = None,
    told: Told = no_one,
) -> HostResult:
    """All results on one process.

    Args:
        files: Its files.
        options: Choices.
        progress: Told what is being done.
        memory: Programs of the processes that this worker analysed before.
        told: Told of tables with a row per kernel as soon as they stand.

    Raises:
        CaptureError: The files can't be used.
    """
    record = _read(files, ReadOptions(short_events=False), progress)
    return HostResult(investigate_host(record, options, progress, told, memory), identify(record))


def verdict_only(
    files: HostFiles,
    _options: Options,
    progress: Progress,
    _memory: KnownPrograms | None = None,
    rows: bool = True,
) -> HostResult:
    """The verdict on one process, without its programs; with `rows` the table of that name too."""
    options = ReadOptions(short_events=False, programs=False, labels=False)
    load = _Reading(files, options, progress)
    return HostResult(investigate_verdict(load, progress, rows), load.identity)


def attribution_only(
    files: HostFiles, options: Options, progress: Progress, memory: KnownPrograms | None = None
) -> HostResult:
    """The attribution of one process; the arguments are those of `full`."""
    load = _Reading(files, ReadOptions(short_events=False), progress)
    return HostResult(investigate_attribution(load, options, progress, memory), load.identity)


class _Reading:
    """Reads a process's files when it is called, and remembers the identity of what it read."""

    def __init__(self, files: HostFiles, options: ReadOptions, progress: Progress):
        self._read = partial(_read, files, options, progress)
        self.identity: HostIdentity

    def __call__(self) -> HostCapture:
        record = self._read()
        self.identity = identify(record)
        return record


def _read(files: HostFiles, options: ReadOptions, progress: Progress) -> HostCapture:
    """A process's files, with a stage that counts their bytes."""
    with progress.stage(f"read: {files.host}", size_bytes(files)) as stage:
        record = load_host(files, replace(options, advance=stage.advance, progress=progress))
    give_back()
    return record


def investigated(
    found: Discovery,
    analysis: HostAnalysis,
    options: Options,
    progress: Progress,
    executor: Executor | None = None,
) -> Investigation:
    """Every process of a discovery analysed and merged; those that can't be used are named.

    Args:
        found: The run.
        analysis: What to do with each process.
        options: Choices; they say where the tasks run.
        progress: Told what is being done.
        executor: Runs the tasks instead, and stays open.

    Raises:
        CaptureError: No process can be used.
        UsageError: The workers that the options name can't be reached.
    """
    results: list[HostResult] = []
    failed: list[CaptureError] = []
    for result in _each_host(found.hosts, analysis, options, progress, executor):
        if isinstance(result, CaptureError):
            failed.append(result)
        else:
            results.append(result)
            add_beside(progress, result.seconds)
    if not results:
        raise failed[0]
    give_back()  # of the captures
    copied = copies([one.identity for one in results])
    kept = [one for one in results if one.identity.host not in copied]
    notes = host_notes([one.identity for one in kept])
    with progress.stage("analyse: merging"):
        merged = compare_hosts(merge([one.investigation for one in kept]))
    return replace(
        with_notes(merged, notes),
        sources=_sources(found, failed, copied),
        partial=merged.partial or bool(failed),
    )


def _each_host(
    hosts: Sequence[HostFiles],
    analysis: HostAnalysis,
    options: Options,
    progress: Progress,
    executor: Executor | None,
) -> list[HostResult | CaptureError]:
    """One result per process, in order."""
    memory = KnownPrograms() if len(hosts) > 1 else None
    task = Task(
        here=partial(_tried, analysis, options, progress, memory),
        there=partial(_in_worker, analysis, options, token_hex(8)),
    )
    return each_host(hosts, task, options, progress, executor)


_MEMORY: Final[dict[str, KnownPrograms]] = {}
"""What this worker remembers, by the run that it belongs to: one at most."""


def _in_worker(
    analysis: HostAnalysis, options: Options, run: str, files: HostFiles
) -> HostResult | CaptureError:
    """`_tried`, timed, with what this worker remembers of the run's programs."""
    if run not in _MEMORY:
        _MEMORY.clear()
    clock = TimedProgress(NULL)
    result = _tried(analysis, options, clock, _MEMORY.setdefault(run, KnownPrograms()), files)
    if isinstance(result, CaptureError):
        return result
    return replace(result, seconds=by_part(clock.timings()))


def _tried(
    analysis: HostAnalysis,
    options: Options,
    progress: Progress,
    memory: KnownPrograms | None,
    files: HostFiles,
) -> HostResult | CaptureError:
    """The result of one process, or why it can't be used."""
    try:
        return analysis(files, options, progress, memory)
    except CaptureError as error:
        return error


def _sources(
    found: Discovery, failed: Sequence[CaptureError], copied: Mapping[str, str]
) -> tuple[SourceFile, ...]:
    """Files that were used and files that were not, by name inside their run."""
    problems = {error.subject: error.reason for error in failed}
    problems |= {
        _place(
            files, path
        ): f"all its GPU events are in that of {copied[files.host]}: a copy of it"
        for files in found.hosts
        for path in (files.xplane, files.trace_json)
        if path is not None and files.host in copied
    }
    sources = []
    for files in found.hosts:
        for path in (files.xplane, files.trace_json):
            if path is not None:
                problem = problems.get(_place(files, path))
                sources.append(SourceFile(path.name, problem is None, problem or files.host))
    sources += [SourceFile(item.path.name, False, item.reason) for item in found.ignored]
    sources += [SourceFile(run.name, False, "an older run") for run in found.other_runs]
    return tuple(sources)


def _place(files: HostFiles, path: Path) -> str:
    """A file as errors name it."""
    return one_line(f"{files.url}/{path.name}" if files.url else str(path))
