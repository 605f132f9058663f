"""The fixed phrases that say how a kernel came by its instruction, or why it has none."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """One phrase per kernel; the number is the index into `Attribution.reasons`."""

    LABEL = 0
    ALIAS = 1
    NAME = 2
    FRAME = 3
    ORDER = 4
    NODE = 5
    OUTSIDE = 6
    NO_PROGRAM = 7
    NOT_STORED = 8
    NO_CANDIDATE = 9
    AMBIGUOUS = 10
    UNKNOWN_LABEL = 11
    NOT_ASKED = 12

    @property
    def phrase(self) -> str:
        """The phrase in tables."""
        return _PHRASES[self]


_PHRASES = {
    Reason.LABEL: "label",
    Reason.ALIAS: "label of an asynchronous collective, start by order",
    Reason.NAME: "only candidate by name in its graph launch",
    Reason.FRAME: "order, stream and duration in its graph launch",
    Reason.ORDER: "schedule order",
    Reason.NODE: "same graph node as in other launches",
    Reason.OUTSIDE: "outside XLA",
    Reason.NO_PROGRAM: "no program",
    Reason.NOT_STORED: "program not stored",
    Reason.NO_CANDIDATE: "no candidate",
    Reason.AMBIGUOUS: "several candidates after lost kernels",
    Reason.UNKNOWN_LABEL: "label not in the stored HLO",
    Reason.NOT_ASKED: "program not asked for",
}
REASONS = tuple(reason.phrase for reason in Reason)
