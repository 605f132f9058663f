"""Reads `<host>.trace.json.gz` (Chrome trace events as XLA writes them) into a `Capture`.

What XLA leaves out of this file is missing here too: HLO modules, program ids, kernel details,
plane stats, session times, errors and warnings, and all events after the first million. Line ids
are cut to 32 bits. Sources: xplane_to_trace_events and trace_events_to_json in xla/tsl/profiler;
XProf's converter gives other process ids, so devices are told by `process_name` only.
"""

from __future__ import annotations

from pathlib import Path

from explane.capture.assemble import StringPool, assemble
from explane.capture.filenames import host_stem
from explane.capture.json_columns import ColumnReader, EventColumns
from explane.capture.json_events import EventReader
from explane.capture.json_layout import Layout
from explane.capture.json_notes import json_notes
from explane.capture.model import Capture
from explane.capture.options import ReadOptions
from explane.capture.text_blocks import BlockReader
from explane.errors import CaptureError


def read_trace_json(path: Path, options: ReadOptions | None = None) -> Capture:
    """Reads one trace JSON, plain or gzip by its first bytes.

    Args:
        path: The file.
        options: Host events to leave out.

    Returns:
        The capture with `source` "json"; `partial` when a part of the file is missing or can't
        be read. Its `session` has the count of complete events as `n_trace_events`.

    Raises:
        CaptureError: It can't be opened, or is no JSON with `traceEvents`.
    """
    options = options or ReadOptions()
    with options.progress.stage("decode: JSON events"):
        return _decoded(path, options)


def _decoded(path: Path, options: ReadOptions) -> Capture:
    blocks, reader = BlockReader(path), EventReader(path)
    columns = ColumnReader(StringPool(), options.python_events and options.host_events)
    batches = _batches(blocks, reader, columns, options)
    layout = Layout(columns.processes, columns.threads, columns.thread_order)
    device, host = layout.tables(batches)
    records = assemble(device, host, columns.pool, options)
    damaged = any(problem.loses_text for problem in blocks.problems)
    return Capture(
        host=host_stem(path.name) or path.resolve().parent.name,
        path=path,
        source="json",
        strings=columns.pool.strings,
        kernels=records.kernels,
        host_events=records.host_events,
        launches=records.launches,
        threads=tuple(layout.threads),
        devices=layout.devices,
        markers=records.markers,
        session={"n_trace_events": columns.n_events},
        other_planes=tuple(layout.other_planes),
        notes=(*json_notes(blocks, reader, columns, layout), *records.notes),
        partial=damaged or reader.n_broken > 0 or not reader.is_closed,
        n_host_events=records.n_host_events + columns.n_python_events,
        n_python_events=records.n_python_events + columns.n_python_events,
    )


def _batches(
    blocks: BlockReader, reader: EventReader, columns: ColumnReader, options: ReadOptions
) -> list[EventColumns]:
    """Columns of all batches of a file."""
    batches = []
    n_told = 0
    found = iter(reader.batches(blocks))
    try:
        while True:
            with options.progress.stage("scan: JSON text"):
                batch = next(found, None)
            if batch is None:
                break
            batches.append(columns.columns(batch))
            options.advance(blocks.n_read_bytes - n_told)
            n_told = blocks.n_read_bytes
    except CaptureError:
        if not blocks.problems:
            raise
        reason = f"damaged before its first event: {blocks.problems[0].text}"
        remedy = "copy the file again in binary form"
        raise CaptureError(blocks.path, reason, remedy, "damaged-capture") from None
    columns.finish()
    return batches
