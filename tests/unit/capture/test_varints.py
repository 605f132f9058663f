"""Varints decoded many at a time, against numbers that were encoded one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explane.capture.blocks import Block
from explane.capture.varints import read_varints
from tests.builders import varint

EDGES = [0, 1, 127, 128, 16383, 16384, *(1 << (7 * k) for k in range(3, 10)), 2**63, 2**64 - 1]


@given(st.lists(st.sampled_from(EDGES) | st.integers(0, 2**64 - 1), max_size=60))
def test_values_and_sizes(numbers: list[int]) -> None:
    encoded = [varint(number) for number in numbers]
    content = b"".join(encoded)
    sizes = np.array([len(e) for e in encoded], dtype=np.int64)
    block = Block(content + b"\x00", 0, len(content) + 1)
    values, found = read_varints(block, np.cumsum(sizes) - sizes)
    assert values.tolist() == numbers
    assert found.tolist() == sizes.tolist()


def test_a_varint_that_never_ends_has_size_zero() -> None:
    block = Block(b"\x05" + b"\xff" * 12 + b"\x01", 0, 14)
    assert read_varints(block, np.array([0, 1]))[1].tolist() == [1, 0]


def test_surplus_bits_of_a_tenth_byte_are_dropped_as_in_protobuf() -> None:
    block = Block(b"\xff" * 9 + b"\x7f", 0, 10)
    values, sizes = read_varints(block, np.array([0]))
    assert (values.tolist(), sizes.tolist()) == ([2**64 - 1], [10])
