"""Rules of the house that no tool enforces."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.messages import documented, written
from tests.shared import ROOT

SOURCES = sorted(p for p in (ROOT / "src").rglob("*.py") if "_proto" not in p.parts)
MODULES = {p.stem for p in (ROOT / "src" / "explane").iterdir()}
LOCKS = sorted(ROOT.glob("requirements-*.lock"))
MAX_LINES = 500


def taken_from_root(path: Path) -> Iterator[str]:
    """Names that a module takes from the package root and that are no modules themselves."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name == "explane")
        elif isinstance(node, ast.ImportFrom) and node.module == "explane":
            yield from (alias.name for alias in node.names if alias.name not in MODULES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_is_short_and_never_imports_the_package_root(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
    assert list(taken_from_root(path)) == [], "it makes import cycles"


@pytest.mark.parametrize("path", LOCKS, ids=lambda p: p.name)
def test_lock_file_has_hashes_for_all_and_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    pins = [line for line in text.splitlines() if line[:1].isalnum()]
    assert pins
    assert all("==" in pin and pin.endswith("\\") for pin in pins)


def test_there_are_lock_files() -> None:
    assert [path.name for path in LOCKS] == ["requirements-dev.lock", "requirements-lowest.lock"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_error_has_an_entry_among_the_messages(path: Path) -> None:
    assert set(written(path)) <= documented()
