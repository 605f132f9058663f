"""Whole captures: files, truth, knobs, causes, size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from explane.capture.model import Capture
from explane.capture.trace_json import read_trace_json
from explane.capture.xplane import read_xplane
from explane.errors import UsageError
from explane.synth.demo import HOST, demo_capture
from explane.synth.program import CompiledProgram
from explane.synth.program_files import bundled_program
from explane.synth.scenario import (
    Branches,
    Causes,
    Era,
    GraphLabels,
    Graphs,
    OtherProgram,
    Scenario,
    Tracer,
)
from explane.synth.simulate import SimulatedCapture, simulate, write_capture
from explane.units import PS_PER_MS, PS_PER_US
from tests.unit.synth.programs import chain, collective

KEY = ["device", "start_ps", "duration_ps", "kernel", "correlation_id"]
BUSY = Scenario(
    seed=9,
    n_steps=4,
    graphs=Graphs(branches=Branches.RANDOM, branch_ratio=0.2),
    tracer=Tracer(python_events=70, first_step=300, n_extra_devices=1),
    causes=Causes(copy_ps=80 * PS_PER_US, readback=True, host_gap_ps=PS_PER_MS),
)


def written(program: CompiledProgram, scenario: Scenario, folder: Path) -> Capture:
    return read_xplane(write_capture(simulate(program, scenario), folder))


def kernel_rows(capture: Capture) -> pl.DataFrame:
    kernels = capture.kernels
    return pl.DataFrame(
        {
            "device": kernels.device.astype(np.int32),
            "start_ps": kernels.start_ps,
            "duration_ps": kernels.duration_ps,
            "kernel": [capture.text(int(code)) for code in kernels.name],
            "correlation_id": kernels.correlation_id,
            "label": [capture.text(int(code)) for code in kernels.hlo_op],
            "graph_id": kernels.graph_id,
            "node_id": kernels.graph_node_id,
        }
    ).sort(KEY)


def truth_rows(folder: Path) -> pl.DataFrame:
    table = pl.read_csv(folder / "truth.csv.gz", schema_overrides={"iteration": pl.String})
    text = pl.col("hlo_op", "iteration").fill_null("")
    return table.with_columns(text).cast({"device": pl.Int32}).sort(KEY)


@pytest.fixture(scope="module", params=["minigpt_fsdp4_h100", "minigpt_dp4_mi300"])
def busy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Capture, Path]]:
    folder = tmp_path_factory.mktemp("busy")
    yield written(bundled_program(request.param), BUSY, folder), folder


def test_same_scenario_gives_same_files_and_another_seed_others(tmp_path: Path) -> None:
    program = bundled_program("minigpt1_library_mi300")
    names = (
        "simulated-node.xplane.pb",
        "simulated-node.trace.json.gz",
        "truth.csv.gz",
        "meta.json",
    )
    for folder, seed in (("a", 9), ("b", 9), ("c", 10)):
        write_capture(simulate(program, replace(BUSY, seed=seed)), tmp_path / folder)
    files = {f: [(tmp_path / f / n).read_bytes() for n in names] for f in "abc"}

    assert files["a"] == files["b"]
    assert all(one != other for one, other in zip(files["a"], files["c"], strict=True))


def test_every_recorded_kernel_is_in_the_truth(busy: tuple[Capture, Path]) -> None:
    capture, folder = busy
    truth, rows = truth_rows(folder), kernel_rows(capture)

    assert rows.select(KEY).equals(truth.select(KEY))
    copies = truth.filter(pl.col("hlo_op") == "")
    assert copies.height == 4 * 4 + 4, "a copy to each of 4 GPUs, one back, in each of 4 steps"
    hlo = bundled_program(json.loads((folder / "meta.json").read_text())["programs"]["17"]).hlo
    assert set(truth["hlo_op"].unique()) - {""} <= set(hlo.by_name)


def test_labels_are_true_or_name_the_graph(busy: tuple[Capture, Path]) -> None:
    capture, folder = busy
    both = kernel_rows(capture).with_columns(truth_rows(folder).select("hlo_op", "in_graph"))
    direct = both.filter(pl.col("in_graph") == 0)

    assert set(both.filter(pl.col("in_graph") == 1)["label"].str.slice(0, 15)) == {
        "command_buffer_"
    }
    wrong = direct.filter(pl.col("label") != pl.col("hlo_op"))
    assert wrong.filter(pl.col("label") != pl.col("hlo_op").str.replace("-start", "")).is_empty()


def test_json_equals_xplane(busy: tuple[Capture, Path]) -> None:
    capture, folder = busy
    twin = read_trace_json(folder / f"{HOST}.trace.json.gz")
    columns = [*KEY, "label", "graph_id", "node_id"]

    assert kernel_rows(twin).select(columns).equals(kernel_rows(capture).select(columns))
    assert twin.n_python_events == capture.n_python_events == 4 * 70
    for name in ("start_ps", "duration_ps", "correlation_id"):
        assert np.array_equal(getattr(twin.launches, name), getattr(capture.launches, name))
    assert len(twin.host_events) == len(capture.host_events)


def test_kernels_join_launches_and_follow_them(busy: tuple[Capture, Path]) -> None:
    capture, _ = busy
    launches, kernels = capture.launches, capture.kernels
    order = np.argsort(launches.correlation_id)
    ids = launches.correlation_id[order]
    at = order[np.searchsorted(ids, kernels.correlation_id)]

    assert len(np.unique(ids)) == len(ids)
    assert np.array_equal(launches.correlation_id[at], kernels.correlation_id)
    assert (kernels.start_ps > launches.end_ps[at]).all()
    assert set(np.unique(at)) == set(range(len(launches)))


def test_step_markers_carry_their_number(busy: tuple[Capture, Path]) -> None:
    capture, _ = busy
    assert sorted(n for n in capture.host_events.step_num.tolist() if n >= 0) == [
        300,
        301,
        302,
        303,
    ]
    names = {capture.text(int(code)) for code in capture.host_events.name}
    assert {"train", "next_batch", "PjRtBuffer::Await", "jit_train_step:XLA GPU module"} <= names


def test_devices_and_programs_are_described(busy: tuple[Capture, Path]) -> None:
    capture, folder = busy
    assert [device.ordinal for device in capture.devices] == [0, 1, 2, 3, 4]
    assert list(capture.devices[4].streams) == []
    title = json.loads((folder / "meta.json").read_text())["programs"]["17"]
    assert capture.programs[17].hlo_proto == bundled_program(title).hlo_proto
    assert capture.host == HOST


def test_nodes_are_the_same_instruction_at_every_launch(tmp_path: Path) -> None:
    program = bundled_program("minigpt_fsdp4_h100")
    capture = written(program, replace(BUSY, tracer=Tracer()), tmp_path)
    both = kernel_rows(capture).with_columns(truth_rows(tmp_path).select("hlo_op", "in_graph"))
    nodes = (
        both.filter(pl.col("in_graph") == 1).group_by("node_id").agg(pl.col("hlo_op").n_unique())
    )

    assert (nodes["hlo_op"] == 1).all()
    assert both.filter(pl.col("in_graph") == 0)["node_id"].max() == -1
    assert both.filter(pl.col("in_graph") == 1)["graph_id"].min() > 0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("labels", "programs", "modules"),
    [
        (GraphLabels.NOTHING, {-1}, {-1}),
        (GraphLabels.MODULE, {17}, {0}),
        (GraphLabels.TRUE, {17}, {0}),
    ],
)
def test_what_graph_kernels_say_of_their_program(
    labels: GraphLabels, programs: set[int], modules: set[int], tmp_path: Path
) -> None:
    capture = written(chain("ROCM"), Scenario(graphs=Graphs(labels=labels)), tmp_path)
    graph = np.array([capture.text(int(c)) in ("b.kd", "c_1.kd") for c in capture.kernels.name])

    assert set(capture.kernels.program_id[graph].tolist()) == programs
    assert set(np.minimum(capture.kernels.hlo_module[graph], 0).tolist()) == modules
    assert set(capture.kernels.program_id[~graph].tolist()) == {17} | programs, "d is in the graph"


def test_rocm_host_calls_carry_labels_on_lines_of_their_own(tmp_path: Path) -> None:
    capture = written(collective_rocm(), Scenario(tracer=Tracer(era=Era.OLD)), tmp_path)
    lines = {capture.threads[int(i)].name.split("/")[0] for i in capture.launches.thread}
    labels = {capture.text(int(code)) for code in capture.launches.hlo_op}

    assert lines == {"Host Threads"}
    assert labels == {"a", "all-gather.7", "b", "c"}
    assert all(name.endswith("(Kernel)") for d in capture.devices for name in d.streams.values())


def collective_rocm() -> CompiledProgram:
    return replace(collective(), platform="ROCM")


def test_lost_kernels_are_gone_from_file_and_truth(tmp_path: Path) -> None:
    program = bundled_program("mlp4_mi300")
    whole = simulate(program, Scenario(n_steps=20))
    scenario = Scenario(n_steps=20, tracer=Tracer(lost_graph_ratio=0.4))
    capture = written(program, scenario, tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())

    assert len(capture.kernels) + meta["n_lost"] == whole.n_kernels
    assert truth_rows(tmp_path).height == len(capture.kernels)
    assert 0.36 < meta["n_lost"] / whole.n_kernels < 0.42
    assert (truth_rows(tmp_path)["in_graph"] == 0).sum() == 20 * 4, "only graph kernels are lost"


def test_full_buffer_cuts_the_end_and_says_so(tmp_path: Path) -> None:
    scenario = Scenario(n_steps=9, tracer=Tracer(device_end_ps=4 * PS_PER_MS))
    capture = written(bundled_program("mlp4_h100"), scenario, tmp_path)

    assert capture.kernels.start_ps.max() < 4 * PS_PER_MS
    assert capture.warnings[0].startswith("Detected GPU events dropped on simulated-node")
    assert capture.host_events.start_ps.max() > 4 * PS_PER_MS


def test_clock_skew_moves_devices_only() -> None:
    program, skew = chain(), -7 * PS_PER_US
    one = simulate(program, Scenario())
    other = simulate(program, Scenario(tracer=Tracer(clock_skew_ps=skew)))

    assert np.array_equal(starts(other, "/device:GPU:0"), starts(one, "/device:GPU:0") + skew)
    assert np.array_equal(starts(other, "/host:CPU"), starts(one, "/host:CPU"))


def starts(simulated: SimulatedCapture, plane: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    events = next(p.events for p in simulated.planes if p.name == plane)
    assert events is not None
    return events.start_ps


def test_other_programs_and_recompiles_have_ids_of_their_own(tmp_path: Path) -> None:
    others = (OtherProgram(bundled_program("minigpt_eval1_h100"), every=2),)
    causes = Causes(compile_steps=(3,), compile_ps=5 * PS_PER_MS)
    scenario = Scenario(n_steps=4, others=others, causes=causes)
    capture = written(bundled_program("minigpt1_h100"), scenario, tmp_path)
    ids, counts = np.unique(capture.kernels.program_id, return_counts=True)

    per_train, per_eval = counts[0] // 3, counts[1] // 2
    assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == {
        17: 3 * per_train,
        18: 2 * per_eval,
        19: per_train,
    }
    assert [capture.programs[i].name for i in (17, 18, 19)] == [
        *("jit_train_step(17)", "jit_eval_step(18)", "jit_train_step(19)")
    ]
    names = [capture.text(int(code)) for code in capture.host_events.name]
    assert names.count("backend_compile") == 1


@pytest.mark.parametrize(
    ("cause", "causes", "least", "most"),
    [
        ("host_gap", Causes(host_gap_ps=2 * PS_PER_MS, readback=True), 1.999, 2.01),
        ("copy", Causes(copy_ps=PS_PER_MS, readback=True), 0.85, 1.0),
        ("collective", Causes(collective_ps=3 * PS_PER_MS), 2.99, 3.01),
        ("straggler", Causes(straggler_device=3, straggler_ps=PS_PER_MS), 0.85, 1.01),
        ("readback", Causes(readback=True), 0.05, 0.4),
    ],
)
def test_a_removed_cause_gives_its_time_back(
    cause: str, causes: Causes, least: float, most: float
) -> None:
    """All of it, or less where other work fills the time: a dispatch, a collective's slack."""
    scenario = Scenario(seed=2, n_steps=8, causes=causes)
    program = bundled_program("minigpt_dp4_h100")
    with_it, without = (simulate(program, s).meta for s in (scenario, scenario.without(cause)))

    saved_ms = (with_it["step_ps"] - without["step_ps"]) / PS_PER_MS
    assert least < saved_ms < most


def test_unknown_cause_is_refused() -> None:
    with pytest.raises(UsageError, match="known are collective, compile, copy, host_gap"):
        Scenario().without("gravity")


def test_many_steps_repeat_the_last_ones_without_breaking_order(tmp_path: Path) -> None:
    scenario = Scenario(seed=1, n_steps=101, n_simulated_steps=10)
    capture = written(bundled_program("mlp4_h100"), scenario, tmp_path)
    kernels, launches = capture.kernels, capture.launches
    at = np.searchsorted(np.sort(launches.correlation_id), kernels.correlation_id)
    end = launches.end_ps[np.argsort(launches.correlation_id)][at]

    assert len(kernels) == 101 * 58 * 4
    assert (kernels.start_ps > end).all()
    for device in range(4):
        rows = kernels.device == device
        start = kernels.start_ps[rows]
        assert (start[1:] >= (start + kernels.duration_ps[rows])[:-1]).all()
    meta = json.loads((tmp_path / "meta.json").read_text())
    periods = np.diff([row["start_ps"] for row in meta["step_times"] if row["device"] == 0])
    assert len(periods) == 100
    assert periods.max() < 2 * periods.min()


def test_a_hundred_thousand_kernels_take_seconds(tmp_path: Path) -> None:
    program = bundled_program("minigpt_fsdp4_h100")
    tracer = Tracer(thunk_events=False, python_events=3000)
    simulated = simulate(program, Scenario(n_steps=60, tracer=tracer))
    path = write_capture(simulated, tmp_path, json_cap=0, truth=False)

    assert simulated.n_kernels == 60 * 4 * 449
    assert path.stat().st_size > 10_000_000
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


def test_demo_says_that_it_is_simulated(tmp_path: Path) -> None:
    run = demo_capture(tmp_path)
    capture = read_xplane(run / "simulated-node.xplane.pb")

    assert run.is_relative_to(tmp_path / "plugins" / "profile")
    assert capture.host == "simulated-node"
    assert len(capture.devices) == 4
    assert capture.launches.is_graph.sum() > 100
    assert (tmp_path / "source" / "minigpt.py").is_file()
