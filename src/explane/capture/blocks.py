"""A stretch of a file as arrays: bytes, 64-bit words at any byte, and rows at any byte.

Fields are decoded for many messages at once by gathering words at computed positions. A block is
a copy with zeros behind its end, so a word or row that starts inside never runs out of the array;
whether a field ends in time is checked by position, never by what was read.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from explane.capture.model import I64, U8
from explane.capture.wire import Buffer

U64 = npt.NDArray[np.uint64]

MAX_ROW_BYTES: Final = 1024
_PAD_BYTES: Final = MAX_ROW_BYTES + 16


class Block:
    """Bytes `start:end` of a file.

    Attributes:
        base: Offset in the file of the block's byte 0.
        size: Number of bytes without the zeros behind.
        data: The bytes, and zeros.
        words: The little-endian 64-bit word that starts at each byte.
    """

    def __init__(self, buffer: Buffer, start: int, end: int):
        self.base = start
        self.size = end - start
        self.data: U8 = np.zeros(self.size + _PAD_BYTES, dtype=np.uint8)
        self.data[: self.size] = np.frombuffer(buffer, np.uint8, self.size, start)
        _release(buffer, start, end)
        self.words: U64 = np.lib.stride_tricks.as_strided(
            self.data[:8].view("<u8"), shape=(self.size + 8,), strides=(1,), writeable=False
        )

    def rows(self, starts: I64, n_words: int) -> U64:
        """`n_words` words from each start, shape (events, words); a copy."""
        kind = np.dtype((np.void, 8 * n_words))
        every = np.lib.stride_tricks.as_strided(
            self.data[: 8 * n_words].view(kind), shape=(self.size + 1,), strides=(1,)
        )
        gathered: U64 = every[starts].view(np.uint64).reshape(len(starts), n_words)
        return gathered


class MappedFile(mmap.mmap):
    """A mapped file that tells how many of its bytes were used, as far as blocks use them."""

    advance: Callable[[int], None]


def _release(buffer: Buffer, start: int, end: int) -> None:
    """Tell the system that whole pages of a mapped file were used and need not stay in memory."""
    if isinstance(buffer, MappedFile):
        buffer.advance(end - start)
    if isinstance(buffer, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        last = end // mmap.PAGESIZE * mmap.PAGESIZE
        if first < last:
            buffer.madvise(mmap.MADV_DONTNEED, first, last - first)
