"""Pieces of queries that several sections use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LINE: Final = "source_file || ':' || CAST(source_line AS VARCHAR)"
"""A Python line as `file:line`; missing when there is none."""


def op_key(program: str, *names: str) -> str:
    """What tells an operation from all others: its program, and its instruction or kernel.

    Args:
        program: Column of the program's id.
        names: Columns of its name, the first that is known counts.
    """
    return f"COALESCE(CAST({program} AS VARCHAR), '') || '/' || COALESCE({', '.join(names)})"


_DOUBT: Final = (
    "CASE \"match\" WHEN 'exact' THEN 0 WHEN 'name' THEN 1 WHEN 'order' THEN 2 ELSE 3 END"
)
_WEAKEST: Final = (
    f"CASE MAX(CAST({_DOUBT} AS BIGINT)) "
    "WHEN 0 THEN 'exact' WHEN 1 THEN 'name' WHEN 2 THEN 'order' ELSE 'none' END"
)
_HOSTS: Final = (
    "CASE COUNT(DISTINCT host) WHEN 1 THEN MIN(host) "
    "ELSE CAST(COUNT(DISTINCT host) AS VARCHAR) || ' processes' END"
)
_SUMS: Final = ("n_kernels", "duration_ps", "n", "count", "gpu_time_ps")
_OTHERS: Final = {
    "host": _HOSTS,
    "program_id": "MIN(program_id)",
    "match": _WEAKEST,
    "low_ps": "MIN(low_ps)",
    "high_ps": "MAX(high_ps)",
    "why": "MIN(why)",
    "gpu_time_ratio": (
        "CAST(SUM(gpu_time_ps) AS DOUBLE) / NULLIF((SELECT SUM(duration_ps) FROM ops), 0)"
    ),
}
_SAME: Final = {
    "ops": (
        "program",
        "hlo_instruction",
        "unattributed_kernel",
        "op_name",
        "source_file",
        "source_line",
        "kind",
    ),
    "lines": ("source_file", "source_line", "function"),
    "trust": ("item", "affects", "severity"),
}


def added_up(table: str, columns: Sequence[str]) -> str:
    """A table of several processes as a query with the same columns, equal rows added up.

    `host` becomes the name of the only process or says how many there are; the weakest match and
    the whole range stand for all.

    Args:
        table: `ops`, `lines` or `trust`.
        columns: Those that it has.
    """
    same = [name for name in _SAME[table] if name in columns]
    parts = [f'"{name}"' for name in same]
    parts += [f'SUM("{name}") AS "{name}"' for name in _SUMS if name in columns]
    parts += [f'{how} AS "{name}"' for name, how in _OTHERS.items() if name in columns]
    keys = ", ".join(f'"{name}"' for name in same)
    return f"(SELECT {', '.join(parts)} FROM {table} GROUP BY {keys}) AS {table}"


WHOLE_STEPS: Final = "SELECT end_ps - start_ps AS d FROM steps WHERE complete = 1"


def ratio(part: str, whole: str) -> str:
    """A quotient that is missing, not infinite, when the whole is nothing."""
    return f"CAST({part} AS DOUBLE) / NULLIF({whole}, 0)"


def spread(inner: str, column: str) -> str:
    """Lower median, least, most and number of a column of a query."""
    return (
        f"SELECT QUANTILE_DISC({column}, 0.5) AS value, MIN({column}) AS low, "
        f"MAX({column}) AS high, COUNT({column}) AS n FROM ({inner}) AS spread"
    )
