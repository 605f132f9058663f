"""Verdicts by hand: what decides, what withholds, what is said beside it."""

from __future__ import annotations

import polars as pl
import pytest

from explane.analysis.steps.launches import join_launches
from explane.analysis.steps.steps import find_steps
from explane.analysis.verdict.budget import stream_budgets
from explane.analysis.verdict.idle import idle_gaps
from explane.analysis.verdict.parts import PARTS
from explane.analysis.verdict.peer_waits import peer_waits
from explane.analysis.verdict.verdict import RULE, Expected, Verdict, find_verdict
from explane.capture.model import Capture, Note, NoteKind, StoredProgram
from explane.units import PS_PER_MS, PS_PER_US
from tests.unit.analysis.made import E, K, L, capture

US, MS = PS_PER_US, PS_PER_MS
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def judge(data: Capture, expected: Expected | None = None) -> Verdict:
    join = join_launches(data)
    steps = find_steps(data, join)
    budgets = stream_budgets(data, steps)
    return find_verdict(
        data, join, steps, budgets, idle_gaps(data, join, steps, budgets), expected
    )


def training(
    late: int = 0, work: int = 900, n_steps: int = 6, devices: int = 1, **more: object
) -> Capture:
    """Steps of two kernels (µs); the first of each is launched `late` µs after the GPU ran dry."""
    kernels, calls, events = [], [], []
    for device in range(devices):
        at = 100
        for i in range(n_steps):
            call = 1000 * device + 2 * i
            launch = at + late - 12 if late else max(at - 500, 0)
            calls += [L(launch * US, 5 * US, call, device=device, thread=device)]
            calls += [L((launch + 6) * US, 5 * US, call + 1, device=device, thread=device)]
            start = at + late + (2 if not late else 0)
            half = work // 2
            kernels.append(K(start * US, half * US, "a", call, device, program=1))
            kernels.append(K((start + half + 2) * US, half * US, "b", call + 1, device, program=1))
            at = start + work + 2
            if device == 0:
                events.append(E(launch * US - US, 20 * US, "train", thread=9, step=i))
    return capture(kernels, calls, events, **more)  # type: ignore[arg-type]


def communication(exposed: int, hidden: int, copy: int = 0) -> Capture:
    """Steps of 1000 µs compute with a collective partly beside it, and a copy at the end."""
    kernels, calls, events = [], [], []
    at = 100
    for i in range(5):
        call = 10 * i
        launch = max(at - 90, 0)
        parts = [("a", 0, 1000, 7), (NCCL, 1000 - hidden, hidden + exposed, 8)]
        if copy:
            parts.append(("MemcpyH2D", 1000 + exposed, copy, 7))
        for j, (name, begin, length, stream) in enumerate(parts):
            if length:
                calls.append(L(launch * US + j, 1, call + j))
                kernels.append(K((at + begin) * US, length * US, name, call + j, 0, stream))
        events.append(E(launch * US, 10 * US, "train", thread=1, step=i))
        at += 1000 + exposed + copy + 1
    return capture(kernels, calls, events)


def test_busy_steps_are_gpu_bound_and_the_rule_is_printed() -> None:
    found = judge(training())
    assert found.word == "GPU-bound"
    assert found.problems == ()
    row = found.table.row(0, named=True)
    assert found.table.columns[:4] == ["host", "verdict", "reason", "rule"]
    assert row["rule"] == RULE
    assert "25%" in RULE
    assert "compute" in row["reason"]
    assert sum(row[f"{name}_ratio"] for name in PARTS) == pytest.approx(1, abs=1e-12)


def test_late_launches_are_host_bound_with_their_share() -> None:
    found = judge(training(late=600, work=400))
    # Each step: 600 late, 2 between the kernels, 400 work.
    assert found.word == "host-bound"
    assert found.parts.ratio("host_late") == pytest.approx(600 / 1002)
    assert "idle because the host launched late 59.9 %" in found.reason


@pytest.mark.parametrize(("late", "word"), [(300, "GPU-bound"), (301, "host-bound")])
def test_a_quarter_decides(late: int, word: str) -> None:
    assert judge(training(late=late, work=900)).word == word


def test_exposed_communication_decides_and_hidden_does_not() -> None:
    assert judge(communication(exposed=0, hidden=900)).word == "GPU-bound"
    found = judge(communication(exposed=600, hidden=100))
    assert found.word == "communication-bound"
    assert found.parts.ratio("collective") == pytest.approx(600 / 1601)


def test_a_mid_range_share_is_still_named() -> None:
    found = judge(communication(exposed=200, hidden=700))
    assert found.word == "GPU-bound"
    assert "exposed communication 16.7 %" in found.reason


def test_copies_decide_and_are_not_called_idle() -> None:
    found = judge(communication(exposed=0, hidden=0, copy=800))
    assert found.word == "copy-bound"
    assert found.parts.ratio("host_late", "unexplained") < 0.01


def test_parts_add_up_to_each_window_exactly() -> None:
    for data in (training(late=50), communication(100, 50, 30), training(devices=3)):
        parts = judge(data).parts
        assert parts.time_ps.sum(axis=1).tolist() == parts.duration_ps.tolist()


def test_range_of_a_part_is_over_steps_and_devices() -> None:
    table = judge(training(late=600, work=400, devices=2)).parts_table
    rows = table.filter(pl.col("part") == "host_late").select("device", "low", "high", "n").rows()
    assert rows == [
        (0, *[pytest.approx(600 / 1002)] * 2, 5),
        (1, *[pytest.approx(600 / 1002)] * 2, 5),
    ]


# ------------------------------------------------------------------------ withheld


def withheld(data: Capture) -> str:
    found = judge(data)
    assert found.word == "withheld"
    assert found.problems
    return found.reason


def test_host_only_with_launches() -> None:
    data = capture([], [L(i, 1, i) for i in range(30)], [E(0, 90, "PjRt")])
    assert "30 launch calls were recorded but no kernel" in withheld(data)


def test_host_only_with_execute_calls_and_the_collector_s_words_first() -> None:
    events = [E(i * 10, 5, "PjRtStreamExecutorLoadedExecutable::Execute") for i in range(4)]
    reason = withheld(capture([], [], events, warnings=["CUPTI_ERROR_999"]))
    assert reason.index("CUPTI_ERROR_999") < reason.index("device tracing failed")


def test_a_process_that_launches_nothing_is_told_from_failed_tracing() -> None:
    reason = withheld(capture([], [], [E(0, 9, "$scheduler.py:10 poll")]))
    assert "launched no GPU work" in reason
    assert "device tracing failed" not in reason


def test_launches_seen_but_kernels_not_recorded() -> None:
    kernels = [K(10 * i, 5, "MemcpyH2D", i) for i in range(6)]
    calls = [L(i, 1, i) for i in range(5000)]
    assert "4,994 of 5,000 launch calls have no kernel" in withheld(capture(kernels, calls))


def test_empty_graphs_are_not_missing_kernels() -> None:
    data = training()
    calls = [
        L(int(s), 5 * US, int(c), thread=0)
        for s, c in zip(data.launches.start_ps, data.launches.correlation_id, strict=True)
    ]
    kernels = [
        K(int(s), int(d), "a", int(c), program=1)
        for s, d, c in zip(
            data.kernels.start_ps,
            data.kernels.duration_ps,
            data.kernels.correlation_id,
            strict=True,
        )
    ]
    empty = [
        L(int(c.start) + 1, 1, 9000 + i, "cuGraphLaunch (CudaGraph:1)")
        for i, c in enumerate(calls)
    ]
    assert judge(capture(kernels, calls + empty)).word == "GPU-bound"


def test_device_records_that_end_early() -> None:
    kernels = [K((i * 100 + 10) * MS, 80 * MS, "a", i) for i in range(50)]
    calls = [L(i * 100 * MS, MS, i) for i in range(50)]
    events = [E(i * 100 * MS, 90 * MS, "train", step=i) for i in range(350)]
    reason = withheld(capture(kernels, calls, events))
    assert "300 of 400 dispatches come after them" in reason
    assert "GPU window 4.980 s" in reason
    assert "host window 34.990 s" in reason


def test_executions_without_gpu_work() -> None:
    events, kernels, calls = [], [], []
    for device in range(4):
        for i in range(5):
            events.append(E(i * MS, MS // 2, "jit_f:XLA GPU module", thread=device))
    for i in range(5):
        calls.append(L(i * MS + 5, 5, i, thread=2))
        kernels.append(K(i * MS + 100, MS // 2, "a", i, device=2, program=1))
    assert "15 of 20 executions on the host show no GPU work" in withheld(
        capture(kernels, calls, events)
    )


def test_programs_that_never_launch_are_no_loss() -> None:
    data = training()
    events = [E(i * 10, 5, "jit_f:XLA GPU module", thread=3) for i in range(9)]
    assert judge(capture(*_parts_of(data), [*_markers(data), *events])).word == "GPU-bound"


def _parts_of(data: Capture) -> tuple[list[K], list[L]]:
    columns = (data.kernels.start_ps, data.kernels.duration_ps, data.kernels.correlation_id)
    kernels = [K(int(s), int(d), "a", int(c), program=1) for s, d, c in zip(*columns, strict=True)]
    calls = [
        L(int(s), 5 * US, int(c))
        for s, c in zip(data.launches.start_ps, data.launches.correlation_id, strict=True)
    ]
    return kernels, calls


def _markers(data: Capture) -> list[E]:
    columns = (data.host_events.start_ps, data.host_events.step_num)
    return [E(int(s), 20 * US, "train", 9, int(n)) for s, n in zip(*columns, strict=True)]


def test_dropped_records_and_damage() -> None:
    loss = Note("dropped_events", NoteKind.LOSS, 4096, "4096 events dropped")
    assert "lost records (4096 events dropped)" in withheld(training(notes=[loss]))
    broken = Note("truncated", NoteKind.DAMAGE, 1, "cut at byte 100")
    assert "damaged (cut at byte 100)" in withheld(training(notes=[broken]))
    harmless = Note("invalid_utf8", NoteKind.INFO, 1, "one text")
    assert judge(training(notes=[harmless])).word == "GPU-bound"


def test_impossible_times() -> None:
    kernels, calls = _parts_of(training())
    bad = [K(0, 0, "a", ok=False) for _ in range(3)]
    assert "3 GPU events" in withheld(capture(kernels + bad, calls, _markers(training())))


def test_clocks_that_disagree() -> None:
    kernels, calls = _parts_of(training())
    for kernel in kernels:
        kernel.start -= 2 * MS
    assert "clocks don't agree" in withheld(capture(kernels, calls))


def test_a_window_with_hardly_any_gpu_work() -> None:
    kernels = [K(MS * (10 + i), 300 * US, f"k{i}", i) for i in range(3)]
    calls = [L(MS * (9 + i), 5, i) for i in range(3)]
    reason = withheld(capture(kernels, calls, [E(0, 5000 * MS, "wait", thread=1)]))
    assert "holds 0.02 % GPU work (3 GPU events): probably the wrong moment" in reason


def test_kernels_missing_from_graphs_at_random() -> None:
    kernels, calls, events = [], [], []
    for i in range(6):
        at = i * MS
        events.append(E(at, MS // 2, "train", step=i, thread=1))
        for g in range(4):
            call = 10 * i + g
            calls.append(L(at + g * 10, 5, call, "hipGraphLaunch"))
            for k in range(10):
                if (k + i * g) % 4:
                    kernels.append(K(at + (g * 10 + k) * 20 * US, 15 * US, f"k{k}", call))
    assert "kernels inside graphs are missing" in withheld(capture(kernels, calls, events))


def test_idle_time_without_launch_calls_is_not_blamed_on_the_host() -> None:
    kernels = [K(i * MS, MS // 3, "abc"[i % 3], program=1) for i in range(30)]
    reason = withheld(capture(kernels))
    assert "no launch calls explain why" in reason


def test_idle_time_with_collectives_that_were_not_recorded() -> None:
    data = training()
    kernels, calls = _parts_of(data)
    for i, kernel in enumerate(kernels):
        kernel.start = (i * 2 + 1) * MS
        kernel.device = 0
    slow = capture(kernels, calls, _markers(data))
    found = judge(slow, Expected(n_partitions=8, has_collectives=True))
    assert found.word == "withheld"
    assert "none was recorded" in found.reason


def test_collectives_are_looked_for_in_the_stored_programs() -> None:
    kernels, calls = [], []
    for call in range(18):
        calls.append(L(call, 1, call))
        kernels.append(K((call // 2 + 1) * MS, MS // 3, "a", call, call % 2, program=1 + call % 2))
    with_it = StoredProgram(1, "jit_f(1)", b"\x12\x0aall-reduce")
    without = StoredProgram(2, "jit_g(2)", b"\x12\x06fusion all-reduce")
    for programs, expected in (({1: with_it, 2: without}, True), ({2: without}, False)):
        data = capture(kernels, calls, programs=programs)
        remarks = " ".join(judge(data).remarks) + judge(data).reason
        assert ("collectives" in remarks) == expected


# ------------------------------------------------------------------------- remarks


def test_only_some_of_the_devices_are_captured() -> None:
    remarks = judge(training(), Expected(n_partitions=32)).remarks
    assert any("1 of 32 devices captured" in text for text in remarks)


def test_a_device_without_compute_is_named_and_left_out() -> None:
    data = training(devices=3)
    columns = (data.kernels.start_ps, data.kernels.duration_ps, data.kernels.correlation_id)
    rows = list(zip(*columns, data.kernels.device, strict=True))
    kernels = [
        K(int(s), int(d), "a" if dev != 2 else NCCL, int(c), int(dev), program=1)
        for s, d, c, dev in rows
    ]
    calls = [
        L(int(s), 5 * US, int(c), thread=int(t))
        for s, c, t in zip(
            data.launches.start_ps,
            data.launches.correlation_id,
            data.launches.thread,
            strict=True,
        )
    ]
    found = judge(capture(kernels, calls, _markers(data)))
    assert found.outliers == (2,)
    assert found.parts.ratio("collective") == 0
    assert any("GPU 2: less compute" in text for text in found.remarks)


def test_the_python_tracer_is_named_beside_a_host_bound_verdict_only() -> None:
    late = judge(training(late=600, work=400, n_python_events=900))
    assert any(
        "Python calls" in text and "python_tracer_level = 0" in text for text in late.remarks
    )
    busy = judge(training(n_python_events=900))
    assert not any("Python calls" in text for text in busy.remarks)


def test_the_host_runs_ahead() -> None:
    kernels = [K(i * 100 * MS, 99 * MS, "a", i) for i in range(6)]
    calls = [L(i * MS, 5, i) for i in range(6)]
    events = [E(i * MS, MS, "train", step=i) for i in range(6)]
    found = judge(capture(kernels, calls, events))
    assert found.word == "GPU-bound"
    assert any("2 steps ahead" in text for text in found.remarks)


def test_idle_inside_graphs_is_given_as_a_range() -> None:
    kernels, calls, events = [], [], []
    for i in range(5):
        at = (i * 1000 + 100) * US
        calls.append(L(at - 90 * US, 5 * US, i, "cuGraphLaunch (CudaGraph:1)"))
        events.append(E(at - 95 * US, 20 * US, "train", thread=1, step=i))
        kernels += [K(at + k * 100 * US, 91 * US, f"k{k}", i) for k in range(10)]
    found = judge(capture(kernels, calls, events))
    row = found.table.row(0, named=True)
    assert row["idle_ratio"] == pytest.approx(0.09, abs=0.001)
    assert row["idle_least_ratio"] == pytest.approx(0.009, abs=0.001)
    assert any("inside graph launches" in text for text in found.remarks)


def test_exactly_as_many_events_as_the_collector_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    data = training()
    monkeypatch.setattr("explane.analysis.verdict.coverage._LIMITS", (len(data.kernels),))
    assert "12 GPU events: the collector's limit was reached" in withheld(data)


def test_compilation_is_named_beside_the_verdict() -> None:
    data = training()
    last = int(data.launches.start_ps[-3])
    compiling = E(last - 400 * US, 300 * US, "XlaCompile:#module=jit_f#", thread=4)
    found = judge(capture(*_parts_of(data), [*_markers(data), compiling]))
    assert any("compiles for 300.000 µs" in text for text in found.remarks)


def in_parallel(extra_work: int = 0, extra_late: int = 0, n_steps: int = 6) -> Capture:
    """Two GPUs: 100 µs launch delay, compute, an all-reduce of 50 µs; GPU 1 has extra (µs)."""
    kernels, calls, events = [], [], []
    at = 100
    for i in range(n_steps):
        joined = at + 100 + 400 + max(extra_work + extra_late, 0)
        for device in (0, 1):
            late = 100 + (extra_late if device else 0)
            work = 400 + (extra_work if device else 0)
            call = 1000 * device + 10 * i
            start = at + late
            calls.append(L((start - 12) * US, 5 * US, call, device=device, thread=device))
            calls.append(L((start - 6) * US, 5 * US, call + 1, device=device, thread=device))
            kernels.append(K(start * US, work * US, "a", call, device, program=1))
            begin = start + work
            length = joined + 50 - begin
            kernels.append(K(begin * US, length * US, NCCL, call + 1, device, program=1))
        events.append(E((at + 80) * US, 1000 * US, "train", thread=9, step=i))
        at = joined + 50
    return capture(kernels, calls, events)


def test_waiting_for_a_slower_gpu_is_no_communication() -> None:
    found = judge(in_parallel(extra_work=600))
    # GPU 0 waits 600 of 1150; GPU 1 never; both move data for 50.
    assert found.word == "GPU-bound"
    assert found.parts.ratio("peer_late") == pytest.approx(600 / 2300)
    assert found.parts.ratio("peer_host_late") == 0
    assert found.parts.ratio("collective") == pytest.approx(100 / 2300)
    assert any("100 % is for GPU 1" in text for text in found.remarks)


def test_waiting_for_a_gpu_with_a_late_host_counts_to_the_host() -> None:
    found = judge(in_parallel(extra_late=600))
    assert found.word == "host-bound"
    assert found.parts.ratio("peer_late") == 0
    assert found.parts.ratio("peer_host_late") == pytest.approx(600 / 2300)
    assert found.parts.ratio("host_late") == pytest.approx((100 + 700) / 2300)


def test_waiting_for_a_gpu_with_both_is_divided() -> None:
    parts = judge(in_parallel(extra_work=250, extra_late=350)).parts
    assert parts.ratio("peer_host_late") == pytest.approx(350 / 2300)
    assert parts.ratio("peer_late") == pytest.approx(250 / 2300)


def test_collectives_that_do_not_run_together_are_not_matched() -> None:
    # Two groups of one GPU each: the second begins after the first has ended.
    kernels, calls, events = [], [], []
    for i in range(5):
        for device in (0, 1):
            call, at = 100 * device + 2 * i, 1000 * i + 400 * device
            calls += [L(at * US, US, call), L((at + 2) * US, US, call + 1)]
            kernels.append(K((at + 5) * US, 100 * US, "a", call, device))
            kernels.append(K((at + 105) * US, 200 * US, NCCL, call + 1, device))
        events.append(E(1000 * i * US, 500 * US, "train", thread=1, step=i))
    parts = judge(capture(kernels, calls, events)).parts
    assert parts.ratio("peer_late", "peer_host_late") == 0
    assert parts.ratio("collective") == pytest.approx(0.2)


def test_lost_collectives_are_matched_within_their_step() -> None:
    data = in_parallel(extra_work=600)
    columns = (data.kernels.start_ps, data.kernels.duration_ps, data.kernels.correlation_id)
    names = [data.text(int(code)) for code in data.kernels.name]
    kernels = [
        K(int(s), int(d), name, int(c), int(g), program=1)
        for s, d, c, name, g in zip(*columns, names, data.kernels.device, strict=True)
    ]
    lost = next(k for k in kernels if k.device == 0 and k.name == NCCL and k.start > 3 * MS)
    calls = [
        L(int(s), 5 * US, int(c), thread=int(t))
        for s, c, t in zip(
            data.launches.start_ps,
            data.launches.correlation_id,
            data.launches.thread,
            strict=True,
        )
    ]
    events = [E((100 + 1150 * i + 80) * US, 1000 * US, "train", 9, i) for i in range(6)]
    data = capture([k for k in kernels if k is not lost], calls, events)
    steps = find_steps(data)
    waits = peer_waits(data, steps)
    assert waits.windows.duration_ps.tolist() == [600 * US] * 5
    assert set(waits.late_device.tolist()) == {1}


def test_a_gpu_without_a_whole_step_may_wait_for_another() -> None:
    data = training(devices=1, n_steps=4)
    work = [K(int(s), int(d), "a", int(c), 0) for s, d, c in _times(data)]
    calls = [
        L(int(s), 5 * US, int(c))
        for s, c in zip(
            data.launches.start_ps.tolist(), data.launches.correlation_id.tolist(), strict=True
        )
    ]
    # Before the first step both GPUs meet in a collective; the second one does nothing else.
    meet = [K(1 * US, 9 * US, NCCL, device=1, op="ar"), K(5 * US, 5 * US, NCCL, op="ar")]
    marks = [
        E(int(data.host_events.start_ps[i]), 20 * US, "train", thread=9, step=i) for i in range(4)
    ]
    both = capture([*meet, *work], calls, marks)
    waits = peer_waits(both, find_steps(both, join_launches(both)))
    assert waits.device.tolist() == [1]
    parts = judge(both).parts
    assert set(parts.device.tolist()) == {0}
    assert (parts.time_ps.sum(axis=1) == parts.duration_ps).all()


def _times(data: Capture) -> list[tuple[int, int, int]]:
    table = data.kernels
    columns = (table.start_ps, table.duration_ps, table.correlation_id)
    return list(zip(*(column.tolist() for column in columns), strict=True))
