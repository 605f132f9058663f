from __future__ import annotations

import polars as pl
import pytest

from explane.report.claims import ClaimBook, Column, Label, sql_text
from explane.report.document import Link, Text, cell_of, part_of, spans, value_of

TABLE = pl.DataFrame({"name": ["it's", "b"], "t": [3_000_000, 1_000_000]})


@pytest.fixture
def book() -> ClaimBook:
    return ClaimBook({"t": TABLE})


def test_a_claim_holds_what_its_query_gives(book: ClaimBook) -> None:
    sql = "SELECT SUM(t) AS value, MIN(t) AS low, MAX(t) AS high, COUNT(*) AS n FROM t"
    claim = book.claim(sql, "ps", Label.MEASURED)
    assert (claim.value, claim.low, claim.high, claim.n) == (4_000_000, 1_000_000, 3_000_000, 2)
    assert claim.printed == "4.000 µs"
    assert value_of(claim).ref == claim.id
    assert part_of(claim, "high").text == "3.000 µs"
    assert part_of(claim, "n").text == "2"


def test_the_same_query_is_one_claim(book: ClaimBook) -> None:
    first = book.claim("SELECT COUNT(*) AS value FROM t", "count")
    assert book.claim("SELECT COUNT(*) AS value FROM t", "count") is first
    assert len(book.claims) == 1


def test_a_query_without_one_value_is_an_error(book: ClaimBook) -> None:
    with pytest.raises(ValueError, match="not one row"):
        book.claim("SELECT t AS value FROM t", "ps")
    with pytest.raises(ValueError, match="not one row"):
        book.claim("SELECT SUM(t) AS total FROM t", "ps")


def test_a_ratio_of_nothing_is_missing(book: ClaimBook) -> None:
    claim = book.claim("SELECT CAST(0 AS DOUBLE) / 0 AS value FROM t LIMIT 1", "ratio")
    assert claim.value is None


def test_a_grid_is_cut_and_says_how_many_rows_there_are(book: ClaimBook) -> None:
    columns = [Column("name", "name", "name", Label.READ), Column("t", "time", "ps")]
    grid = book.grid("SELECT name, t FROM t ORDER BY t DESC", columns, limit=1)
    assert grid.printed == (("it's", "3.000 µs"),)
    assert grid.n_all == 2
    assert cell_of(grid, 0, 1).ref == f"{grid.id}.0.1"


def test_text_as_sql_literal(book: ClaimBook) -> None:
    where = f"name = {sql_text(chr(39).join(['it', 's']))}"
    assert book.query(f"SELECT t FROM t WHERE {where}")["t"].to_list() == [3_000_000]


@pytest.mark.parametrize("text", ["step 3", "²x²1", "٣"])
def test_prose_can_hold_no_digit(text: str) -> None:
    with pytest.raises(ValueError, match="outside a claim"):
        Text(text)
    with pytest.raises(ValueError, match="outside a claim"):
        Link(text, "trust")


def test_two_claims_must_not_touch(book: ClaimBook) -> None:
    span = value_of(book.claim("SELECT COUNT(*) AS value FROM t", "count"))
    with pytest.raises(ValueError, match="without prose between"):
        spans(span, span)
    assert len(spans(span, " and ", span)) == 3
