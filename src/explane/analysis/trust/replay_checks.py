"""Checks of the step's graph: it plays back what was measured, and its path adds up.

An estimate is worth nothing if the replay can't even repeat the step as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from explane.analysis.replay.whatif import UNCHANGED
from explane.analysis.trust.reconcile import Check

REPLAY_TOLERANCE_RATIO: Final = 0.005
"""Most that the replay with nothing changed may differ from the measured step."""


def replay_checks(
    whatif: pl.DataFrame, path: pl.DataFrame, median_ps: int | None
) -> Iterator[Check]:
    """What the played steps must hold.

    Args:
        whatif: Replays of some steps; those with nothing changed are checked.
        path: Critical path of the median step.
        median_ps: Measured length of the median step; None without a complete step.
    """
    names = ("replay with nothing changed = median step", "critical path = median step")
    if median_ps is None or not whatif.height:
        for name in names:
            yield Check(name, "not available", "", "", "no complete step was found")
        return
    unchanged = whatif.filter(pl.col("cause") == UNCHANGED)
    first = unchanged["replay_ps"][0]
    off = abs(first - median_ps) / max(median_ps, 1)
    holds = "yes" if off <= REPLAY_TOLERANCE_RATIO else "no"
    yield Check(names[0], holds, str(first), str(median_ps), f"tolerance {_percent()} of the step")
    yield _all_steps(unchanged)
    total = int(path["duration_ps"].sum())
    holds = "yes" if total == median_ps else "no"
    yield Check(names[1], holds, str(total), str(median_ps), "sums in ps, without remainder")


def _all_steps(unchanged: pl.DataFrame) -> Check:
    """The other played steps repeat too."""
    off = (pl.col("replay_ps") - pl.col("step_ps")).abs()
    good = unchanged.filter(off <= REPLAY_TOLERANCE_RATIO * pl.col("step_ps")).height
    return Check(
        "replay with nothing changed = step, in every step played",
        "yes" if good == unchanged.height else "no",
        str(good),
        str(unchanged.height),
        f"steps within {_percent()}",
    )


def _percent() -> str:
    return f"{REPLAY_TOLERANCE_RATIO:.1%}"
