from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import polars as pl

from explane.analysis.lines.row_groups import row_groups

DRAW = np.random.default_rng(11)
N = 500
TEXTS = np.array(["b", "a", "c", None], dtype=object)


def table() -> pl.DataFrame:
    def names() -> pl.Series:
        return pl.Series(TEXTS[DRAW.integers(0, 4, N)].tolist(), dtype=pl.Categorical)

    steps = [None if s == 0 else int(s) for s in DRAW.integers(0, 4, N)]
    return pl.DataFrame(
        {
            "op": names(),
            "id": [None if i == 0 else int(i) for i in DRAW.integers(0, 3, N)],
            "kind": names(),
            "device": DRAW.integers(0, 2, N).astype(np.int32),
            "step": pl.Series(steps, dtype=pl.Int64),
            "ps": DRAW.integers(0, 100, N),
        }
    )


def test_groups_are_those_of_a_loop_over_the_rows() -> None:
    frame = table()
    groups = row_groups(frame, ["op", "id"])
    ps = frame["ps"].to_numpy()
    rows: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    for row in frame.iter_rows(named=True):
        rows[row["op"], row["id"]].append(row)
    assert len(groups) == len(rows)
    kinds = groups.most_frequent(frame["kind"]).to_list()
    n_distinct = groups.n_distinct(frame["device"], frame["kind"]).tolist()
    spread = groups.per_step(frame["device"], frame["step"], ps).rows()
    for number, first in enumerate(groups.first.tolist()):
        own = rows[frame["op"][first], frame["id"][first]]
        assert own[0] == frame.row(first, named=True)
        assert groups.sizes()[number] == len(own)
        assert groups.total(ps)[number] == sum(row["ps"] for row in own)
        assert n_distinct[number] == len({(row["device"], row["kind"]) for row in own})
        counts = Counter(row["kind"] for row in own)
        most = {kind for kind, count in counts.items() if count == max(counts.values())}
        assert kinds[number] == (None if None in most else min(most))
        sums: Counter[Any] = Counter()
        for row in own:
            if row["step"] is not None:
                sums[row["device"], row["step"]] += row["ps"]
        assert spread[number] == (min(sums.values()), max(sums.values()), len(sums))


def test_a_group_without_steps_has_no_range_and_no_rows_make_no_groups() -> None:
    frame = table().with_columns(pl.lit(None, pl.Int64).alias("step"))
    groups = row_groups(frame, ["op"])
    spread = groups.per_step(frame["device"], frame["step"], frame["ps"].to_numpy())
    assert spread.rows() == [(None, None, None)] * len(groups)
    assert len(row_groups(frame.clear(), ["op"])) == 0
