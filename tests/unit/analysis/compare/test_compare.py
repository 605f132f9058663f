"""Steps, checks and predictions of a comparison; expected values by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from explane.analysis.compare.compare import Comparison, compare
from explane.analysis.compare.structure import structure_of
from explane.analysis.investigation import Investigation
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.analysis.compared import US, ran, side, with_advice, with_whatif

A_STEPS = {3: 100, 4: 104, 5: 98}
B_STEPS = {3: 80, 4: 84}


def made(step_us: dict[int, int], us: int = 10, **given: object) -> Investigation:
    return side([ran("dot.1", step, us) for step in step_us], step_us, **given)  # type: ignore[arg-type]


def compared(a: Investigation, b: Investigation) -> Comparison:
    return compare(a, b, ("before", "after"))


def effects(found: Comparison) -> dict[str, str]:
    return {r["check"]: r["effect"] for r in found.tables["comparable"].to_dicts()}


def test_the_step_is_the_lower_median_with_its_range() -> None:
    table = compared(made(A_STEPS), made(B_STEPS)).tables["differences"]
    row = {r["measure"]: r for r in table.to_dicts()}["step"]
    assert (row["a"], row["a_low"], row["a_high"], row["a_n"]) == (100 * US, 98 * US, 104 * US, 3)
    assert (row["b"], row["b_low"], row["b_high"], row["b_n"]) == (80 * US, 80 * US, 84 * US, 2)
    assert (row["difference"], row["change_ratio"], row["beyond_noise"]) == (-20 * US, -0.2, 1)
    assert (row["difference_low"], row["difference_high"]) == (-24 * US, -14 * US)


def test_the_step_is_that_of_the_slowest_gpu() -> None:
    uneven = made(A_STEPS, n_devices=2)
    steps = uneven.tables["steps"]
    longer = steps.with_columns(end_ps=steps["end_ps"] + steps["device"].cast(int) * 50 * US)
    kernels = [ran("dot.1", step, 10, device=d) for step in A_STEPS for d in (0, 1)]
    slow = side(kernels, A_STEPS, n_devices=2)
    slow = replace(slow, tables={**slow.tables, "steps": longer})
    row = compared(slow, made(B_STEPS)).tables["differences"].row(0, named=True)
    assert row["a"] == 150 * US


def test_budgets_and_counts() -> None:
    table = compared(made(A_STEPS), made(B_STEPS)).tables["differences"]
    found = {r["measure"]: (r["unit"], r["a_total"], r["b_total"]) for r in table.to_dicts()}
    assert found["idle"] == ("ps", 151 * US, 82 * US)
    assert found["kernel_time"] == ("ps", 30 * US, 20 * US)
    assert found["n_kernels"] == ("count", 3, 2)
    assert found["n_launches"] == ("count", 3, 2)
    assert found["n_graph_kernels"] == ("count", 0, 0)


def test_equal_captures_are_not_qualified() -> None:
    hlo = [Hlo("dot.1", "fusion")]
    found = compared(made(A_STEPS, program=hlo), made(A_STEPS, program=hlo))
    assert set(effects(found).values()) == {"none"}
    assert found.refusal == ""


@pytest.mark.parametrize(
    ("other", "check"),
    [
        (made(A_STEPS, gpu="H100"), "GPU"),
        (made({3: 100}), "whole steps"),
        (side([ran("dot.1", s, 10, device=d) for s in A_STEPS for d in (0, 1)], A_STEPS,
              n_devices=2), "GPUs with kernels"),
        (side([ran("dot.1", s, 10) for s in A_STEPS for _ in range(2)], A_STEPS),
         "kernels per step and GPU"),
        (side([ran("dot.1", s, 10, program="jit_other") for s in A_STEPS], A_STEPS), "programs"),
        (replace(made(A_STEPS), partial=True), "damaged"),
    ],
)  # fmt: skip
def test_what_differs_qualifies_the_comparison(other: Investigation, check: str) -> None:
    found = compared(made(A_STEPS), other)
    assert effects(found)[check] == "qualifies"
    assert found.refusal == ""
    notes = {r["check"]: r["note"] for r in found.tables["comparable"].to_dicts()}
    assert notes[check]


def test_other_work_is_refused_and_says_why() -> None:
    other = side([ran("conv.9", s, 10, line=99) for s in A_STEPS], A_STEPS)
    found = compared(made(A_STEPS), other)
    assert re.search("not the same work: .* is 0 % against 0 %", found.refusal)


def test_a_part_in_common_is_enough() -> None:
    more = [ran("conv.9", s, 70, line=99) for s in A_STEPS]
    found = compared(
        made(A_STEPS, us=30), side([*[ran("dot.1", s, 30) for s in A_STEPS], *more], A_STEPS)
    )
    assert found.refusal == ""
    assert effects(found)["kernel time with any counterpart"] == "qualifies"


def test_without_whole_steps_on_a_side_both_are_taken_as_a_whole() -> None:
    whole = side([{**ran("dot.1", 0, 10), "step": None} for _ in range(2)])
    found = compared(made(A_STEPS), whole)
    measures = found.tables["differences"]["measure"].to_list()
    assert "step" not in measures
    assert "idle" not in measures
    row = found.tables["compared_ops"].row(0, named=True)
    assert (row["a"], row["b"]) == (30 * US, 20 * US)
    steps = found.tables["comparable"].filter(check="whole steps").row(0, named=True)
    assert (steps["a"], steps["b"], steps["effect"]) == ("3", "0", "qualifies")


def test_a_step_number_that_repeats_is_left_out() -> None:
    twice = made(A_STEPS)
    steps = twice.tables["steps"]
    again = steps.vstack(steps.filter(step=4))
    found = compared(replace(twice, tables={**twice.tables, "steps": again}), made(B_STEPS))
    row = found.tables["differences"].row(0, named=True)
    assert (row["a_n"], row["a_low"], row["a_high"]) == (2, 98 * US, 100 * US)


@pytest.mark.parametrize(
    ("predicted", "left", "outcome"),
    [
        ((75, 81), 0, "came true"),
        ((75, 79), 0, "slower than predicted"),
        ((90, 99), 0, "faster than predicted"),
        ((75, 81), 20, "partly tested"),
        ((75, 81), 39, "not tested"),
    ],
)
def test_predictions(predicted: tuple[int, int], left: int, outcome: str) -> None:
    a = with_advice(made(A_STEPS), ("host_late", "", 40, predicted))
    b = with_whatif(made(B_STEPS), {("unchanged", ""): 0, ("host_late", ""): left * US})
    # A cause with nothing on the path takes what its replay saves (10 of 100 µs, a quarter of 40).
    if left == 0:
        b = with_whatif(made(B_STEPS), {("unchanged", ""): 0})
    row = compared(a, b).tables["predictions"].row(0, named=True)
    assert row["outcome"] == outcome
    assert (row["b_step_ps"], row["b_low_ps"], row["b_high_ps"]) == (80 * US, 80 * US, 84 * US)


def test_parts_of_a_cause_under_other_names_and_causes_that_went_with_it() -> None:
    a = with_advice(
        made(A_STEPS),
        ("host_late", "next_batch", 30, (70, 90)),
        ("copy", "copy.1", 10, (85, 99)),
        ("exposed_collective", "all-reduce.3", 10, (85, 99)),
    )
    left = {("unchanged", ""): 0, ("host_late", ""): 2 * US, ("exposed_collective", ""): 9 * US}
    table = compared(a, with_whatif(made(B_STEPS), left)).tables["predictions"]
    found = {
        r["cause"]: (r["outcome"], r["b_cause_ps"], r["n_others_gone"]) for r in table.to_dicts()
    }
    assert found == {
        "host_late": ("came true", 2 * US, 1),  # at most what is left of the whole cause
        "copy": ("faster than predicted", 0, 1),
        "exposed_collective": ("can't be told", None, 2),
    }


def test_a_capture_that_was_not_played_tests_nothing() -> None:
    a = with_advice(made(A_STEPS), ("host_late", "", 40, (70, 90)))
    table = compared(a, made(B_STEPS)).tables["predictions"]
    assert table["outcome"].to_list() == ["can't be told"]


def test_other_gpus_test_no_prediction() -> None:
    a = with_advice(made(A_STEPS), ("host_late", "", 40, (75, 81)))
    b = with_whatif(made(B_STEPS, gpu="H100"), {("unchanged", ""): 0})
    table = compared(a, b).tables["predictions"]
    assert table["outcome"].to_list() == ["can't be told"]


def structure(name: str, entry: list[Hlo], *bodies: HloComputation) -> str:
    module = HloModule("jit_f", [*bodies, HloComputation("main", entry)])
    program = read_program(StoredProgram(1, "jit_f(1)", module.to_bytes()))
    return structure_of(program, program.by_name[name])


def test_structure_holds_shapes_and_work_but_no_names() -> None:
    body = HloComputation(
        "fused_computation.12",
        [
            Hlo("p", "parameter", "f32[8,16]", parameter_number=0),
            Hlo("m.1", "multiply", "f32[8,16]", ["p", "p"]),
            Hlo("m.2", "multiply", "f32[8,16]", ["m.1", "p"]),
            Hlo("r", "add", "f32[8,16]", ["m.2", "p"]),
        ],
        is_fusion=True,
    )
    entry = [
        Hlo("x", "parameter", "f32[8,16]", parameter_number=0),
        Hlo("f.3", "fusion", "f32[8,16]", ["x"], ["fused_computation.12"], fusion_kind="kLoop"),
        Hlo("c", "custom-call", "bf16[4]", ["f.3"], target="__cublas$lt$matmul"),
    ]
    assert structure("f.3", entry, body) == "fusion kLoop f32[8,16] of f32[8,16]: add multiply*2"
    assert structure("c", entry, body) == "custom-call __cublas$lt$matmul bf16[4] of f32[8,16]"


def test_long_structures_are_cut_and_stay_distinct() -> None:
    def wide(n: int) -> str:
        names = [f"p{i}" for i in range(n)]
        entry = [
            Hlo(p, "parameter", "f32[128,128]", parameter_number=i) for i, p in enumerate(names)
        ]
        return structure("cat", [*entry, Hlo("cat", "concatenate", "f32[9]", names)])

    left, right = wide(40), wide(41)
    assert len(left) <= 160
    assert left != right
    assert left[:140] == right[:140]
