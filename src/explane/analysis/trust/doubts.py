"""What in the report depends on each check of the reconciliation, for when it fails."""

from __future__ import annotations

from typing import Final

EVERYTHING: Final = "every figure that uses these records"

_LAUNCHES: Final = "launch overhead, idle causes, verdict, critical path, estimates"
_KERNELS: Final = "ops, lines, roofline, idle time, verdict, critical path, estimates"
_GPUS: Final = "per-GPU comparison, stragglers, collectives"
_HLO: Final = "attribution, ops, lines, roofline"

_AFFECTED: Final = {
    "device events: JSON = xplane": EVERYTHING,
    "every kernel joins one launch": _LAUNCHES,
    "every launch has its kernels": _KERNELS,
    "copy calls have copies": "copies: verdict, idle causes, critical path, estimates",
    "kernels per step are constant": f"step time, averages over steps, {_KERNELS}",
    "compute kernels are the same on all GPUs": f"{_GPUS}, estimates",
    "collective kernels are the same on all GPUs": f"{_GPUS}, critical path, estimates",
    "memcpy kernels are the same on all GPUs": "per-GPU comparison, copies",
    "memset kernels are the same on all GPUs": "per-GPU comparison, copies",
    "stream budgets add up to their spans": "verdict, per-GPU and per-stream budgets, idle time",
    "executions of ": f"{_GPUS}, roofline (rates are per execution)",
    "host executions ": f"step time, {_HLO} (rates are per execution)",
    "kernels per execution = HLO schedule": _HLO,
    "launches of ": _HLO,
    "programs with collectives show collective kernels": (
        f"{_GPUS}, verdict, critical path, estimates: communication is unknown, not zero"
    ),
    "attributed + unattributed = kernel time": _HLO,
    "device events have possible times": EVERYTHING,
    "no kernel starts before its launch call": _LAUNCHES,
    "times are in one clock domain": _LAUNCHES,
    "GPU records cover the time of the launches": EVERYTHING,
    "no records are reported lost or damaged": "all totals are lower bounds",
    "GPUs in the file = GPUs of the program": _GPUS,
    "replay with nothing changed": "estimates, what to change",
    "critical path = median step": "critical path, estimates, what to change",
}
"""Parts of the report by the beginning of a check's name."""


def affected_by(check: str) -> str:
    """What depends on a check; everything for one that is not known here.

    The words are those by which sections find what to warn of.
    """
    found = max((name for name in _AFFECTED if check.startswith(name)), key=len, default="")
    return _AFFECTED.get(found, EVERYTHING)


def is_known(check: str) -> bool:
    """Whether somebody thought of what depends on a check."""
    return any(check.startswith(name) for name in _AFFECTED)
