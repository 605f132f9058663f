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
    "while_readback": "loop conditions read back to the host",
    "python_tracer": "the profiler's own cost in each Python call",
    "small_collectives": "collectives too small for their fixed cost",
    "resharding": "operands brought together for a call that XLA cannot split",
    "precision": "matrix products in a slow data type",
    "low_occupancy": "kernels too small to fill the GPU",
}


_ACTIONS: Final = {
    "host_late": "let the host run ahead of the GPU",
    "launch_call_long": "launch with fewer or shorter calls",
    "wait_stream": "let streams run side by side",
    "wait_copy": "take copies out of the way",
    "wait_collective": "take collectives out of the way",
    "straggler": "even out the GPUs",
    "exposed_collective": "hide communication behind compute",
    "copy": "avoid or hide copies",
    "tiny_kernels": "merge very short kernels",
    "recompile": "avoid compiling again",
    "low_rate": "bring slow kernels nearer to the roofline",
    "layout": "avoid moving and converting data",
    "donation": "donate buffers",
    "remat": "recompute less",
    "readback": "don't wait for results in each step",
    "while_readback": "keep loop conditions on the GPU",
    "python_tracer": "capture without the Python tracer",
    "small_collectives": "combine small collectives",
    "resharding": "let XLA split the call",
    "precision": "multiply in a faster data type",
    "low_occupancy": "give kernels more parallel work",
}


def action(cause: str) -> str:
    """What to do about a cause, in a few words."""
    return _ACTIONS.get(cause, "take this cause away")


def meaning(cause: str) -> str:
    """What a cause means, after a colon; nothing for a word that is not known."""
    return f": {_MEANINGS[cause]}" if cause in _MEANINGS else ""
