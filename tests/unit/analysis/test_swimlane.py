"""Lanes of the median step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from explane.analysis.swimlane import LANE_COLUMNS, swimlane_table
from tests.unit.analysis.made import K, L, capture


def test_a_thread_without_a_name_has_a_lane_with_one() -> None:
    made = capture([K(10, 5, call=1)], [L(0, 3, 1)])
    nameless = replace(made, threads=tuple(replace(t, name="") for t in made.threads))
    known = {"host": "node", "start_ps": 10, "duration_ps": 5, "kernel": "k", "kind": "compute"}
    numbers = {"device": 0, "stream": 7}
    row = dict.fromkeys(LANE_COLUMNS) | known | numbers
    kernels = pl.DataFrame([row])
    table = swimlane_table(nameless, kernels, np.ones(1, bool), np.zeros(1, np.int64))
    assert table["lane"].to_list() == ["GPU 0 stream 7", "thread without a name"]
