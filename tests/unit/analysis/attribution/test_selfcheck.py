"""The self-check: what it hides, and that its score is that of the hidden kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from explane.analysis.attribution.attribute import attribute
from explane.analysis.attribution.hidden import hide
from explane.analysis.attribution.result import Attribution, Match
from explane.analysis.attribution.schedule_walk import expected_launches
from explane.analysis.attribution.selfcheck import selfcheck
from explane.analysis.host_facts import read_programs
from explane.capture.model import Capture
from explane.capture.program import Program
from explane.capture.xplane import read_xplane
from explane.synth.program_files import bundled_program
from explane.synth.scenario import GraphLabels, Graphs, Scenario
from explane.synth.simulate import simulate, write_capture

Made = tuple[Capture, dict[int, Program], Attribution]


def made(folder: Path, graphs: Graphs) -> Made:
    scenario = Scenario(seed=4, n_steps=4, graphs=graphs)
    path = write_capture(simulate(bundled_program("minigpt_dp4_h100"), scenario), folder)
    capture = read_xplane(path)
    programs, _ = read_programs(capture.programs)
    return capture, programs, attribute(capture, programs)


@pytest.fixture(scope="module")
def off(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Every kernel launched by itself, with its label."""
    return made(tmp_path_factory.mktemp("off"), Graphs(enabled=False))


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Most kernels in graphs."""
    return made(tmp_path_factory.mktemp("on"), Graphs(labels=GraphLabels.MODULE, node_ids=False))


def hidden_of(data: Made) -> tuple[Capture, np.ndarray]:
    capture, programs, attribution = data
    schedules = {key: expected_launches(program) for key, program in programs.items()}
    found = hide(capture, attribution.match == Match.EXACT, attribution, schedules)
    return found.capture, found.rows


def test_hidden_kernels_lose_their_label_and_share_one_graph_launch(off: Made) -> None:
    capture, rows = hidden_of(off)
    assert rows.mean() > 0.5
    assert (capture.kernels.hlo_op[rows] == -1).all()
    assert (capture.kernels.hlo_op[~rows] == off[0].kernels.hlo_op[~rows]).all()
    ids = np.unique(capture.kernels.correlation_id[rows])
    launches = capture.launches
    by_id = np.isin(launches.correlation_id, ids)
    assert by_id.sum() == len(ids)
    assert launches.is_graph[by_id].all()
    assert (np.bincount(capture.kernels.correlation_id[rows])[ids] >= 5).all()


def test_collectives_are_never_hidden(off: Made) -> None:
    capture, rows = hidden_of(off)
    names = [capture.text(int(code)) for code in np.unique(capture.kernels.name[rows])]
    assert not [name for name in names if name.startswith("nccl")]


def test_kernels_that_graphs_hold_already_are_not_hidden(on: Made) -> None:
    _, rows = hidden_of(on)
    assert not rows[on[2].in_graph].any()


def test_a_capture_without_graphs_is_nearly_all_found_again(off: Made) -> None:
    found = selfcheck(*off)
    sums = found.table.select("tested", "right").sum().row(0)
    assert sums[0] == found.n_tested > 1000
    assert sums[1] / sums[0] > 0.99
    assert (found.table["right_ps"] <= found.table["tested_ps"]).all()


def test_too_few_labels_give_no_rows_and_say_so(off: Made) -> None:
    capture, programs, attribution = off
    nothing = attribution.match.copy()
    nothing[:] = Match.NONE
    blank = Attribution(
        **{
            name: getattr(attribution, name)
            for name in Attribution.__dataclass_fields__
            if name != "match"
        },
        match=nothing,
    )
    found = selfcheck(capture, programs, blank)
    assert found.table.height == 0
    assert "too few" in found.note


def test_wrong_answers_are_counted_as_wrong(off: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    capture, programs, attribution = off

    def nothing_found(*_: object, **__: object) -> Attribution:
        empty = np.full_like(attribution.instruction, -1)
        fields = {n: getattr(attribution, n) for n in Attribution.__dataclass_fields__}
        none = np.zeros_like(attribution.match)
        return Attribution(**{**fields, "instruction": empty, "match": none})

    monkeypatch.setattr("explane.analysis.attribution.selfcheck.attribute", nothing_found)
    table = selfcheck(capture, programs, attribution).table
    assert table.select(pl.col("match"), pl.col("right")).rows() == [("none", 0)]
