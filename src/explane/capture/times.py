"""Which device events have times that can't be true.

The rule, in this order; an event that one part rejects keeps its row and is left out of every
span, sum and window:

1. *negative*: its duration is below zero (the end stamp is missing or older than the start).
2. *overflow*: start or duration is beyond 2**61 ps (26 days): no capture lasts that long.
3. *unset*: start and duration are both 0 while other device events' are not: the record was
   never filled. A zero duration at another time is honest.
4. *outlier*: it begins or ends far from everything else on the devices. At most one event in a
   hundred (at least one) may be called so on each side, and only when there is a gap between it
   and the others that is longer than one second and
   - it begins more than a second before the host call that launched it, or
   - it lies more than a second outside the window of the host events and either has no launch
     or the gap is ten times as long as all other device work, or
   - the capture has no host events and the gap is ten times as long as all other device work.
   Captures with fewer than four events are not judged.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from explane.capture.model import I64, Bools, HostEvents, Launches, Note, NoteKind, latest_end_ps
from explane.units import PS_PER_S

_LIMIT_PS: Final = 1 << 61
_LEAST_GAP_PS: Final = PS_PER_S
_LEAST_EVENTS: Final = 4
_GAP_RATIO: Final = 10


class _Timed(Protocol):
    """Device events as far as their times matter."""

    @property
    def start_ps(self) -> I64: ...

    @property
    def duration_ps(self) -> I64: ...

    @property
    def correlation_id(self) -> I64: ...


def judge_times(
    device: _Timed, launches: Launches, host_events: HostEvents
) -> tuple[Bools, list[Note]]:
    """`Kernels.time_ok` of device events, and a note for each reason with its count."""
    start, duration = device.start_ps, device.duration_ps
    negative = duration < 0
    overflow = ~negative & ((abs(start) >= _LIMIT_PS) | (duration >= _LIMIT_PS))
    zero = (start == 0) & (duration == 0)
    unset = zero if not zero.all() else np.zeros_like(zero)
    ok = ~(negative | overflow | unset)
    outlier = _outliers(device, ok, launches, host_events)
    reasons = (
        ("negative_duration", negative, "have a negative duration"),
        ("time_overflow", overflow, "have a time beyond any capture's length"),
        ("unset_time", unset, "have start and duration 0: their times were never recorded"),
        ("time_outlier", outlier, "are dated far outside everything else"),
    )
    notes = [
        Note(slug, NoteKind.DAMAGE, n, f"{n} device events {text}; they are in no span or sum")
        for slug, mask, text in reasons
        if (n := int(np.count_nonzero(mask)))
    ]
    return ok & ~outlier, notes


def _outliers(device: _Timed, ok: Bools, launches: Launches, host_events: HostEvents) -> Bools:
    """Part 4 of the rule, on the events that passed the others."""
    outlier = np.zeros_like(ok)
    rows = np.flatnonzero(ok)
    if len(rows) < _LEAST_EVENTS:
        return outlier
    start = device.start_ps[rows]
    end = start + device.duration_ps[rows]
    far_before = _beyond_gap(-start)
    far_after = _beyond_gap(end)
    suspects = far_before | far_after
    if not suspects.any():
        return outlier
    first = int(start[~suspects].min())
    last = int(end[~suspects].max())
    few = np.flatnonzero(suspects)
    gap = np.where(far_before[few], first - start[few], end[few] - last)
    isolated = gap > _GAP_RATIO * (last - first)
    suspect_rows = rows[few]
    outlier[suspect_rows[_condemned(device, suspect_rows, launches, host_events, isolated)]] = True
    return outlier


def _beyond_gap(position: I64) -> Bools:
    """Events past the widest gap of more than a second among the last hundredth of positions."""
    count = len(position)
    n_most = max(1, count // 100)
    tail = np.partition(position, count - n_most - 1)[count - n_most - 1 :]
    tail.sort()
    gaps = np.diff(tail)
    widest = int(gaps.argmax())
    if gaps[widest] <= _LEAST_GAP_PS:
        return np.zeros(count, dtype=bool)
    behind: Bools = position > tail[widest]
    return behind


def _condemned(
    device: _Timed,
    rows: I64,
    launches: Launches,
    host_events: HostEvents,
    isolated: Bools,
) -> Bools:
    """What host records say of some events; without any, only isolation counts."""
    if len(launches) == 0 and len(host_events) == 0:
        return isolated
    start = device.start_ps[rows]
    end = start + device.duration_ps[rows]
    launch_start = _launch_start(device.correlation_id[rows], launches)
    launched = launch_start != np.iinfo(np.int64).min
    early = launched & (start < launch_start - _LEAST_GAP_PS)
    first = min(int(t.start_ps.min()) for t in (launches, host_events) if len(t))
    last = max(latest_end_ps(t) for t in (launches, host_events) if len(t))
    outside = (start < first - _LEAST_GAP_PS) | (end > last + _LEAST_GAP_PS)
    impossible: Bools = early | (outside & (~launched | isolated))
    return impossible


def _launch_start(correlation_id: I64, launches: Launches) -> I64:
    """Start of the launch of each id; the least int64 when there is none."""
    none = np.full(len(correlation_id), np.iinfo(np.int64).min)
    if len(launches) == 0:
        return none
    order = np.argsort(launches.correlation_id, kind="stable")
    ids = launches.correlation_id[order]
    at = np.minimum(np.searchsorted(ids, correlation_id), len(ids) - 1)
    found = (ids[at] == correlation_id) & (correlation_id >= 0)
    return np.where(found, launches.start_ps[order][at], none)
