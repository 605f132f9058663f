from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pytest

from explane.errors import CaptureError
from explane.report import claims_file
from explane.report.factcheck.check import check_report, problems_of
from explane.report.output import OutputFolder
from explane.report.write import write_report
from tests.unit.report.frames import investigation


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fresh") / "out"
    with OutputFolder(out) as folder:
        write_report(investigation(), folder)
    return out


@pytest.fixture
def copy(fresh: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fresh, tmp_path / "copy"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def problems(folder: Path) -> str:
    return "\n".join(check_report(folder).problems)


def test_a_fresh_report_passes_and_counts_its_claims(fresh: Path) -> None:
    result = check_report(fresh)
    assert result.problems == ()
    assert result.n_claims > 300


def editable(folder: Path) -> list[Path]:
    texts = [folder / "report.md", folder / "summary.txt", folder / "attribution" / "summary.txt"]
    tables = [*(folder / "tables").glob("*.csv"), *(folder / "attribution").glob("*.csv")]
    return [*texts, *sorted(tables), folder / "report.html", folder / "claims.json"]


def test_any_single_digit_changed_anywhere_is_caught(copy: Path) -> None:
    generator = random.Random(11)
    files = [p for p in editable(copy) if p.name not in ("report.html", "claims.json")]
    places = []
    for path in files:
        found = [m.start() for m in re.finditer(rb"\d", path.read_bytes())]
        places += [(path, p) for p in generator.sample(found, min(len(found), 40))]
    chosen = generator.sample(places, 200)
    missed, claims = [], claims_file.read(copy)
    for path, place in chosen:
        before = path.read_bytes()
        digit = before[place : place + 1]
        other = generator.choice([b"%d" % d for d in range(10) if b"%d" % d != digit])
        path.write_bytes(before[:place] + other + before[place + 1 :])
        if next(problems_of(copy, claims), None) is None:
            missed.append((path.name, before[max(place - 20, 0) : place + 20]))
        path.write_bytes(before)
    assert missed == []
    assert check_report(copy).problems == ()


def test_digits_of_the_page_are_caught(copy: Path) -> None:
    page = copy / "report.html"
    before = page.read_text(encoding="utf-8")
    generator, claims = random.Random(5), claims_file.read(copy)
    start = before.index("<body>")
    places = [m.start() for m in re.finditer(r"(?<=>)[^<]*?(\d)", before[start:])]
    for place in generator.sample(places, 40):
        at = start + place + re.search(r"\d", before[start + place :]).start()  # type: ignore[union-attr]
        other = str((int(before[at]) + 1) % 10)
        page.write_text(before[:at] + other + before[at + 1 :], encoding="utf-8")
        assert next(problems_of(copy, claims), None), before[at - 30 : at + 10]


def test_edited_marks_and_links_of_the_page_are_caught(copy: Path) -> None:
    edit(copy / "report.html", 'data-key="7/fusion.1"', 'data-key="7/fusion.2"')
    assert "report.html: tags or attributes of the page were edited" in problems(copy)


def test_an_edited_number_is_named_with_what_stands_there(copy: Path) -> None:
    edit(copy / "report.md", "nothing for 25.0 %", "nothing for 26.0 %")
    found = problems(copy)
    assert "report.md, line" in found
    assert "25.0 % (claim c" in found
    assert "there stands 26.0 %" in found


def test_a_unit_or_verdict_that_was_edited_is_caught(copy: Path) -> None:
    edit(copy / "report.md", "950.000 µs", "950.000 ms")
    edit(copy / "summary.txt", "host-bound", "GPU-bound")
    found = problems(copy)
    assert "950.000 µs" in found
    assert "summary.txt, line" in found
    assert "host-bound" in found


def test_a_removed_value_is_named(copy: Path) -> None:
    edit(copy / "summary.txt", "5.000 µs of 7.000 µs", "little of 7.000 µs")
    assert "5.000 µs" in problems(copy)


def test_prose_of_a_person_is_accepted(copy: Path) -> None:
    edit(copy / "report.md", "## Findings\n", "## Findings\n\nWe looked at this and agree.\n")
    edit(copy / "report.md", "Grey is idle;", "Grey is idle time, as everywhere;")
    assert problems(copy) == ""


def test_a_number_of_a_person_must_be_a_claim_or_marked(copy: Path) -> None:
    edit(copy / "report.md", "## Findings\n", "## Findings\n\nThat is 3.7 times more.\n")
    assert "3 is backed by no claim" in problems(copy)


def test_a_marked_note_is_the_persons_own(copy: Path) -> None:
    note = "## Findings\n\n> note: last week it was 3.7 ms\n> and 4.2 ms before.\n"
    edit(copy / "report.md", "## Findings\n", note)
    assert problems(copy) == ""


def test_a_note_ends_at_the_next_blank_line(copy: Path) -> None:
    edit(copy / "report.md", "## Findings\n", "## Findings\n\n> note: mine 3.7\n\nnot 4.2\n")
    found = problems(copy)
    assert "4 is backed by no claim" in found
    assert "3 is backed" not in found


def test_a_person_may_repeat_a_claim_with_its_unit(copy: Path) -> None:
    edit(copy / "report.md", "## Findings\n", "## Findings\n\nAgain: fusion.0 takes 315.201 µs.\n")
    assert problems(copy) == ""


@pytest.mark.parametrize("text", ["315.201 ms", "-315.201 µs", "1315.201 µs", "315.2015 µs"])
def test_a_repeated_number_must_be_the_whole_claim(copy: Path, text: str) -> None:
    edit(copy / "report.md", "## Findings\n", f"## Findings\n\nAgain: it takes {text}.\n")
    assert "backed by no claim" in problems(copy)


def test_an_edited_table_is_named_with_its_cell(copy: Path) -> None:
    edit(copy / "tables" / "steps.csv", "3950000003", "3950000004")
    found = problems(copy)
    assert "tables/steps.csv: edited since it was written: row 1, column end_ps" in found
    assert "3950000004, written was 3950000003" in found
    assert "claim" in found


def test_rows_taken_out_of_a_table_are_seen(copy: Path) -> None:
    path = copy / "attribution" / "kernels.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    assert "47 rows, 48 were written" in problems(copy)


def test_a_table_that_is_no_table_any_more(copy: Path) -> None:
    (copy / "tables" / "steps.csv").write_bytes(b"\xff\xfe\x00")
    assert "tables/steps.csv" in problems(copy)


def test_missing_files_are_named(copy: Path) -> None:
    (copy / "tables" / "steps.csv").unlink()
    (copy / "pictures" / "budget.svg").unlink()
    (copy / "report.md").unlink()
    (copy / "report.html").unlink()
    found = problems(copy)
    for name in ("tables/steps.csv", "pictures/budget.svg", "report.md", "report.html"):
        assert f"{name}: " in found


def test_a_changed_picture_or_module_is_seen(copy: Path) -> None:
    edit(copy / "pictures" / "budget.svg", "compute", "compote")
    (copy / "attribution" / "jit_f(7).hlo_proto.pb").write_bytes(b"\x08\x08")
    found = problems(copy)
    assert "pictures/budget.svg: edited" in found
    assert "jit_f(7).hlo_proto.pb: edited" in found


def test_text_and_claims_edited_alike_are_caught_by_the_tables(copy: Path) -> None:
    for name in ("report.md", "summary.txt", "attribution/summary.txt", "report.html"):
        path = copy / name
        path.write_text(path.read_text().replace("315.201 µs", "415.201 µs"))
    path = copy / "claims.json"
    path.write_text(path.read_text().replace("315.201 µs", "415.201 µs"))
    assert "printed 415.201 µs" in problems(copy)


def test_a_query_that_gives_nothing_is_a_problem(copy: Path) -> None:
    claims = json.loads((copy / "claims.json").read_text())
    claims["claims"][0]["sql"] = "SELECT nothing AS value FROM nowhere"
    claims["grids"][0]["sql"] = "DROP TABLE steps"
    (copy / "claims.json").write_text(json.dumps(claims))
    assert "gives no value" in problems(copy)
    assert "gives no table" in problems(copy)


def test_queries_and_names_that_reach_for_other_files_are_refused(
    copy: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.csv").write_text("value\nsecret\n")
    claims = json.loads((copy / "claims.json").read_text())
    claims["claims"][0]["sql"] = f"SELECT value FROM read_csv('{tmp_path}/secret.csv')"
    (copy / "claims.json").write_text(json.dumps(claims))
    found = problems(copy)
    assert "it reads files, which no claim does" in found
    assert "secret" not in found.replace("secret.csv", "")
    for name in ("../secret.csv", "/etc/passwd", "C:\\x", "a/../../b"):
        claims["files"] = {name: "0"}
        (copy / "claims.json").write_text(json.dumps(claims))
        with pytest.raises(CaptureError, match="outside of the report"):
            check_report(copy)


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"format": 99}', '{"format": 1, "tables": []}', "\xff"]
)
def test_claims_that_are_no_claims_are_one_line(copy: Path, content: str) -> None:
    (copy / "claims.json").write_text(content)
    with pytest.raises(CaptureError) as error:
        check_report(copy)
    assert "\n" not in str(error.value)


def test_a_folder_without_claims(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"no claims\.json"):
        check_report(tmp_path)
    with pytest.raises(CaptureError, match="no such folder"):
        check_report(tmp_path / "nowhere")
