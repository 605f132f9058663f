"""The tables of an investigation as a timeline: which slices hang where, and what they say.

host ─┬─ critical path of step 3
      ├─ GPU 0 ─┬─ steps
      │         ├─ stream 13           kernels, each with an arrow from its launch
      │         └─ stream 13 idle      gaps between them, named by cause
      └─ threads ── python             launch calls
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import polars as pl

from explane.analysis.columns import plain_texts
from explane.analysis.investigation import Investigation
from explane.export.slices import Places, Slices, slices
from explane.export.tracks import Path

_PATH_RANK: Final = 1
_FIRST_GPU_RANK: Final = 10
_THREADS_RANK: Final = 1_000_000
_LAUNCH: Final = [
    "host", "launch_thread", "launch_start_ps", "launch_duration_ps", "launch_name",
]  # fmt: skip
"""Columns of `rows` that tell one launch call from another."""


def timeline(investigation: Investigation) -> list[Slices]:
    """Everything that can be shown, kind by kind; kinds without slices are left out.

    Kernels whose times can't be true are left out: a viewer would stretch its axis to them.
    """
    tables = {stem: plain_texts(frame) for stem, frame in investigation.tables.items()}
    hosts = {
        facts.host: (i, f"{facts.host} (simulated)" if facts.simulated else facts.host)
        for i, facts in enumerate(investigation.hosts)
    }
    work = _kernels_with_launches(tables)
    found = [
        *_kernel_and_launch_slices(work, tables, hosts),
        _step_slices(tables, hosts),
        _idle_slices(tables, hosts),
        _path_slices(tables, hosts),
    ]
    return [part for part in found if len(part)]


_Hosts = Mapping[str, tuple[int, str]]
_Tables = Mapping[str, pl.DataFrame]


def _kernels_with_launches(tables: _Tables) -> pl.DataFrame:
    """Kernels with good times and their launches; both tables are in the capture's order."""
    launches = tables["rows"].select(*_LAUNCH[1:], "queue_ps")
    return pl.concat([tables["kernels"], launches], how="horizontal").filter(pl.col("time_ok"))


def _kernel_and_launch_slices(
    work: pl.DataFrame, tables: _Tables, hosts: _Hosts
) -> tuple[Slices, Slices]:
    """Kernels on their streams, launch calls on their threads, and an arrow from call to kernel.

    Each kernel has an arrow of its own: arrows that share a number would be drawn as a chain
    from kernel to kernel.
    """
    launched = work["launch_start_ps"].is_not_null()
    ids = pl.int_range(1, work.height + 1, dtype=pl.Int64, eager=True)
    kernels = slices(_kernel_frame(work), ["host", "device", "stream"], _streams(tables, hosts))
    kernels = replace(
        kernels,
        flows=ids.filter(launched).to_numpy(),
        n_flows=launched.cast(pl.Int64).to_numpy(),
    )
    calls = (
        work.filter(launched)
        .with_columns(ids.filter(launched).alias("flow"))
        .group_by(_LAUNCH, maintain_order=True)
        .agg(pl.col("flow"), pl.col("correlation_id").first(), pl.len().alias("n_kernels"))
    )
    threads = calls.select("host", "launch_thread").unique(maintain_order=True)
    shown = slices(
        calls.select(
            "host",
            "launch_thread",
            pl.col("launch_start_ps").alias("start_ps"),
            pl.col("launch_duration_ps").alias("duration_ps"),
            pl.col("launch_name").alias("name"),
            pl.lit("launch").alias("category"),
            "correlation_id",
            "n_kernels",
        ),
        ["host", "launch_thread"],
        {
            (host, thread): (hosts[host], (_THREADS_RANK, "threads"), (i, thread or "(no name)"))
            for i, (host, thread) in enumerate(threads.iter_rows())
        },
    )
    flows = calls["flow"].explode().cast(pl.Int64).to_numpy()
    return kernels, replace(
        shown, flows=flows, n_flows=calls["n_kernels"].cast(pl.Int64).to_numpy()
    )


def _kernel_frame(work: pl.DataFrame) -> pl.DataFrame:
    return work.select(
        "host",
        "device",
        "stream",
        "start_ps",
        "duration_ps",
        pl.col("kernel").alias("name"),
        pl.col("kind").alias("category"),
        "hlo_instruction",
        "opcode",
        "op_name",
        pl.format("{}:{}", "source_file", "source_line").alias("source"),
        "function",
        "line_from",
        "match",
        pl.when(pl.col("match") == "none").then("reason").alias("why_no_match"),
        "program",
        "step",
        "iteration",
        "correlation_id",
        "queue_ps",
        "details",
    )


def _streams(tables: _Tables, hosts: _Hosts) -> Places:
    """Path of each stream, by host, device and stream; idle gaps hang below their stream."""
    known = tables["kernels"].select("host", "device", "stream").unique()
    named = tables["streams"].select("host", "device", "stream", "stream_name")
    rows = known.join(named, on=["host", "device", "stream"], how="left").sort(
        "host", "device", "stream"
    )
    return {
        (host, device, stream): (*_gpu(hosts, host, device), (2 * i + 2, _label(stream, name)))
        for i, (host, device, stream, name) in enumerate(rows.iter_rows())
    }


def _gpu(hosts: _Hosts, host: str, device: int) -> Path:
    return (hosts[host], (_FIRST_GPU_RANK + device, f"GPU {device}"))


def _label(stream: int, name: str | None) -> str:
    """`stream 13`, with the name that the collector gave it where it says more."""
    if not name:
        return f"stream {stream}"
    return name if str(stream) in name else f"stream {stream} {name}"


def _step_slices(tables: _Tables, hosts: _Hosts) -> Slices:
    steps = tables["steps"]
    places: Places = {
        (host, device): (*_gpu(hosts, host, device), (1, "steps"))
        for host, device in steps.select("host", "device").unique().iter_rows()
    }
    frame = steps.select(
        "host",
        "device",
        "start_ps",
        (pl.col("end_ps") - pl.col("start_ps")).alias("duration_ps"),
        pl.format("step {}", "step").alias("name"),
        pl.lit("step").alias("category"),
        "step",
        pl.col("complete").cast(pl.Int64),
        "reason_incomplete",
        "source",
        "n_kernels",
    )
    return slices(frame, ["host", "device"], places)


def _idle_slices(tables: _Tables, hosts: _Hosts) -> Slices:
    """Gaps of the streams, without those inside one graph launch: thousands, and no one's."""
    gaps = tables["idle"].filter(~pl.col("inside_graph"))
    places: Places = {
        key: (*path[:-1], (path[-1][0] + 1, f"{path[-1][1]} idle"))
        for key, path in _streams(tables, hosts).items()
    }
    frame = gaps.select(
        "host",
        "device",
        "stream",
        "start_ps",
        "duration_ps",
        pl.col("cause").alias("name"),
        pl.lit("idle").alias("category"),
        "host_event",
        "host_thread",
        "waited_for",
        "next_kernel",
        "step",
    )
    return slices(frame, ["host", "device", "stream"], places)


def _path_slices(tables: _Tables, hosts: _Hosts) -> Slices:
    """The critical path; its times count from the start of the step whose length it has."""
    path = tables["critical_path"]
    lengths = path.group_by("host", "step").agg(pl.col("duration_ps").sum())
    origins = (
        tables["steps"]
        .with_columns((pl.col("end_ps") - pl.col("start_ps")).alias("duration_ps"))
        .join(lengths, on=["host", "step", "duration_ps"], how="inner")
        .sort("host", "device")
        .unique(["host", "step"], keep="first", maintain_order=True)
        .select("host", "step", pl.col("start_ps").alias("origin_ps"))
    )
    places: Places = {
        (host, step): (hosts[host], (_PATH_RANK, f"critical path of step {step}"))
        for host, step in origins.select("host", "step").iter_rows()
    }
    frame = path.join(origins, on=["host", "step"], how="inner").select(
        "host",
        "step",
        (pl.col("origin_ps") + pl.col("start_ps")).alias("start_ps"),
        "duration_ps",
        pl.coalesce(pl.col("what").replace("", None), "kind").alias("name"),
        pl.col("kind").alias("category"),
        pl.col("kind").alias("work"),
        "device",
        pl.format("{}:{}", "source_file", "source_line").alias("source"),
    )
    return slices(frame, ["host", "step"], places)
