"""Two captures of the same work set side by side: what differs, beyond the noise or within it.

sides ─┬─ whole steps ── measures (step, budget, kernels, launches)
       ├─ operations ── groups matched by origin ─┬─ compared_ops ── matching ── comparable
       │                                          └─ compared_lines
       └─ advice of the first ── predictions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from explane.analysis.compare.lines import line_differences
from explane.analysis.compare.measures import measure_table, part_table
from explane.analysis.compare.ops import grouped, items, matching_table, op_differences
from explane.analysis.compare.predictions import prediction_table
from explane.analysis.compare.sides import REFUSES, check_table, same_gpus, side_table
from explane.analysis.compare.steps import sides_of
from explane.analysis.investigation import Investigation


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two captures side by side.

    Attributes:
        tables: `sides`, `comparable`, `differences`, `compared_parts`, `compared_ops`,
            `compared_lines`, `matching`, `predictions`.
        refusal: Why they must not be compared; empty when they can be.
        partial: True when one of them was damaged.
    """

    tables: Mapping[str, pl.DataFrame]
    refusal: str
    partial: bool


def compare(a: Investigation, b: Investigation, paths: tuple[str, str]) -> Comparison:
    """Compare two captures of the same work.

    Args:
        a: All results on the first capture, the one before a change.
        b: All results on the second.
        paths: What they are called in the report.
    """
    sides = sides_of(a, b)
    by_kernel = any(not side.kernels["hlo_instruction"].count() for side in sides)
    groups = grouped(items(sides[0], by_kernel), items(sides[1], by_kernel))
    ops = op_differences(sides, groups, by_kernel)
    matching = matching_table(ops)
    checks = check_table(*sides, matching)
    refused = checks.filter(pl.col("effect") == REFUSES)
    refusal = ""
    if refused.height:
        check, left, right, _, note = refused.row(0)
        refusal = f"{note}: {check} is {left} against {right}"
    return Comparison(
        tables={
            "sides": side_table(*sides, paths),
            "comparable": checks,
            "differences": measure_table(*sides),
            "compared_parts": part_table(*sides),
            "compared_ops": ops,
            "compared_lines": line_differences(sides, groups, by_kernel),
            "matching": matching,
            "predictions": prediction_table(*sides, same_gpus(checks)),
        },
        refusal=refusal,
        partial=a.partial or b.partial,
    )
