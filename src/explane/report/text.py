"""Text from a capture made fit to be shown: hostile characters, long names, long paths.

Kernel names, op names and paths come from files that anyone may have written. Nothing here
escapes for a format (Markdown and HTML writers do that); it only decides which characters are
shown at all, and how much of a long text.
"""

from __future__ import annotations

import re
import unicodedata

REPLACEMENT = "\ufffd"
ELLIPSIS = "…"

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_PLAIN = re.compile(r"[ -~]*")
_DIGITS = re.compile(r"\d")


def visible(text: str) -> str:
    """Text on one line in which every character can be seen.

    Line breaks and tabs become spaces. Control characters, characters that steer the direction of
    writing (they make a name read as another one), private and unassigned ones become U+FFFD.
    """
    if _PLAIN.fullmatch(text):
        return text
    flat = re.sub(r"\r\n|[\r\n\t\v\f]", " ", text)
    return "".join(
        REPLACEMENT if unicodedata.category(c) in _HIDDEN_CATEGORIES else c for c in flat
    )


def shortened(text: str, limit: int) -> str:
    """Text of at most `limit` characters: its beginning and its end around an ellipsis.

    The end is kept since kernel names of one family differ there (`…_f32_32x32x32_t64`).
    """
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return text[: limit - 1 - tail] + ELLIPSIS + text[len(text) - tail :]


def shortened_path(path: str, limit: int) -> str:
    """A path of at most `limit` characters that keeps its end, cut at a folder if possible."""
    if len(path) <= limit:
        return path
    tail = path[len(path) - limit + 1 :]
    folder = tail.find("/")
    return ELLIPSIS + (tail[folder:] if 0 <= folder < len(tail) // 2 else tail)


def has_digit(text: str) -> bool:
    """Whether any decimal digit of any script is in the text."""
    return _DIGITS.search(text) is not None
