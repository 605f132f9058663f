"""Causes simulated, estimated and really taken away: one seed each of the accuracy table."""

from __future__ import annotations

import pytest

from tools.whatif_accuracy import CASES, Case, trial


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cause_is_found_sized_ranked_and_its_removal_foretold(case: Case) -> None:
    made = trial(case, "minigpt_dp4_mi300", seed=3)
    assert made is not None
    assert made.low_ps <= made.truth_ps <= made.high_ps
    assert made.rank == 1
    assert made.found_ps == pytest.approx(made.size_ps, rel=0.05)
    assert made.truth_ps < 0.95 * made.now_ps  # the cause was worth finding
