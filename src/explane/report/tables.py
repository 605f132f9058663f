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


def _written_column(column: pl.Series) -> pl.Series:
    dtype = column.dtype
    if dtype == pl.Boolean:
        return column.cast(pl.Int64)
    if dtype.is_integer():
        return column.cast(pl.Int64)
    if dtype.is_float():
        wide = column.cast(pl.Float64)
        return wide.set(~wide.is_finite(), None)
    if isinstance(dtype, pl.List):
        column = column.list.eval(pl.element().cast(pl.String)).list.join("; ")
    if dtype == pl.Categorical:
        distinct = column.unique().cast(pl.String)
        as_it_is = _written_text(distinct).equals(distinct, null_equal=True)
        return column if as_it_is else _written_text(column.cast(pl.String)).cast(pl.Categorical)
    return _written_text(column.cast(pl.String))


def _written_text(text: pl.Series) -> pl.Series:
    if text.str.contains("\0", literal=True).any():
        text = text.str.replace_all("\0", "\ufffd", literal=True)
    return text.set(text.str.len_bytes() == 0, None)


def column_kinds(frame: pl.DataFrame) -> dict[str, str]:
    """The kind (`integer`, `number`, `text`) of each column of a written table."""
    words = {dtype: word for word, dtype in COLUMN_KINDS.items()} | {pl.Categorical: "text"}
    return {name: words[type(dtype)] for name, dtype in frame.schema.items()}


def neutralised(frame: pl.DataFrame) -> pl.DataFrame:
    """A written table whose texts no spreadsheet runs as a formula (see the module)."""
    changed = [
        pl.when(pl.col(name).cast(pl.String).str.contains(_RUNS_IN_SPREADSHEET))
        .then(pl.lit("'") + pl.col(name).cast(pl.String))
        .otherwise(pl.col(name).cast(pl.String))
        .alias(name)
        for name, dtype in frame.schema.items()
        if dtype in (pl.String, pl.Categorical) and _runs_in_spreadsheet(frame[name])
    ]
    return frame.with_columns(changed) if changed else frame


def _runs_in_spreadsheet(column: pl.Series) -> bool:
    texts = column.unique().cast(pl.String) if column.dtype == pl.Categorical else column
    return bool(texts.str.contains(_RUNS_IN_SPREADSHEET).any())


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
