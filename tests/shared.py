"""Finds captures that lie beside the repository, and skips tests where they are absent.

A fresh clone has no `../shared`: every test that needs it must go through this module, so that it
skips with a reason instead of failing. Nothing here reads a capture.

    @require_shared
    @pytest.mark.parametrize("name", REAL)
    def test_something(name: str) -> None:
        folder = capture_dir("real", name)
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_CANDIDATE = ROOT.parent / "shared"

#: The folder beside the repository, or None when it is not there.
SHARED: Path | None = _CANDIDATE if (_CANDIDATE / "captures").is_dir() else None

_REASON = "../shared/captures is not beside the repository"

#: Marks a test that needs `../shared/captures`; it is skipped with a reason where that is absent.
require_shared = pytest.mark.skipif(SHARED is None, reason=_REASON)


def shared_captures() -> Path:
    """The folder of captures; skips the calling test where it is absent."""
    if SHARED is None:
        pytest.skip(_REASON)
    return SHARED / "captures"


def names(kind: str) -> tuple[str, ...]:
    """Names of the captures of a kind (`real`, `simulated`, `masked`, `other`), sorted.

    Empty where the folder is absent, so it can be used at import time in `parametrize`.
    """
    if SHARED is None:
        return ()
    folder = SHARED / "captures" / kind
    return tuple(sorted(p.name for p in folder.iterdir() if p.is_dir())) if folder.is_dir() else ()


def capture_dir(kind: str, name: str) -> Path:
    """Folder of one capture; skips the calling test where it is absent."""
    folder = shared_captures() / kind / name
    if not folder.is_dir():
        pytest.skip(f"{kind}/{name} is not among the shared captures")
    return folder


def xplane_file(kind: str, name: str) -> Path:
    """The one `.xplane.pb` of a capture; skips where there is none."""
    return _only(capture_dir(kind, name), "*.xplane.pb")


def json_file(kind: str, name: str) -> Path:
    """The one `.trace.json.gz` of a capture; skips where there is none."""
    return _only(capture_dir(kind, name), "*.trace.json.gz")


def truth_file(kind: str, name: str) -> Path:
    """`<name>.truth.csv.gz` beside a capture: the true instruction of every kernel; or skips."""
    path = shared_captures() / kind / f"{name}.truth.csv.gz"
    if not path.is_file():
        pytest.skip(f"{kind}/{name} has no truth table")
    return path


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        pytest.skip(f"{folder.name} has no {pattern}")
    return found[0]


REAL = names("real")
SIMULATED = names("simulated")
MASKED = names("masked")
OTHER = names("other")
