from __future__ import annotations

from collections import Counter
from pathlib import Path

from explane.report.output import OutputFolder
from explane.report.write import write_report
from tests.unit.report.frames import investigation
from tools.edit_reports import caught, edits


def test_edits_change_one_digit_and_are_put_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with OutputFolder(out) as folder:
        write_report(investigation(), folder)
    made = list(edits(out, 12, seed=1))
    assert Counter(edit.kind for edit in made) == {
        "report.md": 2, "summary.txt": 2, "report.html": 2, "tables": 6,
    }  # fmt: skip
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for edit in made:
        old, new = before[edit.file], edit.applied(before[edit.file])
        (place,) = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        assert old[place : place + 1].isdigit()
        assert new[place : place + 1].isdigit()
        assert caught(out, edit)
    assert {path: path.read_bytes() for path in before} == before
    assert not caught(out, made[0].__class__(made[0].file, 0, before[made[0].file][:1]))
