"""Tables on their way into files, beside other work.

Formatting, the disk and digests keep one processor busy each for a while; none of them holds
Python's lock for long. So tables are written by two threads, the largest first, while the caller
makes texts of them or goes on with the analysis.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import polars as pl

from explane.progress import NULL, Progress
from explane.report.claims_file import TableFile
from explane.report.output import OutputFolder
from explane.report.tables import column_kinds, write_csv, write_parquet

_WRITERS: Final = 2


class TableWriter:
    """Writes tables while its block runs; behind the block none is being written any more.

    Args:
        folder: Where to.
        parquet: Whether each is written as Parquet too.
        progress: Told what the threads do.

    Attributes:
        tables: Tables that were begun, in their written form, by stem.
    """

    def __init__(self, folder: OutputFolder, parquet: bool = True, progress: Progress = NULL):
        self._folder, self._parquet, self._progress = folder, parquet, progress
        self._pool = ThreadPoolExecutor(_WRITERS, thread_name_prefix="table")
        self._begun: dict[str, Future[TableFile]] = {}
        self.tables: dict[str, pl.DataFrame] = {}

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, tables: Mapping[str, pl.DataFrame], places: Mapping[str, str]) -> None:
        """Begins to write tables; those that were begun before are not written again.

        Args:
            tables: Tables in their written form, by stem.
            places: The tables to write: path inside the folder, without suffix, by stem.
        """
        for stem in sorted(places, key=lambda stem: -tables[stem].height * tables[stem].width):
            if stem not in self._begun:
                self.tables[stem] = tables[stem]
                self._begun[stem] = self._pool.submit(self._write, tables[stem], places[stem])

    def finished(self, stems: Mapping[str, str]) -> dict[str, TableFile]:
        """What claims.json records of some tables, in their order, when they are written.

        Args:
            stems: The tables, as they were begun.

        Raises:
            OSError: One of them couldn't be written.
        """
        return {stem: self._begun[stem].result() for stem in stems}

    def _write(self, table: pl.DataFrame, place: str) -> TableFile:
        with self._progress.stage("write: tables"):
            return self._written(table, place)

    def _written(self, table: pl.DataFrame, place: str) -> TableFile:
        csv, parquet = f"{place}.csv", f"{place}.parquet" if self._parquet else ""
        write_csv(table, self._folder.file(csv))
        sha256 = self._folder.digest(csv)
        if parquet:
            write_parquet(table, self._folder.file(parquet))
        return TableFile(
            file=csv,
            parquet=parquet,
            sha256=sha256,
            parquet_sha256=self._folder.digest(parquet) if parquet else "",
            columns=column_kinds(table),
        )
