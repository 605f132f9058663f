"""Workers for independent tasks: processes of this machine, dask's, or any executor.

A task is a pure function of its item, so a task whose worker died is done again, and nothing is
lost or doubled by that.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context, resource_tracker
from typing import Any, Final, Generic, TypeVar

from explane.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")
Opened = AbstractContextManager[Executor]

_EXTRA: Final = "install explane[cluster]"
_CONNECT_S: Final = 30


@dataclass(frozen=True, slots=True)
class Lost(Generic[Item]):
    """In place of a result: every worker that tried this item died."""

    item: Item


@dataclass(frozen=True, slots=True)
class Workers:
    """Where tasks run.

    Attributes:
        open: Opens an executor for the number of tasks that are left.
        restarts: How often tasks that a death left undone are given to a new executor; the last
            time one by one, so that only the deadly ones are lost.
        deaths: Errors that mean the death of a worker.
    """

    open: Callable[[int], Opened]
    restarts: int = 0
    deaths: tuple[type[Exception], ...] = (BrokenExecutor,)


def local_workers(n_processes: int) -> Workers:
    """Fresh processes of this machine."""
    return Workers(lambda n_left: worker_processes(min(n_processes, n_left)), restarts=2)


def given_workers(executor: Executor) -> Workers:
    """An executor of the caller's, which is left open."""

    @contextmanager
    def lend(_n_left: int) -> Iterator[Executor]:
        yield executor

    return Workers(lend)


def dask_workers(address: str) -> Workers:
    """Workers of a dask cluster, which gives the tasks of a dead worker to others itself.

    Args:
        address: Of its scheduler, such as `tcp://10.0.0.5:8786`.

    Raises:
        UsageError: dask is not installed.
    """
    try:
        from distributed import KilledWorker
    except ImportError:
        reason = "dask.distributed is not installed"
        raise UsageError("--dask", reason, _EXTRA, "no-dask") from None
    return Workers(partial(_dask_executor, address), deaths=(KilledWorker,))


@contextmanager
def _dask_executor(address: str, _n_left: int) -> Iterator[Executor]:
    from distributed import Client

    try:
        client: Any = Client(address, timeout=_CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(address, f"no dask scheduler answers: {text}", "", "no-dask") from None
    with client, client.get_executor(pure=False) as executor:
        yield executor


def run_tasks(
    task: Callable[[Item], Result],
    items: Sequence[Item],
    workers: Workers,
    done: Callable[[Item], None],
) -> list[Result | Lost[Item]]:
    """The result of each item, in order.

    Args:
        task: A pure function; it and its items must be picklable.
        items: What to do.
        workers: Where.
        done: Called for each item that is finished, in the order in which they finish.
    """
    found: dict[int, Result | Lost[Item]] = {}
    for attempt in range(workers.restarts + 1):
        left = [i for i in range(len(items)) if i not in found]
        alone = attempt > 0 and attempt == workers.restarts
        for group in [[i] for i in left] if alone else [left] if left else []:
            _run_once(task, {i: items[i] for i in group}, workers, found, done)
    return [found.get(i, Lost(item)) for i, item in enumerate(items)]


def _run_once(
    task: Callable[[Item], Result],
    items: dict[int, Item],
    workers: Workers,
    found: dict[int, Result | Lost[Item]],
    done: Callable[[Item], None],
) -> None:
    """Gives items to one executor and keeps the results that come."""
    with workers.open(len(items)) as pool:
        futures = {}
        try:
            for number, item in items.items():
                futures[pool.submit(task, item)] = number
            for future in as_completed(futures):
                number = futures.pop(future)
                try:
                    found[number] = future.result()
                except workers.deaths:
                    continue
                done(items[number])
        except workers.deaths:
            return
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def worker_processes(n_processes: int) -> Iterator[Executor]:
    """An executor of fresh processes; on an error or a signal in the caller they are ended.

    The processes are spawned, not forked: polars has threads, and a fork of a process with
    threads can wait for ever for a lock that one of them held.
    """
    others = set(active_children())
    context = get_context("spawn")
    with ProcessPoolExecutor(n_processes, context, initializer=_end_at_once) as pool:
        try:
            with _interrupts_held():
                for _ in range(n_processes):  # each starts a process, as long as none is idle
                    pool.submit(_nothing)
            yield pool
        except BaseException:
            for process in set(active_children()) - others:
                process.terminate()
            raise


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits meanwhile; processes that are started hold it until they can end quietly."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing() -> None:
    """A task that is done at once."""


def _end_at_once() -> None:
    """Ctrl-C reaches every process of the terminal: workers end without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
