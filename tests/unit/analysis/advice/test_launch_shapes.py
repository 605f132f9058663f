"""How much of the GPU a launch can use, from its details."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explane.analysis.advice.launch_shapes import filled_ratio, occupancy_ratio
from explane.capture.model import Capture
from tests.unit.analysis.made import K, capture


def launched(*details: str, cores: int | None = 100) -> Capture:
    data = capture([K(10 * i, 5, f"k{i}", details=d) for i, d in enumerate(details)])
    stats = {"core_count": cores} if cores is not None else {}
    devices = tuple(replace(d, stats=stats) for d in data.devices)
    return replace(data, devices=devices)


def test_blocks_over_multiprocessors_at_most_one() -> None:
    data = launched(
        "regs:32 grid:25,1,1 block:128,1,1 occ_pct:50",
        " grid:10,5,2 block:256,1,1 private_mem:0 group_mem:16 occ_pct:0",
        "regs:32 grid:4096,1,1 block:128,1,1 occ_pct:12.5",
    )
    assert filled_ratio(data).tolist() == [0.25, 1.0, 1.0]


@pytest.mark.parametrize("details", ["", "kind:Unknown size:4 dest:2", "grid:0,1,1 block:1,1,1"])
def test_what_is_not_stated_is_unknown(details: str) -> None:
    data = launched(details)
    assert np.isnan(filled_ratio(data)).all()
    assert np.isnan(occupancy_ratio(data)).all()


def test_unknown_multiprocessors_make_the_ratio_unknown() -> None:
    assert np.isnan(filled_ratio(launched("grid:1,1,1", cores=None))).all()


def test_an_occupancy_of_zero_is_one_that_the_collector_does_not_know() -> None:
    data = launched("occ_pct:0", "occ_pct:12.5", "occ_pct:100")
    found = occupancy_ratio(data)
    assert np.isnan(found[0])
    assert found[1:].tolist() == [0.125, 1.0]
