"""What a reader should leave out: choices that cost time and memory on large captures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from explane.progress import NULL, Progress


def _ignore(n_bytes: int) -> None:
    """For callers that don't want to know."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options that every reader takes.

    Attributes:
        python_events: Keep events of the Python tracer (`$file.py:line function`). They are
            counted either way. Without them host events are fewer by up to a hundred times.
        short_events: Keep host events that last less than half a microsecond within a longer one
            (see `short_events`). They are counted either way.
        host_events: Keep host events other than launches. False leaves only launches (the table
            of host events is empty), which is enough to join kernels with their calls.
        host_planes: Read the planes of the host. False leaves out launches and host events without
            looking at them.
        programs: Keep the stored HLO modules.
        labels: Keep what only an attribution asks for: the scope name and details of kernels, the
            program and instruction on launch calls. False allows a reader to leave them missing.
        advance: Told, while a file is read, how many more of its bytes were used.
        progress: Told of the parts of reading a file.
    """

    python_events: bool = True
    short_events: bool = True
    host_events: bool = True
    host_planes: bool = True
    programs: bool = True
    labels: bool = True
    advance: Callable[[int], None] = field(default=_ignore, compare=False)
    progress: Progress = field(default=NULL, compare=False)
