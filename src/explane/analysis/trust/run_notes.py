"""What several processes of one run say of each other, on the trust list of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from explane.analysis.investigation import Investigation
from explane.analysis.trust.trust import TrustItem, trust_table
from explane.capture.model import Note

_SLUGS = {
    "ordinals_collide": "processes of one machine use the same GPU numbers",
    "older_session": "processes were not captured at the same time",
}


def with_notes(investigation: Investigation, notes: Sequence[Note]) -> Investigation:
    """The investigation with notes on its processes at the end of the trust list.

    A result without a trust list (the verdict alone) says them beside every verdict.
    """
    if not notes:
        return investigation
    tables = dict(investigation.tables)
    if "trust" in tables:
        items = tuple(_item(note) for note in notes)
        hosts = ", ".join(host.host for host in investigation.hosts)
        tables["trust"] = pl.concat([tables["trust"], trust_table(hosts, items, 0)])
    elif "verdict" in tables:
        said = "".join(f" {note.text[:1].upper()}{note.text[1:]}." for note in notes)
        tables["verdict"] = tables["verdict"].with_columns(pl.col("reason") + said)
    return replace(investigation, tables=tables)


def _item(note: Note) -> TrustItem:
    return TrustItem(
        item=_SLUGS.get(note.slug, note.slug.replace("_", " ")),
        count=note.count if note.count >= 0 else None,
        gpu_time_ps=None,
        why=note.text,
        affects="sums and comparisons across processes",
        severity=1,
    )
