"""Annotated source as lines for a terminal: what has time, and what stands around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from explane.report.annotated import Annotated, AnnotatedFile, AnnotatedLine
from explane.report.text import shortened

CONTEXT: Final = 2
"""Lines shown before and after one with time."""

_LONGEST_CODE: Final = 120
_OPS_FROM_RATIO: Final = 0.005
_MEANING: Final = (
    "own: kernels of the line; with calls: kernels launched through it; "
    "fused: other lines' kernels that do its work too."
)
_HEAD: Final = f"{'own':>11} {'share':>8} {'with calls':>11} {'fused':>11} {'line':>6}"


def to_text(annotated: Annotated) -> tuple[str, ...]:
    """All files as lines of text."""
    whole = f"All kernels: {annotated.total}; without a line: {annotated.without_line_share}."
    lines = [f"GPU time by Python line. {whole}", _MEANING]
    for file in annotated.files:
        lines += ["", f"{file.path}: {file.own}, {file.share}", _HEAD]
        if not file.has_source:
            lines.append(f"{' ' * len(_HEAD)} | (source not at hand; give --source DIR)")
        lines += _lines_of(file)
    return tuple(lines)


def _lines_of(file: AnnotatedFile) -> Iterator[str]:
    timed = [i for i, line in enumerate(file.lines) if line.has_time]
    shown = {j for i in timed for j in range(i - CONTEXT, i + CONTEXT + 1)}
    before = -1
    for i, line in enumerate(file.lines):
        if i not in shown:
            continue
        if file.has_source and i > before + 1:
            yield f"{' ' * len(_HEAD)} | …"
        before = i
        yield from _line(line)
    if file.has_source and before < len(file.lines) - 1:
        yield f"{' ' * len(_HEAD)} | …"


def _line(line: AnnotatedLine) -> Iterator[str]:
    margin = f"{line.own:>11} {line.share:>8} {line.with_calls:>11} {line.fused:>11}"
    code = shortened(line.code, _LONGEST_CODE)
    yield f"{margin} {line.number:>6} | {code}".rstrip()
    if line.ops and line.own_ratio >= _OPS_FROM_RATIO:
        indent = len(line.code) - len(line.code.lstrip())
        yield f"{' ' * len(_HEAD)} | {' ' * indent}^ {line.ops}"
