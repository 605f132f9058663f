"""The Perfetto trace read with the message types of Perfetto's own Python package."""

from __future__ import annotations

import io
from typing import Any

import pytest

from explane.export.perfetto import write_perfetto
from tests.unit.export.made import US, investigation, kernel

pytestmark = pytest.mark.oracle


def test_the_trace_holds_nothing_that_perfetto_does_not_know() -> None:
    module: Any = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    stream = io.BytesIO()
    steps = [("node", 0, 3, 0, 90 * US, True, "marker", 9, "")]
    rows = [kernel(i * 9 * US, US, launch_ps=i * US) for i in range(9)]
    write_perfetto(investigation(rows, steps), stream)
    trace = module.Trace()
    trace.ParseFromString(stream.getvalue())
    size = trace.ByteSize()
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == size
    begun = [p.track_event for p in trace.packet if p.track_event.type == 1]
    assert len(begun) == 9 + 9 + 1  # kernels, launches, the step
    assert {p.track_descriptor.name for p in trace.packet} >= {"node", "GPU 0", "steps", "python"}
