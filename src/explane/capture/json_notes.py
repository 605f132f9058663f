"""What a trace JSON had wrong, as notes for the trust list.

INFO is what cost no event of the GPU and no time; everything else is DAMAGE.
"""

from __future__ import annotations

from collections.abc import Iterator

from explane.capture.json_columns import ColumnReader
from explane.capture.json_events import EventReader
from explane.capture.json_layout import Layout
from explane.capture.model import MISSING, Note, NoteKind
from explane.capture.text_blocks import BlockReader


def json_notes(
    blocks: BlockReader, events: EventReader, columns: ColumnReader, layout: Layout
) -> tuple[Note, ...]:
    """Notes on the file, its text, its events and their processes."""
    return (*_file_notes(blocks, events), *_event_notes(columns, layout))


def _file_notes(blocks: BlockReader, events: EventReader) -> Iterator[Note]:
    for problem in blocks.problems:
        kind = NoteKind.INFO if problem.slug == "trailing_garbage" else NoteKind.DAMAGE
        yield Note(problem.slug, kind, MISSING, f"trace JSON: {problem.text}")
    known = events.n_broken or any(problem.loses_text for problem in blocks.problems)
    if not events.is_closed and not known:
        text = f"trace JSON ends inside its list of events, after {blocks.n_text_bytes:,} bytes"
        yield Note("truncated_json", NoteKind.DAMAGE, MISSING, text)
    if events.n_broken:
        text = (
            f"{events.n_broken:,} places of the trace JSON can't be read, the first at byte "
            f"{events.first_broken_byte:,} of its text; events there are missing"
        )
        yield Note("broken_json", NoteKind.DAMAGE, events.n_broken, text)
    if events.n_tolerated:
        text = (
            f"{events.n_tolerated:,} events of the trace JSON are not strict JSON (control "
            "characters, NaN, lone surrogates or bad UTF-8) and were read tolerantly"
        )
        yield Note("tolerated_json", NoteKind.INFO, events.n_tolerated, text)


def _event_notes(columns: ColumnReader, layout: Layout) -> Iterator[Note]:
    info, damage = NoteKind.INFO, NoteKind.DAMAGE
    counted = (
        ("invalid_utf8", info, columns.n_surrogates, "texts hold half a surrogate pair"),
        ("unmatched_pairs", info, columns.n_unmatched, "begin or end events have no partner"),
        ("bad_json_times", damage, columns.n_bad_times, "events have a time that is no number"),
        ("no_duration", damage, columns.n_without_duration, "events have no duration; taken as 0"),
        ("unnamed_process", damage, layout.n_homeless, "events are of a process without a name"),
    )
    for slug, kind, count, text in counted:
        if count:
            yield Note(slug, kind, count, f"{count:,} {text}")
    if not columns.is_exact:
        text = "times of the trace JSON are so large that picoseconds, and more, are rounded"
        yield Note("rounded_json_times", NoteKind.INFO, MISSING, text)
    others = sum(columns.other_phases.values())
    if others:
        kinds = ", ".join(sorted(columns.other_phases)[:8])
        text = f"{others:,} trace events of other phases ({kinds}) are not used"
        yield Note("other_phases", NoteKind.INFO, others, text)
