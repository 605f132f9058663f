"""Which error slugs docs/messages.md has an entry for, and which ones the code uses."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from explane.errors import ExplaneError
from tests.shared import ROOT

_HEADING = re.compile(r"^### (.*)$", re.MULTILINE)
_ERRORS = {"ExplaneError", "CaptureError", "UsageError"}


def documented() -> set[str]:
    """Slugs with a heading in docs/messages.md."""
    text = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
    return {slug for line in _HEADING.findall(text) for slug in re.findall(r"`([a-z-]+)`", line)}


def written(path: Path) -> Iterator[str]:
    """Slugs that stand as text where a module makes an error."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ERRORS:
            yield from (text.replace("_", "-") for text in _slug_texts(node))


def _slug_texts(call: ast.Call) -> Iterator[str]:
    chosen = [call.args[3]] if len(call.args) > 3 else []
    chosen += [keyword.value for keyword in call.keywords if keyword.arg == "slug"]
    for node in chosen:
        branches = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
        for branch in branches:
            if isinstance(branch, ast.Constant) and isinstance(branch.value, str):
                yield branch.value


@contextmanager
def recorded(undocumented: set[str]) -> Iterator[None]:
    """While active, collects slugs without an entry of every error that the package makes."""
    known = documented()
    original = ExplaneError.__init__

    def record(self: ExplaneError, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        maker = sys._getframe(1).f_globals.get("__name__", "")
        if maker.startswith("explane.") and self.slug not in known:
            undocumented.add(f"{self.slug} ({maker})")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExplaneError, "__init__", record)
        yield
