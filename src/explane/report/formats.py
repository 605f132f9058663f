"""How a claimed value is printed: one short word per format, one function per word.

The fact check does not use this module: it reads the printed text back with its own parser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from explane import units
from explane.report.text import shortened, shortened_path, visible

Value = int | float | str | None
"""What a query gives for one cell."""

NOTHING: Final = "—"
"""Printed for a missing value: never 0, never a blank that could be an oversight."""

NAME_LIMIT: Final = 56
"""Longest name printed; the tables hold it whole."""

PATH_LIMIT: Final = 48
PROSE_LIMIT: Final = 600


def _integer(value: float) -> str:
    return units.format_count(round(value))


def _identity(value: float) -> str:
    return str(int(value))


def _number(value: float) -> str:
    return f"{value:,.2f}"


def _time(value: float) -> str:
    return units.format_ps(value)


def _flop_rate(value: float) -> str:
    return units.format_rate(value, "FLOP/s")


def _byte_rate(value: float) -> str:
    return units.format_rate(value, "B/s")


def _amount(value: float) -> str:
    return units.format_rate(value, "FLOP")


_NUMBERS: Final[Mapping[str, Callable[[float], str]]] = {
    "count": _integer,
    "id": _identity,
    "number": _number,
    "ps": _time,
    "ratio": units.format_ratio,
    "bytes": units.format_bytes,
    "flop": _amount,
    "flop_per_s": _flop_rate,
    "byte_per_s": _byte_rate,
}
_TEXTS: Final[Mapping[str, Callable[[str], str]]] = {
    "name": lambda text: shortened(text, NAME_LIMIT),
    "path": lambda text: shortened_path(text, PATH_LIMIT),
    "scope": lambda text: shortened_path(text, PATH_LIMIT),
    "prose": lambda text: shortened(text, PROSE_LIMIT),
    "advice": lambda text: text,
    "code": lambda text: text,
    "verdict": lambda text: text,
    "word": lambda text: shortened(text, NAME_LIMIT),
}

NUMBER_FORMATS: Final = frozenset(_NUMBERS)


def printed(value: Value, unit: str) -> str:
    """A value as people read it.

    Args:
        value: Number for a number format, text for a text format; None, an empty text or a number
            that is not finite print as `NOTHING`.
        unit: A key of the tables above.

    Raises:
        KeyError: When the format is unknown.
    """
    if unit in _NUMBERS:
        if value is None or isinstance(value, str) or not math.isfinite(value):
            return NOTHING
        return _NUMBERS[unit](value)
    if value is None or value == "":
        return NOTHING
    return _TEXTS[unit](visible(str(value)))
