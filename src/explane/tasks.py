"""One task for each process of a run: here one after the other, or on workers.

A task is a pure function of the process's files, so it may run anywhere and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from os import cpu_count
from typing import Generic, TypeVar

from explane.capture.discover import HostFiles
from explane.errors import CaptureError
from explane.options import Options
from explane.progress import Progress
from explane.workers import Lost, Workers, dask_workers, given_workers, local_workers, run_tasks

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Task(Generic[Result]):
    """What to do with each process of a run.

    Attributes:
        here: In this process.
        there: The same on a worker, where nobody is told of stages; it must be picklable.
        worth_bytes: Bytes of files for which it pays to start a process, unless the user says how
            many; 0: each of the run's processes is worth one.
    """

    here: Callable[[HostFiles], Result]
    there: Callable[[HostFiles], Result]
    worth_bytes: int = 0


def each_host(
    hosts: Sequence[HostFiles],
    task: Task[Result],
    options: Options,
    progress: Progress,
    executor: Executor | None = None,
) -> list[Result | CaptureError]:
    """The task's result for each process, in order.

    Args:
        hosts: Files of each process.
        task: What to do.
        options: Choices; they say where tasks run.
        progress: Told what is being done.
        executor: Runs the tasks instead, and stays open.

    Returns:
        An error in place of a result where every worker that tried was killed.

    Raises:
        UsageError: The workers that the options name can't be reached.
    """
    sizes = {files.host: size_bytes(files) or 1 for files in hosts}
    workers = _workers(sum(sizes.values()), len(hosts), task.worth_bytes, options, executor)
    if workers is None:
        return [task.here(files) for files in hosts]
    places = hosts if executor is None and options.dask is None else [*map(_absolute, hosts)]
    with progress.stage("hosts: on workers", sum(sizes.values())) as stage:
        results = run_tasks(
            task.there, places, workers, lambda files: stage.advance(sizes[files.host])
        )
    return [_killed(one) if isinstance(one, Lost) else one for one in results]


def _workers(
    n_bytes: int, n_hosts: int, worth_bytes: int, options: Options, executor: Executor | None
) -> Workers | None:
    """Where the tasks run; None when it is here."""
    if executor is not None:
        return given_workers(executor)
    if options.dask is not None:
        return dask_workers(options.dask)
    jobs = options.jobs
    if jobs is None:
        jobs = cpu_count() or 1
        if worth_bytes:
            jobs = min(jobs, n_bytes // worth_bytes)
    jobs = min(jobs, n_hosts)
    return local_workers(jobs) if jobs > 1 else None


def _absolute(files: HostFiles) -> HostFiles:
    """The same files for a worker that stands in another folder."""
    if files.url:
        return files
    return replace(
        files,
        run=files.run.absolute(),
        xplane=files.xplane and files.xplane.absolute(),
        trace_json=files.trace_json and files.trace_json.absolute(),
    )


def size_bytes(files: HostFiles) -> int | None:
    """Size of the files of a process; None for remote ones, which aren't asked."""
    paths = [path for path in (files.xplane, files.trace_json) if path is not None]
    try:
        return None if files.url else sum(path.stat().st_size for path in paths)
    except OSError:
        return None


def _killed(lost: Lost[HostFiles]) -> CaptureError:
    path = lost.item.xplane or lost.item.trace_json or lost.item.run
    reason = "every process that analysed it was killed, probably for want of memory"
    return CaptureError(path, reason, "use fewer processes (--jobs)", "worker-killed")
