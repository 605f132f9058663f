"""The unit of a time axis, chosen once per chart."""

from __future__ import annotations

from dataclasses import dataclass

from explane.units import PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US


@dataclass(frozen=True, slots=True)
class AxisUnit:
    """A unit of time: its name and its length in picoseconds."""

    name: str
    size_ps: int


def axis_unit(span_ps: int) -> AxisUnit:
    """The largest unit in which a span has at least two units."""
    for name, size_ps in (("s", PS_PER_S), ("ms", PS_PER_MS), ("µs", PS_PER_US)):
        if span_ps >= 2 * size_ps:
            return AxisUnit(name, size_ps)
    return AxisUnit("ns", PS_PER_NS)
