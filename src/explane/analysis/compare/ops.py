"""Operations of two captures matched by what they are, not by their number.

Instruction numbers change with every compilation. Operations are put into groups of the same
origin, and groups are matched by ever coarser keys; what matched once is not tried again:

    line        program, op_name, Python line and structure are the same
    op_name     op_name and structure are the same (the source was edited above it)
    moved       Python line and structure are the same (a named scope was changed)
    renamed     op_name inside the jitted function and structure are the same (another function)
    scope       op_name is the same (compiled another way: other fusions, another library)
    source      Python line and function are the same
    structure   program and structure are the same, for operations without op_name and line
    kernel      kernel name without its number, for kernels without an instruction on a side

What no key matches is new or vanished work. A group holds several operations when they can't be
told apart: the layers of an unrolled network share op_name, line and structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from explane.analysis.compare.steps import Side, beside, per_step
from explane.analysis.compare.structure import structure_of
from explane.analysis.lines.stacks import programs_of

_SEPARATOR: Final = "\x1f"
_ITEM: Final = ["host", "program_id", "hlo_instruction", "unattributed_kernel"]
_NAMES: Final = {
    "program": pl.String,
    "op_name": pl.String,
    "source_file": pl.String,
    "source_line": pl.Int64,
    "function": pl.String,
    "opcode": pl.String,
    "kind": pl.String,
}


def items(side: Side, by_kernel: bool) -> pl.DataFrame:
    """Operations of one side, one row per host and instruction or kernel name.

    Args:
        side: The capture.
        by_kernel: Take kernel names for all, since one side has no instructions.

    Returns:
        `_ITEM`, `_NAMES`, `structure` and one key column per way of matching.
    """
    found = with_unattributed(side.kernels, by_kernel)
    table = found.group_by(_ITEM).agg(
        *(pl.col(name).drop_nulls().first() for name in _NAMES),
        pl.col("kernel").mode().sort().first(),
    )
    texts = _structures(side, table)
    return table.join(texts, on=_ITEM[:3], how="left").with_columns(*_keys())


def with_unattributed(kernels: pl.DataFrame, by_kernel: bool) -> pl.DataFrame:
    """Kernels with `unattributed_kernel`: the name of those without an instruction."""
    if by_kernel:
        nothing = [
            pl.lit(None, dtype).alias(name) for name, dtype in _NAMES.items() if name != "kind"
        ]
        kernels = kernels.with_columns(
            *nothing,
            pl.lit(None, pl.String).alias("hlo_instruction"),
            pl.lit(None, pl.Int64).alias("program_id"),
        )
    alone = pl.when(pl.col("hlo_instruction").is_null()).then("kernel")
    return kernels.with_columns(alone.alias("unattributed_kernel"))


def _structures(side: Side, table: pl.DataFrame) -> pl.DataFrame:
    programs = programs_of(side.investigation.programs, table)
    rows = []
    for host, program_id, name in table.select(_ITEM[:3]).drop_nulls().iter_rows():
        program = programs.get((host, program_id))
        if program is not None and name in program.by_name:
            text = structure_of(program, program.by_name[name])
            rows.append((host, program_id, name, text))
    schema = {
        "host": pl.String,
        "program_id": pl.Int64,
        "hlo_instruction": pl.String,
        "structure": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").unique(maintain_order=True)


def _keys() -> list[pl.Expr]:
    """Keys from the finest to the coarsest; one that lacks a part is null and matches nothing."""
    scope = pl.col("op_name").str.replace(r"(^|/)p?jit\(main\)/", "$1")
    inside = scope.str.extract(r"^p?jit\([^()]*\)/(.+/.+)$")
    file = pl.col("source_file").str.extract(r"([^/\\]+)$")
    line = pl.col("source_line").cast(pl.String)
    program, structure = pl.col("program"), pl.col("structure")
    nameless = pl.col("op_name").is_null() & pl.col("source_file").is_null()
    base = pl.col("kernel").str.replace(r"(?:[._]\d+)+$", "")
    parts = {
        "line": [program, scope, file, line, structure],
        "op_name": [scope, structure],
        "moved": [file, line, structure],
        "renamed": [inside, structure],
        "scope": [scope],
        "source": [file, pl.col("function").fill_null(""), line],
        "structure": [pl.when(nameless).then(program), structure],
        "kernel": [base],
    }
    return [
        pl.concat_str(list(columns), separator=_SEPARATOR).alias(f"key_{name}")
        for name, columns in parts.items()
    ]


MATCHED_BY: Final = (
    "line", "op_name", "moved", "renamed", "scope", "source", "structure", "kernel",
)  # fmt: skip
"""Ways of matching, the finest first."""


def grouped(a: pl.DataFrame, b: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both sides' operations with `group` and `matched_by` (missing for new and vanished ones).

    Args:
        a: Result of `items` for the first side.
        b: The same for the second.
    """
    rest = {"a": a, "b": b}
    done: dict[str, list[pl.DataFrame]] = {"a": [], "b": []}
    for name in MATCHED_BY:
        key = f"key_{name}"
        common = _common(rest["a"], rest["b"], key)
        for side, frame in rest.items():
            matches = pl.col(key).is_in(common).fill_null(False)
            group = pl.format(f"{name}{_SEPARATOR}{{}}", key).alias("group")
            done[side].append(
                frame.filter(matches).with_columns(group, pl.lit(name).alias("matched_by"))
            )
            rest[side] = frame.filter(~matches)
    for side, frame in rest.items():
        keys = [f"key_{name}" for name in MATCHED_BY]
        alone = pl.coalesce(*keys, "hlo_instruction").fill_null("")
        group = pl.format(f"{side}{_SEPARATOR}{{}}", alone).alias("group")
        nothing = pl.lit(None, pl.String).alias("matched_by")
        done[side].append(frame.with_columns(group, nothing))
    return pl.concat(done["a"]), pl.concat(done["b"])


def _common(a: pl.DataFrame, b: pl.DataFrame, key: str) -> list[str]:
    """Keys that both sides have; kernel names count only where a side has no instruction."""
    keys = [set(frame[key].drop_nulls().to_list()) for frame in (a, b)]
    if key != "key_kernel":
        return sorted(keys[0] & keys[1])
    alone = [
        set(frame.drop_nulls("unattributed_kernel")[key].drop_nulls().to_list())
        for frame in (a, b)
    ]
    return sorted((keys[0] & alone[1]) | (alone[0] & keys[1]))


def op_differences(
    sides: tuple[Side, Side], groups: tuple[pl.DataFrame, pl.DataFrame], by_kernel: bool
) -> pl.DataFrame:
    """Table `compared_ops`: one row per group, the largest difference first."""
    figures = [
        per_step(side, kernels_of(side, group, by_kernel), ["group"], "duration_ps")
        for side, group in zip(sides, groups, strict=True)
    ]
    table = beside(figures[0], figures[1], ["group"], (sides[0].n_steps, sides[1].n_steps))
    for letter, group in zip("ab", groups, strict=True):
        table = table.join(_described(group, letter), on="group", how="left")
    shared = ("matched_by", "op_name", "kind")
    return (
        table.with_columns(
            *(pl.coalesce(f"a_{name}", f"b_{name}").alias(name) for name in shared),
            pl.col("a_ops", "b_ops").fill_null(0),
        )
        .sort(
            [pl.col("difference").abs(), "a", "op_name", "group"],
            descending=[True, True, False, False],
        )
        .select(
            "status",
            *shared,
            pl.exclude("status", "group", *shared, *(f"{s}_{n}" for s in "ab" for n in shared)),
        )
    )


def kernels_of(side: Side, group: pl.DataFrame, by_kernel: bool) -> pl.DataFrame:
    """Kernels of a side with the group of their operation."""
    found = with_unattributed(side.kernels, by_kernel)
    keys = group.select(*_ITEM, "group")
    return found.join(keys, on=_ITEM, how="inner", nulls_equal=True)


def _described(group: pl.DataFrame, letter: str) -> pl.DataFrame:
    """Names of each group of a side, those of its first operation; `ops` counts operations."""
    one = pl.struct("program", "hlo_instruction", "unattributed_kernel")
    named = group.sort(_ITEM, nulls_last=True).group_by("group", maintain_order=True)
    return named.agg(
        pl.col("matched_by").first(),
        pl.col("op_name").first(),
        pl.col("kind").first(),
        one.n_unique().cast(pl.Int64).alias("ops"),
        pl.coalesce("hlo_instruction", "unattributed_kernel").first().alias("op"),
        pl.col("opcode").first(),
        pl.col("structure").first(),
        pl.col("source_file").first(),
        pl.col("source_line").first(),
        pl.col("function").first(),
    ).rename(lambda name: name if name == "group" else f"{letter}_{name}")


def matching_table(ops: pl.DataFrame) -> pl.DataFrame:
    """Table `matching`: how much of the kernel time of each side was matched by which key."""
    order: Mapping[str, int] = {name: i for i, name in enumerate(MATCHED_BY)}
    totals = {side: max(int(ops[f"{side}_total"].sum()), 1) for side in "ab"}
    return (
        ops.with_columns(pl.col("matched_by").fill_null("none"))
        .group_by("matched_by")
        .agg(
            pl.len().cast(pl.Int64).alias("n_groups"),
            pl.col("a_ops", "b_ops").sum(),
            *((pl.col(f"{s}_total").sum() / totals[s]).alias(f"{s}_ratio") for s in "ab"),
        )
        .sort(pl.col("matched_by").replace_strict(order, default=len(order)))
    )
