"""What the first bytes of a file that is no capture say of it: formats that people hand in."""

from __future__ import annotations

from typing import Final

_HEADS: Final = (
    (b"\x1f\x8b", "gzip-compressed"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    (b"BZh", "compressed with bzip2"),
    (b"\xfd7zXZ", "compressed with xz"),
    (b"PK\x03\x04", "a zip archive"),
    (b"version https://git-lfs", "a pointer of Git LFS (`git lfs pull` fetches the file)"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
    (b"<", "HTML or XML"),
)
_JSON: Final = (b"{", b"[")
_TEXT: Final = frozenset(range(32, 127)) | frozenset(b"\t\r\n")


def known_format(head: bytes) -> str:
    """The format that a file's first bytes tell, as a noun phrase; empty when it is no known."""
    found = (words for start, words in _HEADS if head.lstrip().startswith(start))
    return next(found, "")


def text_format(head: bytes) -> str:
    """What text the first bytes are, if they are printable ASCII as no xplane file's are."""
    if not head or not _TEXT.issuperset(head):
        return ""
    return "JSON" if head.lstrip().startswith(_JSON) else "text"
