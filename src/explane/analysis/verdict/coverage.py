"""Whether a capture shows enough of the GPUs for a verdict: every reason why it may not.

Each reason is one clause with its numbers. They are looked for from the gravest to the mildest:
no GPU events, lost or damaged records, launches or executions whose work is missing, clocks,
windows that hold no work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from explane.analysis.distinct import ranks
from explane.analysis.steps.executions import execute_events_of_kernels
from explane.analysis.steps.host_events import names_like
from explane.analysis.steps.launches import LaunchJoin
from explane.analysis.steps.steps import Steps
from explane.analysis.verdict.latency import median_t_l_ps
from explane.capture.host_names import DISPATCH, EXECUTE
from explane.capture.model import I32, Bools, Capture, NoteKind, latest_end_ps
from explane.units import PS_PER_MS, format_count, format_ps, format_ratio

#: Share of launches, executions or dispatches without GPU work that makes a capture incomplete.
MISSING_RATIO: Final = 0.1
#: Share of events with impossible times above which times can't be trusted.
BAD_TIME_RATIO: Final = 0.01
#: Below this share of GPU work in the host's window, and without steps, nothing can be said.
NEGLIGIBLE_RATIO: Final = 0.01
#: So many inferred steps after the first are a loop, however short beside the capture.
LEAST_INFERRED_STEPS: Final = 3
#: Share of graph launches whose number of kernels changes from step to step.
UNEVEN_RATIO: Final = 0.1
# Limits of the collectors (CUPTI 2 Mi, ROCm 4 Mi records): exactly so many events were cut off.
_LIMITS: Final = (2 * 1024 * 1024, 4 * 1024 * 1024)
_AFTER_PS: Final = PS_PER_MS


def coverage_problems(capture: Capture, join: LaunchJoin, steps: Steps) -> list[str]:
    """Reasons why the capture can't carry a verdict, the gravest first; empty when it can."""
    if not capture.kernels.time_ok.any():
        return [*_messages(capture), _no_kernels(capture, join)]
    finders: tuple[Iterator[str], ...] = (
        _losses(capture),
        _bad_times(capture),
        _no_durations(capture),
        _launches_without_kernels(join, capture),
        _executions_without_work(capture, join),
        _dispatch_after_last_kernel(capture, join),
        _uneven_graphs(capture, join, steps),
        _clocks(capture, join),
        _negligible_work(capture, steps),
    )
    return [text for found in finders for text in found]


def host_window(capture: Capture) -> tuple[int, int] | None:
    """First start and last end of everything on the host; None without host records."""
    tables = [t for t in (capture.host_events, capture.launches) if len(t)]
    if not tables:
        return None
    return min(int(t.start_ps.min()) for t in tables), max(map(latest_end_ps, tables))


def device_window(capture: Capture) -> tuple[int, int] | None:
    """First start and last end of the kernels with good times; None without any."""
    good = capture.kernels.time_ok
    if not good.any():
        return None
    starts, ends = capture.kernels.start_ps[good], capture.kernels.ends(good)
    return int(starts.min()), int(ends.max())


def _messages(capture: Capture) -> list[str]:
    return [f"the collector says: {text}" for text in (*capture.errors, *capture.warnings)]


def _no_kernels(capture: Capture, join: LaunchJoin) -> str:
    """Why there may be no GPU events: tracing failed, or the process launched nothing."""
    if len(capture.kernels):
        return f"no GPU event has a possible time ({format_count(len(capture.kernels))} recorded)"
    if join.n_launches:
        calls = format_count(join.n_launches)
        return f"{calls} launch calls were recorded but no kernel: device tracing failed"
    runs = int(names_like(capture, capture.host_events.name, DISPATCH).sum())
    if runs:
        return (
            f"the host executed programs ({format_count(runs)} execute calls) but there are no GPU"
            " events: device tracing failed (no permission, another profiler, or no collector)"
        )
    return "this process launched no GPU work: capture the process that runs the model"


def _losses(capture: Capture) -> Iterator[str]:
    """Records that the collector or the file lost."""
    for note in capture.notes:
        if note.kind == NoteKind.LOSS:
            yield f"the collector lost records ({note.text})"
        elif note.kind == NoteKind.DAMAGE:
            yield f"the file is damaged ({note.text})"
    n_events = len(capture.kernels) + sum(capture.markers.values())
    if n_events in _LIMITS:
        yield f"exactly {format_count(n_events)} GPU events: the collector's limit was reached"
    if capture.partial and not any(n.kind == NoteKind.DAMAGE for n in capture.notes):
        yield "only part of the file could be read"


def _bad_times(capture: Capture) -> Iterator[str]:
    n_bad = int((~capture.kernels.time_ok).sum())
    if n_bad > BAD_TIME_RATIO * len(capture.kernels):
        share = format_ratio(n_bad / len(capture.kernels))
        yield f"{format_count(n_bad)} GPU events ({share}) have impossible times"


def _no_durations(capture: Capture) -> Iterator[str]:
    """Most events begin and end at one moment: their ends were not recorded."""
    durations = capture.kernels.duration_ps[capture.kernels.time_ok]
    n_empty = len(durations) - int(np.count_nonzero(durations))
    if n_empty > 0.5 * len(durations):
        total = format_count(len(durations))
        yield f"{format_count(n_empty)} of {total} GPU events have no duration"


def _launches_without_kernels(join: LaunchJoin, capture: Capture) -> Iterator[str]:
    """Launches seen, kernels not recorded; graphs may be empty and say nothing."""
    empty = join.without_kernels & ~capture.launches.is_graph
    n_empty, n_all = int(empty.sum()), join.n_launches
    if n_empty > MISSING_RATIO * n_all:
        yield (
            f"launches seen, kernels not recorded: {format_count(n_empty)} of"
            f" {format_count(n_all)} launch calls have no kernel"
        )


def _executions_without_work(capture: Capture, join: LaunchJoin) -> Iterator[str]:
    """Executions on some device that left no launch with kernels.

    Events that don't name the program can't tell a program that launches nothing from lost work:
    with those, half of the executions must be empty.
    """
    for pattern, limit in zip(EXECUTE, (MISSING_RATIO, 0.5, 0.5), strict=False):
        wanted = names_like(capture, capture.host_events.name, pattern)
        n_all = int(wanted.sum())
        if not n_all:
            continue
        seen = execute_events_of_kernels(capture, join, wanted)
        n_empty = n_all - len(np.unique(seen[seen >= 0]))
        if n_empty > limit * n_all and _work_is_missing(capture, wanted, seen):
            yield (
                f"{format_count(n_empty)} of {format_count(n_all)} executions on the host show"
                " no GPU work"
            )
        return


def _work_is_missing(capture: Capture, wanted: Bools, seen: I32) -> bool:
    """False when the empty executions are of programs that never launch anything."""
    names = capture.host_events.name
    has = np.zeros(len(names), dtype=bool)
    has[seen[seen >= 0]] = True
    working = np.unique(names[has])
    return bool((wanted & ~has & np.isin(names, working)).any())


def _dispatch_after_last_kernel(capture: Capture, join: LaunchJoin) -> Iterator[str]:
    """Work given to the devices after the device records end."""
    window, host = device_window(capture), host_window(capture)
    if window is None or host is None:
        return
    events = capture.host_events
    given = names_like(capture, events.name, DISPATCH) | (events.step_num >= 0)
    starts = np.concatenate((events.start_ps[given], capture.launches.start_ps[join.is_launch]))
    n_after = int((starts > window[1] + _AFTER_PS).sum())
    if n_after > MISSING_RATIO * len(starts):
        yield (
            f"GPU events end {format_ps(host[1] - window[1])} before the host's, and"
            f" {format_count(n_after)} of {format_count(len(starts))} dispatches come after them"
            f" (GPU window {format_ps(window[1] - window[0])},"
            f" host window {format_ps(host[1] - host[0])})"
        )


def _uneven_graphs(capture: Capture, join: LaunchJoin, steps: Steps) -> Iterator[str]:
    """Graph launches at one place of the step whose number of kernels changes."""
    whole = np.isin(steps.kernel_index, steps.index[steps.complete])
    rows = np.flatnonzero(whole & (join.kernel_launch >= 0) & join.in_graph)
    rows = rows[capture.launches.is_graph[join.kernel_launch[rows]]]
    launch, first = np.unique(join.kernel_launch[rows], return_index=True)
    if len(launch) < 2:
        return
    device, step = capture.kernels.device[rows[first]], steps.kernel_index[rows[first]]
    order = np.lexsort((capture.launches.start_ps[launch], step, device))
    device, step, count = device[order], step[order], join.n_kernels[launch[order]]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(device) != 0) | (np.diff(step) != 0)
    begin = np.flatnonzero(new)
    place = np.arange(len(order)) - begin[np.cumsum(new) - 1]
    lane = ranks(device, place)
    low = np.full(lane.max() + 1, np.iinfo(np.int64).max, dtype=np.int64)
    high = np.zeros(lane.max() + 1, dtype=np.int64)
    np.minimum.at(low, lane, count)
    np.maximum.at(high, lane, count)
    n_uneven = int((low != high).sum())
    if n_uneven > UNEVEN_RATIO * len(low):
        worst = int(np.argmax(high - low))
        yield (
            f"kernels inside graphs are missing: {format_count(n_uneven)} of"
            f" {format_count(len(low))} graph launches of the step change their number of kernels"
            f" from step to step (one from {low[worst]} to {high[worst]})"
        )


def _clocks(capture: Capture, join: LaunchJoin) -> Iterator[str]:
    median = median_t_l_ps(capture, join)
    if median < 0:
        yield (
            "host and GPU clocks don't agree: most kernels start before their launch call"
            f" (median {format_ps(median)})"
        )


def _negligible_work(capture: Capture, steps: Steps) -> Iterator[str]:
    """Hardly any GPU work in the window, and no step after another: the wrong moment.

    A few executions of one program are no steps by themselves; markers are.
    """
    whole = steps.index[steps.complete & (steps.index > 0)]
    least = 1 if steps.source == "marker" else LEAST_INFERRED_STEPS
    text = small_window(capture)
    if text and len(np.unique(whole)) < least:
        yield f"{text}: probably the wrong moment"


def small_window(capture: Capture) -> str:
    """How little GPU work the captured time holds; empty when it is not negligible."""
    host, good = host_window(capture), capture.kernels.time_ok
    busy = int(capture.kernels.duration_ps[good].sum())
    length = host[1] - host[0] if host else 0
    if not 0 <= busy < NEGLIGIBLE_RATIO * length:
        return ""
    return (
        f"the window of {format_ps(length)} holds {format_ratio(busy / length, 2)} GPU work"
        f" ({format_count(int(good.sum()))} GPU events)"
    )
