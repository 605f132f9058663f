from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from explane.report.source_lines import line_texts


def lines(*names: tuple[str, int]) -> pl.DataFrame:
    return pl.DataFrame(list(names), schema=["source_file", "source_line"], orient="row")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    root = tmp_path / "src"
    (root / "model").mkdir(parents=True)
    (root / "model" / "mlp.py").write_text("a = 1\n    b = 2\n")
    (root / "mlp.py").write_text("wrong one\n")
    (tmp_path / "secret.py").write_text("password\n")
    return root


def test_the_longest_ending_of_the_path_is_taken(sources: Path) -> None:
    found = line_texts(lines(("/build/model/mlp.py", 2), ("/else/mlp.py", 1)), sources)
    assert dict(zip(found["source_file"], found["code"], strict=True)) == {
        "/build/model/mlp.py": "b = 2",
        "/else/mlp.py": "wrong one",
    }


@pytest.mark.parametrize(
    "name",
    [
        "../secret.py",
        "/x/../../secret.py",
        "model/../../secret.py",
        "<stdin>",
        "",
        "a\0b",
        "x" * 999,
    ],
)
def test_nothing_outside_of_the_folder_is_opened(sources: Path, name: str) -> None:
    assert line_texts(lines((name, 1)), sources).height == 0


def test_links_that_lead_outside_are_not_followed(sources: Path) -> None:
    (sources / "link.py").symlink_to(sources.parent / "secret.py")
    assert line_texts(lines(("link.py", 1)), sources).height == 0


def test_lines_that_are_not_there(sources: Path) -> None:
    assert line_texts(lines(("mlp.py", 2), ("mlp.py", 0), ("mlp.py", -1)), sources).height == 0
    assert line_texts(lines(("mlp.py", 1)), None).height == 0


def test_windows_paths(sources: Path) -> None:
    found = line_texts(lines(("C:\\work\\model\\mlp.py", 1)), sources)
    assert found["code"].to_list() == ["a = 1"]
