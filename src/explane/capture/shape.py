"""Shapes of HLO values: element types, dimensions, layouts and true sizes in bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from explane.capture._proto import hlo_pb2

# xla_data.proto, enum PrimitiveType: number -> (name, bits of one element as it lies in memory).
# 0 bits: no array element. Sub-byte types count packed, as XLA:GPU stores them (it also writes
# their true size into element_size_in_bits of the layout); pred fills a byte.
_TYPES: Final = {
    1: ("pred", 8),
    2: ("s8", 8),
    3: ("s16", 16),
    4: ("s32", 32),
    5: ("s64", 64),
    6: ("u8", 8),
    7: ("u16", 16),
    8: ("u32", 32),
    9: ("u64", 64),
    10: ("f16", 16),
    11: ("f32", 32),
    12: ("f64", 64),
    13: ("tuple", 0),
    14: ("opaque", 0),
    15: ("c64", 64),
    16: ("bf16", 16),
    17: ("token", 0),
    18: ("c128", 128),
    19: ("f8e5m2", 8),
    20: ("f8e4m3fn", 8),
    21: ("s4", 4),
    22: ("u4", 4),
    23: ("f8e4m3b11fnuz", 8),
    24: ("f8e5m2fnuz", 8),
    25: ("f8e4m3fnuz", 8),
    26: ("s2", 2),
    27: ("u2", 2),
    28: ("f8e4m3", 8),
    29: ("f8e3m4", 8),
    30: ("s1", 1),
    31: ("u1", 1),
    32: ("f4e2m1fn", 4),
    33: ("f8e8m0fnu", 8),
    34: ("buffer", 0),
    35: ("f6e3m2fn", 6),
    36: ("f6e2m3fn", 6),
}
_NO_DATA: Final = frozenset({"token", "opaque"})
_CONTAINERS: Final = frozenset({"tuple", "buffer"})
HOST_MEMORY: Final = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """A ShapeProto: an array (element type and dimensions) or a tuple of shapes.

    Attributes:
        element_type: Lower-case XLA name (`bf16`, `f32`, `f8e4m3fn`, `tuple`, `token`, …);
            `type_N` for a number that this version does not know.
        dimensions: Sizes; empty for scalars, tuples and tokens.
        tuple_shapes: Parts of a tuple.
        minor_to_major: Layout order; empty when the file has none.
        element_bits: Bits of one element as stored; 0 when unknown or when there is no element.
        memory_space: LayoutProto.memory_space (5 = host); 0 = the device's default.
    """

    element_type: str
    dimensions: tuple[int, ...] = ()
    tuple_shapes: tuple[Shape, ...] = ()
    minor_to_major: tuple[int, ...] = ()
    element_bits: int = 0
    memory_space: int = 0

    @property
    def is_array(self) -> bool:
        """True for arrays and scalars, also of unknown element type."""
        return self.element_type not in _CONTAINERS and self.element_type not in _NO_DATA

    @property
    def n_elements(self) -> int:
        """Product of the dimensions: 1 for scalars, also for what is no array."""
        count = 1
        for size in self.dimensions:
            count *= size
        return count

    @property
    def leaves(self) -> Iterator[Shape]:
        """The arrays (and tokens) of a tuple, nested ones included, in order; else itself."""
        if self.element_type not in _CONTAINERS:
            yield self
        for part in self.tuple_shapes:
            yield from part.leaves

    @property
    def size_bytes(self) -> int | None:
        """Bytes of all arrays, each rounded up to whole bytes; None if one type is unknown."""
        total = 0
        for leaf in self.leaves:
            if leaf.element_type in _NO_DATA:
                continue
            if leaf.element_bits == 0:
                return None
            total += (leaf.n_elements * leaf.element_bits + 7) // 8
        return total

    def __str__(self) -> str:
        """XLA's text form, such as `bf16[8,128]{1,0}` or `(f32[], s32[4]{0})`."""
        if self.element_type == "tuple":
            return f"({', '.join(map(str, self.tuple_shapes))})"
        if self.element_type == "buffer":
            return f"b({', '.join(map(str, self.tuple_shapes))})"
        dimensions = ",".join(map(str, self.dimensions))
        layout = f"{{{','.join(map(str, self.minor_to_major))}}}" if self.minor_to_major else ""
        return f"{self.element_type}[{dimensions}]{layout}"


def element_bits(element_type: str) -> int:
    """Bits of one element of a type by its XLA name, in its true (packed) size; 0 = unknown."""
    return _BITS.get(element_type, 0)


_BITS: Final = dict(_TYPES.values())


def shape_of_proto(proto: hlo_pb2.ShapeProto) -> Shape:
    """A Shape from its message; LayoutProto.element_size_in_bits overrides the type's bits."""
    return shape_of_bytes(proto.SerializeToString())


@lru_cache(maxsize=1 << 14)
def shape_of_bytes(data: bytes) -> Shape:
    """A Shape from the bytes of its message.

    Decoded once per distinct shape: a module of 100,000 instructions has a few hundred.
    """
    proto = hlo_pb2.ShapeProto.FromString(data)
    name, bits = _TYPES.get(proto.element_type, (f"type_{proto.element_type}", 0))
    layout = proto.layout
    return Shape(
        element_type=name,
        dimensions=tuple(proto.dimensions),
        tuple_shapes=tuple(shape_of_proto(part) for part in proto.tuple_shapes),
        minor_to_major=tuple(layout.minor_to_major),
        element_bits=layout.element_size_in_bits or bits,
        memory_space=layout.memory_space,
    )
