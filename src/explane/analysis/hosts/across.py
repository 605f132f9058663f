"""What several processes say together: equal programs, clocks, and who is late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from explane.analysis.hosts.clocks import Clock, align_clocks
from explane.analysis.hosts.marks import find_marks
from explane.analysis.hosts.same_programs import program_table, shared, structures
from explane.analysis.hosts.waits import host_operations, host_stragglers
from explane.analysis.investigation import Investigation
from explane.analysis.trust.trust import TrustItem, trust_table
from explane.units import format_ps

_CLOCKS = {
    "host": pl.String,
    "reference": pl.String,
    "aligned": pl.Boolean,
    "at_ps": pl.Int64,
    "offset_ps": pl.Int64,
    "drift_ppm": pl.Float64,
    "drift_error_ppm": pl.Float64,
    "residual_ps": pl.Int64,
    "worst_ps": pl.Int64,
    "n_marks": pl.Int64,
    "step_shift": pl.Int64,
    "note": pl.String,
}
_MOST_NAMED = 4


def compare_hosts(investigation: Investigation) -> Investigation:
    """The investigation with what only several processes together tell; one is left as it is.

    Adds the tables `programs` (distinct programs), `clocks`, `host_collectives` (collectives of
    several processes on one clock) and `host_stragglers`, and trust items. Results without
    collectives (the verdict alone) get no clocks.
    """
    if len(investigation.hosts) < 2:
        return investigation
    tables = dict(investigation.tables)
    found = structures(investigation.programs)
    if investigation.programs:
        tables["programs"] = program_table(investigation.programs, found)
    if "collectives" in tables and "steps" in tables:
        same = {
            (program.host, program.program_id): structure
            for program, structure in zip(investigation.programs, found, strict=True)
        }
        marks = find_marks(tables["collectives"], tables["steps"], same)
        clocks = align_clocks(marks)
        operations = host_operations(marks, clocks)
        named = [host.host for host in investigation.hosts]
        tables["clocks"] = clock_table(named, clocks)
        tables["host_collectives"] = operations
        tables["host_stragglers"] = host_stragglers(operations)
        items = tuple(_trust_items(tables["clocks"]))
        if "trust" in tables and items:
            added = trust_table(", ".join(named[:_MOST_NAMED]), items, 0)
            tables["trust"] = pl.concat([tables["trust"], added])
    return replace(investigation, tables=tables, programs=shared(investigation.programs, found))


def clock_table(hosts: Sequence[str], clocks: Sequence[Clock]) -> pl.DataFrame:
    """One row per process; figures are missing where its clock stays apart.

    Args:
        hosts: All processes, in order.
        clocks: Of those that have collectives.
    """
    by_host = {clock.host: clock for clock in clocks}
    reference = clocks[0].reference if clocks else ""
    apart = "it has no collectives that another process has too"
    rows = []
    for host in hosts:
        clock = by_host.get(host, Clock(host, reference, False, apart))
        fitted = clock.n_marks > 0
        figures = (
            (
                clock.at_ps,
                clock.offset_ps,
                clock.drift_ppm,
                clock.drift_error_ppm,
                clock.residual_ps,
                clock.worst_ps,
                clock.n_marks,
                clock.shift,
            )
            if fitted
            else (None,) * 8
        )
        rows.append((host, clock.reference or None, clock.aligned, *figures, clock.note or None))
    return pl.DataFrame(rows, schema=_CLOCKS, orient="row")


def _trust_items(clocks: pl.DataFrame) -> Iterator[TrustItem]:
    """Clocks that stay apart; and what comparisons rest on where they agree."""
    apart = clocks.filter(~pl.col("aligned"))
    if apart.height:
        notes = ", ".join(sorted(apart["note"].drop_nulls().unique()))
        yield TrustItem(
            item="clocks of processes can't be aligned",
            count=apart.height,
            gpu_time_ps=None,
            why=f"{notes}; each of them stays on an axis of its own and is compared with no other",
            affects="comparisons across processes",
            severity=1,
        )
    others = clocks.filter(pl.col("aligned") & pl.col("residual_ps").is_not_null())
    if others.height:
        worst = int(str(others["residual_ps"].max()))
        yield TrustItem(
            item="clocks of processes were aligned on collectives",
            count=others.height,
            gpu_time_ps=None,
            why=f"no clock is shared; ends of matched collectives differ by {format_ps(worst)} "
            "in the median of the worst process after a line was fitted",
            affects="comparisons across processes",
            severity=0,
        )
