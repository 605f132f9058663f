"""Stages and their wall time: nesting, threads, sums in which each moment counts once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from explane import app
from explane.options import Options
from explane.progress import NULL
from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate_hosts, write_capture
from explane.timings import TimedProgress, Timing, add_beside, by_part, timings_of

PARTS = {"discover", "scan", "decode", "hlo", "attribute", "analyse", "draw", "write"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still; its only entry is the time."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def rows(found: list[Timing]) -> list[tuple[str, int, float, float]]:
    return [(one.name, one.depth, one.seconds, one.own_s) for one in found]


def test_each_moment_belongs_to_one_stage_or_to_the_rest(clock: list[float]) -> None:
    progress = TimedProgress(NULL, 98.0)
    clock[0] += 1
    with progress.stage("read: a"):
        clock[0] += 1
        for seconds in (2, 3):
            with progress.stage("decode: events"):
                clock[0] += seconds
                with progress.stage("scan: lines"):
                    clock[0] += 0.5
        clock[0] += 1
    with progress.stage("decode: events"):
        clock[0] += 4
    assert rows(progress.timings()) == [
        ("start: Python and imports", 0, 2, 2),
        ("read: a", 0, 8, 2),
        ("decode: events", 1, 6, 5),
        ("scan: lines", 2, 1, 1),
        ("decode: events", 0, 4, 4),
        ("rest: between stages", 0, 1, 1),
    ]
    sums = by_part(progress.timings())
    assert sums == {"start": 2, "read": 2, "decode": 9, "scan": 1, "rest": 1}
    assert sum(sums.values()) == clock[0] - 98


def test_running_stages_count_until_now(clock: list[float]) -> None:
    progress = TimedProgress(NULL)
    with progress.stage("write: report"):
        clock[0] += 1
        with progress.stage("draw: pictures"):
            clock[0] += 2
            assert rows(progress.timings()) == [
                ("write: report", 0, 3, 1),
                ("draw: pictures", 1, 2, 2),
                ("rest: between stages", 0, 0, 0),
            ]


def test_other_threads_and_workers_are_beside_and_in_no_sum_of_the_others(
    clock: list[float],
) -> None:
    progress = TimedProgress(NULL)

    def draw() -> None:
        with progress.stage("draw: pictures"):
            clock[0] += 3

    with progress.stage("write: report"):
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
    add_beside(progress, {"decode": 2.0})
    add_beside(progress, {"decode": 5.0})
    found = progress.timings()
    assert [one.name for one in found if one.beside] == ["draw: pictures", "decode"]
    assert by_part(found) == {"write": 3, "rest": 0}
    assert by_part(found, beside=True) == {"draw": 3, "decode": 7}


def test_a_failing_stage_ends(clock: list[float]) -> None:
    progress = TimedProgress(NULL)
    with pytest.raises(ValueError, match="broken"), progress.stage("read: a"):
        clock[0] += 1
        raise ValueError("broken")
    with progress.stage("write: b"):
        clock[0] += 1
    assert by_part(progress.timings()) == {"read": 1, "write": 1, "rest": 0}


def test_a_progress_that_keeps_no_times_has_none() -> None:
    add_beside(NULL, {"decode": 1.0})
    assert timings_of(NULL) == ()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("run")
    clocks = [HostClock("node-a"), HostClock("node-b")]
    scenario = Scenario(seed=2, n_steps=2, n_devices=8)
    for made in simulate_hosts(bundled_program("mlp4_h100"), scenario, clocks):
        write_capture(made, folder, json_cap=0, truth=False)
    yield folder


@pytest.mark.parametrize(("jobs", "beside"), [(1, set()), (2, {"scan", "decode", "hlo"})])
def test_a_report_has_every_part_and_no_long_rest(
    run: Path, tmp_path: Path, jobs: int, beside: set[str]
) -> None:
    progress = TimedProgress(NULL)
    app.report([str(run)], tmp_path / "out", Options(jobs=jobs), progress)
    found = progress.timings()
    parts, others = by_part(found), by_part(found, beside=True)
    assert parts.keys() | others.keys() >= PARTS
    assert beside <= others.keys()
    assert parts.keys() <= PARTS | {"read", "hosts", "rest"}
    assert parts["rest"] < 0.5 * sum(parts.values())


def test_claims_hold_timings_only_when_they_were_taken(run: Path, tmp_path: Path) -> None:
    capture = [str(run / "node-a.xplane.pb")]
    app.attribute(capture, tmp_path / "plain", Options(jobs=1))
    app.attribute(capture, tmp_path / "timed", Options(jobs=1), TimedProgress(NULL))
    plain, timed = (
        json.loads((tmp_path / name / "claims.json").read_text()) for name in ("plain", "timed")
    )
    assert "timings" not in plain
    names = [one["name"] for one in timed.pop("timings")]
    assert timed == plain
    assert {name.partition(":")[0] for name in names} >= PARTS - {"draw"}
    for name in ("plain", "timed"):
        assert app.check(tmp_path / name).problems == ()
