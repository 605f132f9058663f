"""Tables on their way into files, beside other work.

Formatting, the disk and digests keep one processor busy each for a while; none of them holds
Python's lock for long. So tables are written by a few threads, the largest first, while the caller
makes texts of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import polars as pl

from explane.report.claims_file import TableFile
from explane.report.output import OutputFolder
from explane.report.tables import column_kinds, write_csv, write_parquet

_WRITERS: Final = 2

Pending = Mapping[str, Future[TableFile]]
"""What claims.json records of each table, by stem, once it is written."""


@contextmanager
def tables_written(
    folder: OutputFolder,
    tables: Mapping[str, pl.DataFrame],
    places: Mapping[str, str],
    parquet: bool = True,
) -> Iterator[Pending]:
    """Writes tables while the block runs; on leaving none is being written any more.

    Args:
        folder: Where to.
        tables: Tables in their written form, by stem.
        places: The tables to write: path inside the folder, without suffix, by stem.
        parquet: Whether each is written as Parquet too.
    """
    pool = ThreadPoolExecutor(_WRITERS, thread_name_prefix="table")
    by_size = sorted(places, key=lambda stem: -tables[stem].height * tables[stem].width)
    try:
        pending = {
            stem: pool.submit(_write, folder, tables[stem], places[stem], parquet)
            for stem in by_size
        }
        yield {stem: pending[stem] for stem in places}
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _write(folder: OutputFolder, table: pl.DataFrame, place: str, parquet: bool) -> TableFile:
    write_csv(table, folder.file(f"{place}.csv"))
    sha256 = folder.digest(f"{place}.csv")
    if parquet:
        write_parquet(table, folder.file(f"{place}.parquet"))
    return TableFile(
        file=f"{place}.csv",
        parquet=f"{place}.parquet" if parquet else "",
        sha256=sha256,
        parquet_sha256=folder.digest(f"{place}.parquet") if parquet else "",
        columns=column_kinds(table),
    )
