"""Ctrl-C while several hosts are analysed: nothing half-written, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate_hosts, write_capture

Interrupted = tuple[subprocess.CompletedProcess[str], set[int]]
N_HOSTS = 6
_PATIENCE_S = 60


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six hosts, each worth a second of work at least."""
    folder = tmp_path_factory.mktemp("run") / "run"
    scenario = Scenario(n_steps=12, n_devices=N_HOSTS)
    clocks = [HostClock(f"node-{i}") for i in range(N_HOSTS)]
    for made in simulate_hosts(bundled_program("minigpt_fsdp4_h100"), scenario, clocks):
        write_capture(made, folder, json_cap=0, truth=False)
    return folder


def below(pid: int) -> set[int]:
    """Processes that a process started, and those that these started."""
    found = {pid}
    for _ in range(3):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue
                if parent in found:
                    found.add(int(entry.name))
    return found - {pid}


def interrupted(words: list[str], is_busy: Callable[[int], bool]) -> Interrupted:
    """Runs a report in a process group of its own, as a terminal does, and presses Ctrl-C."""
    command = [sys.executable, "-m", "explane", "report", *words]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    ) as process:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_busy(process.pid):
            assert process.poll() is None, "it ended before it was interrupted"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        workers = below(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        out, error = process.communicate(timeout=_PATIENCE_S)
    return subprocess.CompletedProcess(command, process.returncode, out, error), workers


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_with_processes_of_this_machine(run: Path, tmp_path: Path) -> None:
    words = [str(run), "-o", str(tmp_path / "out"), "--jobs", "2"]
    done, workers = interrupted(words, lambda pid: len(below(pid)) >= 3)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "explane: interrupted\n"
    assert list(tmp_path.iterdir()) == []
    deadline = time.monotonic() + _PATIENCE_S
    while alive(workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(workers) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_with_a_cluster_that_goes_on(run: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="explane[cluster] is not installed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def is_busy(_pid: int) -> bool:
            return any(client.processing().values())

        words = [str(run), "-o", str(tmp_path / "out"), "--dask", cluster.scheduler_address]
        done, _ = interrupted(words, is_busy)
        assert (done.returncode, done.stdout) == (130, "")
        assert done.stderr.splitlines()[-1] == "explane: interrupted"
        assert "Traceback" not in done.stderr
        assert list(tmp_path.iterdir()) == []
        assert client.submit(abs, -7).result(timeout=_PATIENCE_S) == 7, "the cluster goes on"
