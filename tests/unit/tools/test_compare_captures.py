from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from tools.compare_captures import main

COLUMNS = "device,program_id,step,start_ps,duration_ps,kernel,in_graph,match,hlo_instruction"


def table(path: Path, rows: list[tuple[str, str, str, str]]) -> Path:
    """One step on one device; rows are (kernel, in_graph, match, instruction), 10 ps each."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS.split(","))
        for i, (kernel, in_graph, match, instruction) in enumerate(rows):
            writer.writerow([0, 7, 0, 10 * i, 10, kernel, in_graph, match, instruction])
    return path


def compared(
    off: Path, on: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    monkeypatch.setattr(sys, "argv", ["compare", str(off), str(on)])
    code = main()
    return code, [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


OFF = [("a", "0", "exact", "x.1"), ("a", "0", "exact", "x.2"), ("b", "0", "exact", "y")]


def test_swapped_equal_kernels_agree_in_any_order_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on = [("a", "1", "order", "x.2"), ("a", "1", "order", "x.1"), ("b", "1", "name", "wrong")]
    code, lines = compared(
        table(tmp_path / "off.csv", OFF), table(tmp_path / "on.csv", on), monkeypatch, capsys
    )
    assert code == 0
    assert "graph/order 2 0.0000 1.0000 0.0000" in lines
    assert "graph/name 1 0.0000 0.0000 0.0000" in lines


def test_other_kernels_are_no_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = compared(
        table(tmp_path / "off.csv", OFF), table(tmp_path / "on.csv", OFF[:2]), monkeypatch, capsys
    )
    assert code == 1
    assert lines[-1].startswith("1 steps hold other kernels")


def test_unlabelled_truth_is_counted_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    off = [*OFF[:2], ("b", "0", "none", "")]
    code, lines = compared(
        table(tmp_path / "off.csv", off), table(tmp_path / "on.csv", OFF), monkeypatch, capsys
    )
    assert code == 0
    assert "direct/exact 2 1.0000 1.0000 1.0000" in lines
    assert any(line.startswith("1 kernels are not labelled") for line in lines)
