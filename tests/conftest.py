"""Settings that all tests share."""

from __future__ import annotations

from tests.shared import MASKED, OTHER, REAL, SHARED, SIMULATED


def pytest_report_header() -> str:
    """One line at the top of a run: with or without the captures beside the repository."""
    if SHARED is None:
        return "shared captures: absent, tests that need them are skipped"
    counts = (("real", REAL), ("simulated", SIMULATED), ("masked", MASKED), ("other", OTHER))
    return "shared captures: " + ", ".join(f"{len(found)} {kind}" for kind, found in counts)
