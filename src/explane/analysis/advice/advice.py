"""What to change: causes ranked by their share of the step, each with the step time without it.

The range of an estimate goes over two methods and over the steps that were played: *replay* plays
the step's dependency graph without the cause, *subtraction* takes the cause's time on the
critical path away. Below it the span of the replayed lengths is added, for the noise that is
left without the cause; above it half the span of the steps as they are, if that is more: where a
cause makes the steps differ, a part of it may stay. Of a late host that waits for each step, what
it needs to dispatch the next one may stay too: as long as it waits, it can't hide that. Played
steps much shorter or longer than the median step are left out: they do other work. Nothing was
run: every estimate is inferred, and every knob is a hypothesis.

Causes may share time; those that do are named in `overlaps_with`, and their savings must not be
added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from explane.analysis.advice.texts import CAUSE_TEXTS
from explane.analysis.replay.whatif import UNCHANGED
from explane.capture.host_names import DISPATCH, WAIT

ADVICE_SCHEMA = {
    "rank": pl.Int64,
    "cause": pl.String,
    "critical_path_ps": pl.Int64,
    "critical_path_ratio": pl.Float64,
    "step_ps": pl.Int64,
    "low_ps": pl.Int64,
    "high_ps": pl.Int64,
    "overlaps_with": pl.String,
    "assumption": pl.String,
    "knob": pl.String,
    "what": pl.String,
    "host": pl.String,
    "evidence": pl.String,
    "proof": pl.String,
    "replay_ps": pl.Int64,
    "subtraction_ps": pl.Int64,
    "n_steps": pl.Int64,
}
"""Columns of `advice.csv`. `what` names a part of a cause (a host event). `step_ps`, `replay_ps`
and `subtraction_ps` are of the median step."""

UPPER_BOUNDS: Final = frozenset(
    {
        "layout", "low_occupancy", "low_rate", "precision", "python_tracer", "remat",
        "resharding", "small_collectives",
    }
)  # fmt: skip
"""Causes whose saving can only be bounded from above: the range ends with the step as it is.
Ops rarely run at their roof, and what is not moved, gathered or computed again has a price
elsewhere."""

_PART_WORDS: Final = {"host_late": "during", "exposed_collective": "in", "copy": "in"}
"""How the evidence names the part of a cause; other causes bring evidence of their own."""

ODD_RATIO: Final = 0.5
"""Steps that differ from the median step by more than this share of it are odd."""

_LONE: Final = "exposed_collective"
_IS_PART_OF_LONE: Final = (pl.col("cause") == _LONE) & (pl.col("what") != "")
"""Collectives one by one, each against the best rate of all. Where there is only one, nothing
says how fast it could be: hiding it all is then the least value, and no change the most."""

_MOST_PARTS: Final = 5
"""Parts of one cause that are ranked by themselves."""

FLOOR_RATIO: Final = 0.005
"""Causes with a smaller share of the step are not ranked."""


def advice_table(
    host: str,
    whatif: pl.DataFrame,
    median_step: int,
    evidence: Mapping[str, str],
    steps: pl.DataFrame,
) -> pl.DataFrame:
    """Causes of one host: what both methods agree to save first, then what either may save.

    Args:
        host: Host label.
        whatif: Replays of some steps.
        median_step: Number of the median step, which is among them.
        evidence: What was seen of a cause, one line each; may be empty.
        steps: Step table, for compilation.
    """
    causes = _even(whatif, median_step).filter(pl.col("cause") != UNCHANGED)
    needed = {("host_late", what): time_ps for what, time_ps in _needed_ps(causes).items()}
    rows = [
        _row(host, (str(cause), str(what)), part, median_step, evidence, needed)
        for (cause, what), part in causes.group_by(["cause", "what"], maintain_order=True)
    ]
    rows += _recompile(host, steps, evidence)
    table = pl.DataFrame([r for r in rows if r], schema=ADVICE_SCHEMA, orient="row")
    sure_ps = pl.max_horizontal(pl.col("step_ps") - pl.col("high_ps"), 0)
    place = pl.col("critical_path_ps").rank("ordinal", descending=True)
    few = (pl.col("what") == "") | (place.over("cause", pl.col("what") != "") <= _MOST_PARTS)
    ranked = table.filter((pl.col("critical_path_ratio") >= FLOOR_RATIO) & few).sort(
        [sure_ps, "critical_path_ps", "cause", "what"], descending=[True, True, False, False]
    )
    present = set(ranked["cause"].to_list())
    parted = set(ranked.filter(pl.col("what") != "")["cause"].to_list())
    overlaps = [
        "; ".join(sorted((overlaps_of(cause) | _own(cause, what, parted)) & present))
        for cause, what in ranked.select("cause", "what").iter_rows()
    ]
    lone = pl.col("cause") == _LONE if not table.filter(_IS_PART_OF_LONE).height else pl.lit(False)
    return ranked.with_columns(
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("rank"),
        pl.Series("overlaps_with", overlaps, dtype=pl.String),
        pl.when(lone).then("step_ps").otherwise("high_ps").alias("high_ps"),
    )


def overlaps_of(cause: str) -> set[str]:
    """Other causes that may share time with one, whichever of the two texts says so."""
    named = {other for other, text in CAUSE_TEXTS.items() if cause in text.overlaps}
    return named | set(CAUSE_TEXTS[cause].overlaps)


def _own(cause: str, what: str, parted: set[str]) -> set[str]:
    """The cause itself, where it is ranked as a whole and in parts."""
    return {cause} if cause in _PART_WORDS and (what or cause in parted) else set()


def _row(
    host: str,
    part_of: tuple[str, str],
    part: pl.DataFrame,
    median_step: int,
    evidence: Mapping[str, str],
    needed: Mapping[tuple[str, str], int],
) -> tuple[object, ...] | None:
    """One cause, or a part of it; its time is that on the path, else what both methods save."""
    cause, what = part_of
    rows = part.filter(pl.col("step") == median_step)
    if not rows.height:
        return None
    row = rows.row(0, named=True)
    both = pl.concat([part["replay_ps"], part["subtraction_ps"]]).to_list()
    noise = _span_ps(part["replay_ps"])
    low = min(both) - noise
    more = max(noise, _span_ps(part["step_ps"]) // 2, needed.get(part_of, 0))
    high = row["step_ps"] if cause in UPPER_BOUNDS else max(both) + more
    saved = row["on_path_ps"] or _replayed(row)
    text = CAUSE_TEXTS[cause]
    part_word = _PART_WORDS.get(cause, "")
    seen = f"{part_word} {what}" if what and part_word else evidence.get(cause, "")
    return (
        0, cause, saved, saved / max(row["step_ps"], 1), row["step_ps"], max(low, 0), high, "",
        text.assumption, text.knob, what, host, seen, text.proof,
        row["replay_ps"], row["subtraction_ps"], part.height,
    )  # fmt: skip


def _needed_ps(whatif: pl.DataFrame) -> dict[str, int]:
    """How much of a late host may have to stay where it waits for each step, by part of it.

    That is what every played step shows of an event in which the host dispatches or waits. Of
    all lateness (part "") it is what every step shows beside its longest other event: that one
    could go. Nothing where the host does not wait: it can hide its work then.
    """
    if not (whatif["cause"] == "readback").any():
        return {}
    late = whatif.filter(pl.col("cause") == "host_late")
    needed = [w for w in late["what"].unique() if not w or DISPATCH.search(w) or WAIT.search(w)]
    stays = pl.col("what").is_in(needed)
    goes = late.filter(~stays).group_by("step").agg(pl.max("on_path_ps").alias("goes_ps"))
    goes_ps = pl.when(what="").then(pl.col("goes_ps").fill_null(0)).otherwise(0)
    least = (pl.col("on_path_ps") - goes_ps).min().clip(0)
    parts = late.filter(stays).join(goes, "step", how="left").group_by("what").agg(least, pl.len())
    everywhere = parts.filter(pl.col("len") == late["step"].n_unique())
    return dict(everywhere.select("what", "on_path_ps").iter_rows())


def _replayed(row: Mapping[str, int]) -> int:
    """What the replay saves of a cause without time of its own, if subtraction sees any too."""
    sees = row["subtraction_ps"] < row["step_ps"]
    return max(row["step_ps"] - row["replay_ps"], 0) if sees else 0


def _even(whatif: pl.DataFrame, median_step: int) -> pl.DataFrame:
    """The replays of the median step and of those about as long."""
    median = whatif.filter(pl.col("step") == median_step)
    if not median.height:
        return whatif
    length = int(median["step_ps"][0])
    return whatif.filter((pl.col("step_ps") - length).abs() <= ODD_RATIO * length)


def _span_ps(lengths: pl.Series) -> int:
    """Longest less shortest."""
    return int(str(lengths.max() - lengths.min())) if len(lengths) else 0  # type: ignore[operator]


def _recompile(
    host: str, steps: pl.DataFrame, evidence: Mapping[str, str]
) -> list[tuple[object, ...]]:
    """Compilation inside the steps: the steps with it against those without.

    Where every step compiles, what is left without the time that the host compiled is the least
    that a step may take.
    """
    length = pl.col("end_ps") - pl.col("start_ps")
    compiled = steps.filter(pl.col("compile_ps") > 0)
    clean = steps.filter((pl.col("compile_ps") == 0) & (pl.col("complete") == 1))
    if not clean.height:
        compiled = compiled.filter(pl.col("index") > 0)
    if not compiled.height:
        return []
    now = int(compiled.select(length.median()).item())
    text = CAUSE_TEXTS["recompile"]
    if clean.height:
        low, high = clean.select(length.min().alias("low"), length.max().alias("high")).row(0)
        saved = max(now - int(clean.select(length.median()).item()), 0)
    else:
        lost = pl.min_horizontal("compile_ps", length).median()
        saved = int(compiled.select(lost).item())
        low, high = now - saved, now
    told = f"{compiled.height} steps with compilation inside"
    told += f"; {evidence['recompile']}" if "recompile" in evidence else ""
    return [
        (
            0, "recompile", saved, saved / max(now, 1), now, low, high, "", text.assumption,
            text.knob, "", host, told, text.proof, None, None, compiled.height,
        )
    ]  # fmt: skip
