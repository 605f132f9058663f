"""Critical path and what-if replays of a few whole steps, the median step among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.replay.critical_path import PATH_SCHEMA, kernels_on_path, path_table
from explane.analysis.replay.device import Shares
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.whatif import (
    WHATIF_SCHEMA,
    PlayedStep,
    StepWindow,
    play_step,
    whatif_table,
)
from explane.analysis.steps.steps import Steps
from explane.capture.model import Bools

_MOST_STEPS: Final = 6
_MOST_KERNELS: Final = 200_000
"""Kernels in all played steps together: enough for ranges, and seconds at most."""


@dataclass(frozen=True, slots=True)
class Play:
    """What playing some steps gave.

    Attributes:
        median: The median step, or None without a complete one.
        in_median: Kernels of the median step; shape (n_kernels,).
        on_path: Kernels on its critical path.
        path: `critical_path.csv`.
        whatif: `whatif.csv`.
    """

    median: PlayedStep | None
    in_median: Bools
    on_path: Bools
    path: pl.DataFrame
    whatif: pl.DataFrame


def play_steps(
    facts: StepFacts, steps: Steps, kernels: pl.DataFrame, groups: Mapping[str, Shares]
) -> Play:
    """Play the median step and a few others.

    Args:
        facts: The capture and what is known of it.
        steps: Its steps.
        kernels: Its kernel table.
        groups: Groups of kernels to shorten, by cause.
    """
    host, n = facts.capture.host, len(facts.capture.kernels)
    windows = _windows(steps)
    if not windows:
        none = np.zeros(n, bool)
        empty = pl.DataFrame(schema=PATH_SCHEMA), pl.DataFrame(schema=WHATIF_SCHEMA)
        return Play(None, none, none, *empty)
    played = tuple(play_step(facts, window, groups) for window in windows)
    median = played[0]
    in_median = np.zeros(n, bool)
    in_median[median.window.rows] = True
    path = path_table(host, median.window.number, facts, median.graph, median.pieces, kernels)
    return Play(
        median=median,
        in_median=in_median,
        on_path=kernels_on_path(median.pieces, n),
        path=path,
        whatif=whatif_table(host, played),
    )


def _windows(steps: Steps) -> list[StepWindow]:
    """The median step first, then others evenly over the capture, all complete on every GPU."""
    if steps.median_row < 0:
        return []
    median = int(steps.index[steps.median_row])
    others = np.setdiff1d(steps.index[steps.complete], steps.index[~steps.complete])
    others = others[others != median].tolist()
    n_kernels = max(int((steps.kernel_index == median).sum()), 1)
    wanted = min(_MOST_STEPS - 1, max(_MOST_KERNELS // n_kernels - 1, 0), len(others))
    places = np.linspace(0, len(others) - 1, wanted).round().astype(np.int64).tolist()
    chosen = [median, *(others[place] for place in dict.fromkeys(places))]
    return [_window(steps, index) for index in chosen]


def _window(steps: Steps, index: int) -> StepWindow:
    """The step on the GPU that ends it last: its period there is the step's length."""
    rows = np.flatnonzero(steps.index == index)
    last = int(rows[np.argmax(steps.end_ps[rows])])
    if index == steps.index[steps.median_row]:
        last = steps.median_row
    return StepWindow(
        number=int(steps.step[last]),
        rows=np.flatnonzero(steps.kernel_index == index),
        start_ps=int(steps.start_ps[last]),
        end_ps=int(steps.end_ps[last]),
    )
