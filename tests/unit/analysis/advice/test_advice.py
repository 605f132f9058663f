"""Ranking of causes and their ranges, on tables of replays written by hand."""

from __future__ import annotations

import polars as pl
import pytest

from explane.analysis.advice.advice import advice_table
from explane.analysis.advice.texts import CAUSE_TEXTS
from explane.analysis.replay.whatif import WHATIF_SCHEMA

STEPS = {"start_ps": [0, 1000, 2000], "end_ps": [1000, 2000, 3000], "compile_ps": [0, 0, 0]}


def steps(**changes: list[int]) -> pl.DataFrame:
    return pl.DataFrame({**STEPS, **changes}).with_columns(pl.lit(1).alias("complete"))


def whatif(*rows: tuple[int, str, str, int, int, int, int]) -> pl.DataFrame:
    full = [("node", *row, 1) for row in rows]
    return pl.DataFrame(full, schema=WHATIF_SCHEMA, orient="row")


def advice(*rows: tuple[int, str, str, int, int, int, int], **changes: list[int]) -> pl.DataFrame:
    unchanged = [(step, "unchanged", "", 1000, 1000, 1000, 0) for step in (1, 2)]
    table = whatif(*unchanged, *rows)
    return advice_table("node", table, 1, {"copy": "most in MemcpyD2D"}, steps(**changes))


def test_ranges_go_over_methods_and_steps_and_carry_the_steps_own_noise() -> None:
    table = advice(
        (1, "copy", "", 1000, 900, 880, 120),
        (2, "copy", "", 1040, 910, 890, 130),
    )
    row = table.row(0, named=True)
    assert (row["rank"], row["cause"], row["critical_path_ps"]) == (1, "copy", 120)
    assert (row["low_ps"], row["high_ps"]) == (880 - 10, 910 + 20)
    assert (row["replay_ps"], row["subtraction_ps"], row["n_steps"]) == (900, 880, 2)
    assert row["evidence"] == "most in MemcpyD2D"


def test_a_cause_that_makes_steps_differ_keeps_the_least_sharp_and_the_most_careful() -> None:
    table = advice(
        (1, "host_late", "", 1000, 400, 398, 600),
        (2, "host_late", "", 1400, 410, 408, 990),
    )
    row = table.row(0, named=True)
    assert (row["low_ps"], row["high_ps"]) == (398 - 10, 410 + 200)


LATE = [(1, "host_late", "", 1000, 400, 398, 600), (2, "host_late", "", 1400, 410, 408, 990)]
WAITS = (1, "readback", "", 1000, 500, 500, 500)


def test_a_late_host_that_waits_for_each_step_may_need_what_every_step_shows() -> None:
    table = advice(*LATE, WAITS).filter(pl.col("cause") == "host_late")
    assert table.select("low_ps", "high_ps").row(0) == (398 - 10, 410 + 600)


def test_an_event_that_could_go_is_not_needed_and_one_that_dispatches_is() -> None:
    parts = [
        (1, "host_late", "next_batch", 1000, 900, 900, 100),
        (2, "host_late", "next_batch", 1400, 1100, 1100, 300),
        (1, "host_late", "log", 1000, 960, 960, 40),
        (1, "host_late", "PjitFunction(step)", 1000, 700, 700, 300),
        (2, "host_late", "PjitFunction(step)", 1400, 750, 750, 650),
        (1, "host_late", "PjRtBuffer::Await", 1000, 950, 950, 50),
    ]
    table = advice(*LATE, *parts, WAITS).filter(pl.col("cause") == "host_late")
    high = dict(table.select("what", "high_ps").iter_rows())
    assert high == {
        "": 410 + 500,  # 600 - 100, not 990 - 300
        "next_batch": 1100 + 200,  # half of the steps' span of 400, and of the replays' all
        "log": 960,
        "PjitFunction(step)": 750 + 300,
        "PjRtBuffer::Await": 950,  # not in every step
    }
    # A host that never waits can do its work while the GPU does its own.
    hidden = advice(*LATE, *parts)
    assert hidden.filter(what="PjitFunction(step)")["high_ps"].item() == 750 + 200


def test_what_is_sure_to_save_more_comes_first_and_upper_bounds_come_last() -> None:
    table = advice(
        (1, "low_rate", "", 1000, 300, 300, 700),
        (1, "copy", "", 1000, 900, 900, 100),
        (1, "host_late", "", 1000, 700, 700, 300),
    )
    assert table["cause"].to_list() == ["host_late", "copy", "low_rate"]
    assert table["rank"].to_list() == [1, 2, 3]
    assert table.row(2, named=True)["high_ps"] == 1000


def test_causes_below_the_floor_are_not_ranked() -> None:
    assert advice((1, "copy", "", 1000, 998, 998, 2)).height == 0


def test_overlaps_name_only_causes_that_are_there() -> None:
    table = advice(
        (1, "host_late", "", 1000, 700, 700, 300),
        (1, "host_late", "next_batch", 1000, 750, 750, 250),
        (1, "tiny_kernels", "", 1000, 900, 900, 100),
    )
    told = dict(table.select("what", "overlaps_with").filter(pl.col("what") != "").rows())
    assert told == {"next_batch": "host_late; tiny_kernels"}
    assert table.row(0, named=True)["overlaps_with"] == "host_late; tiny_kernels"


def test_a_lone_collective_keeps_its_rank_but_its_gain_is_open() -> None:
    table = advice(
        (1, "exposed_collective", "", 1000, 800, 800, 200),
        (1, "copy", "", 1000, 900, 900, 100),
    )
    first = table.row(0, named=True)
    assert (first["cause"], first["low_ps"], first["high_ps"]) == ("exposed_collective", 800, 1000)
    several = advice(
        (1, "exposed_collective", "", 1000, 800, 800, 200),
        (1, "exposed_collective", "all-reduce", 1000, 900, 900, 150),
    )
    assert several["high_ps"].to_list() == [800, 900]


def test_compilation_in_steps_is_held_against_steps_without() -> None:
    table = advice(compile_ps=[800, 0, 0], end_ps=[5000, 2000, 3000])
    row = table.row(0, named=True)
    assert row["cause"] == "recompile"
    assert (row["step_ps"], row["low_ps"], row["high_ps"]) == (5000, 1000, 1000)
    assert row["critical_path_ps"] == 4000


@pytest.mark.parametrize("cause", sorted(CAUSE_TEXTS))
def test_every_cause_says_what_it_assumes_what_to_try_and_what_would_prove_it(cause: str) -> None:
    text = CAUSE_TEXTS[cause]
    assert text.assumption and text.knob and text.proof
    assert set(text.overlaps) <= set(CAUSE_TEXTS)
    # Flags are added to the user's own, in a form that a shell passes unchanged.
    assert text.knob.count("XLA_FLAGS=") == text.knob.count('XLA_FLAGS="$XLA_FLAGS --xla_gpu')
