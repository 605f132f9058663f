"""Which predictions of the first capture the second one bears out.

The first report said how long a step would take without each cause. If the second capture has
(nearly) lost a cause, its step time is a test of that prediction; else the prediction was not
tested. Other things may have changed as well: how many other causes went away is said with it.

    came true               the cause is gone and the step takes what was predicted
    faster than predicted   the cause is gone and the step is shorter
    slower than predicted   the cause is gone and the step is longer
    partly tested           a part of the cause is left
    not tested              the cause is still there
    can't be told           the second capture can't show it, or ran on other GPUs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from explane.analysis.compare.measures import step_lengths
from explane.analysis.compare.steps import Side
from explane.analysis.replay.whatif import UNCHANGED

GONE_RATIO: Final = 0.2
"""A cause is gone when at most this share of its time is left, and remains above 1 minus it."""

SCHEMA: Final = {
    "rank": pl.Int64,
    "cause": pl.String,
    "what": pl.String,
    "host": pl.String,
    "a_cause_ps": pl.Int64,
    "b_cause_ps": pl.Int64,
    "left_ratio": pl.Float64,
    "a_step_ps": pl.Int64,
    "predicted_low_ps": pl.Int64,
    "predicted_high_ps": pl.Int64,
    "b_step_ps": pl.Int64,
    "b_low_ps": pl.Int64,
    "b_high_ps": pl.Int64,
    "n_others_gone": pl.Int64,
    "outcome": pl.String,
}


def prediction_table(a: Side, b: Side, same_gpus: bool) -> pl.DataFrame:
    """Table `predictions`: each piece of advice of the first capture and what became of it.

    Args:
        a: The first capture.
        b: The second.
        same_gpus: Whether both ran on the same GPUs; on others no prediction is tested.
    """
    advice = a.investigation.tables["advice"]
    lengths = step_lengths(b)["length_ps"].sort()
    if not advice.height or not len(lengths):
        return pl.DataFrame(schema=SCHEMA)
    step = (lengths[(len(lengths) - 1) // 2], lengths[0], lengths[-1])
    left = _causes_of(b) if same_gpus else None
    rows = [_row(advised, left, step) for advised in advice.iter_rows(named=True)]
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    gone = table.filter(pl.col("left_ratio") <= GONE_RATIO)["cause"].unique().to_list()
    own = pl.col("cause").is_in(gone).cast(pl.Int64)
    return table.with_columns((len(gone) - own).alias("n_others_gone")).sort("host", "rank")


def _causes_of(side: Side) -> dict[tuple[str, str], int] | None:
    """Time of each cause in the median step, the largest over the hosts; None without replays."""
    whatif = side.investigation.tables["whatif"]
    if not whatif.height:
        return None
    # The median step of a host is played first.
    median = whatif.filter(pl.col("step") == pl.col("step").first().over("host"))
    saved = pl.max_horizontal(pl.col("step_ps") - pl.col("replay_ps"), 0)
    times = median.filter(pl.col("cause") != UNCHANGED).select(
        "cause",
        "what",
        pl.when(pl.col("on_path_ps") > 0).then("on_path_ps").otherwise(saved).alias("cause_ps"),
    )
    largest = times.group_by("cause", "what").agg(pl.col("cause_ps").max())
    return {(cause, what): time_ps for cause, what, time_ps in largest.iter_rows()}


def _row(
    advised: Mapping[str, Any],
    left: dict[tuple[str, str], int] | None,
    step: tuple[int, int, int],
) -> tuple[object, ...]:
    cause, what = advised["cause"], advised["what"] or ""
    before_ps = advised["critical_path_ps"]
    after_ps = _after_ps(cause, what, before_ps, left)
    left_ratio = None if after_ps is None else after_ps / max(before_ps, 1)
    low_ps, high_ps = advised["low_ps"], advised["high_ps"]
    return (
        advised["rank"], cause, what, advised["host"], before_ps, after_ps, left_ratio,
        advised["step_ps"], low_ps, high_ps, *step, 0,
        _outcome(left_ratio, (low_ps, high_ps), (step[1], step[2])),
    )  # fmt: skip


def _after_ps(
    cause: str, what: str, before_ps: int, left: dict[tuple[str, str], int] | None
) -> int | None:
    """What is left of a cause; None when it can't be told.

    A part of a cause is named by an instruction or a host event. Another compilation gives other
    names and only the largest parts are played, so a name that is missing proves something only
    when the whole cause is small: it is the most that can be left.
    """
    if left is None or cause == "recompile":
        return None
    if (cause, what) in left:
        return left[cause, what]
    whole_ps = left.get((cause, ""), 0)
    return whole_ps if whole_ps <= GONE_RATIO * before_ps else None


def _outcome(left_ratio: float | None, predicted: tuple[int, int], seen: tuple[int, int]) -> str:
    if left_ratio is None:
        return "can't be told"
    if left_ratio > 1 - GONE_RATIO:
        return "not tested"
    if left_ratio > GONE_RATIO:
        return "partly tested"
    if seen[1] < predicted[0]:
        return "faster than predicted"
    if seen[0] > predicted[1]:
        return "slower than predicted"
    return "came true"
