from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import active_children
from pathlib import Path

import polars as pl
import pytest

from explane.workers import Lost, given_workers, local_workers, run_tasks, worker_processes


def total(n: int) -> int:
    return int(pl.DataFrame({"x": range(n)}).lazy().select(pl.col("x").sum()).collect().item())


def test_workers_may_use_polars_after_the_caller_has() -> None:
    """With forked workers this waits for ever: their copy of polars' threads never runs."""
    assert total(10_000) == 49_995_000
    with worker_processes(2) as pool:
        assert list(pool.map(total, [10, 20], timeout=60)) == [45, 190]


def test_an_error_in_the_caller_ends_the_workers_at_once() -> None:
    start_s = time.monotonic()
    with pytest.raises(RuntimeError, match="enough"), worker_processes(1) as pool:
        pool.submit(time.sleep, 300)
        while not active_children():
            time.sleep(0.01)
        raise RuntimeError("enough")
    assert time.monotonic() - start_s < 60
    assert active_children() == []


def dies_once(mark: Path) -> str:
    """Kills its process the first time that it is called with the path `b`."""
    if mark.name == "b" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return mark.name


def dies_always(path: Path) -> str:
    if path.name == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name


def test_what_a_killed_worker_did_is_done_again(tmp_path: Path) -> None:
    items = [tmp_path / name for name in "abc"]
    done: list[Path] = []
    assert run_tasks(dies_once, items, local_workers(2), done.append) == ["a", "b", "c"]
    assert sorted(done) == items, "each is told once"
    assert items[1].exists(), "a worker was killed"


def test_only_what_kills_every_worker_is_lost(tmp_path: Path) -> None:
    items = [tmp_path / name for name in ("one", "deadly", "two")]
    done: list[Path] = []
    found = run_tasks(dies_always, items, local_workers(2), done.append)
    assert found == ["one", Lost(items[1]), "two"]
    assert items[1] not in done


def test_any_executor_does_and_stays_open() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert run_tasks(total, [3, 4], given_workers(pool), lambda _: None) == [3, 6]
        assert pool.submit(total, 5).result() == 10


def test_other_errors_of_a_task_reach_the_caller() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(TypeError):
        run_tasks(total, ["x"], given_workers(pool), lambda _: None)  # type: ignore[arg-type]
