"""What two captures are of, and whether they can be compared: the same work on the same GPUs?

Each check has an effect: `none` (the same, or a difference that doesn't matter), `qualifies` (the
comparison is made, and this is said with it) or `refuses`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from explane.analysis.compare.ops import MATCHED_BY
from explane.analysis.compare.steps import Side, per_step
from explane.units import format_ratio

LEAST_MATCHED_RATIO: Final = 0.2
"""With less of both sides' kernel time matched, the two are not the same work."""

SAME, QUALIFIES, REFUSES = "none", "qualifies", "refuses"

SIDES_SCHEMA: Final = {
    "side": pl.String,
    "path": pl.String,
    "hosts": pl.String,
    "gpu": pl.String,
    "verdict": pl.String,
    "n_gpus": pl.Int64,
    "n_steps": pl.Int64,
    "steps_from": pl.String,
    "record": pl.String,
    "programs": pl.String,
    "versions": pl.String,
    "simulated": pl.Int64,
    "partial": pl.Int64,
}
CHECKS_SCHEMA: Final = {
    "check": pl.String,
    "a": pl.String,
    "b": pl.String,
    "effect": pl.String,
    "note": pl.String,
}

_GPU_CHECK: Final = "GPU"
_COUNT_CHECK: Final = "GPUs with kernels"
_UNKNOWN: Final = "unknown"
_Check = tuple[str, str, str, str, str]


def side_table(a: Side, b: Side, paths: tuple[str, str]) -> pl.DataFrame:
    """Table `sides`: what each capture is."""
    rows = [
        _side_row(letter, s, path) for letter, s, path in zip("AB", (a, b), paths, strict=True)
    ]
    return pl.DataFrame(rows, schema=SIDES_SCHEMA, orient="row")


def check_table(a: Side, b: Side, matching: pl.DataFrame) -> pl.DataFrame:
    """Table `comparable`: every check with what both sides say.

    Args:
        a: The first capture.
        b: The second.
        matching: Table `matching` of their operations.
    """
    rows = [*_same_machine(a, b), *_same_steps(a, b), *_same_work(a, b, matching)]
    return pl.DataFrame(rows, schema=CHECKS_SCHEMA, orient="row")


def same_gpus(checks: pl.DataFrame) -> bool:
    """Whether both captures ran on equally many GPUs of one kind."""
    on = checks.filter(pl.col("check").is_in([_GPU_CHECK, _COUNT_CHECK]))
    return on["effect"].to_list() == [SAME, SAME]


def _side_row(letter: str, side: Side, path: str) -> tuple[object, ...]:
    hosts = side.investigation.hosts
    versions = {f"{name} {value}" for h in hosts for name, value in h.versions.items()}
    return (
        letter, path, side.name, _gpu(side), _verdict(side), side.n_gpus, side.n_whole_steps,
        _steps_from(side), _joined({h.source for h in hosts}), _joined(_programs(side)),
        _joined(versions), int(any(h.simulated for h in hosts)), int(side.investigation.partial),
    )  # fmt: skip


def _same_machine(a: Side, b: Side) -> Iterator[_Check]:
    yield _check(
        _GPU_CHECK,
        _gpu(a),
        _gpu(b),
        "the difference is one of hardware as well as of anything else",
    )
    yield _check(
        _COUNT_CHECK,
        str(a.n_gpus),
        str(b.n_gpus),
        "figures are of one GPU, and its part of the work depends on their number",
    )
    yield _check(
        "processes",
        str(len(a.investigation.hosts)),
        str(len(b.investigation.hosts)),
        "communication between processes may differ",
    )
    yield _check("simulated", _simulated(a), _simulated(b), "the times of one side are invented")
    partial = (a.investigation.partial, b.investigation.partial)
    note = "a damaged file holds only a part of its work" if any(partial) else ""
    effect = QUALIFIES if any(partial) else SAME
    yield ("damaged", _yes(partial[0]), _yes(partial[1]), effect, note)


def _same_steps(a: Side, b: Side) -> Iterator[_Check]:
    few = min(a.n_whole_steps, b.n_whole_steps)
    notes = {
        0: "a side has no whole steps, so figures are of the whole captures",
        1: "with one step on a side its noise is unknown",
    }
    effect = QUALIFIES if few in notes else SAME
    yield ("whole steps", str(a.n_whole_steps), str(b.n_whole_steps), effect, notes.get(few, ""))
    note = "steps were found in different ways and may not be the same unit"
    yield _check("steps from", _steps_from(a), _steps_from(b), note)
    note = "the amount of recorded work differs"
    yield _check("kernels per step and GPU", _kernels_per_step(a), _kernels_per_step(b), note)
    note = "a step holds more executions on one side"
    yield _check("executions per step and GPU", _executions(a), _executions(b), note)


def _same_work(a: Side, b: Side, matching: pl.DataFrame) -> Iterator[_Check]:
    yield _check(
        "programs", _joined(_programs(a)), _joined(_programs(b)), "programs have other names"
    )
    same = ("line", "op_name")
    left, right = _ratio(matching, "a", same), _ratio(matching, "b", same)
    effect = SAME if min(left, right) == 1 else QUALIFIES
    note = "the rest was compiled another way, changed, or has no instruction"
    name = "kernel time with the same op_name and structure"
    shown = note if effect != SAME else ""
    yield (name, format_ratio(left), format_ratio(right), effect, shown)
    left, right = _ratio(matching, "a", MATCHED_BY), _ratio(matching, "b", MATCHED_BY)
    effect = QUALIFIES if min(left, right) < 1 else SAME
    note = "what has no counterpart is new or vanished work" if effect != SAME else ""
    if max(left, right) < LEAST_MATCHED_RATIO:
        effect, note = REFUSES, "they are not the same work"
    name = "kernel time with any counterpart"
    yield (name, format_ratio(left), format_ratio(right), effect, note)


def _check(name: str, a: str, b: str, note: str) -> _Check:
    if _UNKNOWN in (a, b):
        note = "a side does not tell"
    elif a == b:
        return (name, a, b, SAME, "")
    return (name, a, b, QUALIFIES, note)


def _ratio(matching: pl.DataFrame, side: str, names: tuple[str, ...]) -> float:
    rows = matching.filter(pl.col("matched_by").is_in(names))
    ratio = float(rows[f"{side}_ratio"].sum())
    whole = set(matching["matched_by"]) <= set(names)
    return 1.0 if whole and matching.height else min(ratio, 1.0)


def _simulated(side: Side) -> str:
    return _yes(any(host.simulated for host in side.investigation.hosts))


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _gpu(side: Side) -> str:
    return _joined({h.gpu for h in side.investigation.hosts if h.gpu}) or _UNKNOWN


def _verdict(side: Side) -> str:
    return _joined(set(side.investigation.tables["verdict"]["verdict"].drop_nulls().to_list()))


def _steps_from(side: Side) -> str:
    return _joined(set(side.windows["source"].to_list())) or "nothing"


def _programs(side: Side) -> set[str]:
    return set(side.kernels["program"].drop_nulls().to_list())


def _kernels_per_step(side: Side) -> str:
    """Kernels of one step on one GPU, or their range over the steps."""
    if not side.n_steps:
        return str(side.kernels.height // max(side.n_gpus, 1))
    counted = side.kernels.with_columns(pl.lit(1).alias("one"), pl.lit(0).alias("all"))
    found = per_step(side, counted, ["all"], "one")
    return _range(int(found["low"][0]), int(found["high"][0])) if found.height else "0"


def _executions(side: Side) -> str:
    """Executions of programs in one step on one GPU, or their range over steps and GPUs."""
    keys = ["host", "device", *(["step"] if side.n_steps else [])]
    known = side.kernels.drop_nulls(["program_id", "execution"])
    counts = known.group_by(keys).agg(pl.struct("program_id", "execution").n_unique().alias("n"))
    if not counts.height:
        return _UNKNOWN
    ordered = counts["n"].sort()
    return _range(int(ordered[0]), int(ordered[-1]))


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _joined(texts: set[str]) -> str:
    return ", ".join(sorted(texts))
