"""What a file beside a capture is, told by its name alone.

Names follow what jax, XLA and XProf write into `<logdir>/plugins/profile/<run>/`. A name says only
where to look: readers judge content by its first bytes.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

XPLANE_ENDINGS: Final = (".xplane.pb",)
JSON_ENDINGS: Final = (".trace.json.gz", ".trace.json")
UNFINISHED_ENDINGS: Final = (".tmp", ".temp", ".part", ".partial", ".tempstate", ".crdownload")
OUTPUT_MARKER: Final = ".explane"
"""A file of this name marks a folder as an output of explane."""

_BARE_NAMES: Final = {"xplane.pb": "xplane", "trace.json.gz": "json", "trace.json": "json"}
_RUN_NAME: Final = re.compile(r"(\d{4})\D?(\d\d)\D?(\d\d)\D{0,2}(\d\d)\D?(\d\d)\D?(\d\d)")
_STATS: Final = r"[._](op_stats|hlo_stats|kernel_stats|overview_page)\w*\.(pb|json)$"
_PACKED: Final = r"\.(xplane\.pb|trace\.json)\.(bz2|xz|zst|zip|tar)$"
_DERIVED: Final = (
    (re.compile(r"(?i)perfetto_trace\.json(\.gz)?$"), "derived by jax from trace.json.gz"),
    (re.compile(r"(?i)\.hlo_proto\.pb$"), "sidecar; the HLO is taken from the capture itself"),
    (re.compile(r"(?i)\.SSTABLE$"), "cache of XProf"),
    (re.compile(r"(?i)^ALL_HOSTS\."), "cache of XProf"),
    (re.compile(r"(?i)^cache_version\.txt$"), "cache of XProf"),
    (
        re.compile(r"(?i)[._](op_stats|hlo_stats|kernel_stats|overview_page)\w*\.(pb|json)$"),
        "cache",
    ),
    (
        re.compile(r"(?i)\.(xplane\.pb|trace\.json)\.(bz2|xz|zst|zip|tar)$"),
        "compressed; unpack first",
    ),
    (re.compile(r"(?i)\.xplane\.pb\.gz$"), "compressed; unpack first (gunzip)"),
)


class FileRole(Enum):
    """Role of a file in a run folder."""

    XPLANE = "xplane"
    TRACE_JSON = "json"
    UNFINISHED = "unfinished"
    DERIVED = "derived"
    OTHER = "other"


def role_of(name: str) -> FileRole:
    """Role of a file by its name, in capitals or not.

    Files that are neither a capture nor a known companion are `OTHER`.
    """
    name = name.lower()
    if name.endswith(UNFINISHED_ENDINGS) or (".xplane.pb." in name and ".tmp" in name):
        return FileRole.UNFINISHED
    if why_derived(name):
        return FileRole.DERIVED
    if name in _BARE_NAMES:
        return FileRole(_BARE_NAMES[name])
    if name.endswith(XPLANE_ENDINGS):
        return FileRole.XPLANE
    if name.endswith(JSON_ENDINGS):
        return FileRole.TRACE_JSON
    return FileRole.OTHER


def why_derived(name: str) -> str:
    """Why a file is not read by itself (it was made from a capture); empty when it may be one."""
    return next((reason for pattern, reason in _DERIVED if pattern.search(name)), "")


def host_stem(name: str) -> str:
    """Host part of a capture's file name: `node1` of `node1.xplane.pb` and `node1.trace.json`.

    Empty for the bare names `xplane.pb` and `trace.json.gz`; the whole name without its last
    extension for a file of another form.
    """
    if name in _BARE_NAMES:
        return ""
    for ending in XPLANE_ENDINGS + JSON_ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name.rpartition(".")[0] or name


def run_time(folder_name: str) -> tuple[int, ...]:
    """Year to second of a run folder named by its time (`2025_02_05_16_08_24`); empty if not."""
    match = _RUN_NAME.match(folder_name)
    return tuple(int(part) for part in match.groups()) if match else ()
