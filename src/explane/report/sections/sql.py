"""Pieces of queries that several sections use."""

from __future__ import annotations

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
