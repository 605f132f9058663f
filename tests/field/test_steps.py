"""Steps, idle time and what bounds them, as people measure and misread them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explane.analysis.verdict.parts import PARTS
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Causes, Scenario, Tracer
from explane.synth.simulate import simulate, write_capture
from explane.units import PS_PER_MS
from tests.field.made import (
    MS,
    US,
    Job,
    analysed,
    check,
    doubts,
    program,
    row,
    rows,
    steps_of,
    verdict,
    written,
)

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
H2D: dict[str, Any] = {
    "op": "",
    "memcpy_details": "kind_src:pinned kind_dst:device size:1000000 dest:0 async:1",
}


# ------------------------------------------------------------------------- what a step is


def test_without_markers_steps_are_repetitions_labelled_inferred(tmp_path: Path) -> None:
    found = analysed(steps_of(Job(), markers=False, n_steps=8).space(), tmp_path)
    steps = rows(found, "steps")
    assert len(steps) == 8
    assert {r["source"] for r in steps} != {"marker"}
    assert {r["duration_ps"] for r in steps if r["complete"]} == {60 * US}
    assert "inferred, not marked" in doubts(found)
    assert any("StepTraceAnnotation" in r["capture"] for r in rows(found, "new_captures"))


def test_without_repetition_steps_are_unknown_with_the_recipe(tmp_path: Path) -> None:
    job = Job()
    for i in range(5):
        job.kernel(f"fusion_{i}", 1000 + 50 * i, 50)
    found = analysed(job.space(), tmp_path)
    assert "steps are unknown" in doubts(found) or len(rows(found, "steps")) <= 1
    assert any("StepTraceAnnotation" in r["capture"] for r in rows(found, "new_captures"))


def test_real_step_numbers_gaps_and_duplicates_are_kept(tmp_path: Path) -> None:
    job = Job()
    for i, number in enumerate((300, 301, 303, 303, 304, 305)):
        start = 1000 + 100 * i
        job.step(number, start - 20, 95)
        job.kernel("loop_fusion", start, 90)
    found = analysed(job.space(), tmp_path)
    steps = rows(found, "steps")
    assert [r["step"] for r in steps] == [300, 301, 303, 303, 304, 305]
    assert len({r["start_ps"] for r in steps}) == 6


def test_steps_cut_by_the_window_are_left_out_of_averages(tmp_path: Path) -> None:
    job = Job()
    names = [f"fusion_{i}" for i in range(10)]
    for step in range(6):
        start = 1000 + 300 * step
        job.step(step, start - 20, 290)
        for i, name in enumerate(names):
            if not (step == 0 and i < 7) and not (step == 5 and i > 2):
                job.kernel(name, start + 30 * i, 30)
    found = analysed(job.space(), tmp_path)
    complete = {r["step"] for r in rows(found, "steps") if r["complete"]}
    assert complete <= {1, 2, 3, 4}
    assert complete >= {2, 3}
    lengths = [r["duration_ps"] for r in rows(found, "steps") if r["complete"]]
    assert set(lengths) == {300 * US}


def test_step_time_comes_from_the_gpu_when_the_host_runs_ahead(tmp_path: Path) -> None:
    """Host steps of 1 ms, GPU steps of 100 ms that lag by up to nine steps."""
    job = Job()
    for step in range(10):
        host = 10 * MS + step * 1 * MS
        job.step(step, host, 1 * MS - 10)
        gpu = 11 * MS + 100 * MS * step
        job.kernel("loop_fusion", gpu, 60 * MS, launch=host + 100)
        job.kernel("gemm_fusion", gpu + 60 * MS, 40 * MS, launch=host + 200)
    found = analysed(job.space(), tmp_path)
    lengths = {r["duration_ps"] for r in rows(found, "steps") if r["complete"]}
    assert lengths == {100 * MS * US}
    assert verdict(found)["verdict"] == "GPU-bound"
    assert "ahead" in verdict(found)["reason"]


def test_a_copy_between_two_markers_is_advice_and_no_waiting_of_the_host(tmp_path: Path) -> None:
    """The batch is copied when the marker has closed, and the host waits for it to end."""
    job = Job()
    for step in range(8):
        at = 1000 + 400 * step
        job.step(step, at, 50)
        for i in range(10):
            job.kernel("loop_fusion", at + 20 + 25 * i, 25, launch=at + 5 + 4 * i)
        job.kernel("MemcpyH2D", at + 270, 100, launch=at + 50, **H2D)
        job.event("PjRtBuffer::Await", at + 60, 330)
    found = analysed(job.space(), tmp_path)
    assert {r["n_kernels"] for r in rows(found, "steps")} == {11}
    first = rows(found, "advice")[0]
    assert (first["cause"], first["critical_path_ps"]) == ("copy", 100 * US)
    assert first["low_ps"] <= 300 * US <= first["high_ps"]
    path = {r["kind"]: r["duration_ps"] for r in rows(found, "critical_path_kinds")}
    assert path["memcpy"] == 100 * US


def test_an_evaluation_between_two_markers_changes_no_step_time(tmp_path: Path) -> None:
    job, at = (
        Job(modules=[program(["loop_fusion"]), program(["eval_fusion"], 9, "jit_eval")]),
        1000,
    )
    for step in range(12):
        job.step(step, at - 10, 60)
        for i in range(10):
            job.kernel("loop_fusion", at + 10 * i, 10, launch=at - 5 + 5 * i)
        at += 100
        if step % 5 == 2:
            for i in range(40):
                job.kernel(
                    "eval_fusion",
                    at + i,
                    1,
                    launch=at - 50 + i,
                    hlo_module="jit_eval",
                    program_id=9,
                )
            at += 40
    found = analysed(job.space(), tmp_path)
    steps = rows(found, "steps")
    assert [r["step"] for r in steps if not r["complete"]] == [0, 2, 7]
    assert {r["duration_ps"] for r in steps if r["complete"]} == {100 * US}
    assert verdict(found)["verdict"] == "GPU-bound"


# ---------------------------------------------------------------------------- compilation


@pytest.fixture(scope="module")
def recompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    causes = Causes(compile_steps=(0, 3), compile_ps=400 * PS_PER_MS)
    scenario = Scenario(seed=5, n_steps=8, causes=causes)
    folder = tmp_path_factory.mktemp("recompiled") / "run"
    write_capture(simulate(bundled_program("convnet1_h100"), scenario), folder, truth=False)
    return folder


def test_steps_with_a_compilation_are_marked_and_left_out(
    recompiled: Path, tmp_path: Path
) -> None:
    found = analysed(recompiled, tmp_path)
    steps = rows(found, "steps")
    compiled = [r for r in steps if r["compile_ps"] > 100 * PS_PER_MS]
    assert compiled
    assert all(not r["complete"] for r in compiled)
    assert all("compil" in r["reason_incomplete"] for r in compiled)
    lengths = [r["duration_ps"] for r in steps if r["complete"]]
    assert max(lengths) < 100 * PS_PER_MS


def test_compile_time_stands_apart_in_verdict_and_advice(recompiled: Path, tmp_path: Path) -> None:
    found = analysed(recompiled, tmp_path)
    assert "compil" in verdict(found)["reason"]


def test_a_function_compiled_anew_each_step_is_listed_and_not_merged(tmp_path: Path) -> None:
    modules = [program(["loop_fusion"], 10 + i, "jit_step") for i in range(5)]
    job = Job(modules=modules)
    for i in range(5):
        start = 1000 + 500 * MS * i
        job.step(i, start, 499 * MS)
        job.event("XlaCompile", start + 10, 400 * MS)
        at = start + 450 * MS
        job.kernel("loop_fusion", at, 5 * MS, program_id=10 + i)
    found = analysed(job.space(), tmp_path)
    assert {r["program_id"] for r in rows(found, "ops")} == {10, 11, 12, 13, 14}
    assert {r["program"] for r in rows(found, "ops")} == {"jit_step"}
    assert "compiles for 2.000 s" in verdict(found)["reason"]
    first = rows(found, "advice")[0]
    assert first["cause"] == "recompile"
    assert (first["low_ps"], first["high_ps"]) == (100 * MS * US, 500 * MS * US)
    assert "jit_step ran as 5 programs" in first["evidence"]


# ------------------------------------------------------------------------------ idle time


def test_idle_has_one_definition_in_all_tables(tmp_path: Path) -> None:
    """A dense compute stream, a sparse second stream, and a long lead-in without GPU work."""
    job = Job()
    job.event("load", 0, 500)
    for step in range(10):
        start = 1000 + 100 * step
        job.step(step, start - 50, 100)
        job.kernel("loop_fusion", start, 80, launch=start - 45)
        job.kernel("MemcpyH2D", start + 70, 20, stream=9, launch=start - 40, **H2D)
    found = analysed(job.space(), tmp_path)
    device = row(found, "devices")
    assert device["span_ps"] == 990 * US
    assert device["busy_ps"] == 900 * US
    assert device["idle_ps"] == 90 * US
    dense = next(r for r in rows(found, "streams") if r["stream"] == 7)
    assert dense["span_ps"] == 980 * US
    assert dense["idle_ps"] == 180 * US
    kinds = ("compute_ps", "collective_ps", "memcpy_ps", "memset_ps", "idle_ps")
    for one in (*rows(found, "streams"), *rows(found, "devices")):
        assert sum(one[kind] for kind in kinds) == one["span_ps"]


def test_idle_time_is_the_same_in_markdown_page_and_table(tmp_path: Path) -> None:
    job = steps_of(Job(), period=100)
    out, text = written(job.space(), tmp_path)
    page = (out / "report.html").read_text(encoding="utf-8")
    share = "40.0 %"
    assert f"runs nothing for {share}" in text
    assert share in page


def test_a_long_copy_between_kernels_is_no_idle_time(tmp_path: Path) -> None:
    job = Job()
    for step in range(6):
        start = 1000 + 400 * MS * step
        job.step(step, start - 90, 400 * MS)
        job.kernel("MemcpyH2D", start, 250 * MS, stream=9, launch=start - 80, **H2D)
        job.kernel("loop_fusion", start + 250 * MS, 150 * MS, launch=start - 70)
    found = analysed(job.space(), tmp_path)
    device = row(found, "devices")
    assert device["idle_ps"] == 0
    assert device["memcpy_ps"] == 6 * 250 * MS * US
    assert verdict(found)["verdict"] == "copy-bound"
    first = rows(found, "advice")[0]
    assert first["cause"] in ("copy", "wait_copy")


# -------------------------------------------------------------------------- communication


def communicating(compute: float, hidden: float, exposed: float, stream: int = 9) -> Job:
    """Steps of `compute` with a collective that overlaps `hidden` of it and goes on alone."""
    job = Job(n_gpus=2)
    for step in range(6):
        start = 1000 + (compute + exposed) * step
        job.step(step, start - 400, compute + exposed)
        for gpu in range(2):
            job.kernel("loop_fusion", start, compute, gpu, launch=start - 390 + gpu)
            length = hidden + exposed
            at = start + compute - hidden
            job.kernel(
                ALL_REDUCE, at, length, gpu, stream, op="all-reduce.1", launch=start - 380 + gpu
            )
    return job


def test_hidden_communication_however_long_does_not_decide(tmp_path: Path) -> None:
    found = analysed(communicating(500, 400, 0).space(), tmp_path)
    assert verdict(found)["verdict"] == "GPU-bound"
    assert verdict(found)["collective_ratio"] == 0
    assert row(found, "devices", device=0)["exposed_collective_ps"] == 0


def test_exposed_communication_decides(tmp_path: Path) -> None:
    found = analysed(communicating(100, 50, 100).space(), tmp_path)
    assert verdict(found)["verdict"] == "communication-bound"
    assert verdict(found)["collective_ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize("exposed", [7, 12, 20, 30])
def test_every_part_above_the_printed_floor_is_named(tmp_path: Path, exposed: float) -> None:
    found = analysed(communicating(100, 40, exposed).space(), tmp_path)
    assert "exposed communication" in verdict(found)["reason"]
    assert "from 5% on are named" in verdict(found)["rule"]


NAMES = (
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16",
    "rcclGenericKernel<1, 0>(ncclDevComm*)",
    "mscclKernel_Sum_half_LL_false(mscclWork)",
    "ncclDevKernel_SomethingNew_2031(x)",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>) [clone .kd]",
    "nvshmem_all_reduce_kernel",
    "_Z27ncclDevKernel_AllReduce_Sum24ncclDevKernelArgsStorageILm4096EE",
    "_ZN3xla3gpu25TwoShotAllReduceKernelIfEEvPT_",
    "oneccl_allreduce_medium",
    "vllm::all_reduce_kernel<float>",
    "mnnvl_alltoall_dispatch",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("op", ["", "all-reduce.1"])
def test_collective_kernels_of_every_library_are_communication(
    tmp_path: Path, name: str, op: str
) -> None:
    job = Job(n_gpus=2)
    for step in range(5):
        for gpu in range(2):
            start = 1000 + 100 * step
            job.kernel("loop_fusion", start, 50, gpu)
            job.kernel(name, start + 50, 40, gpu, op=op)
    found = analysed(job.space(), tmp_path)
    for gpu in range(2):
        assert row(found, "streams", device=gpu)["collective_ps"] == 200 * US


@pytest.mark.parametrize(
    "name",
    ["block_all_reduce_kernel<float>", "void ft::warp_allreduce_kernel(float*)", "allreduce_cost"],
)
def test_reductions_inside_one_gpu_are_no_communication(tmp_path: Path, name: str) -> None:
    job = Job()
    for step in range(5):
        job.kernel(name, 1000 + 100 * step, 50, op="")
    assert row(analysed(job.space(), tmp_path), "streams")["compute_ps"] == 250 * US


def test_a_collective_on_the_compute_stream_is_communication(tmp_path: Path) -> None:
    found = analysed(communicating(100, 0, 100, stream=7).space(), tmp_path)
    stream = row(found, "streams", device=0)
    assert stream["collective_ps"] == 6 * 100 * US
    assert stream["compute_ps"] == 6 * 100 * US
    assert verdict(found)["verdict"] == "communication-bound"


def test_waiting_in_a_collective_is_apart_from_transfer_and_the_late_gpu_is_named(
    tmp_path: Path,
) -> None:
    job = Job(n_gpus=4)
    for step in range(6):
        start = 1000 + 100 * MS * step
        job.step(step, start - 500, 100 * MS)
        for gpu in range(4):
            own = 30 * MS + 10 * MS * gpu
            job.kernel("loop_fusion", start, own, gpu, launch=start - 490 + gpu)
            length = 70 * MS - own
            job.kernel(
                ALL_REDUCE, start + own, length, gpu, 9, op="all-reduce.1", launch=start - 480
            )
    job.modules = []
    found = analysed(job.space(), tmp_path)
    made = rows(found, "collectives")
    waits = {r["device"]: r["wait_ps"] for r in made if r["occurrence"] == 1}
    assert waits == {gpu: (3 - gpu) * 10 * MS * US for gpu in range(4)}
    assert {r["transfer_ps"] for r in made} == {10 * MS * US}
    assert {r["late_device"] for r in made} == {3}
    worst = max(rows(found, "stragglers"), key=lambda r: r["caused_wait_ps"])
    assert worst["device"] == 3


# ------------------------------------------------------------------------- host and tracer


def test_idle_inside_graphs_is_a_range_with_its_reason(tmp_path: Path) -> None:
    job = Job()
    names = [f"fusion_{i}" for i in range(20)]
    job.modules = [program(names)]
    for step in range(8):
        start = 1000 + 20 * 40 * step
        job.step(step, start - 30, 20 * 40)
        job.n_calls += 1
        job.launch("cuGraphLaunch (CudaGraph:1)", start - 20, job.n_calls)
        for i, name in enumerate(names):
            job.kernel(name, start + 40 * i, 30, op="", launch=False, correlation_id=job.n_calls)
            job.n_calls -= 1
    found = analysed(job.space(), tmp_path)
    one = verdict(found)
    assert one["idle_least_ratio"] < one["idle_ratio"]
    assert "graph" in one["reason"]


def test_parts_of_the_step_add_up_and_hidden_time_stands_apart(tmp_path: Path) -> None:
    found = analysed(communicating(100, 50, 40).space(), tmp_path)
    one = verdict(found)
    assert sum(one[f"{name}_ratio"] for name in PARTS) == pytest.approx(1)
    device = row(found, "devices", device=0)
    assert device["collective_time_ps"] == 6 * 90 * US
    assert device["exposed_collective_ps"] == 6 * 40 * US


@pytest.mark.parametrize("python", [0, 2000])
def test_the_python_tracer_is_named_beside_a_host_bound_verdict(
    tmp_path: Path, python: int
) -> None:
    causes = Causes(host_gap_ps=20 * PS_PER_MS, readback=True)
    tracer = Tracer(python_events=python)
    made = simulate(
        bundled_program("convnet1_h100"), Scenario(n_steps=6, causes=causes, tracer=tracer)
    )
    write_capture(made, tmp_path / "run", truth=False)
    found = analysed(tmp_path / "run", tmp_path)
    assert verdict(found)["verdict"] == "host-bound"
    assert ("Python tracer" in verdict(found)["reason"]) == bool(python)
    texts = [r["capture"] for r in rows(found, "new_captures")]
    assert any("python_tracer_level" in text for text in texts) == bool(python)


@pytest.mark.parametrize("name", ["solver1_h100", "solver1_mi300"])
def test_a_loop_that_the_host_reads_back_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    made = simulate(bundled_program(name), Scenario(n_steps=4))
    write_capture(made, tmp_path / "run", truth=False)
    found = analysed(tmp_path / "run", tmp_path)
    loops = {r["iteration"] for r in rows(found, "kernels") if r["iteration"]}
    assert loops
    copies = [r for r in rows(found, "kernels", kind="memcpy") if r["iteration"]]
    if copies:
        assert any(r["source_line"] for r in copies) or any(r["op_name"] for r in copies)
    assert check(found, "attributed + unattributed")["holds"] == "yes"
