"""What was seen of each cause: the names behind the numbers, one line per cause."""

from __future__ import annotations

from typing import Final

import polars as pl

_MOST_NAMES: Final = 3


def causes_seen(
    path: pl.DataFrame, stragglers: pl.DataFrame, roofline: pl.DataFrame
) -> dict[str, str]:
    """Evidence by cause; causes without any are left out.

    Args:
        path: Critical path of the median step.
        stragglers: GPUs that others waited for.
        roofline: Roofline table.
    """
    seen = {
        "host_late": _top(path, ("host_late",), "during"),
        "launch_call_long": _top(path, ("launch_latency",), "most before"),
        "exposed_collective": _top(path, ("collective",), "most in"),
        "copy": _top(path, ("memcpy", "memset"), "most in"),
        "straggler": _straggler(stragglers),
        "low_rate": _above_roof(roofline),
    }
    return {cause: text for cause, text in seen.items() if text}


def _top(path: pl.DataFrame, kinds: tuple[str, ...], word: str) -> str:
    """Names with most time on the path among pieces of some kinds."""
    named = path.filter(pl.col("kind").is_in(kinds) & (pl.col("what").fill_null("") != ""))
    sums = named.group_by("what").agg(pl.col("duration_ps").sum())
    names = sums.sort("duration_ps", "what", descending=[True, False])["what"].to_list()
    return f"{word} {', '.join(names[:_MOST_NAMES])}" if names else ""


def _straggler(stragglers: pl.DataFrame) -> str:
    if not stragglers.height:
        return ""
    device, doing, n = stragglers.select("device", "doing", "n_operations").row(0)
    total = int(stragglers["n_operations"].sum())
    return f"GPU {device} is the last to join in {n} of {total} collectives; meanwhile: {doing}"


def _above_roof(roofline: pl.DataFrame) -> str:
    if "above_roof_ps" not in roofline.columns:
        return ""
    above = roofline.filter(pl.col("above_roof_ps") > 0).sort(
        "above_roof_ps", "hlo_instruction", descending=[True, False]
    )
    names = list(dict.fromkeys(above["hlo_instruction"].to_list()))
    return f"most above the roof: {', '.join(names[:_MOST_NAMES])}" if names else ""
