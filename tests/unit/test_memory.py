"""Giving memory back changes nothing but the memory held."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest

from explane import memory
from explane.progress import Stage


class _Stages:
    def __init__(self) -> None:
        self.names: list[str] = []

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Stage]:
        self.names.append(name)
        return nullcontext()  # type: ignore[return-value]


def test_a_lean_stage_is_a_stage_that_trims_behind_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(memory, "_malloc_trim", lambda: lambda _pad: told.append("trimmed"))
    stages = _Stages()
    with memory.lean_stage(stages, "verdict"):
        told.append("worked")
    assert (stages.names, told) == (["verdict"], ["worked", "trimmed"])


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    memory.give_back()
