"""Tables made from what frames an investigation: its hosts, its files, what it left out."""

from __future__ import annotations

import polars as pl

from explane.analysis.host_table import host_figures, in_detail
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
