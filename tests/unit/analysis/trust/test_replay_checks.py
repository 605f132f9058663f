"""Checks of the step's graph, on tables of replays written by hand."""

from __future__ import annotations

import polars as pl
import pytest

from explane.analysis.replay.whatif import WHATIF_SCHEMA
from explane.analysis.trust.replay_checks import replay_checks

REPLAY, PATH, ALL = (
    "replay with nothing changed = median step",
    "critical path = median step",
    "replay with nothing changed = step, in every step played",
)


def whatif(*steps: tuple[int, int]) -> pl.DataFrame:
    """Steps as (measured, replayed), the median step first, each with one cause beside it."""
    rows = [
        ("node", number, cause, "", measured, replayed, measured, 0, 1)
        for number, (measured, replayed) in enumerate(steps)
        for cause in ("unchanged", "copy")
    ]
    return pl.DataFrame(rows, schema=WHATIF_SCHEMA, orient="row")


def held(
    steps: list[tuple[int, int]], path: list[int], median_ps: int | None
) -> dict[str, tuple[str, str, str]]:
    table = pl.DataFrame({"duration_ps": path}, schema={"duration_ps": pl.Int64})
    checks = replay_checks(whatif(*steps), table, median_ps)
    return {c.check: (c.holds, c.left, c.right) for c in checks}


def test_what_plays_back_and_adds_up_holds_with_both_numbers() -> None:
    found = held([(1000, 1000), (1100, 1100)], [400, 600], 1000)
    assert found == {
        REPLAY: ("yes", "1000", "1000"),
        ALL: ("yes", "2", "2"),
        PATH: ("yes", "1000", "1000"),
    }


@pytest.mark.parametrize(("replayed", "holds"), [(995, "yes"), (1005, "yes"), (994, "no")])
def test_half_a_per_cent_is_allowed(replayed: int, holds: str) -> None:
    assert held([(1000, replayed)], [1000], 1000)[REPLAY][0] == holds


def test_a_path_must_add_up_to_the_picosecond() -> None:
    assert held([(1000, 1000)], [400, 601], 1000)[PATH] == ("no", "1001", "1000")


def test_every_step_played_counts_not_only_the_median_step() -> None:
    found = held([(1000, 1000), (1100, 1000)], [1000], 1000)
    assert found[REPLAY][0] == "yes"
    assert found[ALL] == ("no", "1", "2")


def test_the_median_step_is_held_against_its_measured_length() -> None:
    assert held([(1000, 1000)], [1000], 1200)[REPLAY] == ("no", "1000", "1200")


@pytest.mark.parametrize("median_ps", [None, 1000])
def test_without_a_step_the_checks_are_not_available(median_ps: int | None) -> None:
    found = held([], [], median_ps)
    assert {name: row[0] for name, row in found.items()} == {
        REPLAY: "not available",
        PATH: "not available",
    }
