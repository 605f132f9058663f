"""Jobs on several hosts, each with a clock of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explane.capture.model import Capture
from explane.capture.xplane import read_xplane
from explane.errors import UsageError
from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Causes, Scenario, Tracer
from explane.synth.simulate import SimulatedCapture, simulate, simulate_hosts, write_capture
from explane.units import PS_PER_S

CLOCKS = (HostClock("node-a"), HostClock("node-b", offset_ps=3 * PS_PER_S, drift_ppm=20))


def ends_of_collectives(
    capture: Capture, device: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    kernels = capture.kernels
    collective = [i for i, text in enumerate(capture.strings) if text.startswith("nccl")]
    rows = np.isin(kernels.name, collective) & (kernels.device == device)
    return np.sort(kernels.end_ps[rows])


def test_collectives_end_together_but_for_offset_and_drift(tmp_path: Path) -> None:
    program = bundled_program("minigpt_fsdp4_h100")
    scenario = Scenario(n_steps=3, n_devices=8, causes=Causes(readback=True))
    made = simulate_hosts(program, scenario, CLOCKS)
    first, second = (read_xplane(write_capture(c, tmp_path)) for c in made)

    assert (first.host, second.host) == ("node-a", "node-b")
    assert len(first.devices) == len(second.devices) == 4
    true = ends_of_collectives(first, 0)
    assert len(true) == 3 * 22
    assert np.array_equal(ends_of_collectives(first, 3), true)
    assert np.array_equal(ends_of_collectives(second, 1), true + 3 * PS_PER_S + true // 50_000)


def test_truth_and_step_times_are_in_the_hosts_own_clock() -> None:
    program = bundled_program("mlp4_h100")
    one, other = simulate_hosts(program, Scenario(n_devices=4), CLOCKS)
    alone = simulate(program, Scenario(n_devices=4))

    assert first_start(one) == first_start(alone)
    for capture in (one, other):
        rows = capture.truth.table()
        assert first_start(capture) == rows.filter(rows["device"] == 0)["start_ps"].min()
        assert set(rows["device"].unique()) == {0, 1}
    assert other.meta["clock_offset_ps"] == 3 * PS_PER_S


def first_start(capture: SimulatedCapture) -> int:
    """Start of the first step on the first device."""
    start: int = capture.meta["step_times"][0]["start_ps"]
    return start


def test_devices_must_spread_evenly() -> None:
    with pytest.raises(UsageError, match="can't be spread evenly"):
        simulate_hosts(bundled_program("mlp4_h100"), Scenario(n_devices=5), CLOCKS)


def test_old_collectors_keep_one_kernel_of_a_launch() -> None:
    program = bundled_program("mlp4_mi300")
    simulated = simulate(program, Scenario(n_steps=5, tracer=Tracer(one_per_launch=True)))
    rows = simulated.truth.table()
    graph = rows.filter(rows["in_graph"] == 1)

    assert graph["correlation_id"].n_unique() == graph.height == 5 * 4 * 2
    assert rows.height - graph.height == 5 * 4, "the all-reduce"
