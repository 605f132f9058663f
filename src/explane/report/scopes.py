"""GPU time by named scope: the paths in `op_name`, summed up from leaf to root.

jit(step)/jit(main)/encoder/dot     5 ms        jit(step)             8 ms
jit(step)/jit(main)/decoder/add     3 ms   ->     jit(main)           8 ms
                                                    encoder           5 ms
                                                    decoder           3 ms
"""

from __future__ import annotations

from typing import Final

import polars as pl

MOST_DEPTH: Final = 12
SCHEMA: Final = {"path": pl.String, "scope": pl.String, "depth": pl.Int64, "duration_ps": pl.Int64}
NO_SCOPE: Final = "(no op name)"


def scope_table(ops: pl.DataFrame) -> pl.DataFrame:
    """Table `scopes`: one row per scope, parents before children, the longest sibling first.

    Args:
        ops: `ops` table; its time is summed over hosts, GPUs and steps.

    Returns:
        `path` (scopes joined by `/`, last part included), `scope` (its last part), `depth` (0 for
        the outermost) and `duration_ps`. The sum over depth 0 is the time of all ops.
    """
    if ops.height == 0:
        return pl.DataFrame(schema=SCHEMA)
    # A scope without a name is none: `a//b` is `a/b`.
    name = pl.col("op_name").str.replace_all("/+", "/").str.strip_chars("/")
    named = pl.when(name == "").then(None).otherwise(name).fill_null(NO_SCOPE)
    leaves = ops.select(
        named.str.split("/").list.head(MOST_DEPTH).alias("parts"),
        "duration_ps",
    )
    deepest = int(leaves["parts"].list.len().max() or 1)  # type: ignore[arg-type]
    levels = [
        leaves.filter(pl.col("parts").list.len() > depth)
        .group_by(pl.col("parts").list.head(depth + 1).list.join("/").alias("path"))
        .agg(
            pl.col("parts").first().list.get(depth).alias("scope"),
            pl.lit(depth, pl.Int64).alias("depth"),
            pl.col("duration_ps").sum(),
        )
        for depth in range(deepest)
    ]
    return (
        pl.concat(levels)
        .select(*SCHEMA)
        .sort("depth", "duration_ps", "path", descending=[False, True, False])
    )
