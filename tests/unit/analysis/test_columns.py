from __future__ import annotations

import numpy as np
import polars as pl

from explane.analysis.columns import coded_column, plain_texts, same_text

POOL = ["never used", "b", "", "a,b"]


def test_a_coded_column_holds_the_texts_of_its_codes() -> None:
    column = coded_column("kernel", np.array([1, -1, 3, 1, 2]), POOL)
    assert column.name == "kernel"
    assert column.dtype == pl.Categorical
    assert column.to_list() == ["b", None, "a,b", "b", ""]


def test_a_pool_may_lack_texts_and_columns_may_be_empty() -> None:
    assert coded_column("x", np.array([0, 1, -1]), ["a", None]).to_list() == ["a", None, None]
    assert coded_column("x", np.zeros(0, np.int32), []).to_list() == []
    assert coded_column("x", np.array([-1]), []).to_list() == [None]
    assert same_text("host", "h", 2).to_list() == ["h", "h"]


def test_plain_texts_changes_no_value() -> None:
    frame = pl.DataFrame({"a": coded_column("a", np.array([1, -1]), POOL), "n": [1, 2]})
    plain = plain_texts(frame)
    assert plain.schema == {"a": pl.String, "n": pl.Int64}
    assert plain.rows() == frame.rows()
