"""`explane annotate` from a capture's files to text and page."""

from __future__ import annotations

from pathlib import Path

import pytest

from explane.cli.main import main
from tests.cli.captures import write_small_capture


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_capture(tmp_path_factory.mktemp("logdir"))


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "train.py").write_text("".join(f"x{i} = {i}\n" for i in range(1, 21)))
    return folder


def test_to_the_terminal(capture: Path, sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["annotate", str(capture), "--source", str(sources)]) == 0
    shown = capsys.readouterr().out
    assert "/home/user/train.py: 240.000 µs, 100 %" in shown  # 12 kernels of 20 µs
    line = next(line for line in shown.splitlines() if line.endswith("| x11 = 11"))
    assert line.split("|")[0].split() == ["80.000", "µs", "33.3", "%", "80.000", "µs", "11"]


def test_no_source_is_asked_for(
    capture: Path, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["annotate", str(capture), "--source", str(sources), "--no-source"]) == 0
    assert "x11" not in capsys.readouterr().out


@pytest.mark.parametrize(("name", "start"), [("a.html", "<!doctype html>"), ("a.txt", "GPU time")])
def test_to_a_file(capture: Path, sources: Path, tmp_path: Path, name: str, start: str) -> None:
    output = tmp_path / name
    arguments = ["annotate", str(capture), "--source", str(sources), "-o", str(output)]
    assert main(arguments) == 0
    text = output.read_text(encoding="utf-8")
    assert text.startswith(start)
    assert "x11 = 11" in text
    assert main(arguments) == 2
