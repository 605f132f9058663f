from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from explane.errors import UsageError
from explane.report import exchange
from explane.report.filenames import safe_file_name
from explane.report.output import MARKER, OutputFolder, refuse_unsafe


def write(path: Path, text: str, force: bool = False, inputs: tuple[Path, ...] = ()) -> None:
    with OutputFolder(path, inputs, force) as folder:
        folder.write_text("a/report.md", text)


def leftovers(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if p != path)


def test_a_new_folder_appears_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    write(out, "x")
    assert (out / "a" / "report.md").read_text() == "x"
    assert (out / MARKER).is_file()
    assert leftovers(out) == []


def test_nothing_appears_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), OutputFolder(tmp_path / "out") as folder:
        folder.write_text("half", "x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_the_old_output_stays_when_the_work_fails(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "old")
    with pytest.raises(KeyboardInterrupt), OutputFolder(out) as folder:
        folder.write_text("a/report.md", "new")
        raise KeyboardInterrupt
    assert (out / "a" / "report.md").read_text() == "old"
    assert leftovers(out) == []


@pytest.mark.parametrize("can_exchange", [True, False])
def test_an_output_of_ours_is_replaced(
    tmp_path: Path, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write(out, "old")
    if not can_exchange:
        monkeypatch.setattr(exchange, "_exchanged", lambda _left, _right: False)
    write(out, "new")
    assert (out / "a" / "report.md").read_text() == "new"
    assert leftovers(out) == []


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", "x")
    assert (tmp_path / "out" / MARKER).is_file()


@pytest.mark.parametrize("force", [False, True])
def test_a_foreign_folder_is_refused_and_untouched(tmp_path: Path, force: bool) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not written by explane"):
        write(out, "x", force)
    assert [p.name for p in out.iterdir()] == ["thesis.tex"]
    assert leftovers(out) == []


@pytest.mark.parametrize("marker", ["", "{}", "[1]", '{"files": 3}', "\x00"])
def test_a_marker_that_is_not_ours_protects_nothing(tmp_path: Path, marker: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / MARKER).write_text(marker)
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError):
        write(out, "x", force=True)
    assert (out / "thesis.tex").exists()


def test_an_edited_output_needs_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "old")
    (out / "a" / "report.md").write_text("old\n> note: mine")
    with pytest.raises(UsageError, match=r"a/report\.md was changed"):
        write(out, "new")
    assert "mine" in (out / "a" / "report.md").read_text()
    write(out, "new", force=True)
    assert (out / "a" / "report.md").read_text() == "new"


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match="not a folder"):
        write(tmp_path / "out", "x")


def test_the_input_is_never_written_to(tmp_path: Path) -> None:
    run = tmp_path / "log" / "run"
    run.mkdir(parents=True)
    capture = run / "host.xplane.pb"
    capture.write_bytes(b"x")
    for out in (run, run / "report", run / "a" / ".." / "report"):
        for given in (run, capture):
            with pytest.raises(UsageError, match="inside the capture's folder"):
                write(out, "x", inputs=(given,))
    with pytest.raises(UsageError, match="holds the capture"):
        write(tmp_path / "log", "x", inputs=(capture,))
    assert [p.name for p in run.iterdir()] == ["host.xplane.pb"]
    write(tmp_path / "log" / "report", "x", inputs=(capture,))


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a" / "report.md").read_text() == "new"


def test_impossible_paths_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a" / "x", tmp_path / "n\0ul", tmp_path / ("x" * 300)):
        with pytest.raises(UsageError) as error:
            write(path, "x")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "."])
def test_no_file_leads_outside(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(ValueError, match="outside"),
        OutputFolder(tmp_path / "out") as folder,
    ):
        folder.write_text(name, "x")


def test_a_full_disk_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="can't be written: No space left on device"):
        write(tmp_path / "out", "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_parent_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UsageError, match="can't be written"):
            write(tmp_path / "out", "x")
    finally:
        tmp_path.chmod(0o700)


def test_two_writers_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with OutputFolder(out) as folder:
        folder.write_text("who", "first")
        with pytest.raises(UsageError, match="another explane is writing"):
            write(out, "second")
    assert (out / "who").read_text() == "first"
    assert leftovers(out) == []


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "old")
    (tmp_path / ".out.explane-new").mkdir()
    (tmp_path / ".out.explane-new" / "half").write_text("x")
    (tmp_path / ".out.explane-lock").touch()
    write(out, "new")
    assert (out / "a" / "report.md").read_text() == "new"
    assert leftovers(out) == []


def test_an_output_moved_aside_by_a_killed_run_comes_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "old")
    out.rename(tmp_path / ".out.explane-old")
    with pytest.raises(RuntimeError), OutputFolder(out):
        raise RuntimeError
    assert (out / "a" / "report.md").read_text() == "old"


WRITER = """
import sys
from pathlib import Path
from typing import Any
from explane.report.output import OutputFolder
out = Path(sys.argv[1])
print("ready", flush=True)
for number in range(10_000):
    with OutputFolder(out, force=True) as folder:
        for part in range(20):
            folder.write_text(f"part{part}", str(number))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("delay", [0.01, 0.037, 0.083])
def test_a_kill_leaves_one_whole_output(tmp_path: Path, number: int, delay: float) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", WRITER, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(number)
        process.wait()
    if out.exists():
        assert len({(out / f"part{part}").read_text() for part in range(20)}) == 1
        refuse_unsafe(out)
    if number != signal.SIGKILL:
        assert set(leftovers(out)) <= {".out.explane-new", ".out.explane-lock"}


@pytest.mark.parametrize(
    "name",
    ["../../x", "/etc/passwd", "a\0b", "", "..", ".hidden", "x" * 300, "jit_f\n(3)", "con", "é"],
)
def test_names_from_captures_become_one_harmless_part(name: str) -> None:
    safe = safe_file_name(name)
    assert safe
    assert len(safe) <= 130
    assert "/" not in safe
    assert "\0" not in safe
    assert not safe.startswith(".")
    assert safe.isascii()


def test_usual_module_names_stay_and_different_names_stay_different() -> None:
    assert safe_file_name("jit_loss_fn(17)") == "jit_loss_fn(17)"
    assert safe_file_name("a/b") != safe_file_name("a_b")
    assert safe_file_name("x" * 300) != safe_file_name("x" * 301)


@pytest.mark.parametrize("moment", ["mkdir", "rmtree"])
def test_an_interruption_while_it_enters_or_cleans_up_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    out = tmp_path / "out"
    write(out, "old")
    mkdir, rmtree = Path.mkdir, shutil.rmtree
    seen: list[Path] = []

    def interrupted_mkdir(path: Path, *words: Any, **options: Any) -> None:
        mkdir(path, *words, **options)
        if moment == "mkdir" and path.name.endswith("explane-new"):
            raise KeyboardInterrupt

    def interrupted_rmtree(path: Path, **options: Any) -> None:
        if moment == "rmtree" and path.exists() and path.name.endswith("-new") and not seen:
            seen.append(path)
            raise KeyboardInterrupt
        rmtree(path, **options)

    monkeypatch.setattr(Path, "mkdir", interrupted_mkdir)
    monkeypatch.setattr("explane.report.output.shutil.rmtree", interrupted_rmtree)
    with pytest.raises(KeyboardInterrupt), OutputFolder(out) as folder:
        folder.write_text("a", "b")
        raise RuntimeError
    assert leftovers(out) == []
    assert (out / "a" / "report.md").read_text() == "old"
