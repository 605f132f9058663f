"""Who is late across processes: the last to join each collective, on one clock.

    host A   ├──────── all-reduce ────────┤      waits: latest start less own start
    host B         ├── all-reduce ────────┤
    host C                  ├─ all-reduce ┤      late, by its start less B's
                            ^ latest start

Only processes whose clocks agree are compared, only in collectives that tie them together, and
nobody is called late by less than what the clocks are off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from explane.analysis.hosts.clocks import Clock, Mask
from explane.analysis.hosts.marks import F64, AllMarks, Marks

_OPERATIONS = {
    "program": pl.String,
    "hlo_instruction": pl.String,
    "step": pl.Int64,
    "index": pl.Int64,
    "n_hosts": pl.Int64,
    "latest_start_ps": pl.Int64,
    "end_ps": pl.Int64,
    "spread_ps": pl.Int64,
    "caused_wait_ps": pl.Int64,
    "late_by_ps": pl.Int64,
    "late_host": pl.String,
    "late_device": pl.Int64,
}
_STRAGGLERS = {
    "host": pl.String,
    "device": pl.Int64,
    "n_operations": pl.Int64,
    "n_all": pl.Int64,
    "caused_wait_ps": pl.Int64,
    "late_by_ps": pl.Int64,
}


def host_operations(marks: AllMarks, clocks: Sequence[Clock]) -> pl.DataFrame:
    """Collectives of several processes on the reference's clock.

    Returns:
        One row per collective in which at least two aligned processes took part, by time:
        `program` (structure), `hlo_instruction`, `step` (the reference's number), `index` within
        the step, `n_hosts`, `latest_start_ps`, `end_ps` (median), `spread_ps` (latest start less
        the earliest), `caused_wait_ps` (waiting of all other processes), `late_by_ps` (latest
        start less the second latest), and `late_host` with its `late_device`, missing where the
        difference is within the residuals of the clocks.
    """
    by_host = {clock.host: clock for clock in clocks if clock.aligned}
    hosts = [one for one in marks.hosts if one.host in by_host]
    if len(hosts) < 2:
        return pl.DataFrame(schema=_OPERATIONS)
    first, n_steps = _span(hosts, by_host)
    common = [_common(one, by_host[one.host], first, n_steps) for one in hosts]
    start, end = np.stack([c[0] for c in common]), np.stack([c[1] for c in common])
    tied = _tied(hosts, by_host)
    n_hosts = (~np.isnan(start)).sum(axis=0)
    step, slot = np.nonzero((n_hosts > 1) & tied)
    error = np.array([by_host[one.host].residual_ps for one in hosts])
    rows = _rows(start[:, step, slot], end[:, step, slot], error)
    late = rows["late"].to_numpy()
    device = np.stack([c[2] for c in common])[late, step, slot]
    known = pl.col("late_by_ps") > pl.col("error_ps")
    names = pl.Series("name", [one.host for one in hosts])
    return (
        rows.with_columns(
            pl.Series("program", [marks.slots[s][0] for s in slot], dtype=pl.String),
            pl.Series("hlo_instruction", [marks.slots[s][1] for s in slot], dtype=pl.String),
            pl.Series("step", step + first),
            pl.Series("index", [marks.slots[s][2] for s in slot], dtype=pl.Int64),
            pl.when(known).then(names.gather(late)).alias("late_host"),
            pl.when(known).then(pl.Series("device", device)).alias("late_device"),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in _OPERATIONS.items())
        .sort("latest_start_ps", "program", "hlo_instruction", "index")
    )


def _span(hosts: Sequence[Marks], clocks: Mapping[str, Clock]) -> tuple[int, int]:
    """First step in the reference's numbers, and how many there are."""
    first = [one.first_step - clocks[one.host].shift for one in hosts]
    ends = [begin + len(one.end_ps) for begin, one in zip(first, hosts, strict=True)]
    return min(first), max(ends) - min(first)


def _common(
    own: Marks, clock: Clock, first: int, n_steps: int
) -> tuple[F64, F64, np.ndarray[tuple[int, int], np.dtype[np.int64]]]:
    """Starts and ends in the reference's time, and GPUs, at the rows of the common steps."""
    at = own.first_step - clock.shift - first
    shape = (n_steps, own.end_ps.shape[1])
    start, end = np.full(shape, np.nan), np.full(shape, np.nan)
    device = np.full(shape, -1, np.int64)
    rows = slice(at, at + len(own.end_ps))
    start[rows], end[rows] = clock.to_reference(own.start_ps), clock.to_reference(own.end_ps)
    device[rows] = own.device
    return start, end, device


def _tied(hosts: Sequence[Marks], clocks: Mapping[str, Clock]) -> Mask:
    """Collectives that are marks for at least half of the processes other than the reference."""
    found = [clocks[one.host] for one in hosts]
    others = [c.slots for c in found if c.host != c.reference and c.slots is not None]
    tied: Mask = 2 * np.sum(others, axis=0) >= len(others)
    return tied


def _rows(start: F64, end: F64, error: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pl.DataFrame:
    """Figures of each collective; `start` and `end` have the shape (n_hosts, n_operations)."""
    joined = np.where(np.isnan(start), -np.inf, start)
    late = joined.argmax(axis=0)
    order = np.sort(joined, axis=0)
    latest, second = order[-1], order[-2]
    waits = np.where(np.isnan(start), 0.0, latest - start)
    present = ~np.isnan(start)
    return pl.DataFrame(
        {
            "n_hosts": present.sum(axis=0),
            "latest_start_ps": np.round(latest),
            "end_ps": np.round(np.nanmedian(end, axis=0)),
            "spread_ps": np.round(latest - np.nanmin(start, axis=0)),
            "caused_wait_ps": np.round(waits.sum(axis=0)),
            "late_by_ps": np.round(latest - second),
            "error_ps": np.where(present, error[:, None], 0).max(axis=0),
            "late": late,
        }
    )


def host_stragglers(operations: pl.DataFrame) -> pl.DataFrame:
    """Processes that others waited for, those that cost most first.

    Returns:
        `host`, `device` (of its GPUs that was the last most often), `n_operations` (collectives in
        which it was the last), `n_all` (collectives compared), `caused_wait_ps` (waiting of the
        other processes, summed), `late_by_ps` (before the second latest, summed).
    """
    late = operations.filter(pl.col("late_host").is_not_null())
    return (
        late.group_by(pl.col("late_host").alias("host"))
        .agg(
            pl.col("late_device").mode().sort().first().alias("device"),
            pl.len().alias("n_operations"),
            pl.lit(operations.height).alias("n_all"),
            pl.col("caused_wait_ps", "late_by_ps").sum(),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in _STRAGGLERS.items())
        .sort("caused_wait_ps", "host", descending=[True, False])
    )
