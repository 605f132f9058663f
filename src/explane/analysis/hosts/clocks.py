"""Clocks of several processes, compared by the collectives that they end together.

    own end = reference's end + offset + drift * (reference's end - at)

One process is the reference. The line is fitted through the ends of matched collectives; what is
left is the residual: the error of every comparison between the two. Collectives whose ends scatter
more than others' (those that stay inside a process) are left out. Where steps carry no numbers,
every shift by whole steps is tried: real steps are uneven, so that one shift fits far better than
the next; where none does, or where matched collectives would not even overlap, the clocks stay
apart and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.analysis.hosts.marks import F64, AllMarks, Marks

_LEAST_MARKS: Final = 3
_MOST_SHIFT: Final = 64
_SCATTER_RATIO: Final = 3.0
"""A collective whose ends scatter this many times more than the best third's is no mark."""
_LEAST_SCATTER_PS: Final = 2_000_000
"""Scatter that any collective may have: GPUs leave one within a few microseconds."""
_CLEAR_RATIO: Final = 2.0
_OVERLAP_RATIO: Final = 0.9
_PPM: Final = 1e6

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Clock:
    """How one process's clock stands to the reference's; see the module for the line.

    Attributes:
        host: The process.
        reference: The process whose clock is taken as it is.
        aligned: Whether times of the two can be compared.
        note: Why not, or what is to be known of it; empty when there is nothing to say.
        at_ps: Time of the reference for which the offset is given.
        offset_ps: Own clock less the reference's.
        drift_ppm: How much faster it runs, in parts per million.
        drift_error_ppm: Standard error of that.
        residual_ps: Median distance of the marks from the line.
        worst_ps: The largest.
        n_marks: Collectives that the line was fitted through.
        shift: Own step number less the reference's, for the same step.
        slots: Which collectives are marks.
    """

    host: str
    reference: str
    aligned: bool
    note: str = ""
    at_ps: int = 0
    offset_ps: int = 0
    drift_ppm: float = 0.0
    drift_error_ppm: float = 0.0
    residual_ps: int = 0
    worst_ps: int = 0
    n_marks: int = 0
    shift: int = 0
    slots: Mask | None = None

    def to_reference(self, own_ps: F64) -> F64:
        """Times of this process in the reference's clock."""
        drift = self.drift_ppm / _PPM
        time: F64 = self.at_ps + (own_ps - self.at_ps - self.offset_ps) / (1 + drift)
        return time


@dataclass(frozen=True, slots=True)
class _Line:
    """A fit: own = reference + offset + slope * (reference - at)."""

    at: float
    offset: float
    slope: float
    slope_error: float
    left: F64
    used: Mask

    @property
    def scatter(self) -> float:
        """Median distance of the used marks from the line."""
        return float(np.median(np.abs(self.left[self.used])))


def align_clocks(marks: AllMarks) -> list[Clock]:
    """The clock of each process that has marks.

    Args:
        marks: Marks of all processes.
    """
    if not marks.hosts:
        return []
    fullest = max(marks.hosts, key=lambda one: np.count_nonzero(~np.isnan(one.end_ps)))
    return [_clock(one, fullest) for one in marks.hosts]


def _clock(own: Marks, reference: Marks) -> Clock:
    if own is reference:
        slots: Mask = np.any(~np.isnan(own.end_ps), axis=0)
        return Clock(own.host, own.host, True, slots=slots)
    apart = Clock(own.host, reference.host, False)
    fits = sorted(_fits(own, reference), key=lambda found: found[1].scatter)
    if not fits:
        return replace(apart, note="too few collectives that both have")
    shift, line = fits[0]
    if len(fits) > 1 and fits[1][1].scatter < _CLEAR_RATIO * max(line.scatter, 1.0):
        return replace(apart, note="steps carry no numbers, and several shifts fit equally well")
    overlap = _overlap(own, reference, shift, line)
    slots = np.any(line.used, axis=0)
    clock = Clock(
        host=own.host,
        reference=reference.host,
        aligned=overlap >= _OVERLAP_RATIO,
        at_ps=round(line.at),
        offset_ps=round(line.offset),
        drift_ppm=line.slope * _PPM,
        drift_error_ppm=line.slope_error * _PPM,
        residual_ps=round(line.scatter),
        worst_ps=round(float(np.abs(line.left[line.used]).max())),
        n_marks=int(line.used.sum()),
        shift=shift,
        slots=slots,
    )
    if clock.aligned:
        return clock
    reason = f"matched collectives overlap in {overlap:.0%} of the cases only"
    return replace(clock, note=f"{reason}: the processes don't wait for each other")


def _fits(own: Marks, reference: Marks) -> Iterator[tuple[int, _Line]]:
    """Each possible shift of step numbers with its line."""
    if own.counted and reference.counted:
        shifts = range(1)
    else:
        first = own.first_step - reference.first_step
        reach = min(_MOST_SHIFT, len(own.end_ps) + len(reference.end_ps))
        shifts = range(first - reach, first + reach + 1)
    shorter = min(len(own.end_ps), len(reference.end_ps))
    for shift in shifts:
        mine, theirs = _rows(own, reference, shift)
        if len(mine) and (len(shifts) == 1 or 2 * len(mine) >= shorter):
            line = _line(theirs, mine)
            if line is not None:
                yield shift, line


def _rows(own: Marks, reference: Marks, shift: int, what: str = "end_ps") -> tuple[F64, F64]:
    """The same steps of both: own step number = the reference's + shift."""
    begin = max(own.first_step, reference.first_step + shift)
    end = min(
        own.first_step + len(own.end_ps), reference.first_step + shift + len(reference.end_ps)
    )
    a, b = begin - own.first_step, begin - shift - reference.first_step
    n = max(end - begin, 0)
    return getattr(own, what)[a : a + n], getattr(reference, what)[b : b + n]


def _line(x: F64, y: F64) -> _Line | None:
    """The line through marks, without those that scatter; None when too few are left."""
    used = ~(np.isnan(x) | np.isnan(y))
    if used.sum() < _LEAST_MARKS:
        return None
    at = float(x[used].min())
    offset, slope = _robust(x - at, y - x, used)
    for _ in range(3):
        left = y - x - offset - slope * (x - at)
        used = _steady(left, used)
        offset, slope, error = _least_squares((x - at)[used], (y - x)[used])
    left = y - x - offset - slope * (x - at)
    return _Line(at, offset, slope, error, left, used)


def _robust(x: F64, d: F64, used: Mask) -> tuple[float, float]:
    """A first line through the medians of the early and the late half of the marks."""
    times, apart = x[used], d[used]
    middle = np.median(times)
    early, late = times <= middle, times > middle
    if not late.any():
        return float(np.median(apart)), 0.0
    width = np.median(times[late]) - np.median(times[early])
    slope = (np.median(apart[late]) - np.median(apart[early])) / width
    return float(np.median(apart - slope * times)), float(slope)


def _steady(left: F64, used: Mask) -> Mask:
    """Marks of collectives that scatter little, without single ones far off."""
    distance = np.where(used, np.abs(left), np.nan)
    some = used.any(axis=0)
    by_slot = np.full(left.shape[1], np.inf)
    by_slot[some] = np.nanmedian(distance[:, some], axis=0)
    best = float(np.quantile(by_slot[some], 1 / 3))
    bound = _SCATTER_RATIO * max(best, _LEAST_SCATTER_PS)
    kept: Mask = used & (by_slot <= bound) & (distance <= 2 * bound)
    return kept if kept.sum() >= _LEAST_MARKS else used


def _least_squares(x: F64, d: F64) -> tuple[float, float, float]:
    """Offset, slope and the slope's standard error."""
    width = x - x.mean()
    square = float(width @ width)
    if square == 0.0 or len(x) < _LEAST_MARKS:
        return float(np.median(d)), 0.0, 0.0
    slope = float(width @ (d - d.mean())) / square
    offset = float(d.mean() - slope * x.mean())
    left = d - offset - slope * x
    return offset, slope, float(np.sqrt(left @ left / max(len(x) - 2, 1) / square))


def _overlap(own: Marks, reference: Marks, shift: int, line: _Line) -> float:
    """Share of the marks where each joins before the other ends: else they wait for no one."""
    ends, their_ends = _rows(own, reference, shift)
    starts, their_starts = _rows(own, reference, shift, "start_ps")
    theirs_now = their_ends + line.offset + line.slope * (their_ends - line.at)
    joined = their_starts + line.offset + line.slope * (their_starts - line.at)
    slack = abs(line.scatter)
    meet = (starts <= theirs_now + slack) & (joined <= ends + slack)
    return float(meet[line.used].mean())
