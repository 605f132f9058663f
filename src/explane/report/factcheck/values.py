"""Claims recomputed: every query run again on the tables read from CSV."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from explane.report.claims_file import ClaimsFile
from explane.report.factcheck.readback import says
from explane.report.factcheck.tables import read_csv
from explane.report.formats import Value

_READS_FILES: Final = re.compile(r"(?i)\b(read|scan)_\w+\s*\(")
"""Table functions of SQL: a query that was slipped in must not read the user's files."""


def recompute(folder: Path, claims: ClaimsFile) -> Iterator[str]:
    """What differs between the claims and their queries on the CSV files, one line each."""
    frames: dict[str, pl.DataFrame] = {}
    words = _words([entry["sql"] for entry in (*claims.claims, *claims.grids)])
    for stem, table in claims.tables.items():
        if stem not in words:
            continue
        try:
            frames[stem] = read_csv(folder / table.file, table.columns)
        except (OSError, ValueError) as error:
            yield f"{table.file}: {error}"
    context = pl.SQLContext(frames=frames, eager=True)
    for claim in claims.claims:
        yield from _check_claim(context, claim)
    for grid in claims.grids:
        yield from _check_grid(context, grid)


def _words(queries: Sequence[str]) -> set[str]:
    """All words of the queries: a table that is not among them need not be read."""
    return set(re.findall(r"\w+", " ".join(queries)))


def _rows(context: Any, sql: str) -> pl.DataFrame | str:
    """The result of a query, or why there is none."""
    if _READS_FILES.search(sql):
        return "it reads files, which no claim does"
    try:
        result: pl.DataFrame = context.execute(sql)
    except pl.exceptions.PolarsError as error:
        return str(error).splitlines()[0]
    return result


def _check_claim(context: Any, claim: Mapping[str, Any]) -> Iterator[str]:
    rows = _rows(context, claim["sql"])
    if isinstance(rows, str) or rows.height != 1 or "value" not in rows.columns:
        why = rows if isinstance(rows, str) else f"{rows.height} rows"
        yield f"claim {claim['id']} ({claim['printed']}): its query gives no value: {why}"
        return
    row = rows.row(0, named=True)
    for part in ("value", "low", "high", "n"):
        if not same(row.get(part), claim[part]):
            yield (
                f"claim {claim['id']}: {part} {claim[part]} differs, "
                f"the tables give {row.get(part)}"
            )
    if not says(claim["printed"], row["value"], claim["unit"]):
        yield (
            f"claim {claim['id']}: printed {claim['printed']}, the tables give {row['value']} "
            f"({claim['unit']})"
        )


def _check_grid(context: Any, grid: Mapping[str, Any]) -> Iterator[str]:
    names = [column["name"] for column in grid["columns"]]
    rows = _rows(context, grid["sql"])
    if isinstance(rows, str) or not set(names) <= set(rows.columns):
        why = rows if isinstance(rows, str) else "columns are missing"
        yield f"table {grid['id']}: its query gives no table: {why}"
        return
    found = rows.select(names).rows()
    if not len(found) == len(grid["values"]) == len(grid["printed"]):
        yield f"table {grid['id']}: {len(grid['values'])} rows, the tables give {len(found)}"
        return
    cells = zip(found, grid["values"], grid["printed"], strict=True)
    for r, (row, values, printed) in enumerate(cells):
        for c, column in enumerate(grid["columns"]):
            stated = says(printed[c], row[c], column["unit"])
            if not same(row[c], values[c]) or not stated:
                yield (
                    f"claim {grid['id']}.{r}.{c}: printed {printed[c]}, value {values[c]}, "
                    f"the tables give {row[c]}"
                )


def same(left: Value, right: Value) -> bool:
    """Whether two values are the same; numbers that are not whole to twelve digits."""
    if isinstance(left, float) and not math.isfinite(left):
        return right is None
    if isinstance(left, float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=1e-12, abs_tol=1e-300)
    return left == right
