"""Program files, and the programs that are shipped with the package.

A program file (`*.program.zip`) holds three kinds of members:

    program.json      format, name, platform, device, compiler, n_devices, thunks (below)
    hlo_proto.pb      the HloProto, as a profiler stores it
    source/<name>     the Python files that the HLO's line numbers point into

A thunk in `program.json` is an object with the attributes of `Thunk` under short keys; a key with
an empty value is left out: id, kind, op (instruction), kernel, grid, block, shared_bytes, stream,
async_id, prev (distance), parts.
"""

from __future__ import annotations

import json
import lzma
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from explane.errors import CaptureError
from explane.synth.dumps import read_dump_folder
from explane.synth.program import CompiledProgram, Thunk

SUFFIX = ".program.zip"
_FORMAT = 1
_EPOCH = (1980, 1, 1, 0, 0, 0)


def read_compiled(path: Path) -> CompiledProgram:
    """Read a program file, or a folder of XLA's raw dumps.

    Raises:
        CaptureError: The path holds no compiled program that can be used.
    """
    if path.is_dir():
        return read_dump_folder(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_archive(path, archive)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, lzma.LZMAError) as error:
        raise CaptureError(path, f"no compiled program ({error})", slug="not_compiled") from error


def write_compiled(program: CompiledProgram, path: Path) -> None:
    """Write a program file; the same program gives the same bytes."""
    head: dict[str, Any] = {
        "format": _FORMAT,
        "name": program.name,
        "platform": program.platform,
        "device": program.device,
        "compiler": program.compiler,
        "n_devices": program.n_devices,
        "thunks": [_thunk_to_json(thunk) for thunk in program.thunks],
    }
    members = {
        "program.json": json.dumps(head, separators=(",", ":")).encode(),
        "hlo_proto.pb": program.hlo_proto,
    }
    members |= {f"source/{n}": text.encode() for n, text in sorted(program.sources.items())}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            archive.writestr(entry, content, compress_type=zipfile.ZIP_LZMA)


def bundled_programs() -> tuple[str, ...]:
    """Titles of the programs that are shipped with the package, sorted."""
    folder = resources.files("explane.data") / "programs"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(n.removesuffix(SUFFIX) for n in names if n.endswith(SUFFIX)))


@cache
def bundled_program(title: str) -> CompiledProgram:
    """One of the programs that are shipped with the package; read once per process."""
    entry = resources.files("explane.data") / "programs" / f"{title}{SUFFIX}"
    with resources.as_file(entry) as path:
        return read_compiled(path)


def _read_archive(path: Path, archive: zipfile.ZipFile) -> CompiledProgram:
    head = json.loads(archive.read("program.json"))
    if head["format"] != _FORMAT:
        raise ValueError(f"format {head['format']}, this version reads {_FORMAT}")
    sources = [name for name in archive.namelist() if name.startswith("source/")]
    return CompiledProgram(
        title=path.name.removesuffix(SUFFIX),
        name=head["name"],
        platform=head["platform"],
        device=head["device"],
        compiler=head["compiler"],
        n_devices=head["n_devices"],
        hlo_proto=archive.read("hlo_proto.pb"),
        thunks=tuple(_thunk_from_json(row) for row in head["thunks"]),
        sources={n.removeprefix("source/"): archive.read(n).decode() for n in sources},
    )


def _thunk_to_json(thunk: Thunk) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": thunk.thunk_id,
        "kind": thunk.kind,
        "op": thunk.instruction,
        "kernel": thunk.kernel,
        "grid": list(thunk.grid),
        "block": list(thunk.block),
        "shared_bytes": thunk.shared_bytes,
        "stream": thunk.stream,
        "async_id": thunk.async_id,
        "prev": thunk.distance,
        "parts": {k: [_thunk_to_json(c) for c in part] for k, part in thunk.parts.items()},
    }
    return {key: value for key, value in row.items() if value}


def _thunk_from_json(row: Mapping[str, Any]) -> Thunk:
    parts = row.get("parts", {})
    return Thunk(
        kind=row["kind"],
        thunk_id=row.get("id", 0),
        instruction=row.get("op", ""),
        kernel=row.get("kernel", ""),
        grid=tuple(row.get("grid", ())),
        block=tuple(row.get("block", ())),
        shared_bytes=row.get("shared_bytes", 0),
        stream=row.get("stream", ""),
        async_id=row.get("async_id", 0),
        distance=row.get("prev", 0),
        parts={k: tuple(_thunk_from_json(c) for c in part) for k, part in parts.items()},
    )
