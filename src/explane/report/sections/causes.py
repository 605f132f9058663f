"""Causes of idle time and of lost time in words, beside the short fixed word of the tables."""

from __future__ import annotations

from typing import Final

_MEANINGS: Final = {
    "host_late": "the host launched too late",
    "launch_call_long": "launch calls took long",
    "wait_stream": "waiting for another stream",
    "wait_copy": "waiting for a copy",
    "wait_collective": "waiting for a collective",
    "queue": "pauses between queued kernels",
    "unknown": "no launch on record",
    "straggler": "waiting for a late GPU",
    "exposed_collective": "communication that nothing hides",
    "copy": "copies that nothing hides",
    "tiny_kernels": "many very short kernels",
    "recompile": "compilation between steps",
    "low_rate": "kernels slower than the roofline",
    "layout": "moving and converting data",
    "donation": "copies of buffers that could be donated",
    "remat": "work computed again",
    "readback": "results read back to the host",
}


def meaning(cause: str) -> str:
    """What a cause means, in brackets; nothing for a word that is not known."""
    return f" ({_MEANINGS[cause]})" if cause in _MEANINGS else ""
