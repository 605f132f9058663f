"""How much of captures with known truth comes out right, by kind of capture.

The truth is the simulator's own record, or the labels that were hidden. The bounds are below what
`docs/accuracy.md` shows, so that they fail when something breaks and not when a draw is unlucky.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import pytest

from explane.analysis.attribution.attribute import attribute
from explane.analysis.attribution.result import Match
from explane.analysis.host_facts import read_programs
from explane.capture.xplane import read_xplane
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Branches, GraphLabels, Graphs, Scenario, Tracer
from explane.synth.simulate import simulate, write_capture
from tests import shared


@dataclass
class Score:
    """Shares of time that are right: of all graph kernels, and of those with an answer."""

    right: float
    claimed: float
    wrong_names: float
    wrong_labels: int
    n_graph: int


def score(xplane: Path, truth: Path) -> Score:
    capture = read_xplane(xplane)
    programs, _ = read_programs(capture.programs)
    result = attribute(capture, programs)
    kernels, names = capture.kernels, result.instruction_names()
    assert result.check(kernels) == []
    with gzip.open(truth, "rt", newline="") as file:
        true = {
            (int(r["device"]), int(r["start_ps"]), int(r["duration_ps"]), r["kernel"]): r
            for r in csv.DictReader(file)
        }
    time = dict.fromkeys(("all", "right", "claimed"), 0)
    n_named = n_wrong_names = n_wrong_labels = n_graph = 0
    for i, name in enumerate(names):
        start, duration = int(kernels.start_ps[i]), int(kernels.duration_ps[i])
        kernel = capture.text(int(kernels.name[i]))
        row = true.get((int(kernels.device[i]), start, duration, kernel))
        if row is None:
            continue
        right = name == row["hlo_op"]
        n_wrong_labels += int(result.match[i] == Match.EXACT and not right)
        if row["in_graph"] == "1":
            n_graph += 1
            time["all"] += duration
            time["right"] += duration * right
            time["claimed"] += duration * bool(name)
            n_named += int(result.match[i] == Match.NAME)
            n_wrong_names += int(result.match[i] == Match.NAME and not right)
    return Score(
        time["right"] / max(time["all"], 1),
        time["right"] / max(time["claimed"], 1),
        n_wrong_names / max(n_named, 1),
        n_wrong_labels,
        n_graph,
    )


BARE, MODULE, NAMED = GraphLabels.NOTHING, GraphLabels.MODULE, GraphLabels.COMMAND_BUFFER
QUIET = Tracer(thunk_events=False, library_labels=False)
RANDOM = Graphs(labels=BARE, branches=Branches.RANDOM, branch_ratio=0.15)
NEEDS = Graphs(labels=MODULE, branches=Branches.DEPENDENCIES, branch_ratio=0.4)
MADE = {
    "in order, named": ("minigpt1_h100", Graphs(labels=NAMED), Tracer(), 0.995),
    "in order, nothing": ("minigpt1_library_mi300", Graphs(labels=BARE), QUIET, 0.995),
    "convolutions": ("convnet1_mi300", Graphs(labels=BARE), QUIET, 0.995),
    "beside each other": ("minigpt_dp4_h100", RANDOM, Tracer(), 0.985),
    "by dependencies": ("minigpt1_library_h100", NEEDS, Tracer(), 0.985),
    "lossy": ("minigpt_dp4_mi300", Graphs(labels=MODULE), Tracer(lost_graph_ratio=0.3), 0.99),
}


@pytest.mark.parametrize("kind", MADE)
def test_made_captures(kind: str, tmp_path: Path) -> None:
    title, graphs, tracer, least = MADE[kind]
    scenario = Scenario(seed=23, n_steps=3, graphs=graphs, tracer=tracer)
    path = write_capture(simulate(bundled_program(title), scenario), tmp_path / "made")
    truth = next(tmp_path.rglob("*truth.csv.gz"))
    result = score(path, truth)
    assert result.n_graph > 200
    assert result.claimed >= least
    assert kind == "lossy" or result.right >= least
    assert result.wrong_names <= 0.002
    assert result.wrong_labels == 0


SIDE_STREAMS = {"gpt-fsdp4-h100", "gpt-fsdp4-h100-nodes", "gpt-fsdp4-mi300-bare"}


@shared.require_shared
@pytest.mark.parametrize("name", shared.SIMULATED)
def test_simulated_captures(name: str) -> None:
    result = score(shared.xplane_file("simulated", name), shared.truth_file("simulated", name))
    assert result.wrong_labels == 0
    if not result.n_graph:
        return
    least = 0.985 if name in SIDE_STREAMS else 0.995
    assert result.claimed >= least
    assert name.endswith("lossy") or result.right >= least
    assert result.wrong_names <= 0.002


@shared.require_shared
@pytest.mark.parametrize("name", shared.MASKED)
def test_masked_captures(name: str) -> None:
    result = score(shared.xplane_file("masked", name), shared.truth_file("masked", name))
    assert result.n_graph > 30
    assert result.right >= 0.97
    assert result.wrong_names <= 0.002
    assert result.wrong_labels == 0
