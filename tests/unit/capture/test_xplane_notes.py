"""Notes about tables that end at a collector's limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explane.capture.assemble import Records
from explane.capture.model import HostEvents, Kernels, Launches, NoteKind
from explane.capture.xplane_notes import limit_notes


def _records(n_kernels: int, n_launches: int, n_markers: int = 0) -> Records:
    def columns(count: int, n_columns: int) -> list[Any]:
        return [np.broadcast_to(np.int64(0), count)] * n_columns

    return Records(
        Kernels(*columns(n_kernels, 15)),
        Launches(*columns(n_launches, 8)),
        HostEvents(*columns(0, 6)),
        {"Marker": n_markers},
        (),
        n_host_events=0,
        n_python_events=0,
    )


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((2_097_152, 5), ["device events"]),
        ((2_097_150, 5, 2), ["device events"]),
        ((4_194_304, 2_097_152), ["device events", "launches"]),
        ((2_097_151, 2_097_153), []),
        ((0, 0), []),
    ],
)
def test_a_count_at_the_limit_is_a_loss(counts: tuple[int, ...], words: list[str]) -> None:
    notes = limit_notes(_records(*counts), epoch_ns=0)
    assert [n.kind for n in notes] == [NoteKind.LOSS] * len(words)
    assert all(word in note.text for word, note in zip(words, notes, strict=True))
