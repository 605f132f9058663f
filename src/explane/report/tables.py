r"""Tables as files: CSV per RFC 4180 and, beside it, Parquet.

Written form, the same for both: truth values are 0 and 1; NaN and infinite numbers are missing;
an empty text is missing; a NUL is U+FFFD. In CSV an empty field is a missing value, lines end
with a line feed, and fields with a comma, quote or line break are quoted.

A spreadsheet runs a text that begins with `=`, `+`, `-`, `@` (also in full width), a tab or a
carriage return as a formula. In CSV such a text gets one apostrophe in front, and so does one that
begins with apostrophes followed by such a character; taking one apostrophe from every text that
matches `'+[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]` gives the stored text back. Parquet holds the text
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import polars as pl

_RUNS_IN_SPREADSHEET: Final = r"^'*[=+\-@\t\r\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"

_CSV_ROWS: Final = 4_000
"""Rows that are formatted at once: kernel names may take a kilobyte each, and of more than 8 MiB
every slice gets its memory anew from the system, which takes longer than the formatting."""

COLUMN_KINDS: Final[Mapping[str, pl.DataType | type[pl.DataType]]] = {
    "integer": pl.Int64,
    "number": pl.Float64,
    "text": pl.String,
}
"""Column kinds by the word that claims.json has for them; a categorical column is text too."""


def written(frame: pl.DataFrame) -> pl.DataFrame:
    """A table in its written form (see the module): what files hold and what claims query."""
    return frame.select(_written_column(frame[name]) for name in frame.columns)


def all_written(
    frames: Mapping[str, pl.DataFrame], known: Mapping[str, pl.DataFrame] = MappingProxyType({})
) -> dict[str, pl.DataFrame]:
    """Tables in their written form, in their order.

    Args:
        frames: Tables by stem.
        known: Those that are in their written form already, and others.
    """
    return {stem: known[stem] if stem in known else written(frames[stem]) for stem in frames}


def _written_column(column: pl.Series) -> pl.Expr | pl.Series:
    """A column's written form, as an expression: all columns of a table are worked out at once."""
    dtype, values = column.dtype, pl.col(column.name)
    if dtype == pl.Boolean or dtype.is_integer():
        return values.cast(pl.Int64)
    if dtype.is_float():
        wide = values.cast(pl.Float64)
        return pl.when(wide.is_finite()).then(wide)
    if isinstance(dtype, pl.List):
        return _written_text(values.list.eval(pl.element().cast(pl.String)).list.join("; "))
    if dtype != pl.Categorical:
        return _written_text(values.cast(pl.String))
    distinct = column.unique().cast(pl.String)
    cleaned = distinct.to_frame().select(_written_text(values)).to_series()
    if cleaned.equals(distinct, null_equal=True):
        return column
    return _written_text(values.cast(pl.String)).cast(pl.Categorical)


def _written_text(text: pl.Expr) -> pl.Expr:
    clean = text.str.replace_all("\0", "\ufffd", literal=True)
    return pl.when(clean.str.len_bytes() > 0).then(clean)


def column_kinds(frame: pl.DataFrame) -> dict[str, str]:
    """The kind (`integer`, `number`, `text`) of each column of a written table."""
    words = {dtype: word for word, dtype in COLUMN_KINDS.items()} | {pl.Categorical: "text"}
    return {name: words[type(dtype)] for name, dtype in frame.schema.items()}


def neutralised(frame: pl.DataFrame) -> pl.DataFrame:
    """A written table whose texts no spreadsheet runs as a formula (see the module)."""
    texts = [name for name, dtype in frame.schema.items() if dtype in (pl.String, pl.Categorical)]
    if not texts:
        return frame
    # A categorical column has each text many times: only the distinct ones are looked at.
    distinct = [
        pl.col(name).unique().cast(pl.String) if dtype == pl.Categorical else pl.col(name)
        for name, dtype in frame.select(texts).schema.items()
    ]
    runs = frame.select(text.str.contains(_RUNS_IN_SPREADSHEET).any() for text in distinct).row(0)
    changed = [
        pl.when(pl.col(name).cast(pl.String).str.contains(_RUNS_IN_SPREADSHEET))
        .then(pl.lit("'") + pl.col(name).cast(pl.String))
        .otherwise(pl.col(name).cast(pl.String))
        .alias(name)
        for name, found in zip(texts, runs, strict=True)
        if found
    ]
    return frame.with_columns(changed) if changed else frame


def write_csv(frame: pl.DataFrame, path: Path) -> None:
    """Writes a written table as CSV.

    Raises:
        OSError: When the file can't be written.
    """
    safe = neutralised(frame)
    with path.open("wb") as file:
        for first in range(0, max(safe.height, 1), _CSV_ROWS):
            safe.slice(first, _CSV_ROWS).write_csv(file, include_header=first == 0)


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Writes a written table as Parquet.

    Raises:
        OSError: When the file can't be written.
    """
    try:
        frame.write_parquet(path, compression="zstd", statistics=False)
    except pl.exceptions.ComputeError as error:
        raise OSError(f"{path}: {error}") from error
