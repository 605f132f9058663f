"""Settings that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.messages import recorded
from tests.shared import MASKED, OTHER, REAL, SHARED, SIMULATED


def pytest_report_header() -> str:
    """One line at the top of a run: with or without the captures beside the repository."""
    if SHARED is None:
        return "shared captures: absent, tests that need them are skipped"
    counts = (("real", REAL), ("simulated", SIMULATED), ("masked", MASKED), ("other", OTHER))
    return "shared captures: " + ", ".join(f"{len(found)} {kind}" for kind, found in counts)


@pytest.fixture(scope="session", autouse=True)
def errors_have_an_entry() -> Iterator[None]:
    """Every error that any test provokes must have an entry in docs/messages.md."""
    undocumented: set[str] = set()
    with recorded(undocumented):
        yield
    assert not undocumented, "add these to docs/messages.md"


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names parameters of bytes by their length: gzip holds the time, and ids must be stable."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None
