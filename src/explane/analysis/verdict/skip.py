"""SKIP figures (arXiv 2504.11750): how launches relate to kernels, each with its definition.

Figures of the whole capture stand beside figures per step; those are the lower median over the
complete steps of a device with their range. Times are integer picoseconds. What the paper counts
per kernel is given per launch too, since all kernels of a graph share one launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from explane.analysis.columns import coded_column, id_column, same_text, text_column
from explane.analysis.steps.launches import LaunchJoin, join_launches
from explane.analysis.steps.steps import Steps, find_steps
from explane.analysis.verdict.latency import Latency, launch_latency
from explane.analysis.verdict.skip_steps import StepFigures, step_figures, step_windows
from explane.analysis.verdict.skip_words import DEFINITIONS, UNITS
from explane.capture.model import I64, Bools, Capture, Kind

_TOP = 10
SKIP_SCHEMA = {
    "host": pl.String,
    "device": pl.Int32,
    "metric": pl.String,
    "value": pl.Int64,
    "unit": pl.String,
    "label": pl.String,
    "low": pl.Int64,
    "high": pl.Int64,
    "n": pl.Int64,
    "definition": pl.String,
    "scope": pl.String,
}


@dataclass(frozen=True, slots=True)
class SkipMetrics:
    """SKIP figures of one capture.

    Attributes:
        latency: Launch-to-start times of all kernels.
        table: `skip`: one row per figure and device (no device: all of the capture).
        top_kernels: The kernels with most time, and those with most launch-to-start time.
        steps: Figures of every step.
    """

    latency: Latency
    table: pl.DataFrame
    top_kernels: pl.DataFrame
    steps: StepFigures

    def value(self, metric: str, device: int | None = None) -> int | None:
        """A figure by name; None when there is none."""
        where = pl.col("device").is_null() if device is None else pl.col("device") == device
        found = self.table.filter((pl.col("metric") == metric) & where)["value"]
        return int(found[0]) if len(found) and found[0] is not None else None


def skip_metrics(
    capture: Capture, join: LaunchJoin | None = None, steps: Steps | None = None
) -> SkipMetrics:
    """SKIP figures of a capture and of its steps.

    Args:
        capture: The capture.
        join: Its launches, when already joined.
        steps: Its steps, when already found.
    """
    join = join or join_launches(capture)
    steps = steps or find_steps(capture, join)
    windows = step_windows(capture, join, steps)  # first, since it needs most memory
    latency = launch_latency(capture, join)
    figures = step_figures(capture, steps, windows, latency)
    totals = _totals(capture, join, latency)
    table = pl.DataFrame([*totals, *_per_step(capture, steps, figures)], SKIP_SCHEMA, orient="row")
    return SkipMetrics(
        latency=latency,
        table=table,
        top_kernels=_top_kernels(capture, latency),
        steps=figures,
    )


_Row = tuple[object, ...]


def _row(host: str, device: int | None, metric: str, numbers: I64, scope: str) -> _Row:
    """One row: lower median, least and most of the numbers (one number: no range)."""
    values = np.sort(numbers)
    value = int(values[(len(values) - 1) // 2])
    many = scope == "step"
    return (
        host,
        device,
        metric,
        value,
        UNITS[metric],
        "measured",
        int(values[0]) if many else None,
        int(values[-1]) if many else None,
        len(values) if many else None,
        DEFINITIONS[metric],
        scope,
    )


def _totals(capture: Capture, join: LaunchJoin, latency: Latency) -> list[_Row]:
    """Figures over the whole capture: first all devices together, then each."""
    rows = []
    devices = np.unique(capture.kernels.device).tolist()
    for device in (None, *devices):
        mine = capture.kernels.time_ok.copy()
        if device is not None:
            mine &= capture.kernels.device == device
        for metric, value in _sums(capture, join, latency, mine).items():
            rows.append(_row(capture.host, device, metric, np.array([value]), "capture"))
    return rows


def _sums(capture: Capture, join: LaunchJoin, latency: Latency, mine: Bools) -> dict[str, int]:
    """Figures over some kernels with good times."""
    duration = capture.kernels.duration_ps
    n_kernels = int(mine.sum())
    first, joined = mine & latency.first, mine & latency.has_launch
    kernel_time = int(duration[mine].sum())
    raw = np.sort(latency.raw_t_l_ps[first])
    figures = {
        "n_kernels": n_kernels,
        "n_kernels_with_launch": int(joined.sum()),
        "n_launches": len(raw),
        "kernel_time_ps": kernel_time,
    }
    if n_kernels:
        figures["akd_ps"] = kernel_time // n_kernels
    if not len(raw):
        return figures  # without a launch the figures of launches are unknown, not zero
    return figures | {
        "tklqt_ps": int(latency.t_l_ps[first].sum()),
        "tklqt_per_kernel_ps": int(latency.t_l_ps[joined].sum()),
        "tklqt_call_ps": int(latency.call_ps[first].sum()),
        "tklqt_floor_ps": int(latency.floor_ps[first].sum()),
        "tklqt_queue_ps": int(latency.queue_ps[first].sum()),
        "median_t_l_ps": int(raw[(len(raw) - 1) // 2]),
        "n_negative_t_l": int((raw < 0).sum()),
    }


def _per_step(capture: Capture, steps: Steps, figures: StepFigures) -> list[_Row]:
    """Figures per step over the complete steps of each device."""
    rows = []
    for device in np.unique(steps.device).tolist():
        mine = np.flatnonzero((steps.device == device) & steps.complete)
        if len(mine):
            launched = bool(figures.columns["n_launches"][mine].any())
            for metric, values in figures.columns.items():
                if launched or not metric.startswith("tklqt"):
                    rows.append(_row(capture.host, device, metric, values[mine], "step"))
    return rows


def launch_rows(
    capture: Capture,
    join: LaunchJoin | None = None,
    steps: Steps | None = None,
    latency: Latency | None = None,
) -> pl.DataFrame:
    """`rows.csv`: every kernel with its launch, also one without a launch or with bad times.

    Args:
        capture: The capture.
        join: Its launches, when already joined.
        steps: Its steps, when already found.
        latency: Its launch-to-start times, when already known.
    """
    join = join or join_launches(capture)
    steps = steps or find_steps(capture, join)
    latency = latency or launch_latency(capture, join)
    kernels, launches, texts = capture.kernels, capture.launches, capture.strings
    launch = join.kernel_launch
    words = [kind.word for kind in Kind]
    threads = [thread.name for thread in capture.threads]
    without, unknown = pl.Series(launch < 0), pl.Series(~latency.has_launch)
    # One column after the other: what making one of them takes is freed before the next.
    return pl.DataFrame(
        [
            same_text("host", capture.host, len(kernels)),
            pl.Series("device", kernels.device),
            pl.Series("stream", kernels.stream),
            id_column("step", steps.kernel_step),
            coded_column("kernel", kernels.name, texts),
            coded_column("kind", kernels.kind, words),
            pl.Series("start_ps", kernels.start_ps),
            pl.Series("duration_ps", kernels.duration_ps),
            id_column("correlation_id", kernels.correlation_id),
            pl.Series("launch_start_ps", np.append(launches.start_ps, 0)[launch]).set(
                without, None
            ),
            pl.Series("launch_duration_ps", np.append(launches.duration_ps, 0)[launch]).set(
                without, None
            ),
            coded_column("launch_thread", np.append(launches.thread, -1)[launch], threads),
            coded_column("launch_name", np.append(launches.name, -1)[launch], texts),
            pl.Series("t_l_ps", latency.t_l_ps).set(unknown, None),
            pl.Series("call_ps", latency.call_ps).set(unknown, None),
            pl.Series("floor_ps", latency.floor_ps).set(unknown, None),
            pl.Series("queue_ps", latency.queue_ps).set(unknown, None),
            pl.Series("first_of_launch", latency.first),
            pl.Series("in_graph", join.in_graph),
            pl.Series("time_ok", kernels.time_ok),
        ]
    )


def _top_kernels(capture: Capture, latency: Latency) -> pl.DataFrame:
    """The kernels (by name and kind) with most time, and those with most launch-to-start time."""
    kernels, words = capture.kernels, [kind.word for kind in Kind]
    n_names = len(capture.strings) + 1  # the last one is for a missing name
    n_kernels, duration_ps, t_l_ps = np.zeros((3, len(words), n_names), dtype=np.int64)
    t_l = latency.t_l_ps
    for kind in Kind:
        mine = kernels.time_ok & (kernels.kind == kind)
        np.add.at(n_kernels[kind], kernels.name[mine], 1)
        np.add.at(duration_ps[kind], kernels.name[mine], kernels.duration_ps[mine])
        mine &= latency.first
        np.add.at(t_l_ps[kind], kernels.name[mine], t_l[mine])
    of_kind, name = np.nonzero(n_kernels)
    code = np.where(name < n_names - 1, name, -1)
    sums = pl.DataFrame(
        {
            "kernel": text_column("kernel", code, capture.strings),
            "kind": text_column("kind", of_kind, words),
            "n_kernels": n_kernels[of_kind, name],
            "duration_ps": duration_ps[of_kind, name],
            "t_l_ps": t_l_ps[of_kind, name],
        }
    )
    parts = []
    for by in ("duration_ps", "t_l_ps"):
        top = sums.sort([by, "kernel", "kind"], descending=[True, False, False]).head(_TOP)
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        host, ranked_by = pl.lit(capture.host), pl.lit(by)
        parts.append(
            top.select(
                host.alias("host"), ranked_by.alias("ranked_by"), rank.alias("rank"), pl.all()
            )
        )
    return pl.concat(parts)
