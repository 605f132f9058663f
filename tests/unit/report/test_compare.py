"""A written comparison: its numbers are claims, hostile names stay text, bytes stay the same."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from explane.analysis.compare.compare import compare
from explane.report.compare import write_comparison
from explane.report.factcheck.check import check_report
from explane.report.output import OutputFolder, digests
from tests.shared import ROOT
from tests.unit.analysis.compared import US, ran, side, with_advice, with_whatif

HOSTILE = "</code><script>alert(1)</script>|`*\x1b[31m\u202e"
A_STEPS, B_STEPS = {3: 100, 4: 104}, {3: 80, 4: 84}


def write(folder: Path, hostile: str = "", b_steps: dict[int, int] | None = None) -> list[str]:
    steps = B_STEPS if b_steps is None else b_steps
    named: dict[str, Any] = {"op_name": f"jit(step)/layer/dot{hostile}", "function": f"f{hostile}"}
    a_kernels = [ran(f"dot.1{hostile}", s, 30, **named) for s in A_STEPS]
    a_kernels += [ran(f"gone.1{hostile}", s, 5, line=77) for s in A_STEPS]
    b_kernels = [ran(f"dot.9{hostile}", s, 20, **named) for s in steps or A_STEPS]
    b_kernels += [ran(None, s, 5, kernel=f"new{hostile}") for s in steps or A_STEPS]
    a = with_advice(side(a_kernels, A_STEPS), ("host_late", f"next{hostile}", 30, (70, 90)))
    b = with_whatif(side(b_kernels, steps), {("unchanged", ""): 0, ("copy", ""): US})
    found = compare(a, b, (f"runs/before{hostile}", "runs/after"))
    with OutputFolder(folder) as output:
        return list(write_comparison(found, output))


def test_a_fresh_comparison_passes_the_fact_check(tmp_path: Path) -> None:
    lines = write(tmp_path / "out")
    outcome = check_report(tmp_path / "out")
    assert outcome.problems == ()
    assert outcome.n_claims > 100
    text = "\n".join(lines)
    assert "A step takes 100.000 µs (from 100.000 µs to 104.000 µs, n = 2, measured) in A" in text
    assert "Difference of the step: -20.000 µs or -20.0 %" in text
    assert "beyond the noise" in text
    assert "Vanished work of A: 5.000 µs of a step" in text
    assert "came true 1" in text


def test_the_page_on_comparing_names_every_table_and_column(tmp_path: Path) -> None:
    write(tmp_path / "out")
    page = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+)`", page))
    for path in (tmp_path / "out" / "tables").glob("*.csv"):
        columns = path.read_text(encoding="utf-8").splitlines()[0].split(",")
        assert path.stem in named
        assert {c for c in columns if not {c, re.sub("^[ab]_", "", c)} & named} == set()


@pytest.mark.parametrize("name", ["compare.md", "summary.txt", "compare.html"])
def test_an_edited_number_is_found(tmp_path: Path, name: str) -> None:
    write(tmp_path / "out")
    path = tmp_path / "out" / name
    text = path.read_text(encoding="utf-8")
    assert "-20.0 %" in text
    path.write_text(text.replace("-20.0 %", "-21.0 %"), encoding="utf-8")
    assert check_report(tmp_path / "out").problems


def test_without_whole_steps_nothing_is_said_of_a_step(tmp_path: Path) -> None:
    text = "\n".join(write(tmp_path / "out", b_steps={}))
    assert check_report(tmp_path / "out").problems == ()
    assert "A step takes" not in text
    assert "of the whole capture on a GPU" in text


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_names_are_text_everywhere(tmp_path: Path) -> None:
    plain, evil = tmp_path / "plain", tmp_path / "evil"
    write(plain)
    lines = write(evil, HOSTILE)
    assert check_report(evil).problems == ()
    pages = []
    for folder in (plain, evil):
        pages.append(_Tags())
        pages[-1].feed((folder / "compare.html").read_text(encoding="utf-8"))
    assert pages[0].scripts == pages[1].scripts
    assert "<script>alert(1)</script>" in pages[1].text
    assert all(line.isprintable() for line in lines)
    texts = [(evil / name).read_text(encoding="utf-8") for name in ("compare.md", "summary.txt")]
    assert not any(re.search(r"[\x1b\u202e]", text) for text in (*texts, pages[1].text))


def test_the_same_captures_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
