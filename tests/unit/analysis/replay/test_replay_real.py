"""Every step of the captures beside the repository plays back, and its path adds up to the ps."""

from __future__ import annotations

import polars as pl
import pytest

from explane.analysis.investigate import investigate_host
from explane.capture.discover import discover
from explane.capture.load import load_host
from tests.shared import SIMULATED, capture_dir, require_shared

CAPTURES = [("simulated", name) for name in SIMULATED] + [("real", "mi355x-te-attention")]


@require_shared
@pytest.mark.parametrize(("kind", "name"), CAPTURES)
def test_replay_and_path_reproduce_the_measured_step(kind: str, name: str) -> None:
    found = discover([str(capture_dir(kind, name))])
    tables = investigate_host(load_host(found.hosts[0])).tables
    unchanged = tables["whatif"].filter(pl.col("cause") == "unchanged")
    assert unchanged.height
    for step, replayed in unchanged.select("step_ps", "replay_ps").iter_rows():
        assert abs(replayed - step) <= 0.005 * step
    assert tables["critical_path"]["duration_ps"].sum() == unchanged["step_ps"][0]
    checks = dict(tables["checks"].select("check", "holds").iter_rows())
    assert checks["replay with nothing changed = median step"] == "yes"
    assert checks["critical path = median step"] == "yes"
    _savings_fit_into_the_step(tables["advice"])


def _savings_fit_into_the_step(advice: pl.DataFrame) -> None:
    """Causes taken greedily that are not marked as overlapping save no more than the step."""
    taken: list[dict[str, object]] = []
    for row in advice.filter(pl.col("cause") != "recompile").iter_rows(named=True):
        shared = row["overlaps_with"].split("; ")
        if not any(other["cause"] in shared for other in taken):
            taken.append(row)
    total = sum(int(str(row["critical_path_ps"])) for row in taken)
    assert not taken or total <= int(str(taken[0]["step_ps"]))
