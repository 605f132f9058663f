"""GPUs that are late in one step alone, beside those that are always slow (times in µs)."""

from __future__ import annotations

import numpy as np

from explane.analysis.replay.stragglers import Stragglers, find_stragglers
from explane.units import PS_PER_US
from tests.unit.analysis.made import K, L, capture
from tests.unit.analysis.played import facts_of

US = PS_PER_US


def steps(*lengths: dict[int, list[int]], step: int) -> Stragglers:
    """Stragglers of one of several steps, each with the kernels a, b, … of every GPU."""
    kernels, launches, rows, call = [], [], {}, 0
    for number, work in enumerate(lengths):
        for device, times in work.items():
            at = 10_000 * number
            for place, lasts in enumerate(times):
                call += 1
                made = K(at * US, lasts * US, op="abcd"[place], device=device, call=call)
                rows[made.device, made.start] = number
                kernels.append(made)
                launches.append(L(at * US, US, call))
                at += lasts
    data = capture(kernels, launches)
    pairs = zip(data.kernels.device.tolist(), data.kernels.start_ps.tolist(), strict=True)
    chosen = [i for i, key in enumerate(pairs) if rows[key] == step]
    return find_stragglers(facts_of(data), np.array(chosen, np.int64))


EVEN = {0: [100, 50], 1: [100, 50], 2: [101, 50]}


def test_a_gpu_that_is_late_in_this_step_takes_as_long_as_the_others_do_here() -> None:
    # Work whose time depends on the data: once here, once there, so that nobody is always slow.
    once = {0: [100, 50], 1: [180, 50], 2: [102, 50]}
    there = {0: [180, 50], 1: [100, 50], 2: [102, 50]}
    elsewhere = {0: [100, 50], 1: [100, 50], 2: [180, 50]}
    found = steps(once, there, elsewhere, step=0)
    assert found.devices == (1,)
    assert (np.array(found.usual_ps) // US).tolist() == [101, 50]  # the median of 100 and 102
    assert steps(once, there, elsewhere, step=1).devices == (0,)


def test_a_little_later_is_noise() -> None:
    late = {0: [100, 50], 1: [104, 52], 2: [100, 50]}
    assert steps(EVEN, late, EVEN, step=1).devices == ()


def test_work_that_not_all_gpus_have_is_not_compared() -> None:
    more = {0: [100, 50], 1: [100, 50, 400], 2: [100, 50]}
    assert steps(EVEN, more, EVEN, step=1).devices == ()


def test_a_gpu_that_is_always_slow_keeps_what_is_special_of_this_run() -> None:
    def slow(first: int) -> dict[int, list[int]]:
        return {0: [100, 50], 1: [first, 75], 2: [100, 50]}

    found = steps(slow(150), slow(165), slow(135), step=1)
    assert found.devices == (1,)
    # Its mean is 150 where others take 100: two thirds of 165 and of 75.
    assert (np.array(found.usual_ps) / US).round(3).tolist() == [110, 50]
