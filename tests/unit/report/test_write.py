from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from markdown_it import MarkdownIt

from explane.analysis.advice.texts import CAUSE_TEXTS
from explane.capture.hlo import read_program
from explane.capture.hlo_text import program_text
from explane.capture.model import StoredProgram
from explane.options import Options
from explane.report.factcheck.check import check_report
from explane.report.output import OutputFolder, digests
from explane.report.sections.causes import action, meaning
from explane.report.write import write_attribution, write_report, write_verdict
from tests.unit.report.frames import MODULE, investigation

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>|`\"'&,;\n# head\n- x\u202e\0"
    "](javascript:alert(3)) =1+1 {{ 7*7 }} ${x} 9"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "out"
    with OutputFolder(out) as folder:
        write_report(investigation(), folder)
    return out


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hostile") / "out"
    with OutputFolder(out) as folder:
        write_report(investigation(HOSTILE), folder)
    return out


def test_all_parts_are_there(report: Path) -> None:
    for name in ("report.md", "report.html", "summary.txt", "claims.json", ".explane"):
        assert (report / name).is_file()
    for stem in ("steps", "streams", "idle", "checks", "advice", "trust", "roofline"):
        assert (report / "tables" / f"{stem}.csv").is_file()
        assert (report / "tables" / f"{stem}.parquet").is_file()
    for stem in ("kernels", "ops", "lines", "how", "selfcheck"):
        assert (report / "attribution" / f"{stem}.csv").is_file()
    stored = report / "attribution" / "jit_f(7).hlo_proto.pb"
    assert stored.read_bytes() == MODULE.to_bytes()
    text = stored.with_name("jit_f(7).hlo.txt").read_text(encoding="utf-8")
    assert text == program_text(read_program(StoredProgram(7, "jit_f(7)", MODULE.to_bytes())))
    assert (report / "pictures" / "swimlanes.svg").read_text().startswith("<svg")


def test_two_runs_write_the_same_bytes(report: Path, tmp_path: Path) -> None:
    with OutputFolder(tmp_path / "again") as folder:
        write_report(investigation(), folder)
    assert digests(tmp_path / "again") == digests(report)


def test_every_number_of_the_markdown_is_a_claim(report: Path) -> None:
    claims = json.loads((report / "claims.json").read_text())
    text = (report / "report.md").read_text()
    printed = [w for _, entries in claims["texts"]["report.md"] for w, _ in entries]
    claimed = [run for w in printed for run in re.findall(r"\d+", w)]
    assert re.findall(r"\d+", text) == claimed
    assert len(claimed) > 100


def test_claims_carry_all_that_was_asked_for(report: Path) -> None:
    claims = json.loads((report / "claims.json").read_text())
    step = next(c for c in claims["claims"] if c["n"] == 6 and c["unit"] == "ps")
    assert step["label"] == "measured"
    assert (step["low"], step["value"], step["high"]) == (950_000_003, 950_000_004, 950_000_005)
    assert {c["label"] for c in claims["claims"]} == {"measured", "read", "inferred"}
    assert all(c["sql"].startswith("SELECT") for c in claims["claims"])


def test_findings_come_first_and_every_section_says_something(report: Path) -> None:
    text = (report / "report.md").read_text()
    titles = re.findall(r"^## (.*)$", text, re.M)
    assert titles == [
        "Findings",
        "Verdict and cause",
        "Reconciliation",
        "GPUs and streams",
        "The median step",
        "Operations and Python lines",
        "How kernels were attributed",
        "Roofline",
        "Launches against kernels",
        "What to change",
        "What can't be trusted",
        "Needs a new capture",
        "What was read",
        "Definitions",
    ]
    parts = re.split(r"^## .*$", text, flags=re.M)[1:]
    assert all(re.sub(r"<a id=.*</a>", "", part).strip() for part in parts)
    assert "Verdict: host-bound" in text.split("## Findings")[0]


def test_an_empty_investigation_gives_a_reason_for_every_part(tmp_path: Path) -> None:
    whole = investigation()
    empty = {stem: frame.clear() for stem, frame in whole.tables.items()}
    bare = type(whole)(
        hosts=whole.hosts,
        tables=empty,
        sources=(),
        not_analysed=(),
        programs=(),
        partial=True,
    )
    with OutputFolder(tmp_path / "out") as folder:
        write_report(bare, folder)
    text = (tmp_path / "out" / "report.md").read_text()
    parts = re.split(r"^## .*$", text, flags=re.M)[1:]
    assert all(re.sub(r"<a id=.*</a>", "", part).strip() for part in parts)
    assert check_report(tmp_path / "out").problems == ()
    assert not list((tmp_path / "out").rglob("*.svg"))


def test_reasons_of_the_analyses_are_quoted(report: Path) -> None:
    assert "Not analysed: only 1 GPU took part" in (report / "report.md").read_text()


def test_hostile_names_stay_text_in_markdown(hostile: Path) -> None:
    text = (hostile / "report.md").read_text()
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = [t for token in parser.parse(text) for t in (token, *(token.children or []))]
    raw = [t.content for t in tokens if t.type in ("html_block", "html_inline")]
    assert re.sub(r'<a id="[a-z]+">|</a>', "", "".join(raw)).strip() == ""
    links = [t.attrs["href"] for t in tokens if t.type == "link_open"]
    assert all(re.fullmatch(r"#[a-z]+", str(link)) for link in links)
    assert sum(t.type == "heading_open" and t.tag == "h1" for t in tokens) == 1
    assert "\u202e" not in text
    assert "\0" not in text


def test_hostile_names_keep_tables_rectangular(hostile: Path) -> None:
    parser = MarkdownIt("commonmark").enable("table")
    widths: list[int] = []
    for token in parser.parse((hostile / "report.md").read_text()):
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in ("td_open", "th_open"):
            widths[-1] += 1
        elif token.type == "table_close":
            assert len(set(widths)) == 1
            widths.clear()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def test_hostile_names_stay_text_on_the_page(hostile: Path, report: Path) -> None:
    found, plain = Tags(), Tags()
    found.feed((hostile / "report.html").read_text())
    plain.feed((report / "report.html").read_text())
    assert found.handlers == []
    assert set(found.tags) == set(plain.tags)
    assert found.tags.count("script") == plain.tags.count("script")
    assert "img" not in found.tags
    assert all(link.startswith("#") for link in found.links)


def test_the_page_is_one_file_that_asks_for_nothing(report: Path) -> None:
    page = (report / "report.html").read_text()
    assert "default-src &#39;none&#39;" in page
    assert "unsafe-eval" not in page
    assert len(page.encode()) < 2_000_000


def test_hostile_names_come_back_from_the_tables(hostile: Path) -> None:
    with (hostile / "attribution" / "kernels.csv").open(newline="", encoding="utf-8") as file:
        names = {row["kernel"] for row in csv.DictReader(file)}
    wanted = HOSTILE.replace("\0", "\ufffd")
    assert names == {f"loop_add_fusion_{i}{wanted}" for i in range(12)}


def test_files_stay_inside_the_folder(hostile: Path) -> None:
    assert sorted(p.name for p in hostile.parent.iterdir()) == ["out"]
    modules = [p.name for p in (hostile / "attribution").glob("*.pb")]
    assert len(modules) == 1
    assert re.fullmatch(r"[\w.()~ +=@-]+", modules[0], re.ASCII)


def test_a_hostile_report_passes_its_fact_check(hostile: Path) -> None:
    assert check_report(hostile).problems == ()


def test_attribution_alone(tmp_path: Path) -> None:
    with OutputFolder(tmp_path / "attribution") as folder:
        write_attribution(investigation(), folder)
    names = {p.name for p in (tmp_path / "attribution").iterdir()}
    assert names == {
        ".explane", "claims.json", "how.csv", "jit_f(7).hlo.txt", "jit_f(7).hlo_proto.pb",
        "kernels.csv", "lines.csv", "ops.csv", "selfcheck.csv", "summary.txt",
    }  # fmt: skip
    assert check_report(tmp_path / "attribution").problems == ()


def test_a_module_under_several_ids_has_one_text_but_for_its_header(tmp_path: Path) -> None:
    whole = investigation()
    twins = tuple(replace(whole.programs[0], program_id=i) for i in (7, 8, 9))
    with OutputFolder(tmp_path / "attribution") as folder:
        write_attribution(replace(whole, programs=twins), folder)
    texts = [(tmp_path / f"attribution/jit_f({i}).hlo.txt").read_text() for i in (7, 8, 9)]
    assert texts == [program.text for program in twins]
    assert texts[1] == texts[0].replace("program_id=7", "program_id=8") != texts[0]


def test_verdict_alone(tmp_path: Path) -> None:
    whole = investigation()
    tables = {
        **whole.tables,
        "rows": pl.DataFrame({"host": ["node"], "ok": [True]}),
        "skip": pl.DataFrame({"host": ["node"], "tklqt_ps": [7], "akd_ps": [2.5]}),
    }
    facts = {name: getattr(whole, name) for name in type(whole).__slots__ if name != "tables"}
    with OutputFolder(tmp_path / "out") as folder:
        write_verdict(type(whole)(tables=tables, **facts), folder)
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {".explane", "rows.csv", "steps.csv", "streams.csv", "idle.csv", "skip.json"}
    assert (tmp_path / "out" / "rows.csv").read_text() == "host,ok\nnode,1\n"
    skip = json.loads((tmp_path / "out" / "skip.json").read_text())
    assert skip == [{"host": "node", "tklqt_ps": 7, "akd_ps": 2.5}]


def test_source_lines_only_from_the_folder_that_was_named(tmp_path: Path) -> None:
    sources = tmp_path / "src"
    sources.mkdir()
    (sources / "train.py").write_text("\n".join(f"x = line_{n}" for n in range(1, 20)))
    for options, shown in (
        (Options(source_dir=sources), True),
        (Options(source_dir=sources, show_source=False), False),
        (Options(), False),
    ):
        with OutputFolder(tmp_path / "out") as folder:
            write_report(investigation(), folder, options)
        text = (tmp_path / "out" / "report.md").read_text()
        assert ("x = line_11" in text) == shown
        assert ("x = line_11" in (tmp_path / "out" / "report.html").read_text()) == shown
        assert check_report(tmp_path / "out").problems == ()


def test_several_hosts_stand_side_by_side(tmp_path: Path) -> None:
    whole = investigation()
    other = {
        stem: frame.with_columns(pl.lit("other").alias("host"))
        for stem, frame in whole.tables.items()
    }
    both = {
        stem: pl.concat([frame, other[stem]], how="diagonal_relaxed")
        for stem, frame in whole.tables.items()
    }
    hosts = (whole.hosts[0], replace(whole.hosts[0], host="other"))
    with OutputFolder(tmp_path / "out") as folder:
        write_report(replace(whole, hosts=hosts, tables=both), folder)
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Verdict for `node`: host-bound" in text
    assert "Verdict for `other`: host-bound" in text
    assert "| host | GPU | stream |" in text
    assert check_report(tmp_path / "out").problems == ()


def test_trust_items_are_repeated_where_they_matter(report: Path) -> None:
    parts = re.split(r"^## ", (report / "report.md").read_text(), flags=re.M)
    verdict = next(part for part in parts if part.startswith("Verdict"))
    roofline = next(part for part in parts if part.startswith("Roofline"))
    assert "To be read with doubt: steps are inferred" in verdict
    assert "To be read with doubt" not in roofline


def test_every_cause_is_named_in_words() -> None:
    for cause in CAUSE_TEXTS:
        assert meaning(cause) != "", cause
        assert action(cause) != action("no such cause"), cause


def test_doubts_about_every_figure_are_counted_and_not_repeated(tmp_path: Path) -> None:
    whole = investigation()
    trust = whole.tables["trust"]
    doubts = pl.concat(
        [
            trust,
            *(
                trust.with_columns(
                    pl.lit(f"a check fails: {name}").alias("item"),
                    pl.lit("every figure that uses these records").alias("affects"),
                )
                for name in ("launches", "copies")
            ),
        ]
    )
    captures = pl.DataFrame({"host": ["node"], "question": ["Who knows?"], "capture": [""]})
    tables = {**whole.tables, "trust": doubts, "new_captures": captures}
    with OutputFolder(tmp_path / "out") as folder:
        write_report(replace(whole, tables=tables), folder)
    text = (tmp_path / "out" / "report.md").read_text()
    parts = re.split(r"^## ", text, flags=re.M)
    roofline = next(part for part in parts if part.startswith("Roofline"))
    assert "To be read with doubt: doubts about every figure: 2. See" in roofline
    verdict = next(part for part in parts if part.startswith("Verdict"))
    assert "steps are inferred ; doubts about every figure: 2. See" in verdict
    assert "first of all: a check fails: copies." in text
    assert "Who knows?" not in text


def test_plain_text_has_no_links_that_lead_nowhere(report: Path) -> None:
    text = " ".join((report / "summary.txt").read_text().split())
    assert "of all kernel time. - The Python line" in text
    assert "fail. Doubts: 1, first of all: steps are inferred" in text
    assert "(operations and lines)" not in text


def test_causes_that_are_the_same_time_stand_once_at_the_head(tmp_path: Path) -> None:
    whole = investigation()
    first = whole.tables["advice"].with_columns(pl.lit("readback").alias("overlaps_with"))
    others = [
        first.with_columns(
            pl.lit(rank).alias("rank").cast(first["rank"].dtype),
            pl.lit(cause).alias("cause"),
            pl.lit(overlaps).alias("overlaps_with"),
            pl.col("high_ps") + 1_000_000,
        )
        for rank, cause, overlaps in ((2, "readback", "host_late"), (3, "copy", ""))
    ]
    advice = pl.concat([first, *others])
    with OutputFolder(tmp_path / "out") as folder:
        write_report(replace(whole, tables={**whole.tables, "advice": advice}), folder)
    head = (tmp_path / "out" / "report.md").read_text().split("## Findings")[0]
    assert head.count("To change") == 2
    assert "(host_late)" in head
    assert "(copy)" in head


@pytest.mark.parametrize("with_advice", [True, False])
def test_a_withheld_verdict_asks_for_a_better_capture_first(
    tmp_path: Path, with_advice: bool
) -> None:
    whole = investigation()
    withheld = whole.tables["verdict"].with_columns(pl.lit("withheld").alias("verdict"))
    advice = whole.tables["advice"] if with_advice else whole.tables["advice"].clear()
    tables = {**whole.tables, "verdict": withheld, "advice": advice}
    with OutputFolder(tmp_path / "out") as folder:
        write_report(replace(whole, tables=tables), folder)
    head = (tmp_path / "out" / "report.md").read_text().split("## Findings")[0]
    asks = head.index("Before you change anything, [take a better capture](#captures).")
    assert ("rest on records that can't carry a verdict" in head) == with_advice
    assert head.find("To change") > asks if with_advice else "To change" not in head
