"""Links of the documents lead somewhere, and the README's commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explane.cli.application import COMMANDS
from tests.shared import ROOT

# The example is a report without its tables; its README says that links to them lead nowhere.
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "skills").rglob("*.md")]
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_into_the_repository_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in _LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [c.__name__ for c in COMMANDS if f"| `explane {c.__name__}" not in text] == []


def test_the_readme_names_only_targets_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"make ([a-z]+)\b(?= {2,}#|`)", text)) <= set(targets)


def test_tests_named_by_the_page_on_robustness_exist() -> None:
    text = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    made = {name for source in sources for name in re.findall(r"^def (test_\w+)", source, re.M)}
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 100
    assert named <= made
