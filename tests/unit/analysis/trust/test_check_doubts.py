"""Every check that can fail says what depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from explane.analysis.investigate import investigate_host
from explane.analysis.trust.doubts import EVERYTHING, affected_by, is_known
from explane.capture.discover import discover
from explane.capture.load import load_host
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario, Tracer
from explane.synth.simulate import simulate, write_capture


@pytest.mark.parametrize(
    ("title", "tracer"),
    [("mlp4_h100", Tracer()), ("mlp4_mi300", Tracer(lost_graph_ratio=0.3))],
    ids=["whole", "lossy"],
)
def test_somebody_thought_of_every_check_of_a_capture(
    tmp_path: Path, title: str, tracer: Tracer
) -> None:
    made = simulate(bundled_program(title), Scenario(n_steps=4, tracer=tracer))
    write_capture(made, tmp_path, truth=False)
    tables = investigate_host(load_host(discover([str(tmp_path)]).hosts[0])).tables
    checks = tables["checks"]["check"].to_list()
    assert len(checks) > 15
    assert [check for check in checks if not is_known(check)] == []
    failed = tables["checks"].filter(tables["checks"]["holds"] == "no")["check"].to_list()
    told = dict(tables["trust"].select("item", "affects").iter_rows())
    for check in failed:
        assert told[f"a check fails: {check}"] == affected_by(check)


def test_the_longest_name_that_fits_decides() -> None:
    assert "communication is unknown" in affected_by(
        "programs with collectives show collective kernels"
    )
    assert affected_by("executions of jit_f(17) are the same on all GPUs").startswith("per-GPU")
    assert affected_by("launches of jit_f = HLO schedule").startswith("attribution")


def test_an_unknown_check_may_concern_everything() -> None:
    assert affected_by("a check of tomorrow") == EVERYTHING
    assert not is_known("a check of tomorrow")


@pytest.mark.parametrize(
    ("check", "section"),
    [
        ("every kernel joins one launch", "verdict"),
        ("every kernel joins one launch", "estimates"),
        ("kernels per execution = HLO schedule", "ops"),
        ("kernels per execution = HLO schedule", "roofline"),
        ("collective kernels are the same on all GPUs", "collectives"),
        ("critical path = median step", "critical path"),
        ("kernels per step are constant", "step time"),
    ],
)
def test_sections_find_the_checks_that_they_depend_on(check: str, section: str) -> None:
    assert section in affected_by(check)
