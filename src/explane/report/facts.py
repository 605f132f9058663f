"""Tables made from what frames an investigation: its hosts, its files, what it left out."""

from __future__ import annotations

import polars as pl

from explane.analysis.hosts.table import host_figures, in_detail
from explane.analysis.investigation import Investigation

_HOSTS = {
    "host": pl.String,
    "source": pl.String,
    "gpu": pl.String,
    "n_devices": pl.Int64,
    "n_active_devices": pl.Int64,
    "versions": pl.String,
    "partial": pl.Int64,
    "simulated": pl.Int64,
}
_PARTS = {
    "compute": "a compute kernel runs",
    "collective": "a collective moves data and no compute kernel runs",
    "peer_late": "a collective waits for a GPU that has more work",
    "peer_host_late": "a collective waits for a GPU whose host launched late",
    "copy": "only copies or fills run",
    "host_late": "idle: the host launched late",
    "launch_call_long": "idle: launch calls took long",
    "gap": "idle: short pauses between queued kernels",
    "unexplained": "idle: nothing on record explains it",
}
"""Parts of the time that the verdict rests on; together they are all of it."""

_SOURCES = {"path": pl.String, "used": pl.Int64, "note": pl.String}
_NOT_ANALYSED = {"section": pl.String, "reason": pl.String}


def fact_tables(investigation: Investigation) -> dict[str, pl.DataFrame]:
    """Tables `hosts`, `sources` and `not_analysed`."""
    hosts = [
        (
            h.host,
            h.source,
            h.gpu,
            len(h.devices),
            len(h.active_devices),
            "; ".join(f"{name} {version}" for name, version in sorted(h.versions.items())),
            int(h.partial),
            int(h.simulated),
        )
        for h in investigation.hosts
    ]
    facts = pl.DataFrame(hosts, schema=_HOSTS, orient="row")
    figures = host_figures([h.host for h in investigation.hosts], investigation.tables)
    shown = pl.col("host").is_in(in_detail(figures)).alias("in_detail")
    sources = [(s.path, int(s.used), s.note) for s in investigation.sources]
    left_out = [(n.section, n.reason) for n in investigation.not_analysed]
    return {
        "hosts": facts.join(figures, on="host", how="left", maintain_order="left").with_columns(
            shown
        ),
        "sources": pl.DataFrame(sources, schema=_SOURCES, orient="row"),
        "not_analysed": pl.DataFrame(
            list(dict.fromkeys(left_out)), schema=_NOT_ANALYSED, orient="row"
        ),
    }


def verdict_parts(verdict: pl.DataFrame) -> pl.DataFrame:
    """Table `verdict_parts`: one row per process and part of the time.

    Args:
        verdict: `verdict` table; parts that it has no share of are left out.
    """
    rows = [
        verdict.select(
            "host",
            pl.lit(part).alias("part"),
            pl.col(f"{part}_ratio").alias("share"),
            pl.lit(meaning).alias("meaning"),
        )
        for part, meaning in _PARTS.items()
        if f"{part}_ratio" in verdict.columns
    ]
    schema = {"host": pl.String, "part": pl.String, "share": pl.Float64, "meaning": pl.String}
    return pl.concat(rows) if rows else pl.DataFrame(schema=schema)
