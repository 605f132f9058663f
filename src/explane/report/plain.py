"""A document as plain text of a fixed width: `summary.txt`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from explane.report.document import (
    Block,
    Bullets,
    Code,
    Link,
    Paragraph,
    Printed,
    Reason,
    Span,
    Spans,
    Text,
)
from explane.report.markdown import WrittenText

WIDTH = 96
_LONGEST = 60
"""Longest value that a wrapped line may hold."""


def to_plain_text(title: str, blocks: Sequence[Block]) -> WrittenText:
    """Title and blocks as wrapped text; tables and pictures are left out.

    Args:
        title: Heading without digits.
        blocks: What to write.
    """
    lines = [title, "=" * len(title), ""]
    printed: list[tuple[str, str]] = []
    for block in blocks:
        match block:
            case Paragraph(line=line) | Reason(line=line):
                lines += [*_wrapped(line, "", printed), ""]
            case Bullets(items=items):
                for item in items:
                    lines += _wrapped(item, "- ", printed)
                lines.append("")
            case Code(lines=code):
                printed += [(line.text, line.ref) for line in code]
                lines += [*(f"    {line.text}" for line in code), ""]
            case _:
                pass
    return WrittenText("\n".join(lines).rstrip("\n") + "\n", printed)


def plain_lines(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Paragraphs and list items as lines for a terminal, not wrapped."""
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Paragraph | Reason):
            lines.append(_text(block.line))
        elif isinstance(block, Bullets):
            lines += [f"- {_text(item)}" for item in block.items]
    return tuple(lines)


def _without_links(line: Spans) -> Spans:
    """A line without links in brackets, which lead nowhere in plain text."""
    kept: list[Span] = []
    rest: list[Span] = list(line)
    for i, span in enumerate(rest):
        before = _prose(kept[-1]) if kept else ""
        after = _prose(rest[i + 1]) if i + 1 < len(rest) else ""
        if isinstance(span, Link) and before.endswith(" (") and after.startswith(")"):
            kept[-1] = Text(before.removesuffix(" ("))
            rest[i + 1] = Text(after.removeprefix(")"))
        else:
            kept.append(span)
    return tuple(kept)


def _prose(span: Span) -> str:
    return span.text if isinstance(span, Text) else ""


def _text(line: Spans) -> str:
    line = _without_links(line)
    return "".join(
        span.text if isinstance(span, Printed) else span.text.replace("`", "") for span in line
    )


def _wrapped(line: Spans, mark: str, printed: list[tuple[str, str]]) -> list[str]:
    """One wrapped line; a value is never broken, so that it can be found in the text.

    A line with a sentence for a value stays whole.
    """
    words = []
    for span in _without_links(line):
        if isinstance(span, Printed):
            printed.append((span.text, span.ref))
            words.append(span.text.replace(" ", _GLUE))
        else:
            words.append(span.text.replace("`", ""))
    if any(isinstance(span, Printed) and len(span.text) > _LONGEST for span in line):
        return [mark + "".join(words).replace(_GLUE, " ")]
    text = textwrap.fill(
        "".join(words),
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return text.replace(_GLUE, " ").split("\n")


_GLUE = "\ue000"
"""Stands for a blank inside a value while lines are wrapped; `visible` never lets it through."""
