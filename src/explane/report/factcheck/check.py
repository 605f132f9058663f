"""`explane check`: all of the fact check on one folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from explane.errors import CaptureError, one_line
from explane.outcome import CheckOutcome
from explane.report import claims_file
from explane.report.claims_file import ClaimsFile
from explane.report.factcheck.page import check_page
from explane.report.factcheck.tables import changes
from explane.report.factcheck.texts import check_text
from explane.report.factcheck.values import recompute
from explane.report.output import file_digest


def check_report(folder: Path) -> CheckOutcome:
    """Checks every value that a written report prints.

    Args:
        folder: Folder with a claims.json.

    Raises:
        CaptureError: When the folder holds no readable claims.
    """
    if not folder.is_dir():
        raise CaptureError(
            folder, "no such folder", "give a folder of explane report", "no-claims"
        )
    claims = claims_file.read(folder)
    try:
        problems = [one_line(p) for p in problems_of(folder, claims)]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        path = folder / claims_file.NAME
        raise CaptureError(
            path, f"not well formed: {error!r}", "write the report again", "bad-claims"
        ) from error
    n_cells = sum(len(row) for grid in claims.grids for row in grid["values"])
    return CheckOutcome(tuple(dict.fromkeys(problems)), len(claims.claims) + n_cells)


def problems_of(folder: Path, claims: ClaimsFile) -> Iterator[str]:
    """Everything that is wrong, one line each: files first, then texts, then recomputed claims.

    Args:
        folder: The report.
        claims: Its claims.
    """
    for table in claims.tables.values():
        yield from changes(folder, table)
    for name, digest in claims.files.items():
        if not (folder / name).is_file():
            yield f"{name}: missing"
        elif file_digest(folder / name) != digest:
            yield f"{name}: edited since it was written"
    values = claims.values()
    for name, lines in claims.texts.items():
        text = _text(folder, name)
        yield from [f"{name}: missing"] if text is None else check_text(name, text, lines, values)
    if claims.page:
        text = _text(folder, claims.page["file"])
        if text is None:
            yield f"{claims.page['file']}: missing"
        else:
            yield from check_page(text, claims.page, values)
    yield from recompute(folder, claims)


def _text(folder: Path, name: str) -> str | None:
    """A text file; None when there is none. Bytes that are no UTF-8 show as replaced."""
    try:
        return (folder / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
