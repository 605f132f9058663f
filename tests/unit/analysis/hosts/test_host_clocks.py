"""Clocks of processes: lines through marks whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.hosts.clocks import Clock, align_clocks
from explane.analysis.hosts.marks import AllMarks, Marks
from explane.analysis.hosts.waits import host_operations, host_stragglers
from explane.units import PS_PER_MS, PS_PER_S, PS_PER_US

N_STEPS, N_SLOTS = 40, 5
LENGTH_PS = 2 * PS_PER_MS
SLOTS = tuple(("program", f"all-reduce.{i}", 0) for i in range(N_SLOTS))
Random = np.random.Generator


def true_ends(random: Random, uneven_ps: int = 300 * PS_PER_US) -> np.ndarray:
    """Ends of five collectives per step of some 50 ms, in true time."""
    steps = np.cumsum(50 * PS_PER_MS + random.integers(0, uneven_ps + 1, N_STEPS))
    return steps[:, None] + np.arange(N_SLOTS) * 4 * PS_PER_MS


def marks(
    host: str, ends: np.ndarray, *, first: int = 0, counted: bool = True, late_ps: int = 0
) -> Marks:
    """A process with these ends in its own clock; each collective lasts 2 ms less the delay."""
    whole = ends.astype(np.float64)
    start = whole - LENGTH_PS + late_ps
    return Marks(host, first, counted, whole, start, np.full(ends.shape, 3))


def in_clock(ends: np.ndarray, offset_ps: int, drift_ppm: float) -> np.ndarray:
    return ends + offset_ps + np.round(ends * drift_ppm / 1e6).astype(np.int64)


def aligned(*hosts: Marks) -> list[Clock]:
    return align_clocks(AllMarks(hosts, SLOTS))


def noise(random: Random, scale_ps: int = 3 * PS_PER_US) -> np.ndarray:
    return np.round(random.normal(0, scale_ps, (N_STEPS, N_SLOTS))).astype(np.int64)


@pytest.mark.parametrize(
    ("offset_ps", "drift_ppm"), [(3_100 * PS_PER_MS, 20.0), (-7 * PS_PER_S, -45.0), (0, 0.0)]
)
def test_offset_and_drift_come_back_within_the_residual(offset_ps: int, drift_ppm: float) -> None:
    random = np.random.default_rng(1)
    ends = true_ends(random)
    theirs = in_clock(ends, offset_ps, drift_ppm) + noise(random)
    reference, other = aligned(marks("a", ends), marks("b", theirs))

    assert (reference.reference, reference.aligned, reference.offset_ps) == ("a", True, 0)
    assert other.aligned
    assert 1 * PS_PER_US < other.residual_ps < 4 * PS_PER_US, "two thirds of the noise's sigma"
    assert other.drift_ppm == pytest.approx(drift_ppm, abs=4 * other.drift_error_ppm)
    back = other.to_reference(in_clock(ends, offset_ps, drift_ppm).astype(np.float64))
    assert np.abs(back - ends).max() < other.residual_ps


def test_collectives_inside_a_process_are_no_marks() -> None:
    random = np.random.default_rng(2)
    ends = true_ends(random)
    theirs = in_clock(ends, PS_PER_S, 10.0) + noise(random)
    theirs[:, 1] += random.integers(-900, 900, N_STEPS) * PS_PER_US
    theirs[:, 3] += random.integers(-900, 900, N_STEPS) * PS_PER_US
    clock = aligned(marks("a", ends), marks("b", theirs))[1]
    assert clock.slots is not None
    assert clock.slots.tolist() == [True, False, True, False, True]
    assert clock.offset_ps - PS_PER_S == pytest.approx(ends[0, 0] // 100_000, abs=5 * PS_PER_US)


def test_lost_and_odd_marks_change_nothing() -> None:
    random = np.random.default_rng(3)
    ends = true_ends(random)
    theirs = marks("b", in_clock(ends, PS_PER_S, 5.0) + noise(random))
    plain = aligned(marks("a", ends), theirs)[1]
    theirs.end_ps[random.random(theirs.end_ps.shape) < 0.3] = np.nan
    theirs.end_ps[7, 2] += 40 * PS_PER_MS
    clock = aligned(marks("a", ends), theirs)[1]
    assert clock.n_marks < 0.75 * plain.n_marks
    assert abs(clock.offset_ps - plain.offset_ps) < 3 * PS_PER_US


@pytest.mark.parametrize("shift", [-4, 0, 9])
def test_steps_without_numbers_are_shifted_until_they_fit(shift: int) -> None:
    random = np.random.default_rng(4)
    ends = true_ends(random)
    later = in_clock(ends, PS_PER_S, 0.0) + noise(random)
    own = marks("b", later[4:], first=4 + shift, counted=False)
    clock = aligned(marks("a", ends), own)[1]
    assert (clock.aligned, clock.shift) == (True, shift)
    assert abs(clock.offset_ps - PS_PER_S) < 3 * PS_PER_US


def test_even_steps_without_numbers_stay_apart() -> None:
    """Steps of equal length fit whichever way they are shifted."""
    ends = true_ends(np.random.default_rng(5), uneven_ps=0)
    own = marks("b", ends + PS_PER_S, counted=False)
    clock = aligned(marks("a", ends), own)[1]
    assert not clock.aligned
    assert "equally well" in clock.note


def test_processes_that_do_not_wait_for_each_other_stay_apart() -> None:
    random = np.random.default_rng(6)
    one, other = true_ends(random, 9 * PS_PER_MS), true_ends(random, 9 * PS_PER_MS)
    clock = aligned(marks("a", one), marks("b", other))[1]
    assert not clock.aligned
    assert "don't wait for each other" in clock.note


def test_a_single_collective_is_too_few() -> None:
    ends = true_ends(np.random.default_rng(7))
    few = marks("b", ends[:1] + PS_PER_S)
    few.end_ps[0, 2:] = np.nan
    clock = aligned(marks("a", ends), few)[1]
    assert not clock.aligned
    assert clock.note == "too few collectives that both have"


def test_the_last_process_to_join_is_late_by_more_than_the_clocks_are_off() -> None:
    random = np.random.default_rng(8)
    ends = true_ends(random)
    hosts = (
        marks("a", ends),
        marks("b", in_clock(ends, PS_PER_S, 10.0) + noise(random), late_ps=500 * PS_PER_US),
        marks("c", in_clock(ends, -PS_PER_S, -10.0) + noise(random), late_ps=200 * PS_PER_US),
    )
    every = AllMarks(hosts, SLOTS)
    operations = host_operations(every, align_clocks(every))
    assert operations.height == N_STEPS * N_SLOTS
    assert set(operations["late_host"].unique()) == {"b"}
    assert operations["late_by_ps"].median() == pytest.approx(300 * PS_PER_US, rel=0.02)
    assert operations["caused_wait_ps"].median() == pytest.approx(800 * PS_PER_US, rel=0.02)
    row = host_stragglers(operations).row(0, named=True)
    assert (row["host"], row["device"], row["n_operations"]) == ("b", 3, operations.height)


def test_nobody_is_late_within_the_error_of_the_clocks() -> None:
    random = np.random.default_rng(9)
    ends = true_ends(random)
    hosts = (
        marks("a", ends),
        marks("b", ends + noise(random), late_ps=PS_PER_US // 2),
    )
    every = AllMarks(hosts, SLOTS)
    operations = host_operations(every, align_clocks(every))
    known = operations["late_host"].is_not_null()
    late = operations["late_by_ps"]
    residual = align_clocks(every)[1].residual_ps
    assert known.to_list() == (late > residual).to_list()
    assert 0 < known.sum() < operations.height
