"""Slow GPUs told from noise, lost records and other work, on captures written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.slow_gpus import SlowGpus, find_slow_gpus
from explane.units import PS_PER_US
from tests.unit.analysis.made import K, L, capture
from tests.unit.analysis.played import labelled

US = PS_PER_US


def found(work: dict[int, list[tuple[str, float]]]) -> SlowGpus:
    """Slow GPUs among kernels given as (instruction, µs) per GPU."""
    kernels, launches, call = [], [], 0
    for device, items in work.items():
        at = 0
        for op, length in items:
            call += 1
            kernels.append(K(at * US, round(length * US), device=device, op=op, call=call))
            launches.append(L(at * US, US // 2, call))
            at += round(length) + 1
    data = capture(kernels, launches)
    return find_slow_gpus(data, labelled(data))


def test_a_gpu_that_is_slow_at_everything_is_found_with_what_others_take() -> None:
    slow = found(
        {0: [("a", 100), ("b", 40)], 1: [("a", 150), ("b", 60)], 2: [("a", 100), ("b", 40)]}
    )
    assert slow.devices == (1,)
    known = slow.usual_ratio[~np.isnan(slow.usual_ratio)]
    assert known == pytest.approx([100 / 150, 40 / 60])


def test_noise_names_nobody() -> None:
    lengths = ([100, 90, 112, 98], [104, 95, 99, 110], [93, 102, 100, 101])
    slow = found({d: [("a", x) for x in row] for d, row in enumerate(lengths)})
    assert slow.devices == ()
    assert np.isnan(slow.usual_ratio).all()


def test_a_gpu_with_more_records_is_not_slower() -> None:
    slow = found({0: [("a", 100)] * 4, 1: [("a", 100)] * 2, 2: [("a", 100)] * 3})
    assert slow.devices == ()


def test_other_work_is_no_slowness() -> None:
    slow = found({0: [("a", 100), ("b", 900)], 1: [("a", 100)]})
    assert slow.devices == ()


def test_one_gpu_has_nobody_to_be_slower_than() -> None:
    assert found({0: [("a", 100), ("a", 100)]}).devices == ()
