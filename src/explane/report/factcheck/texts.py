"""Texts searched for what they should print, and for numbers that nothing backs.

Lines that stand as they were written are fine. Where lines were changed, the values printed in
the old lines must be found in the new ones, in order, and any other number there must repeat a
claim or be the person's own. A block of lines that begins with `> note:` is a person's own up to
the next blank line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from explane.report.claims_file import line_digest
from explane.report.factcheck.readback import plain, says
from explane.report.formats import Value

NOTE: Final = "> note:"
"""Marks what a person adds with numbers of their own."""

Line = tuple[str, Sequence[tuple[str, str]]]
"""Digest of a line as written, and its printed values with their claims."""


def check_text(
    name: str, text: str, lines: Sequence[Line], values: Mapping[str, tuple[Value, str]]
) -> Iterator[str]:
    """What is wrong with a text, one line each.

    Args:
        name: Path of the text, for messages.
        text: As it stands now.
        lines: As it was written.
        values: Value and format word by claim name.
    """
    for _, entries in lines:
        for written, ref in entries:
            value, unit = values.get(ref, (None, ""))
            if not says(plain(written), value, unit):
                yield f"{name}: {plain(written)} is not what claim {ref} says ({value})"
    present = _without_notes(text.splitlines())
    repeatable = _by_first_run({plain(w) for _, entries in lines for w, _ in entries})
    matcher = difflib.SequenceMatcher(
        None, [d for d, _ in lines], [line_digest(line) for line in present], autojunk=False
    )
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind != "equal":
            entries = [entry for _, e in lines[i1:i2] for entry in e]
            yield from _check_changed(
                f"{name}, line {j1 + 1}", entries, present[j1:j2], repeatable
            )


def _without_notes(lines: Sequence[str]) -> list[str]:
    """Lines with the person's own notes blanked."""
    result, in_note = [], False
    for line in lines:
        in_note = bool(line.strip()) and (in_note or line.strip().lower().startswith(NOTE))
        result.append("" if in_note else line)
    return result


def _check_changed(
    where: str,
    entries: Sequence[tuple[str, str]],
    lines: Sequence[str],
    repeatable: Mapping[str, list[str]],
) -> Iterator[str]:
    """Problems in a block of changed lines."""
    block = "\n".join(lines)
    covered, position = [False] * len(block), 0
    missing = []
    for written, ref in entries:
        start = _find(block, written, position)
        if start < 0:
            missing.append((written, ref))
            continue
        position = start + len(written)
        covered[start:position] = [True] * len(written)
    extra = [run for run in re.finditer(r"\d+", block) if not covered[run.start()]]
    loose = [run for run in extra if not _repeats(block, run, repeatable)]
    yield from (_missing_line(where, w, ref, block, covered) for w, ref in missing)
    if not missing:
        for run in loose:
            around = block[max(run.start() - 20, 0) : run.end() + 20].replace("\n", " ")
            yield f"{where}: {run.group()} is backed by no claim: …{around}…"


def _missing_line(where: str, written: str, ref: str, block: str, covered: list[bool]) -> str:
    """Says which value is gone, and what seems to stand in its place."""
    shape = re.sub(r"\\?\d", r"\\d", re.escape(plain(written)))
    match = re.search(shape, block)
    instead = f"; there stands {match.group()}" if match and not covered[match.start()] else ""
    return f"{where}: {plain(written)} (claim {ref}) was edited or is missing{instead}"


def _find(block: str, written: str, start: int) -> int:
    """Where a value stands on its own, not as a part of a longer number; -1 if nowhere."""
    while (found := block.find(written, start)) >= 0:
        end = found + len(written)
        before = found > 0 and written[:1].isdigit() and block[found - 1].isdigit()
        after = end < len(block) and written[-1:].isdigit() and block[end].isdigit()
        if not before and not after:
            return found
        start = found + 1
    return -1


def _by_first_run(printed: set[str]) -> dict[str, list[str]]:
    """Printed values by the first run of digits in them."""
    result: dict[str, list[str]] = {}
    for text in sorted(printed):
        run = re.search(r"\d+", text)
        if run:
            result.setdefault(run.group(), []).append(text)
    return result


def _repeats(block: str, run: re.Match[str], repeatable: Mapping[str, list[str]]) -> bool:
    """Whether the number around a run of digits is the print of some claim, unit included."""
    for first in re.finditer(r"\d+", block[max(run.start() - 80, 0) : run.end()]):
        begin = max(run.start() - 80, 0) + first.start()
        for text in repeatable.get(first.group(), ()):
            start = begin - re.search(r"\d", text).start()  # type: ignore[union-attr]
            end = start + len(text)
            if start >= 0 and start <= run.start() and run.end() <= end:
                stands = block[start:end] == text and _find(block[: end + 1], text, start) == start
                if stands and _is_whole_number(block, start, end, text):
                    return True
    return False


def _is_whole_number(block: str, start: int, end: int, text: str) -> bool:
    """Whether no neighbouring character makes it another number (`1` in `1.5` or `-1`)."""
    before, after = block[max(start - 2, 0) : start], block[end : end + 2]
    if text[0].isdigit() and re.search(r"\d[.,]$|[-.]$", before):
        return False
    return not (text[-1].isdigit() and re.match(r"[.,]\d", after))
