"""Pictures drawn by a process of their own are those that this process would draw."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from explane.report.charts import process
from explane.report.charts.budget import budget_chart
from explane.report.charts.process import converter_process
from explane.report.charts.ranking import lines_chart
from explane.report.charts.render import Wanted, converted
from tests.unit.report.frames import tables


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every process that the converter starts."""
    found: list[subprocess.Popen[bytes]] = []

    def noted(*words: Any, **choices: Any) -> subprocess.Popen[bytes]:
        found.append(subprocess.Popen(*words, **choices))
        return found[-1]

    monkeypatch.setattr(process, "Popen", noted)
    return found


@pytest.fixture(scope="module")
def charts() -> list[Wanted]:
    found = tables("\x1b[31m<script>\u202e&")
    return [(lines_chart(found["lines"]), True), (budget_chart(found["streams"]), False)]


def test_a_process_converts_as_this_one_does(
    started: list[subprocess.Popen[bytes]], charts: list[Wanted]
) -> None:
    with converter_process() as convert:
        (lines, picture), (budget, none) = convert(charts)
    assert started[0].returncode == 0
    assert [(lines, picture), (budget, none)] == converted(charts)
    assert picture.startswith("<svg")
    assert none == ""


def test_the_process_ends_with_the_block(started: list[subprocess.Popen[bytes]]) -> None:
    with pytest.raises(KeyboardInterrupt), converter_process():
        assert started[0].poll() is None
        raise KeyboardInterrupt
    assert started[0].returncode is not None


def test_what_a_dead_process_leaves_is_done_here(
    started: list[subprocess.Popen[bytes]], charts: list[Wanted]
) -> None:
    with converter_process() as convert:
        started[0].kill()
        assert convert(charts) == converted(charts)
        assert convert(charts) == converted(charts)


@pytest.mark.parametrize("executable", ["", "/nonexistent/python", "/bin/false"])
def test_where_no_process_starts_all_is_done_here(
    monkeypatch: pytest.MonkeyPatch, charts: list[Wanted], executable: str
) -> None:
    monkeypatch.setattr("sys.executable", executable)
    with converter_process() as convert:
        assert convert(charts) == converted(charts)


def test_a_chart_that_cannot_be_drawn_is_the_same_error(charts: list[Wanted]) -> None:
    bad: list[Wanted] = [*charts, ({"mark": "nonsense"}, True)]
    with converter_process() as convert:
        for each in (converted, convert):
            with pytest.raises(ValueError, match="Vega-Lite to Vega conversion failed"):
                each(bad)
