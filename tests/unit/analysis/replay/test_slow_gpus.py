"""Slow GPUs told from noise, lost records and other work, on captures written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.replay.slow_gpus import SlowGpus, find_slow_gpus
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


def noisy(factor: dict[str, float], seed: int) -> SlowGpus:
    """Six instructions of 100 µs on three GPUs with 3 % noise, eight times; GPU 1 is slower."""
    random = np.random.default_rng(seed)
    work = {
        device: [
            (op, 100 * float(np.exp(random.normal(0, 0.03))) * (scale if device == 1 else 1.0))
            for _ in range(8)
            for op, scale in factor.items()
        ]
        for device in (0, 1, 2)
    }
    return found(work)


@pytest.mark.parametrize("seed", range(4))
def test_a_gpu_that_is_slower_at_everything_alike_has_one_ratio(seed: int) -> None:
    slow = noisy(dict.fromkeys("abcdef", 1.2), seed)
    known = slow.usual_ratio[~np.isnan(slow.usual_ratio)]
    assert len(set(known.tolist())) == 1
    # Noise of 3 % over 48 and 96 kernels: half a per cent, where one instruction has 1.3 %.
    assert known[0] == pytest.approx(1 / 1.2, rel=0.015)


def test_a_gpu_that_is_slower_at_some_work_keeps_a_ratio_for_each() -> None:
    slow = noisy({**dict.fromkeys("abcde", 1.0), "f": 2.0}, 0)
    known = np.unique(slow.usual_ratio[~np.isnan(slow.usual_ratio)])
    assert len(known) == 6
    assert known[0] == pytest.approx(0.5, rel=0.05)
    assert known[1:] == pytest.approx(1.0, rel=0.05)


def test_copies_that_run_as_kernels_count() -> None:
    kernels, launches = [], []
    for device, length in enumerate((100, 150, 100)):
        name, op = "__amd_rocclr_copyBuffer.kd", "copy.1"
        kernels.append(K(0, length * US, name, device=device, op=op, call=device + 1))
        launches.append(L(0, US // 2, device + 1))
    data = capture(kernels, launches)
    assert find_slow_gpus(data, labelled(data)).devices == (1,)
