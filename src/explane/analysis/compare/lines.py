"""Python lines of two captures, matched through the operations that they share.

Line numbers shift when the source above is edited, so the number alone proves nothing. Two lines
belong together when most time of their operations was matched; equal numbers decide at a tie.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from explane.analysis.compare.ops import kernels_of
from explane.analysis.compare.steps import Side, beside, per_step

_LINE: Final = ["source_file", "source_line"]
_PAIRED: Final = "pair"


def line_differences(
    sides: tuple[Side, Side], groups: tuple[pl.DataFrame, pl.DataFrame], by_kernel: bool
) -> pl.DataFrame:
    """Table `compared_lines`: one row per line or pair of lines, the largest difference first.

    Kernels without a line are one row without file, so the totals are those of the operations.

    Args:
        sides: Both captures.
        groups: Their operations with the groups that matched.
        by_kernel: As for the operations.
    """
    work = tuple(
        kernels_of(side, group, by_kernel) for side, group in zip(sides, groups, strict=True)
    )
    pairs = _pairs(work[0], work[1])
    figures, names = [], []
    for letter, side, kernels in zip("ab", sides, work, strict=True):
        numbers = pairs.select(
            pl.col(f"{letter}_file").alias("source_file"),
            pl.col(f"{letter}_line").alias("source_line"),
            _PAIRED,
        )
        numbered = kernels.join(numbers, on=_LINE, how="left", nulls_equal=True)
        named = numbered.with_columns(
            pl.coalesce(_PAIRED, _alone(letter)).alias("line"),
        )
        figures.append(per_step(side, named, ["line"], "duration_ps"))
        names.append(_names(named, letter))
    table = beside(figures[0], figures[1], ["line"], (sides[0].n_steps, sides[1].n_steps))
    for frame in names:
        table = table.join(frame, on="line", how="left")
    first = ["status", "a_source_file", "a_source_line", "b_source_file", "b_source_line"]
    return table.sort(
        [pl.col("difference").abs(), "a", *first[1:]],
        descending=[True, True, False, False, False, False],
        nulls_last=True,
    ).select(*first, pl.exclude(*first, "line"))


def _alone(letter: str) -> pl.Expr:
    """Name of a line without a partner; kernels without a line have one for both sides."""
    place = pl.format(f"{letter}:{{}}:{{}}", "source_file", "source_line")
    return pl.when(pl.col("source_file").is_null()).then(pl.lit("")).otherwise(place)


def _names(named: pl.DataFrame, letter: str) -> pl.DataFrame:
    return named.group_by("line").agg(
        pl.col("source_file").first().alias(f"{letter}_source_file"),
        pl.col("source_line").first().alias(f"{letter}_source_line"),
        pl.col("function").drop_nulls().sort().first().alias(f"{letter}_function"),
        pl.len().cast(pl.Int64).alias(f"{letter}_n_kernels"),
    )


def _pairs(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """Lines that belong together, each at most once: `a_file`, `a_line`, `b_file`, `b_line`."""
    times = [
        frame.drop_nulls("source_file")
        .group_by("group", *_LINE)
        .agg(pl.col("duration_ps").sum())
        .rename({"source_file": f"{s}_file", "source_line": f"{s}_line", "duration_ps": f"{s}_ps"})
        for s, frame in (("a", a), ("b", b))
    ]
    file = pl.col("a_file").str.extract(r"([^/\\]+)$")
    same = (pl.col("a_line") == pl.col("b_line")) & (
        file == pl.col("b_file").str.extract(r"([^/\\]+)$")
    )
    columns = ["a_file", "a_line", "b_file", "b_line"]
    shared = (
        times[0]
        .join(times[1], on="group", how="inner")
        .with_columns(pl.min_horizontal("a_ps", "b_ps").alias("shared_ps"), same.alias("same"))
        .group_by(columns)
        .agg(pl.col("shared_ps").sum(), pl.col("same").first())
        .sort("shared_ps", "same", *columns, descending=[True, True, *[False] * 4])
    )
    taken: set[tuple[str, str, int]] = set()
    rows: list[tuple[str, int, str, int, str]] = []
    for a_file, a_line, b_file, b_line in shared.select(columns).iter_rows():
        left, right = ("a", a_file, a_line), ("b", b_file, b_line)
        if left not in taken and right not in taken:
            taken |= {left, right}
            rows.append((a_file, a_line, b_file, b_line, f"pair {len(rows)}"))
    schema = {
        "a_file": pl.String,
        "a_line": pl.Int64,
        "b_file": pl.String,
        "b_line": pl.Int64,
        _PAIRED: pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
