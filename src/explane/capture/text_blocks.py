"""A text file, plain or gzip by its first bytes, as blocks of bounded size.

Damage doesn't end the reading: what could be read is handed out, and `BlockReader.problems` says
what was wrong afterwards. gzip (RFC 1952) is taken apart here and only deflate is left to the
library, so that the text before a wrong checksum is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from isal import isal_zlib
from isal.isal_zlib import IsalError

from explane.errors import CaptureError

BLOCK_BYTES: Final = 1 << 20
FEED_BYTES: Final = 256 << 10
MIN_BOUND_BYTES: Final = 256 << 20
MAX_EXPANSION: Final = 300
"""Traces compress 10 to 60 times; deflate's own limit of 1032 is only met by made-up files."""

GZIP_MAGIC: Final = b"\x1f\x8b"
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the file.

    Attributes:
        slug: Fixed word.
        text: One clause for people.
        loses_text: Whether text after it is missing.
    """

    slug: str
    text: str
    loses_text: bool


@dataclass
class BlockReader:
    """Iterates over the blocks of one file.

    Attributes:
        path: The file.
        block_bytes: Largest size of one block.
        n_read_bytes: Bytes of the file that were used so far.
        n_text_bytes: Bytes of text handed out so far.
        problems: What was found wrong; complete once the iteration has ended.
    """

    path: Path
    block_bytes: int = BLOCK_BYTES
    n_read_bytes: int = 0
    n_text_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)

    def __iter__(self) -> Iterator[bytes]:
        """Blocks of text, none of them empty.

        Raises:
            CaptureError: When the file can't be opened or read.
        """
        try:
            with self.path.open("rb") as file:
                yield from self._blocks(file)
        except OSError as error:
            reason = f"can't be read: {error.strerror or error}"
            raise CaptureError(self.path, reason, "check its permissions", "unreadable") from None

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
        head = file.read(len(GZIP_MAGIC))
        file.seek(0)
        source = self._gunzipped(file) if head == GZIP_MAGIC else self._plain(file)
        for block in source:
            self.n_text_bytes += len(block)
            yield block

    def _plain(self, file: BinaryIO) -> Iterator[bytes]:
        while block := file.read(self.block_bytes):
            self.n_read_bytes += len(block)
            yield block

    def _gunzipped(self, file: BinaryIO) -> Iterator[bytes]:
        """All members, one after the other."""
        bound = max(MIN_BOUND_BYTES, MAX_EXPANSION * self.path.stat().st_size)
        feed = _Feed(file)
        while feed.starts_with(GZIP_MAGIC):
            for block in self._member(feed):
                self.n_read_bytes = feed.n_used
                yield block
                if self.n_text_bytes > bound:
                    text = f"gzip text grows beyond {MAX_EXPANSION} times the file's size"
                    self._add("expansion_bound", text, loses_text=True)
                    return
            self.n_read_bytes = feed.n_used
            if self.problems:
                return
        rest = feed.rest_size()
        if rest:
            text = f"{rest:,} bytes that are not gzip follow its end"
            self._add("trailing_garbage", text, loses_text=False)

    def _member(self, feed: _Feed) -> Iterator[bytes]:
        """One member: header, deflate stream, checksum and size."""
        if not _skip_header(feed):
            self._truncated(feed)
            return
        stream = isal_zlib.decompressobj(wbits=-15)
        checksum = size = 0
        try:
            for block in self._inflated(stream, feed):
                checksum = isal_zlib.crc32(block, checksum)
                size += len(block)
                yield block
        except IsalError:  # type: ignore[misc]  # its stub leaves the base out
            text = f"gzip data is damaged near byte {feed.n_used:,}"
            self._add("damaged_gzip", text, loses_text=True)
            return
        trailer = feed.take(8) if stream.eof else b""
        if len(trailer) < 8:
            self._truncated(feed)
        elif trailer != checksum.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little"):
            self._add("wrong_checksum", "gzip checksum does not match its text", loses_text=False)

    def _inflated(self, stream: isal_zlib.Decompress, feed: _Feed) -> Iterator[bytes]:
        while not stream.eof:
            raw = feed.take_some()
            if not raw:
                return
            block = stream.decompress(raw, self.block_bytes)
            while block:
                yield block
                if stream.eof or len(block) < self.block_bytes:
                    break
                block = stream.decompress(stream.unconsumed_tail, self.block_bytes)
            feed.put_back(stream.unused_data if stream.eof else stream.unconsumed_tail)

    def _truncated(self, feed: _Feed) -> None:
        self._add(
            "truncated_gzip", f"gzip ends too early, after {feed.n_used:,} bytes", loses_text=True
        )

    def _add(self, slug: str, text: str, *, loses_text: bool) -> None:
        self.problems.append(Problem(slug, text, loses_text))


class _Feed:
    """Bytes of a file, with those put back first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ahead = b""
        self.n_used = 0

    def take_some(self) -> bytes:
        """Up to `FEED_BYTES`; empty at the end of the file."""
        raw = self._ahead or self._file.read(FEED_BYTES)
        self._ahead = b""
        self.n_used += len(raw)
        return raw

    def take(self, n_bytes: int) -> bytes:
        """Exactly `n_bytes`, fewer at the end of the file."""
        while len(self._ahead) < n_bytes:
            more = self._file.read(FEED_BYTES)
            if not more:
                break
            self._ahead += more
        raw, self._ahead = self._ahead[:n_bytes], self._ahead[n_bytes:]
        self.n_used += len(raw)
        return raw

    def put_back(self, raw: bytes) -> None:
        """Bytes that the next call shall give again."""
        self._ahead = raw + self._ahead
        self.n_used -= len(raw)

    def starts_with(self, magic: bytes) -> bool:
        """Whether the next bytes are these; they stay."""
        raw = self.take(len(magic))
        self.put_back(raw)
        return raw == magic

    def rest_size(self) -> int:
        """Size of what is left, zero padding not counted."""
        size = 0
        while raw := self.take_some():
            size += len(raw) if size else len(raw.lstrip(b"\0"))
        return size


def _skip_header(feed: _Feed) -> bool:
    """Steps over a member's header (RFC 1952, 2.3); False when the file ends in it."""
    fixed = feed.take(10)
    if len(fixed) < 10:
        return False
    flags = fixed[3]
    if flags & _FEXTRA:
        size = int.from_bytes(feed.take(2), "little")
        if len(feed.take(size)) < size:
            return False
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag and not _skip_text(feed):
            return False
    return not flags & _FHCRC or len(feed.take(2)) == 2


def _skip_text(feed: _Feed) -> bool:
    """Steps over a zero-terminated text of a header."""
    for _ in range(1 << 16):
        byte = feed.take(1)
        if not byte:
            return False
        if byte == b"\0":
            return True
    return False
