"""Captures in which the GPU side is missing, cut or only a part of the job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from explane.capture import load
from explane.capture.discover import discover
from explane.capture.model import NoteKind
from tests.builders import (
    Hlo,
    HloComputation,
    HloModule,
    Plane,
    Space,
    bytes_field,
    gpu_plane,
    host_plane,
    int_field,
)
from tests.field.made import (
    MS,
    US,
    Job,
    analysed,
    check,
    doubts,
    fusion,
    program,
    refusal,
    row,
    rows,
    steps_of,
    stored,
    total_ps,
    verdict,
    written,
)
from tests.shared import capture_dir, require_shared

COPY: dict[str, Any] = {
    "op": "",
    "memcpy_details": "kind_src:device kind_dst:host size:4 dest:0 async:1",
}


def host_only(*events: str, n: int = 50, launches: int = 0) -> Space:
    """A capture without any GPU plane."""
    host = host_plane()
    line = host.line("python", line_id=1)
    for i in range(n):
        for j, name in enumerate(events):
            line.event(name, (100 * i + 10 * j) * US, 8 * US)
    for i in range(launches):
        line.event("cuLaunchKernel", i * 10 * US, 5 * US, correlation_id=i + 1)
    return Space([host])


# ------------------------------------------------------------------------ nothing of the GPU


def test_a_json_that_was_cut_is_explained_and_totals_are_the_xplanes(tmp_path: Path) -> None:
    space = steps_of(Job(), n_steps=50).space()
    path = space.write(tmp_path / "run")
    space.write_json(path.with_name("node.trace.json.gz"), cap=70)
    found = analysed(tmp_path / "run", tmp_path)
    made = check(found, "device events: JSON = xplane")
    assert made["holds"] == "explained"
    assert made["right"] == "100"
    assert int(made["left"]) < 100
    assert "cut" in made["note"]
    assert total_ps(found) == 100 * 30 * US
    assert verdict(found)["verdict"] == "GPU-bound"


def test_a_json_alone_at_its_cap_is_a_lower_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "XLA_EVENT_CAP", 70)
    (tmp_path / "run").mkdir()
    steps_of(Job(), n_steps=50).space().write_json(tmp_path / "run/node.trace.json", cap=70)
    found = analysed(tmp_path / "run", tmp_path)
    assert "lower bound" in doubts(found)
    assert verdict(found)["verdict"] == "withheld"


def test_copies_but_no_kernels_is_a_loss_and_not_an_idle_gpu(tmp_path: Path) -> None:
    job = Job()
    for i in range(6):
        job.kernel("MemcpyD2H", 1000 + 10 * i, 2, **COPY)
    for i in range(5000):
        job.launch("cuLaunchKernel", 1100 + 10 * i, 1000 + i)
    found = analysed(job.space(), tmp_path)
    assert verdict(found)["verdict"] == "withheld"
    assert "not recorded" in verdict(found)["reason"]
    assert "is not in this capture" in doubts(found)
    assert not any(r["cause"] == "host_late" and r["rank"] == 1 for r in rows(found, "advice"))


@pytest.mark.parametrize("said", ["CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", ""])
def test_failed_device_tracing_says_so_with_the_profilers_words_first(
    tmp_path: Path, said: str
) -> None:
    space = host_only("PjRtStreamExecutorLoadedExecutable::Execute", "PjitFunction(f)")
    space.errors = [said] if said else []
    text = refusal(space, tmp_path)
    assert "device tracing failed" in text
    assert "raise_error_on_start_failure" in text
    assert "device_tracer_level" not in text
    if said:
        assert text.index(said) < text.index("device tracing failed")


def test_tracing_switched_off_midway_is_incomplete_with_both_windows(tmp_path: Path) -> None:
    job = Job()
    for i in range(350):
        start = 1 + 100 * MS * i
        job.step(i, start, 90 * MS)
        if i < 50:
            job.kernel("loop_fusion", start + 50, 80 * MS)
        else:
            job.launch("cuLaunchKernel", start + 40, 5000 + i)
    found = analysed(job.space(), tmp_path)
    reason = verdict(found)["reason"]
    assert verdict(found)["verdict"] == "withheld"
    assert "GPU window 4.9" in reason
    assert "host window 34.9" in reason or "host window 35.0" in reason
    assert check(found, "GPU records cover the time of the launches")["holds"] == "no"


def test_a_process_that_never_used_the_gpu_is_told_from_failed_tracing(tmp_path: Path) -> None:
    text = refusal(host_only("$scheduler.py:10 run", "$queue.py:5 get"), tmp_path)
    assert "launched no GPU work" in text
    assert "worker" in text
    assert "tracing failed" not in text


def test_the_cpu_backend_is_told_by_its_own_words(tmp_path: Path) -> None:
    text = refusal(host_only("TfrtCpuExecutable::Execute", "PjitFunction(f)"), tmp_path)
    assert "CPU-backend" in text


@require_shared
def test_a_real_capture_of_the_cpu_backend(tmp_path: Path) -> None:
    assert "CPU-backend" in refusal(capture_dir("other", "cpu-jax0102"), tmp_path)


@pytest.mark.parametrize("also_gpu", [False, True])
def test_tpu_planes_are_refused_by_name(tmp_path: Path, also_gpu: bool) -> None:
    tpu = Plane("/device:TPU:0", 1)
    tpu.line("XLA Ops", line_id=1).event("fusion.1", 10 * US, 5 * US)
    planes = [tpu, *(steps_of(Job()).space().planes if also_gpu else [])]
    text = refusal(Space(planes), tmp_path)
    assert "/device:TPU:0" in text


def test_a_device_of_another_kind_is_named(tmp_path: Path) -> None:
    space = steps_of(Job()).space()
    space.planes[0].name = "/device:METAL:0"
    text = refusal(space, tmp_path)
    assert "device tracing failed" in text
    assert "/device:METAL:0" in text


def test_device_planes_alone_give_device_facts_and_no_host_verdict(tmp_path: Path) -> None:
    job = Job()
    for i in range(10):
        job.kernel("loop_fusion", 1000 + 100 * i, 40, launch=False)
    found = analysed(job.space(host=False), tmp_path)
    assert row(found, "streams")["idle_ps"] == 9 * 60 * US
    assert verdict(found)["verdict"] == "withheld"
    assert "host-bound" not in verdict(found)["reason"]
    assert {r["cause"] for r in rows(found, "idle")} == {"unknown"}


# ----------------------------------------------------------------------- collectors' limits


@pytest.mark.parametrize(
    "text",
    [
        "Detected GPU events dropped on node: Profiler collected 100 events, dropped 900.",
        "On host node: GPU activity records dropped: 900.",
        "Some records were dropped by the collector (limit 4194304 reached)",
        "CUPTI buffer overflow: 300 records were lost",
        "300 activity records have been discarded",
        "GPU tracer ran out of buffers; events missing after 2.1s",
        "Kernel events exceeded the limit of 4194304, ignoring the rest",
        "Trace truncated: too many events",
        "roctracer: activity pool full, 12 records skipped",
    ],
)
def test_dropped_records_withhold_the_verdict_and_are_quoted(tmp_path: Path, text: str) -> None:
    job = steps_of(Job())
    job.warnings = [text]
    found = analysed(job.space(), tmp_path)
    assert verdict(found)["verdict"] == "withheld", verdict(found)["reason"]
    assert text in verdict(found)["reason"]
    assert text in doubts(found)
    assert "lower bound" in " ".join(r["affects"] for r in rows(found, "trust"))


@pytest.mark.parametrize(
    "text", ["NVTX is not available", "Python tracer: 3 threads", "GPU 0: clock 1410 MHz"]
)
def test_a_warning_that_speaks_of_no_loss_withholds_nothing(tmp_path: Path, text: str) -> None:
    job = steps_of(Job())
    job.warnings = [text]
    found = analysed(job.space(), tmp_path)
    assert verdict(found)["verdict"] == "GPU-bound"
    assert text in doubts(found)


@pytest.mark.parametrize("vendor", ["Nvidia", "AMD"])
def test_the_remedy_for_dropped_records_names_no_option_of_another_vendor(
    tmp_path: Path, vendor: str
) -> None:
    job = steps_of(Job(vendor=vendor))
    job.warnings = ["Profiler has collected 10 device events, dropped 900."]
    found = analysed(job.space(), tmp_path)
    text = " ".join(r["capture"] for r in rows(found, "new_captures"))
    assert ("gpu_max_activity_api_events" in text) == (vendor == "Nvidia")
    assert ("--xla_gpu_rocm_max_trace_events" in text) == (vendor == "AMD")


@pytest.mark.parametrize(("vendor", "limit"), [("Nvidia", 2_097_152), ("AMD", 4_194_304)])
def test_exactly_as_many_events_as_the_collector_holds_is_a_lower_bound(
    tmp_path: Path, vendor: str, limit: int
) -> None:
    """Rows of one event, repeated as bytes: what matters is how many there are."""
    job = Job(vendor=vendor)
    for i in range(4):
        job.kernel("loop_fusion", 1000 + 100 * i, 60)
    space = job.space()
    plane = space.planes[0].to_bytes()
    event = bytes_field(4, int_field(1, 1) + int_field(2, 5000 * US) + int_field(3, US))
    line = bytes_field(3, int_field(1, 99) + bytes_field(2, "Stream #99") + event * (limit - 4))
    rest = b"".join(bytes_field(1, p.to_bytes()) for p in space.planes[1:])
    (tmp_path / "run").mkdir()
    path = tmp_path / "run/node.xplane.pb"
    path.write_bytes(bytes_field(1, plane + line) + rest)
    record = load.load_host(discover([tmp_path / "run"]).hosts[0])
    assert len(record.main.kernels) == limit
    assert [n.slug for n in record.main.notes if n.kind is NoteKind.LOSS] == ["event_limit"]


# ---------------------------------------------------------------------------- several GPUs


def test_a_gpu_without_its_compute_stream_is_named_and_left_out_of_means(
    tmp_path: Path,
) -> None:
    job = Job(n_gpus=8)
    for step in range(5):
        start = 1000 + 100 * step
        job.step(step, start - 50, 100)
        for gpu in range(8):
            if gpu != 5:
                job.kernel("loop_fusion", start, 70, gpu, launch=start - 40)
            name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)"
            job.kernel(name, start + 70, 30, gpu, 9, op="all-reduce.1", launch=start - 30)
    found = analysed(job.space(), tmp_path)
    made = check(found, "compute kernels are the same on all GPUs")
    assert made["holds"] == "no"
    assert "GPU 5: 0" in made["note"]
    assert "5" in verdict(found)["reason"]
    assert verdict(found)["n_devices"] == 7


def all_reduce_program(n_partitions: int = 2) -> HloModule:
    body = [
        Hlo("x", "parameter", parameter_number=0),
        fusion("loop_fusion"),
        Hlo("all-reduce.1", "all-reduce", operands=("loop_fusion",)),
    ]
    computation = HloComputation("main", body)
    return HloModule("jit_step", [computation], program_id=3, num_partitions=n_partitions)


def test_collectives_of_the_program_without_kernels_are_unknown_not_zero(tmp_path: Path) -> None:
    job = Job(n_gpus=2, vendor="AMD", modules=[stored(all_reduce_program())])
    for step in range(5):
        for gpu in range(2):
            start = 1000 + 100 * step
            job.kernel("loop_fusion", start, 50, gpu, launch=start - 900)
    found = analysed(job.space(), tmp_path)
    made = check(found, "programs with collectives show collective kernels")
    assert (made["holds"], made["note"]) == ("no", "communication time is unknown, not zero")
    assert verdict(found)["verdict"] == "withheld"


def test_only_a_part_of_the_job_is_said_and_imbalance_is_not_judged(tmp_path: Path) -> None:
    job = Job(n_gpus=8, modules=[program(["loop_fusion"], num_partitions=32)])
    for step in range(5):
        for gpu in range(8):
            job.kernel("loop_fusion", 1000 + 50 * step, 50, gpu, launch=500 + gpu + 10 * step)
    found = analysed(job.space(), tmp_path)
    assert "8 of 32 GPUs are in this capture" in doubts(found)
    assert "all hosts" in " ".join(r["capture"] for r in rows(found, "new_captures"))


def test_gpus_that_run_different_programs_are_said_not_averaged(tmp_path: Path) -> None:
    job = Job(n_gpus=2, modules=[program(["a_fusion"], 3), program(["b_fusion"], 4, "jit_last")])
    for step in range(5):
        start = 1000 + 100 * step
        job.kernel("a_fusion", start, 90, 0, launch=start - 500)
        job.kernel(
            "b_fusion", start, 20, 1, launch=start - 490, program_id=4, hlo_module="jit_last"
        )
    found = analysed(job.space(), tmp_path)
    made = [r for r in rows(found, "checks") if r["check"].startswith("executions of")]
    assert [r["holds"] for r in made] == ["explained", "explained"]
    assert {r["note"] for r in made} == {"it runs on GPU 0 only", "it runs on GPU 1 only"}


def test_equal_stream_numbers_on_several_gpus_are_never_summed(tmp_path: Path) -> None:
    job = Job(n_gpus=4)
    for step in range(10):
        for gpu in range(3):
            job.kernel("loop_fusion", 1000 + 100 * step, 86, gpu, stream=17)
        job.kernel("loop_fusion", 1000 + 100 * step, 5, 3, stream=18)
    found = analysed(job.space(), tmp_path)
    streams = rows(found, "streams")
    assert len(streams) == 4
    assert all(r["busy_ps"] <= r["span_ps"] for r in streams)
    assert all(r["busy_ps"] <= r["span_ps"] for r in rows(found, "devices"))


# ------------------------------------------------------------------------- copies and fills


@pytest.mark.parametrize("name", ["__amd_rocclr_copyBuffer.kd", "__amd_rocclr_copyBufferAligned"])
def test_copies_that_look_like_kernels_are_copies(tmp_path: Path, name: str) -> None:
    job = Job(vendor="AMD")
    for i in range(5):
        job.kernel("loop_fusion", 1000 + 100 * i, 60)
        job.kernel(name, 1060 + 100 * i, 30, op="")
    found = analysed(job.space(), tmp_path)
    stream = row(found, "streams")
    assert stream["compute_ps"] == 300 * US
    assert stream["memcpy_ps"] == 150 * US


def test_a_copy_of_unknown_direction_is_a_copy_and_totals_add_up(tmp_path: Path) -> None:
    details = "kind_src:unknown kind_dst:unknown size:64 dest:0 async:1"
    job = Job(vendor="AMD")
    for i in range(5):
        job.kernel("loop_fusion", 1000 + 100 * i, 60)
        job.kernel("MemcpyOther", 1060 + 100 * i, 30, op="", memcpy_details=details)
    found = analysed(job.space(), tmp_path)
    assert row(found, "streams")["memcpy_ps"] == 150 * US
    assert check(found, "attributed + unattributed")["holds"] == "yes"


def test_copy_calls_without_copies_are_noted(tmp_path: Path) -> None:
    job = steps_of(Job(vendor="AMD"))
    for i in range(4):
        job.launch("hipMemcpyAsync", 1000 + 10 * i, 900 + i)
    found = analysed(job.space(), tmp_path)
    made = check(found, "copy calls have copies")
    assert (made["holds"], made["left"], made["right"]) == ("no", "4", "0")


# ----------------------------------------------------------------------- graphs and moments


def test_one_graph_launch_links_all_its_kernels_and_both_are_counted(tmp_path: Path) -> None:
    job = Job()
    names = [f"fusion_{i}" for i in range(500)]
    for step in range(3):
        job.graph(names, 1000 + 6000 * step, 10)
    job.modules = [program(names)]
    found = analysed(job.space(), tmp_path)
    made = check(found, "every kernel joins one launch")
    assert (made["holds"], made["left"]) == ("yes", "1500")
    assert check(found, "every launch has its kernels")["left"] == "3"
    made_rows = rows(found, "rows")
    assert sum(r["first_of_launch"] for r in made_rows) == 3


def test_an_empty_graph_is_no_loss(tmp_path: Path) -> None:
    job = steps_of(Job())
    for i in range(5):
        job.launch("cuGraphLaunch (CudaGraph:9)", 1000 + 60 * i, 700 + i)
    found = analysed(job.space(), tmp_path)
    assert check(found, "every launch has its kernels")["holds"] == "explained"
    assert verdict(found)["verdict"] == "GPU-bound"


def test_programs_and_branches_that_never_ran_are_no_error(tmp_path: Path) -> None:
    job = steps_of(Job(modules=[program(["loop_add_fusion", "input_reduce_fusion"])]))
    job.modules.append(program(["init_fusion"], 9, "jit_init"))
    found = analysed(job.space(), tmp_path)
    assert all(r["holds"] in ("yes", "not available", "explained") for r in rows(found, "checks"))
    assert not any(r["program_id"] == 9 for r in rows(found, "ops"))


def test_a_capture_of_the_wrong_moment_says_so_and_advises_nothing(tmp_path: Path) -> None:
    job = Job()
    job.event("wait", 0, 5000 * MS)
    for i in range(3):
        job.kernel("loop_fusion", 3000 * MS + 20 * i, 10)
    found = analysed(job.space(), tmp_path)
    assert verdict(found)["verdict"] == "withheld"
    assert "wrong moment" in verdict(found)["reason"]


@pytest.mark.parametrize("held", [False, True])
def test_no_memory_data_is_said_not_shown_as_zero(tmp_path: Path, held: bool) -> None:
    job = steps_of(Job())
    if held:
        job.event("MemoryAllocation", 1010, 1, bytes_allocated=4096, allocator_name="GPU_0_bfc")
    _, text = written(job.space(), tmp_path)
    assert "0 B" not in text
    assert ("the file has no memory data" in text) != held
    assert ("allocations are in the file and not read" in text) == held


@pytest.mark.parametrize("n_extra", [1, 7])
def test_gpus_that_belong_to_others_are_no_loss(tmp_path: Path, n_extra: int) -> None:
    job = steps_of(Job())
    job.gpus += [gpu_plane(i + 1) for i in range(n_extra)]
    found = analysed(job.space(), tmp_path)
    assert verdict(found)["verdict"] == "GPU-bound"


def test_an_empty_trace_json_is_an_empty_capture(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/node.trace.json").write_text(json.dumps({"traceEvents": []}))
    assert "no GPU and no host events" in refusal(tmp_path / "run", tmp_path)


def test_a_short_loop_in_a_long_capture_keeps_its_verdict_and_says_so(tmp_path: Path) -> None:
    job = steps_of(Job(), n_steps=20)
    job.host.line("loader", line_id=2).event("load", 0, 5000 * MS * US)
    found = analysed(job.space(), tmp_path)
    assert verdict(found)["verdict"] == "GPU-bound"
    assert "hardly any GPU work" in doubts(found)
