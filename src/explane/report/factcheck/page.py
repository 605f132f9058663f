"""The page checked: values in their elements, no number outside, nothing else touched."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any, Final

from explane.report.factcheck.readback import says
from explane.report.formats import Value

_SHOWN: Final = frozenset({"title", "alt", "aria-label", "placeholder", "value", "content"})
_VOID: Final = frozenset({"meta", "link", "br", "hr", "img", "input", "col", "source", "wbr"})
_CLOSED: Final = frozenset({"script", "style", "template"})


class PageReader(HTMLParser):
    """Collects what a page prints.

    Attributes:
        claimed: (claim name, text, raw attribute) of every element with `data-claim`.
        loose: Texts with digits outside such elements.
        parts: Digest of every script and style, in order.
        markup: Digest of all tags with their attributes.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.claimed: list[tuple[str, str, str | None]] = []
        self.loose: list[str] = []
        self.parts: list[str] = []
        self._tags = hashlib.sha256()
        self._open: list[tuple[str, str | None]] = []
        self._text: list[str] = []
        self._raw: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes a claim, and digits in attributes that people see."""
        self._tags.update(repr((tag, attrs)).encode())
        given = dict(attrs)
        claim = given.get("data-claim")
        if claim is not None:
            self._text, self._raw = [], given.get("data-raw")
        elif tag != "meta":
            shown = (v for k, v in attrs if k in _SHOWN and v and re.search(r"\d", v))
            self.loose.extend(shown)
        if tag not in _VOID:
            self._open.append((tag, claim))
        if tag in _CLOSED:
            self._text = []

    @property
    def markup(self) -> str:
        """Digest of the tags read so far: of what is marked, linked and sorted by."""
        return self._tags.hexdigest()

    def handle_endtag(self, tag: str) -> None:
        """Takes the text of a finished claim or script."""
        while self._open:
            name, claim = self._open.pop()
            if claim is not None:
                self.claimed.append((claim, "".join(self._text), self._raw))
            if name in _CLOSED:
                self.parts.append(hashlib.sha256("".join(self._text).encode()).hexdigest())
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        """Sorts text into claims, scripts and the rest."""
        inside = any(claim is not None for _, claim in self._open)
        closed = bool(self._open) and self._open[-1][0] in _CLOSED
        if inside or closed:
            self._text.append(data)
        elif re.search(r"\d", data):
            self.loose.append(data.strip())


def read_page(file: str, page: str) -> dict[str, Any]:
    """What claims.json records of a page: its claims in order and the digests of its parts.

    Raises:
        ValueError: When a number stands outside a claim.
    """
    reader = PageReader()
    reader.feed(page)
    reader.close()
    if reader.loose:
        raise ValueError(f"a number outside a claim on the page: {reader.loose[0]!r}")
    claims = [ref for ref, _, _ in reader.claimed]
    return {"file": file, "claims": claims, "parts": reader.parts, "markup": reader.markup}


def check_page(
    page: str, expected: Mapping[str, Any], values: Mapping[str, tuple[Value, str]]
) -> Iterator[str]:
    """What is wrong with the page, one line each.

    Args:
        page: The page as it stands.
        expected: `page` of claims.json: its file, its claims in order, digests of its parts
            and of its markup.
        values: Value and format word by claim name.
    """
    name = expected["file"]
    reader = PageReader()
    reader.feed(page)
    reader.close()
    for ref, text, raw in reader.claimed:
        value, unit = values.get(ref, (None, ""))
        if ref not in values or not says(text, value, unit):
            yield f"{name}: {text} is not what claim {ref} says ({value})"
        elif raw is not None and raw != ("" if value is None else str(value)):
            yield f"{name}: claim {ref} is marked as {raw}, its value is {value}"
    found = [ref for ref, _, _ in reader.claimed]
    if found != list(expected["claims"]):
        gone = [ref for ref in expected["claims"] if ref not in set(found)]
        yield f"{name}: printed claims are not those that were written {gone[:5]}"
    yield from (f"{name}: a number is backed by no claim: {text[:80]}" for text in reader.loose)
    if reader.markup != expected["markup"]:
        yield f"{name}: tags or attributes of the page were edited"
    if reader.parts != list(expected["parts"]):
        yield f"{name}: scripts, styles or data of the page were edited"
