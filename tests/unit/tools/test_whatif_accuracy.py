"""Causes simulated, estimated and really taken away: one seed each of the accuracy table."""

from __future__ import annotations

import pytest

from explane.synth.scenario import Scenario
from tools.whatif_accuracy import CASES, Case, trial

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cause_is_found_sized_ranked_and_its_removal_foretold(case: Case) -> None:
    title = "solver1_mi300" if case.removed == "loop_waits" else "minigpt_dp4_mi300"
    made = trial(case, title, None, Scenario(n_steps=8), 3)
    assert made is not None
    assert made.low_ps <= made.truth_ps <= made.high_ps
    assert made.rank == 1
    assert made.found_ps == pytest.approx(made.size_ps, rel=0.03)
    # The cause was worth finding.
    assert made.truth_ps < (0.98 if case.removed == "transfers" else 0.95) * made.now_ps


def test_steps_of_less_than_a_millisecond_are_sized_too() -> None:
    """The gap of the host is shorter than what the host does in each step anyway."""
    made = trial(BY_NAME["host gap"], "mlp4_h100", None, Scenario(n_steps=8), 3)
    assert made is not None
    assert made.rank == 1
    assert made.low_ps <= made.truth_ps <= made.high_ps
    assert made.found_ps == pytest.approx(made.size_ps, rel=0.02)


def test_a_second_cause_does_not_hide_the_first() -> None:
    made = trial(BY_NAME["copy"], "mlp4_mi300", BY_NAME["straggler"], Scenario(n_steps=8), 3)
    assert made is not None
    assert made.rank == 1
    assert made.found_ps == pytest.approx(made.size_ps, rel=0.02)
