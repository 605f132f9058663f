"""Steps from markers, executions and repetition; windows; what is left out and why."""

from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.steps.executions import runs_of_sequence
from explane.analysis.steps.rows import Steps
from explane.analysis.steps.steps import find_steps
from explane.capture.model import Capture
from explane.units import PS_PER_MS
from tests.shared import capture_dir, require_shared
from tests.unit.analysis.made import E, K, L, capture, whole

MS = PS_PER_MS


def rows(steps: Steps, *columns: str) -> list[tuple[object, ...]]:
    return steps.table.select(columns).rows()


def looped(
    n_steps: int,
    host_step: int = 10,
    gpu_step: int = 10,
    numbers: list[int] | None = None,
    devices: tuple[int, ...] = (0,),
) -> Capture:
    """Markers of `host_step` ms; two kernels each, `gpu_step` ms apart, that run when they can."""
    numbers = numbers or list(range(n_steps))
    kernels, calls, events = [], [], []
    for i, number in enumerate(numbers):
        at = i * host_step * MS
        events.append(E(at, host_step * MS, "train", step=number))
        for device in devices:
            call = 2 * i + 100 * device
            calls += [L(at + MS, 9, call, device=device), L(at + 2 * MS, 9, call + 1)]
            begin = i * gpu_step * MS + 3 * MS
            kernels.append(K(begin, MS, "a", call, device))
            kernels.append(K(begin + 4 * MS, 2 * MS, "b", call + 1, device))
    return capture(kernels, calls, events)


def test_windows_touch_and_end_with_the_last_kernel_of_the_step() -> None:
    steps = find_steps(looped(3))
    assert steps.source == "marker"
    assert not steps.inferred
    assert rows(steps, "step", "start_ps", "end_ps", "complete", "n_kernels") == [
        (0, 3 * MS, 9 * MS, False, 2),
        (1, 9 * MS, 19 * MS, True, 2),
        (2, 19 * MS, 29 * MS, True, 2),
    ]
    assert steps.kernel_step.tolist() == [0, 0, 1, 1, 2, 2]
    assert "first step" in steps.reason[0]


def test_asynchronous_dispatch_takes_the_step_time_from_the_device() -> None:
    # Host steps of 1 ms, device steps of 100 ms: kernels belong to the marker that launched them.
    steps = find_steps(looped(6, host_step=5, gpu_step=100))
    assert steps.kernel_step.tolist() == [i for i in range(6) for _ in range(2)]
    assert set(steps.duration_ps[steps.complete].tolist()) == {100 * MS}
    assert steps.ahead.tolist() == [0, 4, 3, 2, 1, 0], "all are dispatched after 30 ms"
    assert steps.median_ahead == 2


def test_the_median_step_is_the_lower_median_on_the_slowest_device() -> None:
    kernels, calls, events = [], [], []
    for device, lengths in ((0, (1, 5, 7, 6, 8)), (1, (1, 9, 9, 8, 8))):
        at = 0
        for i, length in enumerate(lengths):
            at += length * MS
            kernels.append(K(at - MS, MS, call=10 * device + i, device=device))
            calls.append(L(10 * i * MS, 5, 10 * device + i, device=device))
    events = [E(10 * i * MS, 9 * MS, "train", step=i) for i in range(5)]
    steps = find_steps(capture(kernels, calls, events))
    row = steps.median_row
    assert (steps.device[row], steps.step[row], steps.duration_ps[row]) == (1, 4, 8 * MS)


def test_numbers_with_duplicates_and_gaps_are_shown_as_they_are() -> None:
    steps = find_steps(looped(5, numbers=[300, 301, 303, 303, 304]))
    assert steps.step.tolist() == [300, 301, 303, 303, 304]
    assert steps.complete.tolist() == [False, True, False, True, True]
    assert "missing" in steps.reason[2]
    notes = " ".join(steps.notes)
    assert "303 occurs more than once" in notes
    assert "jump from 301 to 303" in notes


def test_markers_without_gpu_work_are_left_out_and_counted() -> None:
    data = looped(3)
    idle = [E(40 * MS + i * MS, MS // 2, "train", step=10 + i) for i in range(4)]
    busy = [E(10 * i * MS, 10 * MS, "train", step=i) for i in range(3)]
    again = capture(
        [K(int(s), 1, call=i) for i, s in enumerate(data.kernels.start_ps)],
        [L(int(s), 1, i) for i, s in enumerate(data.launches.start_ps)],
        busy + idle,
    )
    steps = find_steps(again)
    assert steps.step.tolist() == [0, 1, 2]
    assert "4 step markers have no GPU work" in " ".join(steps.notes)


def test_a_step_that_compiles_is_left_out_with_the_reason() -> None:
    data = looped(4)
    compiling = E(21 * MS, 3 * MS, "PjRtStreamExecutorClient::Compile", thread=1)
    steps = find_steps(_with_events(data, 4, [compiling]))
    assert steps.complete.tolist() == [False, True, False, True]
    assert "compiles for 3.000 ms" in steps.reason[2]
    assert steps.compile_ps.tolist() == [0, 0, 3 * MS, 0]


@pytest.mark.parametrize(
    ("name", "compiles"),
    [
        ("XlaCompile:#module=jit_f,program_id=3#", True),
        ("backend_compile", True),
        ("PjRtClient::CompileAndLoad", True),
        ("$compiler.py:250 backend_compile", True),
        ("GpuCompiler::RunBackend", True),
        ("$re.py:289 _compile", False),
        ("$sre_compile.py:759 compile", False),
        ("precompiled_step", False),
        ("loop_fusion", False),
    ],
)
def test_names_that_mean_compilation(name: str, compiles: bool) -> None:
    steps = find_steps(_with_events(looped(4), 4, [E(21 * MS, 3 * MS, name, thread=1)]))
    assert steps.complete[2] == (not compiles)


def _with_events(data: Capture, n_steps: int, extra: list[E]) -> Capture:
    markers = [E(10 * i * MS, 10 * MS, "train", step=i) for i in range(n_steps)]
    kernels = [
        K(int(s), int(d), data.text(int(n)), int(c))
        for s, d, n, c in zip(
            data.kernels.start_ps,
            data.kernels.duration_ps,
            data.kernels.name,
            data.kernels.correlation_id,
            strict=True,
        )
    ]
    calls = [
        L(int(s), 9, int(c))
        for s, c in zip(data.launches.start_ps, data.launches.correlation_id, strict=True)
    ]
    return capture(kernels, calls, [*markers, *extra])


def test_an_odd_step_and_an_outlier_are_left_out() -> None:
    kernels, calls = [], []
    at = 0
    for i, (length, extra) in enumerate([(5, 0), (5, 0), (6, 1), (5, 0), (20, 0), (5, 0), (5, 0)]):
        at += length * MS
        for j in range(2 + extra):
            kernels.append(K(at - MS - j * 9, 9, call=10 * i + j))
            calls.append(L(30 * i * MS + j * 9, 5, 10 * i + j))
    events = [E(30 * i * MS, 30 * MS, "train", step=i) for i in range(7)]
    steps = find_steps(capture(kernels, calls, events))
    assert steps.complete.tolist() == [False, True, False, True, False, True, True]
    assert steps.reason[2] == "3 kernels where 2 are usual"
    assert steps.reason[4] == "takes 4.00 times as long as the median step"
    assert steps.withheld == ""


def test_steps_that_simply_differ_are_withheld() -> None:
    kernels = [K(at * MS, MS, call=i) for i, at in enumerate((1, 5, 15, 40, 46))]
    calls = [L(i * MS, 5, i) for i in range(5)]
    events = [E(i * MS, MS, "train", step=i) for i in range(5)]
    steps = find_steps(capture(kernels, calls, events))
    assert "differ by a factor of 6.25" in steps.withheld


def test_kernels_without_launch_take_the_step_around_them() -> None:
    data = looped(3)
    again = _with_events(data, 3, [])
    rows_ = again.kernels
    kernels = [
        K(int(s), 1, call=int(c) if i != 2 else -1)
        for i, (s, c) in enumerate(zip(rows_.start_ps, rows_.correlation_id, strict=True))
    ]
    kernels.insert(3, K(14 * MS, 1))
    calls = [
        L(int(s), 1, int(c))
        for s, c in zip(again.launches.start_ps, again.launches.correlation_id, strict=True)
    ]
    events = [E(10 * i * MS, 10 * MS, "train", step=i) for i in range(3)]
    steps = find_steps(capture(kernels, calls, events))
    # The first kernel of step 1 has no launch and lies on the border: it stays without a step.
    assert steps.kernel_step.tolist() == [0, 0, -1, -1, 1, 2, 2]


def test_devices_only_count_kernels_in_the_marker_they_run_in() -> None:
    kernels = [K(10 * i * MS + MS, MS) for i in range(3)]
    events = [E(10 * i * MS, 10 * MS, "train", step=i) for i in range(3)]
    steps = find_steps(capture(kernels, [], events))
    assert steps.kernel_step.tolist() == [0, 1, 2]
    assert "no launch calls" in " ".join(steps.notes)


def test_executions_from_host_events_with_asynchronous_work() -> None:
    kernels, calls, events = [], [], []
    for i in range(4):
        events.append(E(i * MS, MS // 2, "jit_step:XLA GPU module", thread=1))
        for j in range(3):
            calls.append(L(i * MS + 10 * j, 5, 10 * i + j, thread=1))
            kernels.append(K((20 * i + 5 * j) * MS, 4 * MS, "k", 10 * i + j, program=3))
        calls.append(L(i * MS + MS * 3 // 4, 5, 10 * i + 9, thread=1))
        kernels.append(K((20 * i + 16) * MS, MS, "other", 10 * i + 9, program=4))
    steps = find_steps(capture(kernels, calls, events))
    assert steps.source == "inferred_execution"
    assert steps.inferred
    # The other program runs between two executions and counts to the later one.
    assert steps.kernel_step.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, -1]
    assert rows(steps, "start_ps", "end_ps")[1] == (14 * MS, 34 * MS)


def test_repetition_with_a_loop_inside_the_step() -> None:
    sequence = [k for _ in range(4) for k in (0, 1, 2, 2, 2, 3)]
    assert runs_of_sequence(whole(sequence)).tolist() == [r for r in range(4) for _ in range(6)]


def test_repetition_starts_where_the_trace_starts() -> None:
    # Keys 5 occur twice per run: 1 is the first that marks runs, but 5 stands before each 1.
    sequence = [k for _ in range(4) for k in (5, 1, 5, 2)]
    assert runs_of_sequence(whole(sequence)).tolist() == [r for r in range(4) for _ in range(4)]


def test_a_sequence_cut_at_its_start_has_items_before_the_first_run() -> None:
    sequence = [2, 3, *(k for _ in range(4) for k in (0, 1, 2, 3))]
    runs = runs_of_sequence(whole(sequence))
    assert runs.max() == 3
    assert np.bincount(runs[runs >= 0]).tolist() == [4, 4, 4, 4]


def test_no_repetition_is_no_step() -> None:
    assert set(runs_of_sequence(whole([1, 2, 3, 4])).tolist()) == {0}
    data = capture([K(10 * i, 5, f"k{i}", i, module="m") for i in range(5)])
    steps = find_steps(data)
    assert steps.source == "unknown"
    assert len(steps) == 0
    assert steps.median_row == -1
    assert steps.withheld == "no complete step"
    assert "StepTraceAnnotation" in steps.notes[0]


def test_captures_without_program_repeat_by_names() -> None:
    kernels = [
        K(10 * (3 * i + j) * MS, MS, name) for i in range(4) for j, name in enumerate("abc")
    ]
    steps = find_steps(capture(kernels))
    assert steps.source == "inferred_repetition"
    assert steps.kernel_step.tolist() == [i for i in range(4) for _ in range(3)]


def test_launch_threads_that_drift_from_the_markers_keep_executions_whole() -> None:
    # Device 1's thread runs 4 ms before the markers: half of its launches lie in the step before.
    kernels, calls, events = [], [], []
    for i in range(5):
        events.append(E(10 * i * MS, 10 * MS, "train", step=i))
        for j, name in enumerate("abcd"):
            for device in (0, 1):
                call = 100 * device + 10 * i + j
                at = (10 * i + 2 * j + 1) * MS - device * 4 * MS
                calls.append(L(at, 5, call, device=device, thread=device))
                kernels.append(K(at + 8 * MS, MS, name, call, device, program=1, op=name))
    steps = find_steps(capture(kernels, calls, events))
    assert steps.kernel_step.tolist() == [i for _ in range(2) for i in range(5) for _ in range(4)]


def test_no_kernel_at_all() -> None:
    steps = find_steps(capture([], [L(0, 1, 1)], [E(0, 5, "train", step=0)]))
    assert len(steps) == 0
    assert steps.table.width == 16


def test_windows_never_overlap_when_steps_do() -> None:
    kernels = [K(0, 50, call=0), K(40, 40, call=1, stream=8), K(70, 30, call=2)]
    calls = [L(i, 1, i) for i in range(3)]
    events = [E(i, 1, "train", step=i) for i in range(3)]
    steps = find_steps(capture(kernels, calls, events))
    assert rows(steps, "start_ps", "end_ps") == [(0, 50), (50, 80), (80, 100)]


@require_shared
@pytest.mark.parametrize(
    ("name", "n_steps", "n_kernels"),
    [
        ("gpt1-h100", 8, {390}),
        ("gpt-dp4-mi300", 6, {457}),
        ("gpt-fsdp4-h100", 6, {453}),
        ("gpt-fsdp4-mi300-bare", 6, {669}),
        ("mlp-dp4-h100-hostbound", 12, {39}),
    ],
)
def test_simulated_captures_have_equal_steps(name: str, n_steps: int, n_kernels: set[int]) -> None:
    """Kernels per step from the truth tables: their rows over devices and steps."""
    from explane.capture.xplane import read_xplane

    data = read_xplane(next(capture_dir("simulated", name).glob("*.xplane.pb")))
    steps = find_steps(data)
    assert set(steps.n_kernels.tolist()) == n_kernels
    n_devices = len(set(data.kernels.device.tolist()))
    assert len(steps) == n_steps * n_devices
    assert len(data.kernels) == n_steps * n_devices * next(iter(n_kernels))


def test_work_launched_after_its_marker_has_closed() -> None:
    # Another thread dispatches: each launch comes 3 ms after its 1 ms marker began.
    kernels = [K((10 * i + 5) * MS, MS, call=i) for i in range(4)]
    calls = [L((10 * i + 3) * MS, 9, i, thread=1) for i in range(4)]
    events = [E(10 * i * MS, MS, "train", step=i) for i in range(4)]
    steps = find_steps(capture(kernels, calls, events))
    assert steps.kernel_step.tolist() == [0, 1, 2, 3]
    assert "marker that began last" in " ".join(steps.notes)


def test_of_nested_markers_the_name_with_most_work_makes_the_steps() -> None:
    kernels = [
        K((10 * i + j + 2) * MS, MS // 2, call=10 * i + j) for i in range(4) for j in (0, 4)
    ]
    calls = [L((10 * i + j + 1) * MS, 9, 10 * i + j) for i in range(4) for j in (0, 4)]
    events = [E(10 * i * MS, 9 * MS, "train", step=i) for i in range(4)]
    events += [E((10 * i + 5) * MS, MS, "inner", step=100 + i) for i in range(4)]
    steps = find_steps(capture(kernels, calls, events))
    assert steps.kernel_step.tolist() == [i for i in range(4) for _ in range(2)]


def test_markers_of_two_threads_are_not_mixed() -> None:
    kernels = [K((10 * i + 2) * MS, MS, call=i) for i in range(4)]
    calls = [L((10 * i + 1) * MS, 9, i) for i in range(4)]
    events = [E(10 * i * MS, 9 * MS, "train", thread=0, step=i) for i in range(4)]
    events += [E(20 * MS, 2 * MS, "eval", thread=1, step=7)]
    assert find_steps(capture(kernels, calls, events)).step.tolist() == [0, 1, 2, 3]


def test_without_program_ids_the_module_s_name_tells_the_program() -> None:
    kernels = []
    for i in range(4):
        kernels += [
            K((10 * i + j) * MS, MS, name, module="jit_step") for j, name in enumerate("abc")
        ]
        kernels.append(K((10 * i + 5) * MS, MS // 9, f"other{i}", module="jit_init"))
    steps = find_steps(capture(kernels))
    assert steps.source == "inferred_execution"
    assert steps.n_kernels.tolist() == [3, 4, 4, 4]


def test_overlapping_execute_events_say_nothing() -> None:
    kernels, calls, events = [], [], []
    for i in range(4):
        events.append(E(i * 10 * MS, 14 * MS, "PjitFunction(step)"))
        for j, name in enumerate("abc"):
            calls.append(L((10 * i + 4 * j) * MS, 9, 10 * i + j))
            kernels.append(K((10 * i + 4 * j) * MS + MS, MS, name, 10 * i + j, program=1))
    steps = find_steps(capture(kernels, calls, events))
    assert steps.n_kernels.tolist() == [3, 3, 3, 3], "from the sequence of launches"
