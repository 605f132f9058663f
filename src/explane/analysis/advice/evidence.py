"""What was seen of each cause: the names behind the numbers, one line per cause."""

from __future__ import annotations

from typing import Final

import polars as pl

_MOST_NAMES: Final = 3
_WORTH_RATIO: Final = 0.1
"""GPUs that cause a smaller share of the waiting are not named."""


def causes_seen(
    path: pl.DataFrame, stragglers: pl.DataFrame, roofline: pl.DataFrame, kernels: pl.DataFrame
) -> dict[str, str]:
    """Evidence by cause; causes without any are left out.

    Args:
        path: Critical path of the median step.
        stragglers: GPUs that others waited for.
        roofline: Roofline table.
        kernels: Kernel table, for the programs that ran.
    """
    seen = {
        "host_late": _top(path, ("host_late",), "during"),
        "launch_call_long": _top(path, ("launch_latency",), "most before"),
        "exposed_collective": _top(path, ("collective",), "most in"),
        "copy": _top(path, ("memcpy", "memset"), "most in"),
        "straggler": _straggler(stragglers),
        "low_rate": _above_roof(roofline),
        "recompile": _compiled_again(kernels),
    }
    return {cause: text for cause, text in seen.items() if text}


def _top(path: pl.DataFrame, kinds: tuple[str, ...], word: str) -> str:
    """Names with most time on the path among pieces of some kinds."""
    named = path.filter(pl.col("kind").is_in(kinds) & (pl.col("what").fill_null("") != ""))
    sums = named.group_by("what").agg(pl.col("duration_ps").sum())
    names = sums.sort("duration_ps", "what", descending=[True, False])["what"].to_list()
    return f"{word} {', '.join(names[:_MOST_NAMES])}" if names else ""


def _straggler(stragglers: pl.DataFrame) -> str:
    """GPUs that cause most of the waiting, and what they do meanwhile."""
    total_ps = int(stragglers["caused_wait_ps"].sum())
    most = stragglers.filter(pl.col("caused_wait_ps") > _WORTH_RATIO * total_ps)
    if not most.height:
        return ""
    shares = [
        f"GPU {device} ({caused_ps / total_ps:.0%})"
        for device, caused_ps in most.select("device", "caused_wait_ps").iter_rows()
    ]
    meanwhile = f"meanwhile GPU {most['device'][0]}: {most['doing'][0]}"
    return f"the others wait in collectives for {', '.join(shares)}; {meanwhile}"


def _compiled_again(kernels: pl.DataFrame) -> str:
    """Functions of which several compiled programs ran."""
    ran = kernels.filter(pl.col("program").is_not_null()).select("program", "program_id").unique()
    several = ran.group_by("program").len("n").filter(pl.col("n") > 1)
    named = several.sort("n", "program", descending=[True, False]).head(_MOST_NAMES)
    texts = [f"{program} ran as {n} programs" for program, n in named.iter_rows()]
    return ", ".join(texts)


def _above_roof(roofline: pl.DataFrame) -> str:
    if "above_roof_ps" not in roofline.columns:
        return ""
    above = roofline.filter(pl.col("above_roof_ps") > 0).sort(
        "above_roof_ps", "hlo_instruction", descending=[True, False]
    )
    names = list(dict.fromkeys(above["hlo_instruction"].to_list()))
    return f"most above the roof: {', '.join(names[:_MOST_NAMES])}" if names else ""
