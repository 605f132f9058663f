"""Times that can't be true, clocks that don't agree, and honest overlap."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.builders import gpu_plane
from tests.field.made import (
    MS,
    US,
    Job,
    analysed,
    check,
    doubts,
    row,
    rows,
    steps_of,
    total_ps,
    verdict,
)


def skip_value(found: object, metric: str) -> object:
    made = rows(found, "skip", metric=metric, scope="capture")  # type: ignore[arg-type]
    return made[0]["value"]


def test_kernels_slightly_before_their_call_keep_their_link_and_are_counted(
    tmp_path: Path,
) -> None:
    job = Job()
    for i in range(10):
        start = 1000 + 100 * i
        job.kernel("loop_fusion", start, 60, launch=start + 3 if i < 3 else start - 10)
    found = analysed(job.space(), tmp_path)
    assert check(found, "every kernel joins one launch")["holds"] == "yes"
    made = check(found, "no kernel starts before its launch call")
    assert (made["holds"], made["left"]) == ("explained", "3")
    assert skip_value(found, "n_negative_t_l") == 3
    assert all(r["call_ps"] >= 0 and r["queue_ps"] >= 0 for r in rows(found, "rows"))
    tklqt = skip_value(found, "tklqt_ps")
    assert isinstance(tklqt, int)
    assert tklqt >= 0


def test_clocks_that_disagree_for_most_kernels_withhold_the_verdict(tmp_path: Path) -> None:
    job = Job(lead=-500)
    for i in range(20):
        job.step(i, 1000 + 100 * i, 90)
        job.kernel("loop_fusion", 1000 + 100 * i, 60)
    found = analysed(job.space(), tmp_path)
    assert verdict(found)["verdict"] == "withheld"
    assert "clocks" in verdict(found)["reason"]


@pytest.mark.parametrize("n_zero", [1, 1000])
def test_kernels_dated_zero_are_left_out_and_counted(tmp_path: Path, n_zero: int) -> None:
    job = steps_of(Job())
    for _ in range(n_zero):
        job.kernel("loop_fusion", 0, 0, launch=False)
    found = analysed(job.space(), tmp_path)
    assert check(found, "device events have possible times")["left"] == str(n_zero)
    stream = row(found, "streams")
    assert stream["span_ps"] == 300 * US
    assert stream["idle_ps"] == 0
    assert f"[{n_zero}]" in doubts(found)


@pytest.mark.parametrize("duration_ps", [-1, -(10**12), 2**63 - 1])
def test_impossible_durations_are_in_no_sum(tmp_path: Path, duration_ps: int) -> None:
    job = steps_of(Job())
    job.stream(0, 7).event("loop_fusion", 1100 * US, duration_ps)
    found = analysed(job.space(), tmp_path)
    assert total_ps(found) == 300 * US
    assert row(found, "streams")["compute_ps"] == 300 * US
    for table in found.tables.values():
        for column in table.columns:
            if column in ("duration_ps", "idle_ps", "span_ps") and "time_ok" not in table.columns:
                assert table.filter(table[column] < 0).height == 0


def test_kernels_below_a_microsecond_keep_their_picoseconds(tmp_path: Path) -> None:
    job = Job()
    for i in range(1000):
        job.kernel("loop_fusion", 1000 + i, 0.300001)
    found = analysed(job.space(), tmp_path)
    assert total_ps(found) == 1000 * 300_001
    assert skip_value(found, "akd_ps") == 300_001


def test_zero_length_kernels_are_counted_and_add_nothing(tmp_path: Path) -> None:
    job = steps_of(Job())
    job.kernel("tiny_fusion", 1030, 0)
    job.kernel("tiny_fusion", 1500, 0)
    found = analysed(job.space(), tmp_path)
    assert len(rows(found, "kernels", kernel="tiny_fusion")) == 2
    stream = row(found, "streams")
    assert stream["compute_ps"] == 300 * US
    assert stream["compute_ps"] + stream["idle_ps"] == stream["span_ps"]


def test_a_capture_of_only_zero_length_kernels_is_no_crash(tmp_path: Path) -> None:
    job = Job()
    for i in range(3):
        job.kernel("tiny_fusion", 1000 + i, 0)
    found = analysed(job.space(), tmp_path)
    assert row(found, "streams")["compute_ps"] == 0
    assert verdict(found)["verdict"] == "withheld"


@pytest.mark.parametrize("n_zero", [11, 20])
def test_ends_that_were_not_recorded_are_no_idle_gpu(tmp_path: Path, n_zero: int) -> None:
    job = Job()
    for i in range(20):
        job.kernel("loop_fusion", 1000 + 10 * i, 0 if i < n_zero else 9)
    found = analysed(job.space(), tmp_path)
    assert verdict(found)["verdict"] == "withheld"
    assert f"{n_zero} of 20 GPU events have no duration" in verdict(found)["reason"]


def test_overlap_inside_one_stream_is_busy_once_and_no_damage(tmp_path: Path) -> None:
    """Programmatic dependent launch: each kernel starts 2 us before the one before it ends."""
    job = Job()
    for step in range(5):
        job.step(step, 900 + 280 * step, 280)
        for i in range(10):
            job.kernel("loop_fusion", 1000 + 280 * step + 28 * i, 30, launch=900 + 280 * step + i)
    found = analysed(job.space(), tmp_path)
    stream = row(found, "streams")
    assert stream["compute_ps"] == stream["span_ps"] == (50 * 28 + 2) * US
    assert stream["overlap_ps"] == 49 * 2 * US
    assert total_ps(found) == 50 * 30 * US
    assert verdict(found)["verdict"] == "GPU-bound"
    assert "impossible" not in doubts(found)


@pytest.mark.parametrize("at", [-40_000 * MS, 400_000 * MS])
def test_one_event_far_outside_the_session_does_not_stretch_the_window(
    tmp_path: Path, at: int
) -> None:
    job = steps_of(Job(), n_steps=20)
    base = 50_000 * MS
    for line in (*job.gpus[0].lines, *job.host.lines):
        for event in line.events:
            event.start_ps = (event.start_ps or 0) + base * US
    job.kernel("loop_fusion", base + at, 50, launch=False)
    found = analysed(job.space(), tmp_path)
    assert row(found, "streams")["span_ps"] == 20 * 60 * US
    assert check(found, "device events have possible times")["left"] == "1"


@pytest.mark.parametrize("name", ["Marker", "barrier packet", "BarrierAnd"])
def test_markers_are_no_kernels(tmp_path: Path, name: str) -> None:
    job = steps_of(Job(vendor="AMD"))
    for i in range(7):
        job.kernel(name, 2000 + 10 * i, 5, op="", launch=False)
    found = analysed(job.space(), tmp_path)
    marked = len(rows(found, "kernels")) == 10
    assert marked, {r["kernel"] for r in rows(found, "kernels")}


def test_hosts_with_different_clocks_are_never_subtracted(tmp_path: Path) -> None:
    for i, offset in enumerate((0, 3100 * MS)):
        job = Job()
        for step in range(6):
            start = 1000 + offset + step * 100 * (1 + 20e-6 * i)
            job.step(step, start - 50, 100)
            job.kernel("loop_fusion", start, 60, launch=start - 40)
            name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)"
            job.kernel(name, start + 60, 30, op="all-reduce.1", launch=start - 30)
        job.space().write(tmp_path / "run", host=f"node{i}")
    found = analysed(tmp_path / "run", tmp_path)
    for one in rows(found, "collectives"):
        assert one["wait_ps"] is None or one["wait_ps"] < 1000 * US
        assert one["start_spread_ps"] is None or one["start_spread_ps"] < 1000 * US
    spans = [r["span_ps"] for r in rows(found, "devices")]
    assert max(spans) < 1000 * US


def test_swimlanes_of_a_serial_stream_stay_serial(tmp_path: Path) -> None:
    """Lanes are drawn at device times, however late or early the calls were."""
    job = steps_of(Job())
    found = analysed(job.space(), tmp_path)
    lane = sorted(
        (r["start_ps"], r["duration_ps"]) for r in rows(found, "swimlane", lane_kind="gpu")
    )
    assert lane
    for (start, duration), (after, _) in itertools.pairwise(lane):
        assert start + duration <= after


def test_line_bases_and_offsets_are_added(tmp_path: Path) -> None:
    job = Job()
    line = job.gpus[0].line("Stream #9", line_id=9, timestamp_ns=5_000_000)
    for i in range(4):
        line.event("loop_fusion", (6000 + 100 * i) * US, 50 * US, hlo_op="loop_fusion")
    found = analysed(job.space(), tmp_path)
    assert [r["start_ps"] for r in rows(found, "kernels")] == [
        (6000 + 100 * i) * US for i in range(4)
    ]


def test_a_gpu_without_any_event_beside_others_costs_nothing(tmp_path: Path) -> None:
    job = steps_of(Job())
    job.gpus.append(gpu_plane(1))
    found = analysed(job.space(), tmp_path)
    assert [r["device"] for r in rows(found, "devices")] == [0]
    assert verdict(found)["verdict"] == "GPU-bound"
