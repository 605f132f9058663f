"""What each word and figure of the report means, printed once; the texts are a table too."""

from __future__ import annotations

from importlib.resources import files

import polars as pl

from explane.report.document import Section
from explane.report.sections.context import Context


def definition_table() -> pl.DataFrame:
    """Table `definitions`: term and meaning."""
    content = (files("explane.report") / "static" / "definitions.csv").read_bytes()
    return pl.read_csv(content)


def definitions(context: Context) -> Section:
    """The section with all definitions."""
    columns = [
        context.column("term", "term", "word"),
        context.column("meaning", "meaning", "prose"),
    ]
    sql = "SELECT term, meaning FROM definitions ORDER BY term"
    table = context.table("definitions", sql, columns, "One word, one meaning.", text_rows=99)
    return Section("definitions", "Definitions", (table,))
