"""Operations matched by what they are; expected groups and times by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from explane.analysis.compare.compare import Comparison, compare
from explane.analysis.investigation import Investigation
from tests.builders_hlo import Hlo
from tests.unit.analysis.compared import US, ran, side

STEPS = {3: 100, 4: 110}


def compared(a: Investigation, b: Investigation) -> Comparison:
    return compare(a, b, ("a", "b"))


def rows(made: Comparison, table: str = "compared_ops") -> list[dict[str, Any]]:
    return made.tables[table].to_dicts()


def ops(made: Comparison) -> dict[tuple[str | None, str | None], tuple[str, str | None, int, int]]:
    """Status, way of matching and both times in µs by names on both sides."""
    return {
        (r["a_op"], r["b_op"]): (r["status"], r["matched_by"], r["a"] // US, r["b"] // US)
        for r in rows(made)
    }


def both_steps(name: str | None, us: int, **given: Any) -> list[dict[str, Any]]:
    return [ran(name, step, us, **given) for step in STEPS]


ADD = Hlo("add.1", "fusion", "f32[8]", fusion_kind="kLoop")
OTHER_NUMBER = Hlo("add.77", "fusion", "f32[8]", fusion_kind="kLoop")
OTHER_SHAPE = Hlo("add.77", "fusion", "f32[16]", fusion_kind="kLoop")


def test_the_same_work_under_another_number() -> None:
    a = side(both_steps("add.1", 10, op_name="jit(step)/layer/add"), STEPS, [ADD])
    b = side(both_steps("add.77", 12, op_name="jit(step)/layer/add"), STEPS, [OTHER_NUMBER])
    assert ops(compared(a, b)) == {("add.1", "add.77"): ("both", "line", 10, 12)}


@pytest.mark.parametrize(
    ("hlo", "changed", "matched_by"),
    [
        (OTHER_NUMBER, {"line": 40}, "op_name"),
        (OTHER_NUMBER, {"op_name": "jit(step)/block/add"}, "moved"),
        (OTHER_NUMBER, {"line": 40, "op_name": "jit(train)/layer/add"}, "renamed"),
        (OTHER_NUMBER, {"op_name": "jit(step)/jit(main)/layer/add"}, "line"),
        (OTHER_NUMBER, {"source_file": "/elsewhere/model.py"}, "line"),
        (OTHER_SHAPE, {}, "scope"),
        (OTHER_SHAPE, {"op_name": "jit(step)/block/add"}, "source"),
    ],
)
def test_ever_coarser_keys(hlo: Hlo, changed: dict[str, Any], matched_by: str) -> None:
    names = {"op_name": "jit(step)/layer/add"}
    a = side(both_steps("add.1", 10, **names), STEPS, [ADD])
    b = side(both_steps("add.77", 12, **{**names, **changed}), STEPS, [hlo])
    assert ops(compared(a, b)) == {("add.1", "add.77"): ("both", matched_by, 10, 12)}


def test_a_bare_primitive_proves_nothing_in_another_function() -> None:
    a = side(both_steps("add.1", 10, op_name="jit(f)/dot_general", line=None), STEPS, [ADD])
    b = side(
        both_steps("add.77", 9, op_name="jit(g)/dot_general", line=None), STEPS, [OTHER_SHAPE]
    )
    made = compared(a, b)
    assert {r["status"] for r in rows(made)} == {"new", "vanished"}
    assert "not the same work" in made.refusal


def test_kernel_names_decide_only_without_an_instruction() -> None:
    a = side(both_steps(None, 10, kernel="Memcpy_12"), STEPS)
    b = side(both_steps(None, 12, kernel="Memcpy_99"), STEPS)
    assert ops(compared(a, b)) == {("Memcpy_12", "Memcpy_99"): ("both", "kernel", 10, 12)}


def test_new_and_vanished_work_and_totals_that_add_up() -> None:
    a = side([*both_steps("dot.1", 50, line=20), *both_steps("gone.1", 7, line=21)], STEPS)
    b = side([*both_steps("dot.1", 40, line=20), *both_steps("made.1", 3, line=22)], STEPS)
    made = compared(a, b)
    assert ops(made) == {
        ("dot.1", "dot.1"): ("both", "scope", 50, 40),
        ("gone.1", None): ("vanished", None, 7, 0),
        (None, "made.1"): ("new", None, 0, 3),
    }
    for table in ("compared_ops", "compared_lines"):
        frame = made.tables[table]
        assert (frame["a_total"].sum(), frame["b_total"].sum()) == (114 * US, 86 * US)


def test_layers_that_cannot_be_told_apart_are_one_group() -> None:
    names = {"op_name": "jit(step)/layer/add"}
    layers = [f"add.{i}" for i in range(4)]
    programs = [Hlo(name, "fusion", "f32[8]", fusion_kind="kLoop") for name in layers]
    a = side([k for n in layers for k in both_steps(n, 5, **names)], STEPS, programs)
    b = side([k for n in layers[:3] for k in both_steps(n, 5, **names)], STEPS, programs)
    (row,) = rows(compared(a, b))
    assert (row["a_ops"], row["b_ops"]) == (4, 3)
    assert (row["a"], row["b"]) == (20 * US, 15 * US)


def test_figures_are_of_one_gpu_whatever_their_number() -> None:
    a = side(both_steps("dot.1", 8), STEPS)
    b = side([ran("dot.1", s, us, device=d) for s in STEPS for d, us in ((0, 6), (1, 10))], STEPS,
             n_devices=2)  # fmt: skip
    (row,) = rows(compared(a, b))
    assert (row["a"], row["b"], row["difference"]) == (8 * US, 8 * US, 0)
    assert row["b_total"] == 32 * US


@pytest.mark.parametrize(
    ("a_us", "b_us", "beyond", "low", "high"),
    [
        ((10, 12), (13, 14), 1, 1, 4),
        ((10, 12), (12, 14), 0, 0, 4),
        ((10, 12), (7, 9), 1, -5, -1),
    ],
)
def test_a_difference_counts_where_the_ranges_are_apart(
    a_us: tuple[int, int], b_us: tuple[int, int], beyond: int, low: int, high: int
) -> None:
    a = side([ran("dot.1", s, us) for s, us in zip(STEPS, a_us, strict=True)], STEPS)
    b = side([ran("dot.1", s, us) for s, us in zip(STEPS, b_us, strict=True)], STEPS)
    (row,) = rows(compared(a, b))
    assert row["beyond_noise"] == beyond
    assert (row["difference_low"], row["difference_high"]) == (low * US, high * US)


def test_a_step_without_the_operation_counts_as_nothing() -> None:
    a = side([ran("dot.1", 3, 8), *both_steps("add.2", 1, line=30)], STEPS)
    found = next(r for r in rows(compared(a, a)) if r["a_op"] == "dot.1")
    assert (found["a"], found["a_low"], found["a_high"], found["a_n"]) == (4 * US, 0, 8 * US, 2)


def test_with_one_step_the_noise_is_unknown() -> None:
    a, b = side([ran("dot.1", 3, 10)], {3: 100}), side([ran("dot.1", 3, 99)], {3: 100})
    (row,) = rows(compared(a, b))
    assert row["beyond_noise"] is None


def test_kernels_outside_whole_steps_and_false_times_do_not_count() -> None:
    extra = [ran("dot.1", 9, 500), ran("dot.1", 3, 500, time_ok=False)]
    a = side([*both_steps("dot.1", 8), *extra], STEPS)
    (row,) = rows(compared(a, a))
    assert (row["a"], row["a_total"]) == (8 * US, 16 * US)


def test_lines_are_paired_through_their_operations_not_their_numbers() -> None:
    """A line was put in above, so what was line 12 is 13, and what was 13 is 14."""
    a = side([*both_steps("dot.1", 50, line=12), *both_steps("add.2", 9, line=13)], STEPS)
    b = side([*both_steps("dot.1", 40, line=13), *both_steps("add.2", 9, line=14)], STEPS)
    lines = compared(a, b).tables["compared_lines"]
    pairs = lines.select("a_source_line", "b_source_line", "a", "b", "status").rows()
    assert pairs == [(12, 13, 50 * US, 40 * US, "both"), (13, 14, 9 * US, 9 * US, "both")]


def test_kernels_without_a_line_are_one_row() -> None:
    a = side([*both_steps("dot.1", 50), *both_steps(None, 4, kernel="k")], STEPS)
    lines = compared(a, a).tables["compared_lines"].filter(pl.col("a_source_file").is_null())
    assert lines.select("a", "b", "status").rows() == [(4 * US, 4 * US, "both")]
