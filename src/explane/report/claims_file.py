"""`claims.json`: what was claimed, where it is printed, and what the files looked like.

    {"format": 1,
     "tables": {stem: {"file", "parquet", "sha256", "parquet_sha256", "columns": {name: kind}}},
     "files":  {path: sha256},                       files that nobody edits: pictures, modules
     "texts":  {path: [[digest of a line, [[text as written, claim], …]], …]},
     "page":   {"file", "claims": [claim, …], "parts": [sha256, …], "markup": sha256},
     "claims": [{"id", "value", "unit", "label", "low", "high", "n", "sql", "printed"}, …],
     "grids":  [{"id", "sql", "n_all", "columns", "values", "printed"}, …],
     "timings": [{"name", "depth", "seconds", "own_s", "beside"}, …]}   only when they were taken

A claim is named `c3`, a part of its range `c3.low`, `c3.high` or `c3.n`, a cell of a table
`g2.<row>.<column>`. Paths are relative to the folder of the file. Timings (`explane.timings`) are
no claims, and differ between two runs: they are there only if the user asked for them, and stop
where this file is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson

from explane.errors import CaptureError
from explane.report.claims import ClaimBook
from explane.report.formats import Value
from explane.report.markdown import WrittenText
from explane.timings import Timing

NAME: Final = "claims.json"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class TableFile:
    """Where a table is written, what it looked like, and the kinds of its columns."""

    file: str
    parquet: str
    sha256: str
    parquet_sha256: str
    columns: dict[str, str]


@dataclass(slots=True)
class Written:
    """What was written into a folder, to be recorded beside the claims."""

    tables: dict[str, TableFile] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    texts: dict[str, WrittenText] = field(default_factory=dict)
    page: dict[str, Any] = field(default_factory=dict)
    timings: Sequence[Timing] = ()


def line_digest(line: str) -> str:
    """Digest of one line of a text; trailing blanks don't count."""
    return hashlib.sha256(line.rstrip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def to_json(book: ClaimBook, written: Written) -> bytes:
    """The file's content; the same claims give the same bytes."""
    content: dict[str, object] = {
        "format": FORMAT,
        "tables": dict(sorted(written.tables.items())),
        "files": dict(sorted(written.files.items())),
        "texts": {name: _lines(text) for name, text in sorted(written.texts.items())},
        "page": written.page,
        "claims": book.claims,
        "grids": book.grids,
    }
    if written.timings:
        content["timings"] = [
            replace(t, seconds=round(t.seconds, 6), own_s=round(t.own_s, 6))
            for t in written.timings
        ]
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _lines(text: WrittenText) -> list[list[object]]:
    """Every line's digest with the claims that are printed in it.

    Claims stand in the order of the text and none spans two lines, so each line takes from the
    list as long as the next claim is found further on in it.
    """
    result: list[list[object]] = []
    waiting = list(reversed(text.printed))
    for line in text.text.splitlines():
        entries, position = [], 0
        while waiting and (found := line.find(waiting[-1][0], position)) >= 0:
            position = found + len(waiting[-1][0])
            entries.append(list(waiting.pop()))
        result.append([line_digest(line), entries])
    if waiting:
        raise ValueError(f"a claim is not in the text: {waiting[-1]}")
    return result


def _refuse_outside(content: Mapping[str, Any], tables: Mapping[str, TableFile]) -> None:
    """Refuses names that lead out of the report's folder.

    Raises:
        ValueError: With the name.
    """
    names = [*content["files"], *content["texts"], content["page"].get("file", "")]
    for name in (*names, *(n for t in tables.values() for n in (t.file, t.parquet))):
        if name.startswith(("/", "\\")) or ":" in name or ".." in name.split("/"):
            raise ValueError(f"a file outside of the report: {name}")


@dataclass(frozen=True, slots=True)
class ClaimsFile:
    """A claims.json as read back."""

    tables: Mapping[str, TableFile]
    files: Mapping[str, str]
    texts: Mapping[str, Sequence[tuple[str, Sequence[tuple[str, str]]]]]
    page: Mapping[str, Any]
    claims: Sequence[Mapping[str, Any]]
    grids: Sequence[Mapping[str, Any]]

    def values(self) -> dict[str, tuple[Value, str]]:
        """Value and format word by claim name, ranges and cells included."""
        result: dict[str, tuple[Value, str]] = {}
        for claim in self.claims:
            result[claim["id"]] = (claim["value"], claim["unit"])
            result |= {f"{claim['id']}.{p}": (claim[p], claim["unit"]) for p in ("low", "high")}
            result[f"{claim['id']}.n"] = (claim["n"], "count")
        for grid in self.grids:
            units = [column["unit"] for column in grid["columns"]]
            result |= {
                f"{grid['id']}.{r}.{c}": (value, units[c])
                for r, row in enumerate(grid["values"])
                for c, value in enumerate(row)
            }
        return result


def read(folder: Path) -> ClaimsFile:
    """Reads the claims of a written report.

    Raises:
        CaptureError: When there is none, or it is not one of ours.
    """
    path = folder / NAME
    try:
        content = orjson.loads(path.read_bytes())
        if content["format"] != FORMAT:
            reason = f"was written in format {content['format']}, this version reads {FORMAT}"
            raise CaptureError(path, reason, "write the report again", "claims-format")
        tables = {stem: TableFile(**table) for stem, table in content["tables"].items()}
        _refuse_outside(content, tables)
        parts = {k: content[k] for k in ("files", "texts", "page", "claims", "grids")}
    except FileNotFoundError:
        raise CaptureError(
            folder, "no claims.json here", "give a folder that explane report wrote", "no-claims"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CaptureError(
            path, f"can't be read as claims: {error}", "write the report again", "bad-claims"
        ) from error
    return ClaimsFile(tables=tables, **parts)
