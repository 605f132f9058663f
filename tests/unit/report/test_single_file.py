from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from explane.errors import UsageError
from explane.report.single_file import new_file


def write(
    path: Path, content: bytes = b"new", force: bool = False, inputs: Sequence[Path] = ()
) -> None:
    with new_file(path, inputs, force) as stream:
        stream.write(content)


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "trace.pftrace"
    with new_file(path) as stream:
        stream.write(b"x")
        assert not path.exists()
    assert path.read_bytes() == b"x"
    assert leftovers(path.parent) == ["trace.pftrace"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), new_file(path, force=True) as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == ["a"]


def test_a_file_that_exists_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(UsageError) as error:
        write(path)
    assert error.value.slug == "output-exists"
    assert path.read_bytes() == b"old"
    write(path, force=True)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("force", [False, True])
def test_folders_and_devices_are_never_replaced(tmp_path: Path, force: bool) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(UsageError) as error:
            write(path, force=force)
        assert error.value.slug == "output-foreign"


def test_nothing_is_written_beside_the_capture(tmp_path: Path) -> None:
    capture = tmp_path / "run" / "node.xplane.pb"
    capture.parent.mkdir()
    capture.write_bytes(b"")
    for given in (capture, capture.parent):
        with pytest.raises(UsageError) as error:
            write(tmp_path / "run" / "deep" / "a", inputs=[given])
        assert error.value.slug == "output-input"
    assert leftovers(capture.parent) == ["node.xplane.pb"]


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error, new_file(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert error.value.slug == "output-failed"
    assert leftovers(tmp_path) == []


def test_an_error_about_another_file_is_not_taken_for_the_output(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), new_file(tmp_path / "a"):
        Path("/no/such/source.py").read_text()
    assert leftovers(tmp_path) == []
