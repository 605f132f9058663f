"""Captures behind a URL (`s3://`, `gs://`, `memory://`, …), by fsspec, which is an extra.

Discovery needs names alone: the names below a URL are laid out as empty files in a temporary
folder, so that one rule serves both. A host's files are copied to a temporary folder only when
they are read, by the process that reads them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from explane.capture.folders import MAX_FOLDERS
from explane.errors import CaptureError

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!$)")
_COPY_COMMANDS: Final = {
    "gs": "gcloud storage cp -r",
    "s3": "aws s3 cp --recursive",
    "http": "curl -O",
    "https": "curl -O",
}
_MOST_FILES: Final = 50 * MAX_FOLDERS
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RemoteTree:
    """Names below a URL, as empty files in a local folder.

    Attributes:
        url: What was asked for.
        root: The local folder that stands for the URL's parent.
        path: What stands for the URL itself.
    """

    url: str
    root: Path
    path: Path

    def url_of(self, path: Path) -> str:
        """The URL that a path below `root` stands for."""
        below = path.relative_to(self.path).as_posix()
        return self.url if below == "." else f"{self.url}/{below}"


def scheme_of(text: str) -> str:
    """The scheme of a URL, lower case; empty for a path of this machine (`C:/x` too)."""
    found = _URL.match(text)
    return found[1].lower() if found and len(found[1]) > 1 else ""


@contextmanager
def remote_tree(url: str) -> Iterator[RemoteTree]:
    """The names below a URL, for as long as the context lasts.

    Raises:
        CaptureError: It can't be listed, fsspec or what it needs is missing, or nothing is there.
    """
    url = url.rstrip("/")
    names = _tried(url, lambda: _names(url))
    with tempfile.TemporaryDirectory(prefix="explane-remote-") as folder:
        root = Path(folder)
        path = root / (url.rpartition("/")[2] or "capture")
        for name in names:
            file = path / name if name else path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        yield RemoteTree(url, root, path)


def _names(url: str) -> list[str]:
    """Names of all files below a URL, relative to it; one empty name for a file."""
    system, place = _system(url)
    if system.isfile(place):
        return [""]
    if not system.exists(place):
        raise FileNotFoundError(2, "no such file or folder")
    found = [str(name) for name in system.find(place)]
    if len(found) > _MOST_FILES:
        raise OSError(7, f"more than {_MOST_FILES:,} files below it")
    prefix = str(place).rstrip("/") + "/"
    below = [name.removeprefix(prefix) for name in found if name.startswith(prefix)]
    return [name for name in below if ".." not in name.split("/")]


def _system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the URL's path in it."""
    from fsspec.core import url_to_fs

    system, place = url_to_fs(url)
    return system, str(place)


@contextmanager
def fetched(url: str, names: Iterable[str]) -> Iterator[Path]:
    """Files of a remote folder in a folder on this machine, for as long as the context lasts.

    Errors about these files name their URLs.

    Raises:
        CaptureError: One can't be fetched.
    """
    with tempfile.TemporaryDirectory(prefix="explane-remote-") as folder:
        for name in names:
            _fetch(f"{url}/{name}", Path(folder) / name)
        try:
            yield Path(folder)
        except CaptureError as error:
            place = error.subject.replace(folder, url)
            raise CaptureError(place, error.reason, error.remedy, error.slug) from None


def _fetch(url: str, target: Path) -> Path:
    def copy() -> Path:
        system, place = _system(url)
        system.get_file(place, str(target))
        return target

    return _tried(url, copy)


def _tried(url: str, act: Callable[[], Result]) -> Result:
    """The result of a call on a remote file system; its errors as ours."""
    scheme = scheme_of(url)
    command = _COPY_COMMANDS.get(scheme)
    copy = "copy it here first" + (f", for instance with `{command} {url} .`" if command else "")
    try:
        return act()
    except ImportError as error:
        told = f": {error}".rstrip(".") if error.name != "fsspec" else ""
        reason = f"remote paths ({scheme}://) need a package that is not installed{told}"
        package = "it" if told else "explane[cluster]"
        raise CaptureError(url, reason, f"install {package}, or {copy}", "remote") from None
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise CaptureError(url, f"can't be read: {what}", copy, "remote") from None
