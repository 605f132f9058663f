"""Steps whose pace the host sets (times in µs)."""

from __future__ import annotations

import numpy as np
import pytest

from explane.units import PS_PER_US
from tests.unit.analysis.made import E, K, L, capture
from tests.unit.analysis.played import play

US = PS_PER_US


def step(*events: E) -> dict[str, tuple[int, int, int]]:
    """A step of 100: calls at 10 and 14, kernels from 20 to 100; the host has more events.

    The kernels of the step before end at 0.
    """
    kernels = [
        K(20 * US, 40 * US, "a", op="a", call=1),
        K(60 * US, 40 * US, "b", op="b", call=2),
    ]
    calls = [L(10 * US, 2 * US, 1), L(14 * US, 2 * US, 2)]
    _, _, rows = play(capture(kernels, calls, events), 0, 100 * US, {"layout": np.array([1, 0.5])})
    return rows


MARKER = E(0, 100 * US, "train", step=3)
WORK = E(1 * US, 90 * US, "PjitFunction(step)")


def test_a_host_that_never_waits_and_is_late_sets_the_pace() -> None:
    rows = step(MARKER, WORK)
    assert rows["layout"][:2] == (100 * US, 100 * US)  # half of b is 20, and saves nothing


def test_waiting_is_no_work_of_the_host() -> None:
    rows = step(MARKER, WORK, E(70 * US, 20 * US, "PjRtBuffer::Await"))
    assert rows["layout"][:2] == (80 * US, 80 * US)


@pytest.mark.parametrize("length", [0, 30])
def test_a_host_of_which_little_is_recorded_may_wait_for_the_gpu(length: int) -> None:
    rows = step(MARKER, *([E(1 * US, length * US, "PjitFunction(step)")] if length else []))
    assert rows["layout"][:2] == (80 * US, 80 * US)


def test_what_the_host_itself_could_do_less_of_is_not_bounded() -> None:
    assert step(MARKER, WORK)["host_late"][0] == 80 * US
