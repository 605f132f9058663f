"""Annotated source as text and as a page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from explane.analysis.lines.line_times import line_times
from explane.report.annotate_html import heat, to_page
from explane.report.annotate_text import to_text
from explane.report.annotated import Annotated, annotated
from tests.unit.export.made import US, investigation, kernel

HOSTILE = "</code><script>alert(1)</script>\x1b[31m\u202e & \"'"
MODEL = [f"line {i}" for i in range(1, 41)]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    MODEL[29] = "\treturn head(x)"
    (folder / "model.py").write_text("\n".join(MODEL) + "\n", encoding="utf-8")
    (tmp_path / "train.py").write_text("secret\n" * 99, encoding="utf-8")
    return folder


def made(folder: Path | None = None, hostile: str = "") -> Annotated:
    rows = [
        kernel(0, 8 * US, "dot.1"),
        kernel(0, 2 * US, "mul.3"),
        kernel(9 * US, 6 * US, None, kernel="k", source_file=hostile or None, source_line=1),
    ]
    return annotated(line_times(investigation(rows)), folder)


def test_every_line_of_a_file_at_hand_and_only_lines_with_time_of_others(sources: Path) -> None:
    files = {file.path: file for file in made(sources).files}
    model = files["/me/model.py"]
    assert model.has_source
    assert [line.number for line in model.lines] == list(range(1, 41))
    twelve, thirty = model.lines[11], model.lines[29]
    assert (twelve.code, twelve.own, twelve.share) == ("line 12", "8.000 µs", "50.0 %")
    assert twelve.ops == "dot.1 8.000 µs"
    assert thirty.code == "    return head(x)"
    assert not model.lines[0].has_time
    assert [line.number for line in model.hottest] == [12, 30]
    # No time of its own and no source inside the folder: nothing to show.
    assert set(files) == {"/me/model.py"}


def test_without_sources_the_lines_alone(sources: Path) -> None:
    (model,) = made(None).files
    assert not model.has_source
    assert [(line.number, line.code) for line in model.lines] == [(12, ""), (30, "")]


def test_text_shows_what_has_time_with_its_neighbours(sources: Path) -> None:
    text = to_text(made(sources))
    assert text[0] == "GPU time by Python line. All kernels: 16.000 µs; without a line: 37.5 %."
    shown = [line.split("|")[1].strip() for line in text if " | " in line]
    assert shown == [
        "…", "line 10", "line 11", "line 12", "^ dot.1 8.000 µs", "line 13", "line 14",
        "…", "line 28", "line 29", "return head(x)", "^ mul.3 2.000 µs", "line 31", "line 32", "…",
    ]  # fmt: skip
    row = next(line for line in text if line.endswith("line 12"))
    assert row.split("|")[0].split() == ["8.000", "µs", "50.0", "%", "8.000", "µs", "12"]


def test_a_line_beyond_the_end_of_a_changed_file_is_shown_without_text(sources: Path) -> None:
    (sources / "model.py").write_text("short\n", encoding="utf-8")
    (model,) = (file for file in made(sources).files if file.path == "/me/model.py")
    assert [(line.number, line.code) for line in model.lines] == [(1, "short"), (12, ""), (30, "")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_names_and_sources_are_text(sources: Path) -> None:
    (sources / "model.py").write_text((HOSTILE + "\n") * 40, encoding="utf-8")
    found = made(sources, hostile=HOSTILE)
    page = _Reader()
    page.feed(to_page(found))
    assert "script" not in page.tags
    assert page.text.count("<script>alert(1)</script>") > 40
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    assert all(line.isprintable() for line in to_text(found))


def test_the_page_allows_no_script_and_loads_nothing(sources: Path) -> None:
    page = to_page(made(sources))
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page == to_page(made(sources))


def test_heat_grows_with_the_share() -> None:
    levels = [heat(share) for share in (0.0, 0.001, 0.003, 0.05, 0.2, 0.5, 1.0)]
    assert levels == sorted(levels)
    assert (levels[0], levels[-1]) == (0, 9)
