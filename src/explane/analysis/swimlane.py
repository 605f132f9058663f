"""The median step as lanes on one time axis: every GPU stream, and the threads that launched it.

Times are relative to the first event of the step on any GPU, so the lanes of all GPUs share one
axis (devices of one process share a clock).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from explane.analysis.columns import text_column
from explane.capture.model import I32, Bools, Capture

LANE_COLUMNS = {
    "host": pl.String,
    "device": pl.Int64,
    "stream": pl.Int64,
    "lane": pl.String,
    "lane_kind": pl.String,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "kind": pl.String,
    "name": pl.String,
    "hlo_instruction": pl.String,
    "op_name": pl.String,
    "source_file": pl.String,
    "source_line": pl.Int64,
    "match": pl.String,
    "on_critical_path": pl.Int64,
    "program_id": pl.Int64,
}
"""Columns of `swimlane.csv`, in order."""

_MOST_HOST_EVENTS = 20_000
_NO_NAME = "thread without a name"


def swimlane_table(
    capture: Capture,
    kernels: pl.DataFrame,
    in_step: Bools,
    kernel_launch: I32,
    on_path: Bools | None = None,
) -> pl.DataFrame:
    """Events of one step, GPU lanes first, then launching threads.

    Args:
        capture: The capture.
        kernels: Its kernel table (`op_tables.kernel_table`), same order as `capture.kernels`.
        in_step: Kernels of the step, all GPUs.
        kernel_launch: Index of each kernel's launch, or -1.
        on_path: Kernels on the critical path; None when it is not known.

    Returns:
        `LANE_COLUMNS`; no rows when the step has no kernels with true times.
    """
    shown = in_step & capture.kernels.time_ok
    if not shown.any():
        return pl.DataFrame(schema=LANE_COLUMNS)
    origin_ps = int(capture.kernels.start_ps[shown].min())
    end_ps = int(capture.kernels.ends(shown).max())
    marked = np.zeros(len(shown), np.int64) if on_path is None else on_path.astype(np.int64)
    lanes = (
        kernels.with_columns(pl.Series("on_critical_path", marked))
        .filter(pl.Series(shown))
        .with_columns(
            pl.col("start_ps") - origin_ps,
            pl.format("GPU {} stream {}", "device", "stream").alias("lane"),
            pl.lit("gpu").alias("lane_kind"),
            pl.col("kernel").alias("name"),
        )
    )
    launches = np.unique(kernel_launch[shown & (kernel_launch >= 0)])
    threads = _thread_lanes(capture, launches, origin_ps, end_ps)
    host = kernels["host"][0]
    parts = [
        part.with_columns(pl.lit(host).alias("host")).select(
            pl.col(name).cast(dtype) for name, dtype in LANE_COLUMNS.items()
        )
        for part in (lanes, threads)
    ]
    return pl.concat(parts)


def _thread_lanes(capture: Capture, launches: I32, origin_ps: int, end_ps: int) -> pl.DataFrame:
    """Launch calls of the step, and the host events of the threads that overlap it."""
    calls, events = capture.launches, capture.host_events
    first_ps = min(origin_ps, int(calls.start_ps[launches].min(initial=origin_ps)))
    threads = np.unique(calls.thread[launches])
    inside = (
        np.isin(events.thread, threads)
        & (events.start_ps < end_ps)
        & (events.end_ps > first_ps)
        & (events.duration_ps > 0)
    )
    rows = np.flatnonzero(inside)
    if len(rows) > _MOST_HOST_EVENTS:  # the longest tell the story; the rest would hide it
        rows = np.sort(
            rows[np.argsort(-events.duration_ps[rows], kind="stable")[:_MOST_HOST_EVENTS]]
        )
    thread = np.concatenate([calls.thread[launches], events.thread[rows]])
    start_ps = np.concatenate([calls.start_ps[launches], events.start_ps[rows]])
    duration_ps = np.concatenate([calls.duration_ps[launches], events.duration_ps[rows]])
    name = np.concatenate([calls.name[launches], events.name[rows]])
    n_calls = len(launches)
    return pl.DataFrame(
        [
            text_column(
                "lane", thread.astype(np.int32), [t.name or _NO_NAME for t in capture.threads]
            ),
            pl.Series("start_ps", start_ps - origin_ps),
            pl.Series("duration_ps", duration_ps),
            text_column("name", name.astype(np.int32), capture.strings),
        ]
    ).with_columns(
        pl.Series("kind", ["launch"] * n_calls + ["host"] * len(rows), dtype=pl.String),
        pl.lit("thread").alias("lane_kind"),
        pl.lit(0).alias("on_critical_path"),
        *(
            pl.lit(None, dtype=dtype).alias(column)
            for column, dtype in LANE_COLUMNS.items()
            if column in _GPU_ONLY
        ),
    )


_GPU_ONLY = {
    "device", "stream", "hlo_instruction", "op_name", "source_file", "source_line", "match",
    "program_id",
}  # fmt: skip
