"""skip_stats.py against `explane verdict`: two implementations, one answer, to the picosecond."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explane import app
from explane.options import Options
from explane.synth.demo import DEMO
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Causes, GraphLabels, Graphs, Scenario, Tracer
from explane.synth.simulate import simulate, write_capture
from explane.units import PS_PER_US
from tests.builders import U64, Space, gpu_plane, host_plane
from tests.field.made import Job
from tests.shared import REAL, ROOT, SIMULATED, capture_dir, json_file, require_shared

SCRIPT = ROOT / "skills" / "analyzing-jax-launch-overhead" / "scripts" / "skip_stats.py"
COLUMNS = {
    "streams": "device stream span_ps compute_ps collective_ps memcpy_ps memset_ps idle_ps"
    " n_kernels",
    "steps": "device step start_ps end_ps complete duration_ps n_kernels index first_kernel_ps",
    "idle": "device stream step start_ps duration_ps cause host_event next_kernel",
    "rows": "device stream step kernel kind start_ps duration_ps correlation_id launch_start_ps"
    " launch_duration_ps launch_thread launch_name t_l_ps call_ps floor_ps queue_ps"
    " first_of_launch in_graph time_ok",
}
SCENARIOS = {
    "demo": ("minigpt_fsdp4_h100", replace(DEMO, n_steps=4)),
    "no-markers": (
        "minigpt1_mi300",
        Scenario(
            seed=3,
            n_steps=5,
            graphs=Graphs(labels=GraphLabels.MODULE),
            tracer=Tracer(step_markers=False, execute_events=False),
            causes=Causes(copy_ps=300 * PS_PER_US, readback=True),
        ),
    ),
    "bare-skewed": (
        "ring4_mi300",
        Scenario(
            seed=4,
            n_steps=4,
            graphs=Graphs(labels=GraphLabels.NOTHING),
            tracer=Tracer(step_markers=False, clock_skew_ps=-5 * PS_PER_US, python_events=40),
        ),
    ),
    "compiled-and-lost": (
        "mlp4_h100",
        Scenario(
            seed=5,
            n_steps=6,
            tracer=Tracer(lost_graph_ratio=0.2),
            causes=Causes(compile_steps=(2,), launch_ps=30 * PS_PER_US),
        ),
    ),
}


def with_json() -> list[tuple[str, str]]:
    pairs = [("real", name) for name in REAL] + [("simulated", name) for name in SIMULATED]
    return [pair for pair in pairs if list(capture_dir(*pair).glob("*.trace.json.gz"))]


def run(trace: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(trace), "-o", str(folder)]
    return subprocess.run(command, text=True, capture_output=True, check=False)


def table(path: Path, columns: str) -> list[tuple[str, ...]]:
    with path.open(newline="", encoding="utf-8") as file:
        return sorted(tuple(row[name] for name in columns.split()) for row in csv.DictReader(file))


def figures(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], tuple[object, ...]]:
    return {
        (str(row["device"]), row["metric"], row["scope"]): tuple(
            row.get(part) for part in ("value", "low", "high", "n")
        )
        for row in rows
    }


def hold_against(trace: Path, folder: Path) -> str:
    """Runs both on a JSON; returns the verdict that both give."""
    done = run(trace, folder / "skip")
    assert done.returncode == 0, done.stderr
    outcome = app.verdict([str(trace)], folder / "explane", Options(jobs=1))
    for name, columns in COLUMNS.items():
        ours = table(folder / "explane" / f"{name}.csv", columns)
        assert table(folder / "skip" / f"{name}.csv", columns) == ours, name
    facts = json.loads((folder / "skip" / "skip.json").read_text())
    found = json.loads((folder / "explane" / "skip.json").read_text())
    assert figures(facts["figures"]) == figures(found)
    word: str = facts["verdict"]
    assert any(f"Verdict: {word}." in line for line in outcome.lines), outcome.lines
    return word


@require_shared
@pytest.mark.parametrize("pair", with_json(), ids="/".join)
def test_shared_captures(pair: tuple[str, str], tmp_path: Path) -> None:
    hold_against(json_file(*pair), tmp_path)


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_captures(name: str, tmp_path: Path) -> None:
    program, scenario = SCENARIOS[name]
    write_capture(simulate(bundled_program(program), scenario), tmp_path / "run")
    (trace,) = (tmp_path / "run").glob("*.trace.json.gz")
    word = hold_against(trace, tmp_path)
    assert (word == "withheld") is (name in ("bare-skewed", "compiled-and-lost"))


@pytest.mark.parametrize("loses", [False, True])
def test_work_between_markers(loses: bool, tmp_path: Path) -> None:
    """A copy after each marker, and after some an evaluation; `loses`: counts vary."""
    job, at = Job(), 1000.0
    for step in range(9):
        job.step(step, at - 20, 60)
        for i in range(8 + (loses and step % 3)):
            job.kernel("loop_fusion", at + 5 * i, 4)
        job.kernel("MemcpyH2D", at + 60, 20, launch=at + 40, op="")
        at += 100
        if step % 4 == 3:
            for i in range(6):
                job.kernel("eval_fusion", at + 10 * i, 10, hlo_module="jit_eval", program_id=9)
            at += 80
    (tmp_path / "run").mkdir()
    hold_against(job.space().write_json(tmp_path / "run" / "node.trace.json"), tmp_path)
    steps = table(tmp_path / "skip" / "steps.csv", "step n_kernels complete duration_ps")
    assert {row[0] for row in steps if row[2] == "0"} == {"0", "3", "7"}
    assert {row[3] for row in steps if row[2] == "1"} == {str(100 * US)}


# ------------------------------------------------------------------------------- on its own

US = 1_000_000


def two_kernels() -> Space:
    """One stream: a kernel, 6 µs of waiting for a late launch, a kernel."""
    gpu, host = gpu_plane(), host_plane()
    stream, thread = gpu.line("Stream #7(Compute)", 7), host.line("python", 1)
    stream.event("a", 20 * US, 10 * US, correlation_id=U64(1))
    stream.event("b", 40 * US, 10 * US, correlation_id=U64(2))
    thread.event("cuLaunchKernel", 15 * US, 2 * US, correlation_id=U64(1))
    thread.event("load_batch", 18 * US, 17 * US)
    thread.event("cuLaunchKernel", 36 * US, 1 * US, correlation_id=U64(2))
    return Space([gpu, host])


def test_figures_by_hand(tmp_path: Path) -> None:
    trace = two_kernels().write_json(tmp_path / "node.trace.json")
    done = run(trace, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (row,) = table(tmp_path / "out" / "idle.csv", "start_ps duration_ps cause host_event")
    assert row == (str(30 * US), str(10 * US), "host_late", "load_batch")
    (stream,) = table(tmp_path / "out" / "streams.csv", "span_ps compute_ps idle_ps")
    assert stream == (str(30 * US), str(20 * US), str(10 * US))
    found = figures(json.loads((tmp_path / "out" / "skip.json").read_text())["figures"])
    # t_l: 20 - 15 and 40 - 36; calls 2 and 1; least rest of both is 3 and both streams were dry
    assert found["None", "tklqt_ps", "capture"][0] == 9 * US
    assert found["None", "tklqt_call_ps", "capture"][0] == 3 * US
    assert found["None", "tklqt_floor_ps", "capture"][0] == 6 * US
    assert found["None", "akd_ps", "capture"][0] == 10 * US


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "traceEvents"),
        (b"\x0a\x85\x01", "traceEvents"),
        (b'{"traceEvents": []}', "no GPU events"),
        (gzip.compress(b'{"traceEvents": [' + b" " * 5000)[:40], "can't be read"),
        (b'{"traceEvents": [' + b'{"a":' * 100_000, "can't be read"),
    ],
)
def test_unusable_files_give_one_line(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "x.trace.json.gz").write_bytes(content)
    done = run(tmp_path / "x.trace.json.gz", tmp_path / "out")
    assert (done.returncode, word in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_odd_events_do_not_stop_it(tmp_path: Path) -> None:
    document = two_kernels().to_json()
    whole = next(event for event in document["traceEvents"] if event.get("name") == "a")
    odd: list[Any] = [None, 7, {"ph": "X"}, whole | {"args": "text"}, whole | {"dur": None}]
    odd += [whole | {"pid": [1]}, whole | {"ts": float("nan")}, whole | {"ts": 1e300}]
    odd += [whole | {"name": "=cmd()\n\x1b[31m", "args": {"correlation_id": "$$2"}}]
    document["traceEvents"] += odd
    (tmp_path / "x.trace.json").write_text(json.dumps(document))
    done = run(tmp_path / "x.trace.json", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    kernels = table(tmp_path / "out" / "rows.csv", "kernel start_ps")
    assert len(kernels) == 5
    assert any(name.startswith("'=cmd()") for name, _ in kernels)
