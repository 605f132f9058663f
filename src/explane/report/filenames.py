"""File names from names in a capture, which may be paths, empty, endless or full of controls."""

from __future__ import annotations

import hashlib
import re
from typing import Final

_UNSAFE: Final = re.compile(r"[^\w.()+=@ -]", re.ASCII)
_LIMIT: Final = 120
_RESERVED: Final = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def safe_file_name(name: str) -> str:
    """A name that is one harmless path component on any system.

    Characters outside a small ASCII set become `_`, leading dots go, and long names are cut. When
    anything but that set was in the name, a short digest of it keeps different names apart.
    """
    clean = _UNSAFE.sub("_", name).lstrip(". ").rstrip(". ")[:_LIMIT]
    if clean and clean == name and not _RESERVED.fullmatch(clean):
        return clean
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{clean or 'unnamed'}~{digest}"
