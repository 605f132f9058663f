"""The trust list: every kind of doubt is found, with its count, and a healthy capture has none."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from explane.analysis.trust.reconcile import CHECK_SCHEMA
from explane.analysis.trust.trust import (
    TrustInputs,
    TrustItem,
    new_capture_table,
    trust_items,
    trust_table,
)
from explane.capture.model import Capture, HostCapture, Note, NoteKind
from tests.unit.analysis.made import E, K, L, capture

KERNELS = pl.DataFrame(
    {
        "device": [0, 0, 0],
        "match": ["exact", "exact", "exact"],
        "time_ok": [True, True, True],
        "duration_ps": [100, 50, 50],
        "reason": ["label", "label", "label"],
        "in_graph": [False, False, False],
        "hlo_instruction": ["a", "b", "c"],
        "line_from": ["own", "own", "own"],
    }
)
STEPS = pl.DataFrame({"source": ["marker"], "complete": [1]})
SELFCHECK = {
    "match": ["order"],
    "tested": [10],
    "right": [9],
    "tested_ps": [100],
    "right_ps": [90],
}


def inputs(data: Capture | None = None, **changes: object) -> TrustInputs:
    data = data or capture([K(0, 100, call=1)], [L(0, 5, 1)])
    made = TrustInputs(
        record=HostCapture(data),
        kernels=KERNELS,
        checks=pl.DataFrame(schema=CHECK_SCHEMA),
        selfcheck=pl.DataFrame(SELFCHECK).clear(),
        steps=STEPS,
        verdict=pl.DataFrame(),
        n_partitions=1,
        uneven="",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def only(found: TrustInputs) -> TrustItem:
    items = trust_items(found)
    assert len(items) == 1, [item.item for item in items]
    return items[0]


def test_a_healthy_capture_has_nothing_on_the_list() -> None:
    assert trust_items(inputs()) == ()


def test_graphs_that_profiling_turned_off_come_first() -> None:
    text = "WARNING: CommandBuffer disabled when profiling"
    data = capture([K(0, 100, call=1)], [L(0, 5, 1)], [E(0, 5, text), E(9, 5, text)])
    item = only(inputs(data))
    assert (item.count, item.severity) == (2, 2)
    assert "xla_enable_command_buffers_during_profiling" in item.capture


def test_losses_damage_and_what_the_profiler_said_are_listed() -> None:
    notes = (
        Note("dropped_events", NoteKind.LOSS, 7, "7 events dropped"),
        Note("truncated", NoteKind.DAMAGE, 1, "cut at byte 9"),
        Note("something", NoteKind.INFO, 1, "nothing to worry about"),
    )
    data = replace(
        capture([K(0, 100, call=1)], [L(0, 5, 1)], notes=notes), errors=("CUPTI error 999",)
    )
    found = {item.why: item.count for item in trust_items(inputs(data))}
    assert found == {"7 events dropped": 7, "cut at byte 9": 1, "CUPTI error 999": 1}


def test_unattributed_time_is_counted_by_reason() -> None:
    kernels = KERNELS.with_columns(
        match=pl.Series(["exact", "none", "none"]),
        reason=pl.Series(["label", "outside XLA", "outside XLA"]),
        hlo_instruction=pl.Series(["a", None, None]),
    )
    item = only(inputs(kernels=kernels))
    assert (item.why, item.count, item.gpu_time_ps) == ("outside XLA", 2, 100)


def test_order_carries_the_error_that_the_selfcheck_found() -> None:
    kernels = KERNELS.with_columns(match=pl.Series(["exact", "order", "order"]))
    unmeasured = only(inputs(kernels=kernels))
    assert "too few labelled kernels" in unmeasured.why
    item = only(inputs(kernels=kernels, selfcheck=pl.DataFrame(SELFCHECK)))
    assert "put 9 of 10" in item.why
    assert "about 10 ps may be misattributed" in item.why  # a tenth of 100 ps


@pytest.mark.parametrize(
    ("line_from", "told"),
    [
        ("operand", "lines taken from an operand"),
        ("own_library", "lines inside libraries"),
        ("none", "kernels without a Python line"),
    ],
)
def test_lines_that_are_not_the_instructions_own(line_from: str, told: str) -> None:
    item = only(
        inputs(kernels=KERNELS.with_columns(line_from=pl.Series([line_from, "own", "own"])))
    )
    assert (item.item, item.count, item.gpu_time_ps) == (told, 1, 100)


def test_inferred_and_incomplete_steps() -> None:
    steps = pl.DataFrame({"source": ["inferred_execution"] * 3, "complete": [0, 1, 1]})
    found = {item.item: item.count for item in trust_items(inputs(steps=steps))}
    assert found == {
        "steps are inferred, not marked": 3,
        "incomplete or odd steps are left out of averages": 1,
    }


def test_failed_checks_are_carried_over() -> None:
    row = ("every kernel joins one launch", "no", "9", "7", "", "node")
    checks = pl.DataFrame([row], schema=CHECK_SCHEMA, orient="row")
    item = only(inputs(checks=checks))
    assert item.item == "a check fails: every kernel joins one launch"
    assert item.why.startswith("9 against 7")
    assert item.question == ""


def test_checks_that_fail_where_kernels_were_lost_ask_for_all_of_them() -> None:
    rows = [
        (f"kernels per step are constant, GPU {d}", "no", "9", "7", "", "node") for d in (0, 1)
    ]
    checks = pl.DataFrame(rows, schema=CHECK_SCHEMA, orient="row")
    captures = new_capture_table("node", trust_items(inputs(checks=checks)))
    assert captures["question"].to_list() == [
        "Which kernels are missing, and how long do they take?"
    ]
    assert captures["capture"][0].startswith("a capture of fewer steps, or ")


def test_tables_have_ratios_of_all_time_and_questions_once() -> None:
    kernels = KERNELS.with_columns(
        match=pl.Series(["exact", "none", "none"]),
        reason=pl.Series(["label", "x", "y"]),
        in_graph=pl.Series([False, True, True]),
    )
    items = trust_items(inputs(kernels=kernels))
    table = trust_table("node", items, 200)
    assert table.filter(pl.col("why") == "x")["gpu_time_ratio"].to_list() == [0.25]
    assert new_capture_table("node", items).height == 1
