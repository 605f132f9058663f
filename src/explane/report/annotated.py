"""The user's source with GPU time beside it, as data for the writers of text and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from explane.analysis.lines.line_times import LineTimes
from explane.report.source_lines import source_text
from explane.report.text import visible
from explane.units import format_ps, format_ratio

MOST_OPS: Final = 3
HOTTEST: Final = 5
_TAB: Final = 4


@dataclass(frozen=True, slots=True)
class AnnotatedLine:
    """One line of a file; texts are fit to be shown but not escaped for any format.

    Attributes:
        number: Line number.
        code: Its text; empty when the source is not at hand.
        own: Time of kernels of this line; empty without any.
        share: Their share of the time of all kernels; empty without any.
        with_calls: Time of kernels launched through this line; empty without any.
        fused: Time of other lines' kernels that do this line's work too; empty without any.
        own_ratio: The share as a number, 0 to 1.
        ops: What ran, most time first.
    """

    number: int
    code: str
    own: str = ""
    share: str = ""
    with_calls: str = ""
    fused: str = ""
    own_ratio: float = 0.0
    ops: str = ""

    @property
    def has_time(self) -> bool:
        """Whether anything stands beside it."""
        return bool(self.own or self.with_calls or self.fused)


@dataclass(frozen=True, slots=True)
class AnnotatedFile:
    """A file: all its lines when the source is at hand, else those with time."""

    path: str
    own: str
    share: str
    has_source: bool
    lines: tuple[AnnotatedLine, ...]

    @property
    def hottest(self) -> tuple[AnnotatedLine, ...]:
        """The lines with most time of their own."""
        timed = sorted((one for one in self.lines if one.own), key=lambda one: -one.own_ratio)
        return tuple(timed[:HOTTEST])


@dataclass(frozen=True, slots=True)
class Annotated:
    """All files, the one with most time first.

    Attributes:
        files: Files with time of their own, or whose source is at hand.
        total: Time of all kernels.
        without_line: Time of kernels without a line.
        without_line_share: Its share.
    """

    files: tuple[AnnotatedFile, ...]
    total: str
    without_line: str
    without_line_share: str


def annotated(times: LineTimes, folder: Path | None) -> Annotated:
    """Source lines joined with their times.

    Args:
        times: GPU time by line.
        folder: Where the program's sources lie; None for none.
    """
    root = folder.resolve() if folder is not None else None
    files = [
        _file(str(name), part, times, root)
        for (name,), part in times.times.group_by("source_file", maintain_order=True)
    ]
    order = times.times.group_by("source_file").agg(pl.col("own_ps").sum())
    own_ps = dict(order.iter_rows())
    shown = sorted(
        ((f, name) for f, name in files if f.has_source or own_ps[name]),
        key=lambda pair: (-own_ps[pair[1]], pair[1]),
    )
    return Annotated(
        files=tuple(f for f, _ in shown),
        total=format_ps(times.total_ps),
        without_line=format_ps(times.without_line_ps),
        without_line_share=format_ratio(times.without_line_ps / max(times.total_ps, 1)),
    )


def _file(
    name: str, part: pl.DataFrame, times: LineTimes, root: Path | None
) -> tuple[AnnotatedFile, str]:
    text = source_text(name, root) if root is not None else None
    own_ps = int(part["own_ps"].sum())
    rows = {row["source_line"]: row for row in part.iter_rows(named=True)}
    numbers: Sequence[int] = range(1, len(text) + 1) if text is not None else []
    beyond = [number for number in sorted(rows) if number not in numbers]
    ops = _ops_by_line(times.ops.filter(pl.col("source_file") == name))
    lines = [
        _line(n, text[n - 1] if text is not None and n in numbers else "", rows.get(n), ops)
        for n in (*numbers, *beyond)
    ]
    file = AnnotatedFile(
        path=visible(name),
        own=format_ps(own_ps),
        share=format_ratio(own_ps / max(times.total_ps, 1)),
        has_source=text is not None,
        lines=tuple(lines),
    )
    return file, name


def _ops_by_line(ops: pl.DataFrame) -> Mapping[int, str]:
    found: dict[int, str] = {}
    for (number,), part in ops.group_by("source_line", maintain_order=True):
        named = [
            f"{visible(str(name))} {format_ps(duration_ps)}"
            for name, duration_ps in part.head(MOST_OPS)
            .select("hlo_instruction", "duration_ps")
            .iter_rows()
        ]
        rest = part.height - len(named)
        found[int(str(number))] = ", ".join(named) + (f", {rest} more" if rest else "")
    return found


def _line(
    number: int, code: str, row: Mapping[str, Any] | None, ops: Mapping[int, str]
) -> AnnotatedLine:
    shown = visible(code.expandtabs(_TAB))
    if row is None:
        return AnnotatedLine(number, shown)
    return AnnotatedLine(
        number=number,
        code=shown,
        own=format_ps(row["own_ps"]) if row["own_ps"] else "",
        share=format_ratio(row["own_ratio"]) if row["own_ps"] else "",
        with_calls=format_ps(row["with_calls_ps"]) if row["with_calls_ps"] else "",
        fused=format_ps(row["fused_ps"]) if row["fused_ps"] else "",
        own_ratio=row["own_ratio"],
        ops=ops.get(number, ""),
    )
