"""Integer picoseconds, bytes and counts to text for people. Nothing else converts units."""

from __future__ import annotations

PS_PER_NS = 1_000
PS_PER_US = 1_000_000
PS_PER_MS = 1_000_000_000
PS_PER_S = 1_000_000_000_000

_TIME_UNITS = ((PS_PER_S, "s"), (PS_PER_MS, "ms"), (PS_PER_US, "µs"), (PS_PER_NS, "ns"))
_BYTE_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_RATE_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def format_ps(time_ps: float) -> str:
    """Picoseconds as text with three significant decimals, such as `12.345 ms`.

    The sign is kept. Below one nanosecond the plain count of picoseconds is given.
    """
    for size, unit in _TIME_UNITS:
        if abs(time_ps) >= size:
            return f"{time_ps / size:.3f} {unit}"
    return f"{time_ps:.0f} ps"


def format_bytes(size_bytes: float) -> str:
    """Bytes as text in binary units, such as `1.50 MiB`."""
    for size, unit in _BYTE_UNITS:
        if abs(size_bytes) >= size:
            return f"{size_bytes / size:.2f} {unit}"
    return f"{size_bytes:.0f} B"


def format_ratio(ratio: float, decimals: int = 1) -> str:
    """A ratio (0 to 1) as per cent; `0 %` and `100 %` only when exact.

    A share that would round to 0 or 100 is printed as beyond the nearest other value, since
    "100 % attributed" would be a false claim when one kernel is missing: `< 0.1 %`, `> -0.1 %`
    for a change that is next to none, `> 99.9 %`.
    """
    percent = 100.0 * ratio
    step = 10.0**-decimals
    text = f"{percent:.{decimals}f}"
    if ratio not in (0.0, 1.0):
        if float(text) == 0.0:
            return f"{'< ' if ratio > 0 else '> -'}{step:.{decimals}f} %"
        if float(text) == 100.0 and ratio < 1:
            return f"> {100 - step:.{decimals}f} %"
    elif ratio in (0.0, 1.0):
        text = f"{percent:.0f}"
    return f"{text} %"


def format_rate(rate: float, unit: str) -> str:
    """A rate with an SI prefix, such as `989.4 TFLOP/s` for unit `FLOP/s`."""
    if rate == 0:
        return f"0 {unit}"
    for size, prefix in _RATE_UNITS:
        if abs(rate) >= size:
            return f"{rate / size:.1f} {prefix}{unit}"
    return f"{rate:.1f} {unit}"


def format_count(count: int) -> str:
    """A count with a thin grouping of thousands, such as `24,816`."""
    return f"{count:,}"
