"""Shapes: true sizes, also below a byte, and text."""

from __future__ import annotations

import pytest

from explane.capture.shape import Shape, element_bits


def array(element_type: str, *dimensions: int) -> Shape:
    return Shape(element_type, dimensions, element_bits=element_bits(element_type))


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        (array("f32", 4, 8), 128),
        (array("bf16"), 2),
        (array("f32", 0, 5), 0),
        (array("f8e4m3fn", 10), 10),
        (array("s4", 10), 5),
        (array("u4", 3), 2),
        (array("f4e2m1fn", 32), 16),
        (array("s2", 9), 3),
        (array("f6e2m3fn", 4), 3),
        (array("pred", 9), 9),
        (array("c128", 2), 32),
        (array("token"), 0),
        (array("type_77", 4), None),
        (Shape("tuple", tuple_shapes=(array("f32", 2), array("s4", 2), array("token"))), 9),
        (Shape("tuple", tuple_shapes=(array("f32", 2), array("type_77"))), None),
        (Shape("tuple"), 0),
        # s8 unpacked in 16 bits: the layout's element size counts, not the type's
        (Shape("s4", (10,), element_bits=8), 10),
    ],
)
def test_size_in_bytes(shape: Shape, size: int | None) -> None:
    assert shape.size_bytes == size


def test_text() -> None:
    inner = Shape("bf16", (8, 128), minor_to_major=(1, 0), element_bits=16)
    assert str(Shape("tuple", tuple_shapes=(inner, array("f32")))) == "(bf16[8,128]{1,0}, f32[])"


def test_leaves_of_nested_tuples() -> None:
    nested = Shape(
        "tuple", tuple_shapes=(array("s8", 1), Shape("tuple", tuple_shapes=(array("f32"),)))
    )
    assert [leaf.element_type for leaf in nested.leaves] == ["s8", "f32"]
