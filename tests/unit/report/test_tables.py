from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

from explane.report.factcheck.tables import read_csv
from explane.report.tables import column_kinds, neutralised, write_csv, write_parquet, written

NASTY = [
    "void f<a, b>(c)",
    'say "hi"',
    "two\nlines",
    "cr\rhere",
    "=SUM(A1)",
    "+1",
    "-x",
    "@cmd",
    "\ttab",
    "'=quoted",
    "''@twice",
    "'plain quote",
    "|pipe`tick",
    "<script>alert(1)</script>",
    "‮override",
    "x" * 4096,
    "123",
    " padded ",
]


def test_written_form() -> None:
    frame = written(
        pl.DataFrame(
            {
                "b": [True, False, None],
                "f": [1.5, float("nan"), float("inf")],
                "s": ["a", "", "n\0l"],
                "i": pl.Series([1, 2, None], dtype=pl.Int8),
                "l": [["a", "b"], [], None],
            }
        )
    )
    assert frame["b"].to_list() == [1, 0, None]
    assert frame["f"].to_list() == [1.5, None, None]
    assert frame["s"].to_list() == ["a", None, "n\ufffdl"]
    assert frame["l"].to_list() == ["a; b", None, None]
    assert column_kinds(frame) == {
        "b": "integer",
        "f": "number",
        "s": "text",
        "i": "integer",
        "l": "text",
    }


def test_csv_is_read_back_by_the_standard_reader_and_starts_no_formula(tmp_path: Path) -> None:
    frame = written(pl.DataFrame({"kernel": NASTY, "ps": range(len(NASTY))}))
    write_csv(frame, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(NASTY)
    for row, name in zip(rows, NASTY, strict=True):
        assert row["kernel"][0] not in "=+-@\t\r"
        assert row["kernel"] in (name, "'" + name)
    assert [int(row["ps"]) for row in rows] == list(range(len(NASTY)))


def test_names_that_are_harmless_are_not_changed() -> None:
    harmless = pl.DataFrame({"kernel": ["loop_add_fusion", "'plain quote", "a=b", "void f()"]})
    assert neutralised(harmless).equals(harmless)


def test_the_fact_check_reads_the_stored_texts(tmp_path: Path) -> None:
    frame = written(pl.DataFrame({"kernel": [*NASTY, ""], "n": [*range(len(NASTY)), None]}))
    write_csv(frame, tmp_path / "t.csv")
    write_parquet(frame, tmp_path / "t.parquet")
    assert read_csv(tmp_path / "t.csv", column_kinds(frame)).equals(frame)
    assert pl.read_parquet(tmp_path / "t.parquet").equals(frame)


def test_integers_are_exact(tmp_path: Path) -> None:
    big = [2**62 + 1, -(2**62) - 3, 0, 9_007_199_254_740_993]
    write_csv(written(pl.DataFrame({"ps": big})), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().split() == ["ps", *map(str, big)]


def test_a_full_disk_is_an_oserror() -> None:
    frame = pl.DataFrame({"a": list(range(1000))})
    with pytest.raises(OSError, match="space"):
        write_csv(frame, Path("/dev/full"))
    with pytest.raises(OSError, match="space"):
        write_parquet(frame, Path("/dev/full"))


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    frame = written(pl.DataFrame({"kernel": NASTY * 500, "ps": range(len(NASTY) * 500)}))
    for name in ("a", "b"):
        write_csv(frame, tmp_path / f"{name}.csv")
        write_parquet(frame, tmp_path / f"{name}.parquet")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_categorical_columns_are_written_as_texts_are(tmp_path: Path) -> None:
    texts = [*NASTY, "", "n\0l", None]
    plain = pl.DataFrame({"kernel": pl.Series(texts, dtype=pl.String)})
    coded = plain.cast(pl.Categorical)
    assert written(coded).rows() == written(plain).rows()
    assert column_kinds(written(coded)) == column_kinds(written(plain)) == {"kernel": "text"}
    for name, frame in (("plain", plain), ("coded", coded)):
        write_csv(written(frame), tmp_path / f"{name}.csv")
        write_parquet(written(frame), tmp_path / f"{name}.parquet")
    assert (tmp_path / "plain.csv").read_bytes() == (tmp_path / "coded.csv").read_bytes()
    both = [pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("plain", "coded")]
    assert both[0].rows() == both[1].rows()
