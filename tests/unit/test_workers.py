from __future__ import annotations

import time
from multiprocessing import active_children

import polars as pl
import pytest

from explane.workers import worker_processes


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
