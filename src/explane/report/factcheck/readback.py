"""Printed values read back: does a text say what a value is, at the precision that it prints?"""

from __future__ import annotations

import math
import re
from typing import Final

from explane.report.formats import NOTHING, Value
from explane.report.text import visible

_NUMBER: Final = r"-?\d{1,3}(?:,\d{3})*(?:\.\d+)?|-?\d+(?:\.\d+)?"
_TIMES: Final = {"ps": 1.0, "ns": 1e3, "µs": 1e6, "ms": 1e9, "s": 1e12}
_BYTES: Final = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_PREFIXES: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_UNITS: Final = {
    "ps": _TIMES,
    "bytes": _BYTES,
    "ratio": {"%": 0.01},
    "number": {"": 1.0},
    "flop": {f"{p}FLOP": size for p, size in _PREFIXES.items()},
    "flop_per_s": {f"{p}FLOP/s": size for p, size in _PREFIXES.items()},
    "byte_per_s": {f"{p}B/s": size for p, size in _PREFIXES.items()},
}
_SHAPE: Final = re.compile(rf"(?P<bound>[<>] )?(?P<number>{_NUMBER})(?: (?P<unit>\D+))?")


def says(text: str, value: Value, unit: str) -> bool:
    """Whether a printed text states a value.

    A number agrees when the value lies within half a unit of the text's last digit; counts and
    ids agree exactly; names agree as far as they are printed.

    Args:
        text: As printed, without escapes.
        value: The value that it should state.
        unit: Format word.
    """
    if value is None or value == "" or (isinstance(value, float) and not math.isfinite(value)):
        return text == NOTHING
    if unit in ("count", "id"):
        return isinstance(value, int | float) and _is_count(text, value, unit == "count")
    if unit in _UNITS:
        return isinstance(value, int | float) and _is_number(text, float(value), _UNITS[unit])
    return _is_name(text, visible(str(value)))


def plain(written: str) -> str:
    """A value as written in Markdown, without its code fence and escapes."""
    fence = re.match(r"`+", written)
    if fence and len(written) > 2 * len(fence.group()) and written.endswith(fence.group()):
        inner = written[fence.end() : -fence.end()].replace("\\|", "|")
        padded = inner.startswith(" ") and inner.endswith(" ") and "`" in inner
        return inner[1:-1] if padded else inner
    return re.sub(r"\\([^A-Za-z0-9\s])", r"\1", written)


def _is_count(text: str, value: float, grouped: bool) -> bool:
    if not re.fullmatch(r"-?\d{1,3}(,\d{3})*" if grouped else r"-?\d+", text):
        return False
    return int(text.replace(",", "")) == round(value)


def _is_number(text: str, value: float, sizes: dict[str, float]) -> bool:
    match = _SHAPE.fullmatch(text)
    if match is None or (match["unit"] or "") not in sizes or not math.isfinite(value):
        return False
    number, size = match["number"].replace(",", ""), sizes[match["unit"] or ""]
    stated, seen = float(number), value / size
    if match["unit"] == "%" and "." not in number:  # a whole share is stated only when exact
        return stated == seen
    if match["bound"]:
        return seen < stated if match["bound"] == "< " else seen > stated
    half = 0.5 * 10.0 ** -len(number.partition(".")[2])
    return abs(seen - stated) <= half * (1 + 1e-6) + abs(seen) * 1e-12


def _is_name(text: str, full: str) -> bool:
    if text == full:
        return True
    head, cut, tail = text.partition("…")
    fits = full.startswith(head) and full.endswith(tail)
    return bool(cut) and fits and len(head) + len(tail) < len(full)
