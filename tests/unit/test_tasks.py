"""Tasks on the processes of a run: `info` here, on workers and on a given executor."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from explane import contents, tasks
from explane.contents import info
from explane.errors import CaptureError
from explane.options import Options
from explane.outcome import Outcome
from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate_hosts, write_capture
from explane.workers import Workers, local_workers

HOSTS = ("node-a", "node-b", "node-c")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three processes of four GPUs."""
    folder = tmp_path_factory.mktemp("run")
    scenario = Scenario(seed=2, n_steps=2, n_devices=4 * len(HOSTS))
    clocks = [HostClock(name) for name in HOSTS]
    for made in simulate_hosts(bundled_program("mlp4_h100"), scenario, clocks):
        write_capture(made, folder, json_cap=0, truth=False)
    return folder


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many processes were asked for, each time that some were."""
    asked: list[int] = []

    def counted(n_processes: int) -> Workers:
        asked.append(n_processes)
        return local_workers(n_processes)

    monkeypatch.setattr(tasks, "local_workers", counted)
    return asked


def told(run: Path, executor: Executor | None = None, *, jobs: int | None = 1) -> Outcome:
    return info([str(run)], Options(jobs=jobs, show_ops=True), executor=executor)


def test_info_is_the_same_wherever_it_is_read(run: Path, started: list[int]) -> None:
    here = told(run)
    assert started == []
    assert sum(name in line for line in here.lines for name in HOSTS) >= len(HOSTS)
    assert told(run, jobs=2) == here
    assert started == [2]


class Counted(ThreadPoolExecutor):
    """An executor that counts its tasks."""

    n_tasks = 0

    def submit(self, *args, **more):  # type: ignore[no-untyped-def]
        self.n_tasks += 1
        return super().submit(*args, **more)


def test_info_reads_on_the_executor_that_it_is_given(run: Path, started: list[int]) -> None:
    with Counted(2) as executor:
        assert told(run, executor) == told(run)
        assert told(run / "node-a.xplane.pb", executor) == told(run / "node-a.xplane.pb")
    assert executor.n_tasks == len(HOSTS) + 1
    assert started == []


def test_info_starts_no_process_for_less_than_it_takes_to_start(
    run: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "cpu_count", lambda: 2)
    here = told(run, jobs=None)
    assert started == []
    monkeypatch.setattr(contents, "_WORTH_BYTES", 1000)
    assert told(run, jobs=None) == here
    assert started == [2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_info_names_the_first_host_that_cannot_be_used(tmp_path: Path, jobs: int) -> None:
    for name in HOSTS:
        (tmp_path / f"{name}.xplane.pb").write_bytes(b"\x0a\x03ab" if name != "node-a" else b"")
    with pytest.raises(CaptureError) as here:
        told(tmp_path)
    with pytest.raises(CaptureError, match="node-") as caught:
        told(tmp_path, jobs=jobs)
    assert str(caught.value) == str(here.value)
