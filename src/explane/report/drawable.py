"""Whether pictures can be drawn here: the converter is a JavaScript engine with wishes of its own.

V8 reserves address space at its start, far more than it uses, and ends the whole process when it
can't have it, as under `ulimit -v` on many clusters. So it is not started there.
"""

from __future__ import annotations

import sys
from typing import Final

if sys.platform != "win32":
    import resource

LEAST_ADDRESS_SPACE: Final = 128 << 30
"""Bytes; vl-convert 1.9 fails with 64 GiB."""


def why_not_drawable() -> str:
    """Why no picture can be drawn in this process, one clause; empty when they can be."""
    if sys.platform == "win32":
        return ""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit in (resource.RLIM_INFINITY, -1) or limit >= LEAST_ADDRESS_SPACE:
        return ""
    return (
        f"the address space is limited to {limit >> 20} MiB (ulimit -v), and drawing reserves "
        f"{LEAST_ADDRESS_SPACE >> 20} MiB"
    )
