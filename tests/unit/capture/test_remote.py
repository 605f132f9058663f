"""Captures behind a URL: the same rule as for folders, read from copies that go away again."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from explane import investigate
from explane.capture.discover import discover
from explane.capture.load import load_host
from explane.errors import CaptureError
from explane.options import Options
from tests.cli.captures import write_small_capture

fsspec = pytest.importorskip("fsspec", reason="explane[cluster] is not installed")
RUN = "plugins/profile/2026_01_02_03_04_05"


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A log dir on disk: an older run, and one with a capture and a file that is none."""
    write_small_capture(tmp_path / "logs")
    older = tmp_path / "logs/plugins/profile/2025_01_02_03_04_05"
    older.mkdir(parents=True)
    (older / "node.xplane.pb").write_bytes(b"old")
    (tmp_path / "logs" / RUN / "notes.txt").write_text("mine")
    return tmp_path / "logs"


@pytest.fixture
def memory(local: Path) -> Iterator[str]:
    """The same in fsspec's memory, under a URL."""
    system = fsspec.filesystem("memory")
    system.put(str(local), "/box/logs", recursive=True)
    yield "memory://box/logs"
    system.rm("/box", recursive=True)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary copies lie."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_url_leads_to_what_its_folder_leads_to(memory: str, local: Path) -> None:
    here, there = discover([local]), discover([memory + "/"])
    assert [host.host for host in there.hosts] == [host.host for host in here.hosts]
    assert there.hosts[0].url == f"{memory}/{RUN}"
    assert [item.path.name for item in there.ignored] == [i.path.name for i in here.ignored]
    assert [item.reason for item in there.ignored] == [item.reason for item in here.ignored]
    assert [run.name for run in there.other_runs] == ["2025_01_02_03_04_05"]


@pytest.mark.parametrize("form", ["{memory}", "file://{local}", "{memory}/" + RUN])
def test_results_are_those_of_the_local_files(
    form: str, memory: str, local: Path, temporary: Path
) -> None:
    url = form.format(memory=memory, local=local)
    here, there = investigate(local, Options(jobs=1)), investigate(url, Options(jobs=1))
    assert there.tables.keys() == here.tables.keys()
    for stem, table in here.tables.items():
        assert_frame_equal(there.tables[stem], table)
    assert [s.path for s in there.sources if s.used] == [s.path for s in here.sources if s.used]
    assert list(temporary.iterdir()) == [], "no copy is left"


def test_a_url_of_a_file_is_that_file(memory: str) -> None:
    (host,) = discover([f"{memory}/{RUN}/node.trace.json.gz"]).hosts
    assert (host.host, host.xplane) == ("node", None)
    assert load_host(host).main.source == "json"


def test_errors_name_the_url(memory: str, temporary: Path) -> None:
    run = f"{memory}/plugins/profile/2025_01_02_03_04_05"
    with pytest.raises(CaptureError) as caught:
        investigate(run, Options(jobs=1))
    assert caught.value.subject == f"{run}/node.xplane.pb"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("place", ["", "/none", "/logs/none"])
def test_nothing_there_is_one_line(place: str, memory: str) -> None:
    with pytest.raises(CaptureError) as caught:
        discover([f"memory://nowhere{place}"])
    assert caught.value.slug == "remote"
    assert "no such file" in caught.value.reason


def test_an_unknown_scheme_is_one_line() -> None:
    with pytest.raises(CaptureError, match="copy it here first") as caught:
        discover(["nosuch://box/logs"])
    assert caught.value.slug == "remote"


def test_errors_travel_between_processes() -> None:
    error = CaptureError("a", "b", "c", "d_e")
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.slug, type(back)) == (str(error), "d-e", CaptureError)
