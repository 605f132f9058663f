"""Each check of the reconciliation on records that agree and on records that don't."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from explane.analysis.attribution.result import Execution
from explane.analysis.steps.launches import join_launches
from explane.analysis.steps.steps import find_steps
from explane.analysis.trust.reconcile import Check, Records, reconcile
from explane.analysis.verdict.budget import stream_budgets
from explane.capture.model import Capture, HostCapture, Note, NoteKind
from explane.units import PS_PER_MS
from tests.unit.analysis.made import E, K, L, capture
from tests.unit.analysis.played import PROGRAM, labelled


def checks(data: Capture, json: Capture | None = None, **changes: object) -> dict[str, Check]:
    join = join_launches(data)
    steps = find_steps(data, join)
    records = Records(
        HostCapture(data, json), join, steps.table, stream_budgets(data).table, {}, labelled(data)
    )
    return {c.check: c for c in reconcile(replace(records, **changes))}  # type: ignore[arg-type]


def healthy(n_devices: int = 2, n_steps: int = 3) -> tuple[list[K], list[L], list[E]]:
    kernels, calls, events = [], [], []
    for step in range(n_steps):
        events.append(E(1000 * step, 800, "train", step=step, thread=9))
        for d in range(n_devices):
            for i in range(3):
                call = 100 * step + 10 * d + i + 1
                calls.append(L(1000 * step + 10 * i, 5, call, thread=d))
                kernels.append(
                    K(1000 * step + 10 * i + 8, 9, f"f{i}", call=call, device=d, op=f"f.{i}",
                      program=PROGRAM)
                )  # fmt: skip
    return kernels, calls, events


def test_a_healthy_capture_fails_no_check() -> None:
    found = checks(capture(*healthy()))
    assert {c.check for c in found.values() if c.holds == "no"} == set()
    assert found["every kernel joins one launch"].holds == "yes"
    assert found["attributed + unattributed = kernel time"].left == str(18 * 9)


def test_a_kernel_without_launch_and_a_launch_without_kernel_are_counted() -> None:
    kernels, calls, events = healthy()
    lost_call, lost_kernel = calls.pop(), kernels.pop(0)
    found = checks(capture(kernels, calls, events))
    joined = found["every kernel joins one launch"]
    assert (joined.holds, joined.left, joined.right) == ("no", "17", "16")
    launched = found["every launch has its kernels"]
    assert (launched.holds, launched.left, launched.right) == ("no", "17", "16")
    assert lost_call.call != lost_kernel.call


def test_an_empty_graph_launch_is_explained() -> None:
    kernels, calls, events = healthy()
    calls.append(L(50, 5, 999, "cuGraphLaunch (CudaGraph:3)"))
    assert checks(capture(kernels, calls, events))["every launch has its kernels"].holds == (
        "explained"
    )


def test_a_gpu_with_less_work_is_named() -> None:
    kernels, calls, events = healthy(3)
    kernels = [k for k in kernels if not (k.device == 2 and k.name == "f1")]
    check = checks(capture(kernels, calls, events))["compute kernels are the same on all GPUs"]
    assert (check.holds, check.left, check.right, check.note) == ("no", "6", "9", "GPU 2: 6")


def test_copies_of_no_program_may_differ_between_gpus() -> None:
    name = "memcpy kernels are the same on all GPUs"
    kernels, calls, events = healthy(3)
    for device in (0, 1, 2):
        calls.append(L(60, 1, 800 + device, "cuMemcpyAsync", thread=device))
        kernels.append(K(61, 1, "MemcpyD2D", 800 + device, device, op="copy", program=PROGRAM))
    calls.append(L(64, 1, 900, "cuMemcpyAsync"))
    kernels.append(K(65, 1, "MemcpyD2H", call=900, device=0))
    check = checks(capture(kernels, calls, events))[name]
    assert (check.holds, check.left, check.right) == ("explained", "1", "2")
    assert check.note == "GPU 0: 2; copies of no program, as of inputs and results"
    inside = replace(kernels[-1], op="copy", program=PROGRAM)
    assert checks(capture([*kernels[:-1], inside], calls, events))[name].holds == "no"


def test_json_counts_are_compared_per_gpu_and_a_cut_explains_a_difference() -> None:
    kernels, calls, events = healthy()
    main = capture(kernels, calls, events)
    cut = Note("json_cut", NoteKind.LOSS, 3, "the JSON ends early")
    shorter = capture(kernels[:-3], calls, events)
    name = "device events: JSON = xplane, GPU 1"
    assert checks(main, shorter)[name].holds == "no"
    assert checks(main, replace(shorter, notes=(cut,)))[name].holds == "explained"
    assert checks(main, main)[name].holds == "yes"
    assert checks(main)["device events: JSON = xplane"].holds == "not available"


def test_missing_launches_of_an_execution_are_counted() -> None:
    data = capture(*healthy())
    runs = [Execution(PROGRAM, 0, 0, 2, 4, 1), Execution(PROGRAM, 1, 3, 5, 4, 0)]
    made = replace(labelled(data), executions=runs)
    check = checks(data, attribution=made)["launches of program 17 = HLO schedule"]
    assert (check.holds, check.left, check.right) == ("no", "8", "7")
    assert check.note == "1 of 2 executions lack kernels"


def test_clock_skew_of_microseconds_is_explained_and_of_milliseconds_is_not() -> None:
    kernels, calls, events = healthy()
    name = "no kernel starts before its launch call"
    assert checks(capture(kernels, calls, events))[name].holds == "yes"
    skewed = [replace(kernels[0], start=kernels[0].start - 9), *kernels[1:]]
    assert checks(capture(skewed, calls, events))[name].holds == "explained"
    late = [replace(c, start=c.start + 3 * PS_PER_MS) for c in calls]
    assert checks(capture(kernels, late, events))[name].holds == "no"


def test_losses_that_a_reader_reports_fail_the_check() -> None:
    note = Note("dropped_events", NoteKind.LOSS, 12, "12 events dropped")
    data = replace(capture(*healthy()), notes=(note,))
    check = checks(data)["no records are reported lost or damaged"]
    assert (check.holds, check.left) == ("no", "12")


def test_budgets_that_do_not_add_up_are_noticed() -> None:
    data = capture(*healthy())
    streams = stream_budgets(data).table.with_columns(pl.col("idle_ps") + 1)
    assert checks(data, streams=streams)["stream budgets add up to their spans"].holds == "no"
