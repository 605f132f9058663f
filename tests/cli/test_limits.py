"""Under the limits that clusters and containers set: a result, or one line."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.captures import small_capture

MIB = 2**20


def limited(number: int, limit: int) -> Callable[[], None]:
    def set_limit() -> None:
        resource.setrlimit(number, (limit, limit))

    return set_limit


def explane(capture: Path, out: Path, number: int, limit: int) -> subprocess.CompletedProcess[str]:
    words = [
        sys.executable,
        "-m",
        "explane",
        "report",
        str(capture),
        "-o",
        str(out),
        "--jobs",
        "1",
    ]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, preexec_fn=limited(number, limit)
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return small_capture().write(tmp_path / "run").parent


def test_a_limited_address_space_costs_the_pictures_and_says_so(run: Path, tmp_path: Path) -> None:
    """The drawing engine would end the process without a word of ours."""
    done = explane(run, tmp_path / "out", resource.RLIMIT_AS, 8192 * MIB)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    assert "address space is limited to 8192 MiB" in text
    assert not list((tmp_path / "out").rglob("*.svg"))
    check = [sys.executable, "-m", "explane", "check", str(tmp_path / "out")]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("limit", [0, 1000, 20_000])
def test_a_full_disk_is_one_line_and_leaves_the_old_output(
    run: Path, tmp_path: Path, limit: int
) -> None:
    (tmp_path / "out").mkdir()
    done = explane(run, tmp_path / "out", resource.RLIMIT_FSIZE, limit)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "[output-failed]" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "run"]
    assert list((tmp_path / "out").iterdir()) == []
