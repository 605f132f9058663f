"""One process's files to what is known of it: the main record, and the JSON beside it.

The xplane is the main record, since the JSON lacks programs, kernel details and everything after
the first million events. The JSON takes over when the xplane can't be read, or when it is damaged
and the JSON holds more GPU events; programs and session that the damaged xplane still gave are
kept then. `HostCapture` says in words what was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from explane.capture.discover import HostFiles
from explane.capture.foreign import is_plainly_xla, refusal
from explane.capture.model import Capture, HostCapture, Kind, Note, NoteKind
from explane.capture.options import ReadOptions
from explane.capture.remote import fetched
from explane.capture.trace_json import read_trace_json
from explane.capture.xplane import read_xplane
from explane.errors import CaptureError
from explane.units import format_ps

XLA_EVENT_CAP: Final = 1_000_000
"""XLA's default limit of trace events in a JSON (TF_PROFILER_TRACE_VIEWER_MAX_EVENTS)."""

_FEW_EVENTS_RATIO: Final = 10
_LEAST_LAUNCHES: Final = 20
_Reader = Callable[[Path, ReadOptions], Capture]


def load_host(files: HostFiles, options: ReadOptions | None = None) -> HostCapture:
    """Reads one process's files.

    Args:
        files: An xplane, a trace JSON, or both; remote ones are copied here and removed again.
        options: What to leave out of the main record.

    Returns:
        The capture, labelled with `files.host`. Its `session` has the stored host name as
        `hostname` when that differs.

    Raises:
        CaptureError: Neither file can be used, or they hold nothing that can be analysed (TPU,
            CPU backend, no device events, not XLA, …); one line with path, reason and remedy.
    """
    if files.url:
        paths = [path for path in (files.xplane, files.trace_json) if path is not None]
        with fetched(files.url, [path.name for path in paths]) as folder:
            return load_host(_in_folder(files, folder), options)
    options = options or ReadOptions()
    xplane, xplane_error = _read(files.xplane, read_xplane, options)
    beside = options if xplane is None else replace(options, python_events=False)
    json, json_error = _read(files.trace_json, read_trace_json, beside)
    problem = xplane_error.reason if xplane_error else ""
    if xplane is None and json is None:
        raise _unusable(files, [error for error in (xplane_error, json_error) if error])
    if xplane is not None and (json is None or not _is_better(json, xplane)):
        main = xplane
    elif xplane is not None and json is not None:
        main, problem = _taken_over(read_trace_json(json.path, options), xplane), _why(xplane)
    elif json is not None:
        main = json
    _refuse_foreign(main, options, problem)
    return _finished(
        HostCapture(
            main=_labelled(main, files.host),
            json=None if json is None or main.source == "json" else _labelled(json, files.host),
            json_problem=json_error.reason if json_error else "",
            xplane_problem=problem,
        )
    )


def _in_folder(files: HostFiles, folder: Path) -> HostFiles:
    """The same files where they were copied to."""
    return replace(
        files,
        run=folder,
        xplane=files.xplane and folder / files.xplane.name,
        trace_json=files.trace_json and folder / files.trace_json.name,
        url="",
    )


def _refuse_foreign(main: Capture, options: ReadOptions, problem: str) -> None:
    """Raises when the main record holds nothing to analyse.

    Only the names of host events tell some kinds apart, so they are read where options left them
    out.
    """
    if is_plainly_xla(main):
        found = refusal(main)
    else:
        reader = read_xplane if main.source == "xplane" else read_trace_json
        complete = options.host_planes and options.host_events and options.short_events
        found = refusal(main if complete else reader(main.path, ReadOptions()))
    if found is None:
        return
    if problem:
        reason = f"{found.reason} (and the xplane beside it can't be used: {problem})"
        raise CaptureError(found.subject, reason, found.remedy, found.slug)
    raise found


def _read(
    path: Path | None, reader: _Reader, options: ReadOptions
) -> tuple[Capture | None, CaptureError | None]:
    """A file's capture, or why it can't be read; neither when there is no file."""
    if path is None:
        return None, None
    try:
        return reader(path, options), None
    except CaptureError as error:
        return None, error


def _is_better(json: Capture, xplane: Capture) -> bool:
    """Whether the JSON is to take over from an xplane that was read."""
    more = len(json.kernels) > len(xplane.kernels)
    return more and (xplane.partial or not len(xplane.kernels))


def _taken_over(json: Capture, xplane: Capture) -> Capture:
    """The JSON as main record, with what only the xplane can give."""
    return replace(
        json,
        programs=xplane.programs,
        session={**xplane.session, **json.session},
        errors=xplane.errors,
        warnings=xplane.warnings,
        notes=(*json.notes, *(note for note in xplane.notes if note.kind is not NoteKind.INFO)),
        partial=True,
    )


def _why(xplane: Capture) -> str:
    damage = (note.text for note in xplane.notes if note.kind is NoteKind.DAMAGE)
    return next(damage, "it holds fewer GPU events than the JSON")


def _unusable(files: HostFiles, errors: Sequence[CaptureError]) -> CaptureError:
    """The error when no file could be read: that of the xplane, with the JSON's behind it."""
    if not errors:
        return CaptureError(files.run, f"no capture of {files.host} in it", "", "no-capture")
    first = errors[0]
    if len(errors) == 1:
        return first
    reason = f"{first.reason}; nor can {errors[1].subject} be used: {errors[1].reason}"
    return CaptureError(first.subject, reason, "copy both again, or capture again", first.slug)


def _labelled(capture: Capture, host: str) -> Capture:
    if capture.host == host:
        return capture
    return replace(capture, host=host, session={"hostname": capture.host, **capture.session})


def _finished(host: HostCapture) -> HostCapture:
    """The capture with notes that only a look at both files, or at both sides, gives."""
    main, json = host.main, host.json
    notes = _lost_kernels(main)
    if json is not None:
        cut = _cut(json, main)
        json = replace(json, notes=(*json.notes, *cut)) if cut else json
    elif main.source == "json":
        notes += _capped(main)
    if notes:
        main = replace(main, notes=(*main.notes, *notes))
    return replace(host, main=main, json=json)


def _lost_kernels(capture: Capture) -> list[Note]:
    """A note when launches were seen but, but for a few copies, no kernels.

    The GPU was not idle then: the collector did not record what ran.
    """
    launches, kernels = capture.launches, capture.kernels
    copies = np.isin(kernels.kind, (Kind.MEMCPY, Kind.MEMSET))
    n_launches = len(launches)
    few = len(kernels) * _FEW_EVENTS_RATIO <= n_launches and n_launches >= _LEAST_LAUNCHES
    if not few or not copies.all():
        return []
    text = (
        f"{n_launches:,} launch calls were seen, but only {len(kernels):,} copies and fills and "
        "no kernel were recorded: what the GPU did is not in this capture"
    )
    return [Note("kernels_not_recorded", NoteKind.LOSS, n_launches - len(kernels), text)]


def _cut(json: Capture, xplane: Capture) -> list[Note]:
    """A note when the JSON ends before the GPU events of the xplane do.

    XLA keeps the earliest events of all planes, so an uncut JSON has an event at or after the
    start of every GPU event.
    """
    tables = (json.kernels, json.launches, json.host_events)
    last = max((int(table.start_ps.max()) for table in tables if len(table)), default=0)
    valid = xplane.kernels.start_ps[xplane.kernels.time_ok]
    n_later = int(np.count_nonzero(valid > last))
    if not n_later:
        return []
    text = (
        f"the trace JSON is cut: it ends {format_ps(last)} after the session's start; "
        f"{n_later:,} of the xplane's {len(xplane.kernels):,} GPU events begin later "
        f"(the last at {format_ps(int(valid.max()))}), totals are the xplane's"
    )
    return [Note("json_cut", NoteKind.INFO, n_later, text)]


def _capped(json: Capture) -> list[Note]:
    """A note when a JSON that stands alone holds as many events as XLA keeps by default."""
    n_events = json.session.get("n_trace_events", 0)
    if not isinstance(n_events, int) or n_events < XLA_EVENT_CAP:
        return []
    text = (
        f"the trace JSON holds {n_events:,} events; XLA keeps the earliest {XLA_EVENT_CAP:,} by "
        "default, so the end of the capture is probably missing and totals are lower bounds"
    )
    return [Note("json_capped", NoteKind.LOSS, n_events, text)]
