"""Bars appear on a terminal only, and only for work that takes longer than a second."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from explane.cli.progress import open_progress, timing_lines
from explane.progress import NULL
from explane.timings import TimedProgress

_WORK = """
import sys, time
import explane.contents as contents
from explane.outcome import Outcome
def work(captures, options, progress):
    with progress.stage("reading [red]host1[/red]", 100) as stage:
        for _ in range(10):
            time.sleep(float(sys.argv[1]) / 10)
            stage.advance(10)
        with progress.stage("joining"):
            pass
    return Outcome(("done",))
contents.info = work
from explane.cli.main import main
sys.exit(main(["info", "x", *sys.argv[2:]]))
"""


def on_terminal(seconds: float, *words: str) -> tuple[str, str]:
    """Standard output and what a terminal on standard error got."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", _WORK, str(seconds), *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True
    ) as process:
        os.close(theirs)
        drawn = b""
        try:
            while chunk := os.read(ours, 65536):
                drawn += chunk
        except OSError:  # Linux ends a closed terminal with EIO
            pass
        out, _ = process.communicate(timeout=30)
    os.close(ours)
    assert process.returncode == 0
    return out, drawn.decode()


def test_long_work_draws_a_bar_with_the_name_as_it_is() -> None:
    out, drawn = on_terminal(2.5)
    assert out == "done\n"
    assert "reading [red]host1[/red]" in drawn
    assert "100%" in drawn or "90%" in drawn


@pytest.mark.parametrize("words", [(), ("--quiet",)])
def test_short_work_and_quiet_draw_nothing(words: tuple[str, ...]) -> None:
    out, drawn = on_terminal(1.6 if words else 0.1, *words)
    assert (out, drawn) == ("done\n", "")


def test_redraws_are_bounded() -> None:
    _, drawn = on_terminal(2.5)
    assert drawn.count("reading") <= 10 * 1.5 + 5


def test_without_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with open_progress(quiet=False, timings=False) as progress:
        assert progress is NULL
    assert capsys.readouterr() == ("", "")


def test_timings_list_stages_in_order_and_nesting() -> None:
    clock = TimedProgress(NULL)
    with clock.stage("outer") as outer:
        outer.advance(1)
        with clock.stage("inner"):
            pass
    with clock.stage("after"):
        pass
    names = [line.split(" s  ", 1)[1] for line in timing_lines(clock.timings())[:5]]
    assert names[:4] == ["outer", "  inner", "after", "rest: between stages"]
    assert names[4].startswith("total, peak memory ")


def test_timings_are_kept_when_the_work_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(ValueError, match="broken"),
        open_progress(quiet=False, timings=True) as progress,
        progress.stage("reading"),
    ):
        raise ValueError("broken")
    assert "reading" in capsys.readouterr().err
