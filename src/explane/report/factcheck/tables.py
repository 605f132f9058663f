"""Tables read back from their CSV files, and what was changed in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from explane.report.claims_file import TableFile

_TYPES: Final = {"integer": pl.Int64, "number": pl.Float64, "text": pl.String}
_DISARMED: Final = r"^'('*[=+\-@\t\r\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])"


def read_csv(path: Path, columns: dict[str, str]) -> pl.DataFrame:
    """A table from its CSV file, with the kinds of its columns and the texts as stored.

    A cell that does not hold what its column should is missing here; it can't agree with
    anything then.

    Raises:
        OSError: When the file can't be read.
        ValueError: When it is not a table with these columns.
    """
    try:
        frame = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=False)
    except (pl.exceptions.PolarsError, UnicodeError) as error:
        raise ValueError(f"not a table: {error}") from error
    if frame.columns != list(columns):
        raise ValueError(f"columns differ: {', '.join(frame.columns)}")
    return frame.with_columns(
        pl.col(name).str.replace(_DISARMED, "$1")
        if kind == "text"
        else pl.col(name).cast(_TYPES[kind], strict=False)
        for name, kind in columns.items()
    )


def changes(folder: Path, table: TableFile) -> Iterator[str]:
    """What differs between a table's files and what was written, one line each."""
    for name, digest in ((table.file, table.sha256), (table.parquet, table.parquet_sha256)):
        path = folder / name
        if not name:
            continue
        if not path.is_file():
            yield f"{name}: missing"
        elif _digest(path) != digest:
            yield f"{name}: edited since it was written{_where(folder, table)}"


def _where(folder: Path, table: TableFile) -> str:
    """The first cell in which CSV and Parquet differ, as a clause; empty when none is found."""
    try:
        stored = pl.read_parquet(folder / table.parquet)
        stored = stored.with_columns(pl.col(pl.Categorical).cast(pl.String))
        found = read_csv(folder / table.file, table.columns)
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return ""
    if stored.height != found.height:
        return f": {found.height} rows, {stored.height} were written"
    for name in table.columns:
        if name not in stored.columns:
            return ""
        row = (found[name].ne_missing(stored[name])).arg_max()
        if row is not None and found[name][row] != stored[name][row]:
            there, written = found[name][row], stored[name][row]
            return f": row {row + 1}, column {name}: {there}, written was {written}"
    return ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
