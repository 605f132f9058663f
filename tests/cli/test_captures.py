"""Every command on good, bad and hostile captures, with the real use cases."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from explane.cli.main import main
from tests.cli.captures import N_KERNELS, small_capture, write_small_capture
from tests.shared import OTHER, REAL, capture_dir, require_shared, xplane_file

Captured = pytest.CaptureFixture[str]
READING = ("report", "verdict", "attribute", "info")


def words_for(command: str, capture: Path, out: Path) -> list[str]:
    return [command, str(capture), *([] if command == "info" else ["-o", str(out)])]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def expect_one_line(capsys: Captured) -> str:
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    lines = [line for line in shown.err.splitlines() if line.startswith("explane: ")]
    assert len(lines) == 1, shown.err
    assert "internal error" not in lines[0]
    return lines[0]


@pytest.mark.parametrize("command", READING)
def test_good_capture(command: str, tmp_path: Path, capsys: Captured) -> None:
    log_dir, out = write_small_capture(tmp_path / "logs"), tmp_path / "out"
    before = contents(log_dir)
    assert main(words_for(command, log_dir, out)) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert shown.err == ("" if command == "info" else f"Wrote {out}\n")
    assert contents(log_dir) == before


def test_attribute_gives_every_kernel_its_line(tmp_path: Path) -> None:
    log_dir, out = write_small_capture(tmp_path / "logs"), tmp_path / "out"
    assert main(["attribute", str(log_dir), "-o", str(out)]) == 0
    with next(out.rglob("kernels.csv")).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == N_KERNELS
    assert {row["match"] for row in rows} == {"exact"}
    assert {row["source_line"] for row in rows} == {"10", "11", "12"}


def test_a_fresh_report_passes_its_check_and_an_edited_one_fails(
    tmp_path: Path, capsys: Captured
) -> None:
    log_dir, out = write_small_capture(tmp_path / "logs"), tmp_path / "out"
    assert main(["report", str(log_dir), "-o", str(out)]) == 0
    assert main(["check", str(out)]) == 0
    page = out / "report.md"
    page.write_text(page.read_text(encoding="utf-8") + "\nIt takes 77.7 ms.\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["check", str(out)]) == 1
    assert "77.7" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["report", "verdict", "attribute"])
def test_same_input_gives_the_same_bytes_anywhere(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = write_small_capture(tmp_path / "logs")
    (tmp_path / "elsewhere").mkdir()
    assert main(words_for(command, log_dir, tmp_path / "first")) == 0
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(words_for(command, log_dir, tmp_path / "second")) == 0
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize(
    "kind", ["missing", "empty file", "empty folder", "text", "cut", "remote"]
)
def test_bad_capture_is_one_line_and_leaves_nothing(
    command: str, kind: str, tmp_path: Path, capsys: Captured
) -> None:
    path, out = tmp_path / "in" / "node.xplane.pb", tmp_path / "out"
    path.parent.mkdir()
    good = small_capture().to_bytes()
    if kind == "empty folder":
        path.mkdir()
    elif kind == "remote":
        path = Path("gs://bucket/run")
    elif kind != "missing":
        text = {"empty file": b"", "text": b"not a capture at all", "cut": good[:40]}
        path.write_bytes(text[kind])
    assert main(words_for(command, path, out)) == 1
    assert expect_one_line(capsys)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


@pytest.mark.parametrize("command", READING)
def test_damaged_end_is_a_partial_result(command: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "in" / "node.xplane.pb"
    path.parent.mkdir()
    path.write_bytes(small_capture().to_bytes()[:-5])
    assert main(words_for(command, path, tmp_path / "out")) == 3
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "verdict", "attribute"])
def test_folders_of_others_are_never_replaced(
    command: str, tmp_path: Path, capsys: Captured
) -> None:
    log_dir, out = write_small_capture(tmp_path / "logs"), tmp_path / "out"
    out.mkdir()
    (out / "precious.txt").write_text("mine", encoding="utf-8")
    assert main([*words_for(command, log_dir, out), "--force"]) == 2
    assert "out" in expect_one_line(capsys)
    assert contents(out) == {"precious.txt": b"mine"}


@pytest.mark.parametrize("command", ["report", "verdict", "attribute"])
def test_the_folder_of_the_capture_is_never_written_to(
    command: str, tmp_path: Path, capsys: Captured
) -> None:
    log_dir = write_small_capture(tmp_path / "logs")
    before = contents(tmp_path)
    run = log_dir / "plugins/profile/2026_01_02_03_04_05"
    assert main(words_for(command, run, run / "out")) == 2
    assert expect_one_line(capsys)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("command", READING)
def test_odd_paths_stay_local(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "a b#c%20[x] é : -y"
    write_small_capture(folder)
    (folder / "loop").symlink_to(folder)
    assert main(words_for(command, folder, tmp_path / "öut put")) == 0


@require_shared
@pytest.mark.parametrize("name", REAL)
def test_info_reads_every_real_capture(name: str, capsys: Captured) -> None:
    assert main(["info", str(capture_dir("real", name)), "--ops"]) in (0, 3)
    assert capsys.readouterr().out


@require_shared
def test_info_counts_what_a_real_capture_holds(capsys: Captured) -> None:
    """Numbers counted in the file by an independent walk through its protobuf."""
    capture = str(capture_dir("real", "mi355x-te-attention"))
    assert main(["info", capture]) in (0, 3)
    shown = capsys.readouterr().out
    assert "device events: 150 (130 compute, 20 memset)" in shown
    assert "launches: 150, of graphs: 0" in shown
    assert "host events: 1,692 on 2 threads; 59 of the Python tracer" in shown
    assert "labelled op" not in shown


@require_shared
def test_time_by_labelled_op_reads_the_gpus_alone(capsys: Captured) -> None:
    capture = str(capture_dir("real", "mi355x-te-attention"))
    assert main(["info", capture, "--ops"]) in (0, 3)
    lines = capsys.readouterr().out.splitlines()
    assert "  launches and host events: not read with --ops" in lines
    first = lines[lines.index("  time by labelled op:") + 1].split()
    label = ["te_fused_attn_backward_ffi.18", "in", "program", "17"]
    assert first == ["2.331", "ms", "19.2", "%", "25", *label]


def test_launches_of_a_json_are_counted_with_ops_too(tmp_path: Path, capsys: Captured) -> None:
    """All of a JSON is read in any case."""
    [json] = write_small_capture(tmp_path / "run").rglob("*.trace.json.gz")
    json.rename(tmp_path / json.name)
    assert main(["info", str(tmp_path / json.name), "--ops"]) == 0
    shown = capsys.readouterr().out
    assert f"launches: {N_KERNELS}, of graphs: 0" in shown
    assert "not read" not in shown


@require_shared
@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize("command", READING)
def test_captures_of_others_are_told_apart(
    command: str, name: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main(words_for(command, capture_dir("other", name), tmp_path / "out")) == 1
    line = expect_one_line(capsys)
    word = {"tpu-v6e": "TPU", "cpu-jax0102": "CPU"}.get(name, "")
    assert word in line
    assert list(tmp_path.iterdir()) == []


@require_shared
@pytest.mark.parametrize("size", [1, 50, 5_000, 100_000, -1])
def test_a_real_file_cut_anywhere_is_told(size: int, tmp_path: Path, capsys: Captured) -> None:
    whole = xplane_file("real", "mi355x-te-attention").read_bytes()
    path = tmp_path / "in" / "host.xplane.pb"
    path.parent.mkdir()
    path.write_bytes(whole[:size])
    assert main(words_for("verdict", path, tmp_path / "out")) in (1, 3)
    assert "Traceback" not in capsys.readouterr().err
