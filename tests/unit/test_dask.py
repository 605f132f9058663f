"""Hosts analysed by a dask cluster of two worker processes, one of which is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from explane import investigate
from explane.contents import info
from explane.errors import UsageError
from explane.options import Options
from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate_hosts, write_capture
from explane.workers import dask_workers, run_tasks

distributed = pytest.importorskip("distributed", reason="explane[cluster] is not installed")
N_HOSTS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers with a nanny each, which starts a killed worker again."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as made:
        yield made


def kills_its_first_worker(mark: Path, number: int) -> tuple[int, int]:
    """Number 1 kills its worker once; the others take a while, so that they are under way."""
    time.sleep(0.2)
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number, number * number


def test_a_killed_worker_loses_and_doubles_nothing(cluster: Any, tmp_path: Path) -> None:
    done: list[int] = []
    task = partial(kills_its_first_worker, tmp_path / "mark")
    workers = dask_workers(cluster.scheduler_address)
    found = run_tasks(task, range(8), workers, done.append)
    assert (tmp_path / "mark").exists(), "the worker was killed"
    assert found == [(n, n * n) for n in range(8)]
    assert sorted(done) == list(range(8))


def test_a_cluster_finds_what_this_machine_finds(cluster: Any, tmp_path: Path) -> None:
    clocks = [HostClock(f"node-{i}", offset_ps=i * 10**9) for i in range(N_HOSTS)]
    scenario = Scenario(n_steps=3, n_devices=N_HOSTS)
    for made in simulate_hosts(bundled_program("mlp4_h100"), scenario, clocks):
        write_capture(made, tmp_path, json_cap=0, truth=False)
    (tmp_path / "bad.xplane.pb").write_bytes(b"no capture")
    here = investigate(tmp_path, Options(jobs=1))
    there = investigate(tmp_path, Options(dask=cluster.scheduler_address))
    assert [host.host for host in there.hosts] == [clock.host for clock in clocks]
    assert there.sources == here.sources
    assert [source.path for source in there.sources if not source.used] == ["bad.xplane.pb"]
    assert there.tables.keys() == here.tables.keys()
    for stem, table in here.tables.items():
        assert_frame_equal(there.tables[stem], table)


def test_info_reads_on_a_cluster(cluster: Any, tmp_path: Path) -> None:
    clocks = [HostClock(name) for name in ("node-a", "node-b")]
    for made in simulate_hosts(bundled_program("ring4_h100"), Scenario(n_devices=8), clocks):
        write_capture(made, tmp_path, json_cap=0, truth=False)
    there = info([str(tmp_path)], Options(dask=cluster.scheduler_address))
    assert there == info([str(tmp_path)], Options(jobs=1))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explane.workers._CONNECT_S", 0.2)
    with pytest.raises(UsageError, match="no dask scheduler answers") as caught:
        run_tasks(abs, [1], dask_workers("tcp://127.0.0.1:9"), lambda _: None)
    assert caught.value.slug == "no-dask"
