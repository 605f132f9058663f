"""Base-128 varints, many at a time.

A varint's bytes carry seven bits each, lowest first; the high bit says that another follows. The
groups of a 64-bit word are packed by three merges of neighbours:

    0aaaaaaa 0bbbbbbb 0ccccccc 0ddddddd  ->  00aaaaaaabbbbbbb 00cccccccddddddd  ->  …
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from explane.capture.blocks import U64, Block
from explane.capture.model import I64

_U = np.uint64
_STOP: Final = _U(0x8080808080808080)
_PAYLOAD: Final = _U(0x7F7F7F7F7F7F7F7F)
_MERGES: Final = (
    (_U(0x007F007F007F007F), _U(0x7F007F007F007F00), _U(1)),
    (_U(0x00003FFF00003FFF), _U(0x3FFF00003FFF0000), _U(2)),
    (_U(0x000000000FFFFFFF), _U(0x0FFFFFFF00000000), _U(4)),
)
# 2**(8 k) times this number has k + 1 in its top byte.
_SIZE_FACTOR: Final = _U(0x0102030405060708)
_WORD_BYTES: Final = 8
_NINE_BYTES: Final = 9
_TEN_BYTES: Final = 10


def pack_groups(words: U64, n_bytes: int) -> U64:
    """Values of varints that all take `n_bytes` (1 to 8) bytes.

    Args:
        words: Words that start with the varints; later bytes are ignored. Overwritten.
        n_bytes: Length of each varint.
    """
    words &= _PAYLOAD >> _U(8 * (_WORD_BYTES - n_bytes))
    for at, (low, high, shift) in enumerate(_MERGES):
        if n_bytes <= 1 << at:
            break
        upper = words & high
        upper >>= shift
        words &= low
        words |= upper
    return words


def with_tail(low: U64, tail: U64) -> U64:
    """Values of varints of nine or ten bytes.

    Args:
        low: Packed groups of the first eight bytes (56 bits).
        tail: Words that start with the ninth byte.
    """
    ninth = tail & _U(0x7F)
    longer = (tail >> _U(7)) & _U(1)
    tenth = (tail >> _U(8)) & longer
    whole: U64 = low | (ninth << _U(56)) | (tenth << _U(63))
    return whole


def read_varints(block: Block, positions: I64) -> tuple[U64, I64]:
    """Values of the varints at some positions, and their lengths in bytes.

    A length of 0 means that the varint never ends (more than ten bytes). The caller checks that
    a varint ends before its message does.
    """
    words = block.words[positions]
    stops = ~words & _STOP
    lowest = stops & (~stops + _U(1))
    sizes = (((lowest >> _U(7)) * _SIZE_FACTOR) >> _U(56)).astype(np.int64)
    # All bits up to the stop bit; everything when there is none.
    values = pack_groups(words & (lowest ^ (lowest - _U(1))), _WORD_BYTES)
    if not lowest.all():
        _long_varints(block, positions, values, sizes)
    return values, sizes


def _long_varints(block: Block, positions: I64, values: U64, sizes: I64) -> None:
    """Fill in those of nine and ten bytes; negative int64 are stored so."""
    rows: npt.NDArray[np.intp] = np.flatnonzero(sizes == 0)
    tail = block.words[positions[rows] + _WORD_BYTES]
    ninth_goes_on = (tail & _U(0x80)) != 0
    tenth_goes_on = ninth_goes_on & ((tail & _U(0x8000)) != 0)
    values[rows] = with_tail(values[rows], tail)
    sizes[rows] = np.where(ninth_goes_on, _TEN_BYTES, _NINE_BYTES)
    sizes[rows[tenth_goes_on]] = 0
