"""What a reader says of the things it met: collector messages, odd records, kinds of damage."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from explane.capture.assemble import Records
from explane.capture.model import MISSING, Note, NoteKind
from explane.capture.natures import known_format, text_format
from explane.capture.plane_reader import Counts

_LOST: Final = (
    r"(?:dropped|dropping|lost|discard(?:ed|ing)|skipp(?:ed|ing)|ignor(?:ed|ing)|missing)"
)
_RECORDS: Final = r"\b(?:events?|records?|activit(?:y|ies)|kernels?|samples?|buffers?|trace)\b"
_DROP: Final = re.compile(
    rf"\bdropped\b|{_RECORDS}.*\b(?:{_LOST}|truncated|overflow\w*|exceed\w*)\b"
    rf"|\b(?:{_LOST}|truncated|overflow\w*)\b.*{_RECORDS}",
    re.IGNORECASE | re.DOTALL,
)
# "… 4096 events dropped because total device(GPU) events reached maximum;" (cupti_collector)
_DROP_COUNT: Final = re.compile(rf"(\d[\d,]*) (?:[\w()/]+ ){{0,4}}{_LOST}\b", re.IGNORECASE)
_LIMITS: Final = (2 << 20, 4 << 20)
_REPLACEMENT: Final = b"\xef\xbf\xbd"


def message_notes(messages: Iterable[str]) -> list[Note]:
    """Notes for messages by which a collector says that it lost records.

    The count is the sum of the numbers that the message calls dropped, MISSING when it has none
    (numbers of *collected* events are no loss).
    """
    notes = []
    for message in messages:
        if _DROP.search(message):
            counts = [int(text.replace(",", "")) for text in _DROP_COUNT.findall(message)]
            count = sum(counts) if counts else MISSING
            notes.append(Note("dropped_events", NoteKind.LOSS, count, message))
    return notes


def count_notes(counts: Counts, n_invalid_utf8: int) -> list[Note]:
    """Notes for odd records that were met while reading."""
    names = ", ".join(sorted(set(counts.skipped_lines)))
    found = (
        ("invalid_utf8", n_invalid_utf8, "texts are not UTF-8; bad bytes were replaced"),
        ("missing_metadata", counts.n_missing_names, "events have no name in the file"),
        (
            "aggregated_events",
            counts.n_aggregated,
            "events say how often, not when; left out",
        ),
        ("bad_compressed_text", counts.n_bad_compressed, "compressed texts can't be expanded"),
        ("lines_without_work", len(counts.skipped_lines), f"lines hold no GPU work: {names}"),
    )
    return [Note(slug, NoteKind.INFO, n, f"{n} {text}") for slug, n, text in found if n]


def limit_notes(records: Records, epoch_ns: int) -> list[Note]:
    """Notes for tables that end at a collector's limit, and for times counted from the epoch.

    CUPTI collectors stop at 2 Mi records of device activity and at 2 Mi of API calls, ROCm's at
    2 Mi or 4 Mi; a count that is exactly one of these is no chance.
    """
    notes = []
    n_markers = sum(records.markers.values())
    for what, count in (
        ("device events", len(records.kernels) + n_markers),
        ("launches", len(records.launches)),
    ):
        if count in _LIMITS:
            text = f"{count} {what} are exactly a limit of the collector: later ones are missing"
            notes.append(Note("event_limit", NoteKind.LOSS, MISSING, text))
    if epoch_ns:
        text = f"times in the file count from the epoch; here they count from {epoch_ns} ns"
        notes.append(Note("epoch_times", NoteKind.INFO, 1, text))
    return notes


def nature_of(head: bytes) -> str:
    """What the first bytes of a file that is no XSpace look like, as a clause; may be empty."""
    known = known_format(head)
    if known:
        return f"; it is {known}{', unpack it first' if 'compressed' in known else ''}"
    if head.count(_REPLACEMENT) > len(head) // 200:
        return "; it looks like a binary file that was re-encoded as UTF-8 text"
    text = text_format(head)
    return f"; it looks like {text}, not like a binary file" if text else ""
