"""What host events say, told by their names: compilation, execution, waiting; and their threads.

Names are matched once per distinct name, never per event. TraceMe names are free text of XLA, JAX
and the user, so each rule names the form that it expects:

- *compile*: XLA and PjRt mark compilation with `…Compile…`, JAX with `backend_compile` and
  `compile_or_get_cached`. Events of the Python tracer (`$file.py:line function`) count only when
  they come from JAX's compiler modules, since `re.compile` and the like mean nothing here.
- *execute*: the call that runs one program on one device (innermost form first).
- *wait*: the host does nothing but wait for the device or another thread.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from explane.capture.model import I32, Bools, Capture

_JAX_FILES: Final = r"(?:compiler|pxla|dispatch|compilation_cache|pjit|stages)\.py:\d+"
COMPILE: Final = re.compile(
    rf"^(?!\$).*(?<!pre)(?<!de)compil(?!ed)|^\${_JAX_FILES} \w*compile\w*$", re.IGNORECASE
)
WAIT: Final = re.compile(
    r"Await|Block(?:Host)?Until|block_until_ready|Synchronize|WaitFor|Wait for|^Wait\b|\bwait\b"
    r"|ToLiteral|SemaphoreAcquire|\bsleep\b|\bacquire\b|Barrier",
    re.IGNORECASE,
)

#: Events that run one program on one device, the most exact form first.
EXECUTE: Final = (
    re.compile(r":XLA GPU module"),
    re.compile(r"GpuExecutable::ExecuteThunks"),
    re.compile(r"::EnqueueExecution$|LoadedExecutable::ExecuteHelper$"),
    re.compile(r"LoadedExecutable::Execute\w*$|^PJRT_LoadedExecutable_Execute$"),
    re.compile(r"^(?:Pjit|Pmap|Jit|Xla)\w*Function\(|^PjitFunction"),
)
#: Any of the above: the process gave work to a device.
DISPATCH: Final = re.compile("|".join(p.pattern for p in EXECUTE))


def names_like(capture: Capture, codes: I32, pattern: re.Pattern[str]) -> Bools:
    """Which rows have a name that the pattern finds something in.

    Args:
        capture: Holds the strings.
        codes: Text codes, one per row; -1 never matches.
        pattern: Searched once in each distinct name.
    """
    hit, seen = (np.zeros(len(capture.strings) + 1, dtype=bool) for _ in range(2))
    seen[codes] = True  # a missing code marks the place behind the last string
    for code in np.flatnonzero(seen[:-1]).tolist():
        hit[code] = pattern.search(capture.strings[code]) is not None
    return hit[codes]


def thread_bounds(capture: Capture) -> tuple[I32, I32]:
    """First and past-last row of each thread in `Capture.host_events` (sorted by thread)."""
    numbers = np.arange(len(capture.threads) + 1)
    bounds = np.searchsorted(capture.host_events.thread, numbers).astype(np.int32)
    return bounds[:-1], bounds[1:]
