"""From what a user points at to the files of one run, by one rule.

The rule, in this order:

1. A file is taken as it is. An `.xplane.pb` brings the `.trace.json.gz` (else `.trace.json`) of
   the same host beside it; a JSON that is named is read alone.
2. A folder that holds an `.xplane.pb` is a run. Otherwise it and all folders below are searched
   (links are followed, each folder once; hidden folders and outputs of explane are left out);
   those with an `.xplane.pb` or a trace JSON are runs.
3. Of several runs the newest is taken: run folders are named by their start time and compared by
   it, folders with other names come before all of these, ties go by path. File times are not
   looked at, since copying changes them.
4. All hosts of that run are taken. In a run with xplane files a JSON without an xplane of the same
   host is left out, since copies and extracts of traces often lie beside them.
5. Several paths are resolved one by one, and their hosts joined.
6. A URL (`s3://…`) is resolved by the same rule from the names below it; nothing is copied yet. A
   file that a URL names is taken alone.

What was left out is listed with its reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from explane.capture.filenames import FileRole, host_stem, role_of, run_time, why_derived
from explane.capture.folders import Folder, listed, search
from explane.capture.remote import RemoteTree, remote_tree, scheme_of
from explane.errors import CaptureError, UsageError

_LOG_DIR: Final = "give the folder that jax.profiler.start_trace was given, or a file in it"
_MADE_ELSEWHERE: Final = "an output of explane"


@dataclass(frozen=True, slots=True)
class HostFiles:
    """The files of one process in one run.

    Attributes:
        host: Label, unique in a `Discovery`: the part of the file names before `.xplane.pb`,
            with the run's folder name behind it when two runs have the same.
        run: The folder that holds them.
        xplane: `<host>.xplane.pb`, or None.
        trace_json: `<host>.trace.json.gz` or `.trace.json`, or None.
        url: URL of the folder when the files are remote; the paths then only name them, and
            `load_host` copies them here.
    """

    host: str
    run: Path
    xplane: Path | None
    trace_json: Path | None
    url: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file or folder that was seen and not used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was chosen and what was not.

    Attributes:
        hosts: Chosen processes, sorted by run and host. Never empty.
        runs: The run folders that they are from.
        other_runs: Runs that were passed over for a newer one, newest first.
        ignored: Files and folders that were not used, with the reason.
    """

    hosts: tuple[HostFiles, ...]
    runs: tuple[Path, ...]
    other_runs: tuple[Path, ...]
    ignored: tuple[Ignored, ...]


def discover(paths: Sequence[str | Path]) -> Discovery:
    """Finds the capture files that paths lead to, by the rule above.

    Args:
        paths: Files, run folders, `plugins/profile`, log folders, or parents of these.

    Raises:
        UsageError: No path was given, or an empty one.
        CaptureError: A path doesn't exist, can't be reached, or leads to no capture.
    """
    if not paths:
        raise UsageError("CAPTURE", "no path given", _LOG_DIR, "no-path")
    found = [_discover(os.fspath(path)) for path in paths]
    hosts = _joined(host for one in found for host in one.hosts)
    runs = tuple(dict.fromkeys(host.run for host in hosts))
    other_runs = tuple(dict.fromkeys(run for one in found for run in one.other_runs))
    ignored = tuple(dict.fromkeys(item for one in found for item in one.ignored))
    used = {path for host in hosts for path in (host.xplane, host.trace_json)}
    return Discovery(
        hosts,
        runs,
        tuple(run for run in other_runs if run not in runs),
        tuple(item for item in ignored if item.path not in used),
    )


def _discover(text: str) -> Discovery:
    """What one path leads to; what exists here is no URL, whatever it looks like."""
    exists = bool(text) and "\0" not in text and os.path.lexists(text)
    if not exists and scheme_of(text):
        return _remote(text)
    return _discover_one(_local(text, exists=exists))


def _local(text: str, *, exists: bool) -> Path:
    """A path of this machine; refuses empty and missing ones."""
    if not text:
        raise UsageError("CAPTURE", "an empty path was given", _LOG_DIR, "no-path")
    if exists:
        if Path(text).exists():
            return Path(text)
        raise CaptureError(text, "a link that leads nowhere", "give the real path", "no-such-path")
    raise CaptureError(text, "no such file or folder", _LOG_DIR, "no-such-path")


def _remote(url: str) -> Discovery:
    """What a URL leads to: names alone are looked at, no file is copied."""
    with remote_tree(url) as tree:

        def named(path: Path) -> Path:
            return Path(tree.url_of(path)) if path.is_relative_to(tree.path) else Path(url)

        try:
            found = _discover_one(tree.path)
        except CaptureError as error:
            place = error.subject.replace(str(tree.path), tree.url)
            raise CaptureError(place, error.reason, error.remedy, error.slug) from None
        hosts = tuple(_remote_host(host, tree, named) for host in found.hosts)
        return Discovery(
            hosts=hosts,
            runs=tuple(dict.fromkeys(host.run for host in hosts)),
            other_runs=tuple(named(run) for run in found.other_runs),
            ignored=tuple(Ignored(named(item.path), item.reason) for item in found.ignored),
        )


def _remote_host(host: HostFiles, tree: RemoteTree, named: Callable[[Path], Path]) -> HostFiles:
    """A host's files by the URLs that they stand for."""
    is_file = host.run == tree.root
    url = tree.url.rpartition("/")[0] if is_file else tree.url_of(host.run)
    return replace(
        host,
        run=Path(url),
        xplane=host.xplane and named(host.xplane),
        trace_json=host.trace_json and named(host.trace_json),
        url=url,
    )


def _discover_one(path: Path) -> Discovery:
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        return _named_file(path)
    raise CaptureError(path, "neither a file nor a folder", _LOG_DIR, "no-such-path")


def _named_file(path: Path) -> Discovery:
    """A file that the user named: taken whatever its name, unless it can't be a capture."""
    run, stem = path.parent, host_stem(path.name)
    if why_derived(path.name) and "perfetto" not in path.name:
        reason = f"no capture: {why_derived(path.name)}"
        raise CaptureError(path, reason, "give the .xplane.pb or .trace.json.gz", "derived-file")
    beside = run / f"{stem}.xplane.pb" if stem else run / "xplane.pb"
    if _is_json(path):
        host = HostFiles(_label(stem, run), run, None, path)
        reason = "the JSON was named, so it is read alone"
        ignored = (Ignored(beside, reason),) if beside.is_file() and beside != path else ()
        return Discovery((host,), (run,), (), ignored)
    host = HostFiles(_label(stem, run), run, path, _json_beside(path, stem))
    return Discovery((host,), (run,), (), ())


def _is_json(path: Path) -> bool:
    """Whether a named file is a trace JSON: by its name, else by its first bytes."""
    role = role_of(path.name)
    if role in (FileRole.XPLANE, FileRole.TRACE_JSON):
        return role is FileRole.TRACE_JSON
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise CaptureError(path, f"can't be read: {error.strerror}", "", "unreadable") from None
    return head.startswith(b"\x1f\x8b") or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def _json_beside(path: Path, stem: str) -> Path | None:
    if role_of(path.name) is not FileRole.XPLANE:
        return None
    endings = (".trace.json.gz", ".trace.json") if stem else ("trace.json.gz", "trace.json")
    found = (path.parent / f"{stem}{ending}" for ending in endings)
    return next((json for json in found if json.is_file()), None)


def _in_folder(root: Path) -> Discovery:
    folder = listed(root)
    if folder.is_output:
        raise CaptureError(
            root,
            f"{_MADE_ELSEWHERE}, not a capture",
            "give the folder of the capture",
            "own-output",
        )
    if folder.of_role(FileRole.XPLANE):
        return _of_run(folder)
    tree = search(root)
    runs = sorted((f for f in tree.folders if f.holds_capture), key=_age, reverse=True)
    outputs = [Ignored(path, _MADE_ELSEWHERE) for path in tree.outputs]
    outputs += [Ignored(path, reason) for path, reason in tree.unreadable]
    if not runs:
        raise _nothing_found(root, tree.folders)
    chosen = _of_run(runs[0])
    newer_empty = [
        Ignored(f.path, "newer, but holds no capture; did the process die in stop_trace?")
        for f in tree.folders
        if not f.holds_capture and run_time(f.path.name) > (run_time(runs[0].path.name) or (9999,))
    ]
    older = tuple(f.path for f in runs[1:])
    ignored = (*chosen.ignored, *newer_empty, *outputs)
    return replace(chosen, other_runs=older, ignored=ignored)


def _age(folder: Folder) -> tuple[tuple[int, ...], str, str]:
    """Sort key of runs: by the time in the name, then by name and path."""
    return run_time(folder.path.name), folder.path.name, str(folder.path)


def _of_run(folder: Folder) -> Discovery:
    """All hosts of one run folder."""
    xplanes = {host_stem(path.name): path for path in folder.of_role(FileRole.XPLANE)}
    jsons: dict[str, Path] = {}
    ignored = [Ignored(path, reason) for path, reason in folder.not_captures()]
    for path in folder.of_role(FileRole.TRACE_JSON):  # sorted: `.json` comes before `.json.gz`
        stem = host_stem(path.name)
        if xplanes and stem not in xplanes:
            ignored.append(Ignored(path, "no xplane of this name; name the file to read it alone"))
            continue
        if stem in jsons:
            ignored.append(Ignored(jsons[stem], f"the same as {path.name}, by its name"))
        jsons[stem] = path
    hosts = [
        HostFiles(_label(stem, folder.path), folder.path, xplanes.get(stem), jsons.get(stem))
        for stem in sorted(xplanes.keys() | jsons.keys())
    ]
    return Discovery(tuple(hosts), (folder.path,), (), tuple(ignored))


def _nothing_found(root: Path, folders: Sequence[Folder]) -> CaptureError:
    """The error for a folder without a capture: what was looked for and what may have happened."""
    unfinished = [path for folder in folders for path in folder.of_role(FileRole.UNFINISHED)]
    dead_run = any(
        run_time(folder.path.name) or folder.path == root
        for folder in folders
        if not folder.files and not folder.n_folders
    )
    if unfinished or dead_run:
        left = f" (left: {unfinished[0].name})" if unfinished else ""
        reason = f"no capture in this folder{left}; the process may have died in stop_trace"
        return CaptureError(root, reason, "capture again, for a shorter time", "no-capture")
    derived = [path for folder in folders for path in folder.of_role(FileRole.DERIVED)]
    if derived:
        reason = f"no capture in this folder, only files made from one ({derived[0].name})"
        return CaptureError(root, reason, _LOG_DIR, "no-capture")
    where = "in it" if len(folders) == 1 else f"in its {len(folders)} folders"
    reason = f"no capture: looked for *.xplane.pb and *.trace.json.gz {where}"
    return CaptureError(root, reason, _LOG_DIR, "no-capture")


def _label(stem: str, run: Path) -> str:
    text = stem or run.resolve().name or "capture"
    return text.encode("utf-8", "replace").decode()


def _joined(hosts: Iterable[HostFiles]) -> tuple[HostFiles, ...]:
    """Hosts of several paths: the same files once, two files of one host joined, labels unique."""
    by_place: dict[tuple[Path, str], HostFiles] = {}
    for host in hosts:
        place = (host.run.resolve(), host.host)
        seen = by_place.get(place)
        if seen is not None:
            host = replace(
                seen,
                xplane=seen.xplane or host.xplane,
                trace_json=seen.trace_json or host.trace_json,
            )
        by_place[place] = host
    return _labelled(sorted(by_place.items(), key=lambda item: item[0]))


def _labelled(placed: Sequence[tuple[tuple[Path, str], HostFiles]]) -> tuple[HostFiles, ...]:
    """Hosts with labels that differ: `node1@run` when two runs have a `node1`."""
    names = [host.host for _, host in placed]
    labels = list(names)
    for n_parts in range(1, 64):
        if len(set(labels)) == len(labels):
            break
        labels = [
            f"{name}@{'/'.join(place[0].parts[-n_parts:])}" if names.count(name) > 1 else name
            for name, (place, _) in zip(names, placed, strict=True)
        ]
    made = (replace(host, host=label) for label, (_, host) in zip(labels, placed, strict=True))
    return tuple(made)
