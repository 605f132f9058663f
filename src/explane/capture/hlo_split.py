"""A stored HloProto taken apart: the module itself, its computations, where instructions lie.

Every computation is handed to protobuf once, which says whether all in it is sound, and then
forgotten: as messages the instructions of a large module would fill a gigabyte.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from explane.capture._proto import hlo_pb2
from explane.capture.wire import LENGTH, Span, fields, read_varint

_MODULE: Final = 1
_COMPUTATIONS: Final = 3
_NAME: Final = 1
_INSTRUCTIONS: Final = 2
_TAG: Final = _INSTRUCTIONS << 3 | LENGTH
_TAGS: Final = (_TAG, _NAME << 3 | LENGTH)
_MORE: Final = 0x80


class OtherOrder(ValueError):
    """Fields of a module are written in an order or a way in which no compiler writes them."""


class Head(NamedTuple):
    """A computation without its instructions, of which it lists `n_instructions`."""

    id: int
    name: str
    root_id: int
    is_fusion: bool
    execution_thread: str
    n_instructions: int


@dataclass(slots=True)
class Split:
    """The parts of a stored module.

    Attributes:
        data: The bytes.
        module: The module without its computations.
        computations: The computations.
        starts, ends: Where each instruction lies in `data`, in file order; end exclusive.
    """

    data: bytes
    module: hlo_pb2.HloModuleProto
    computations: list[Head] = field(default_factory=list)
    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))


def split(hlo_proto: bytes) -> Split:
    """Takes a stored module apart.

    Args:
        hlo_proto: A serialised HloProto.

    Raises:
        DecodeError: The bytes are no HloProto.
        WireError: The same.
        OtherOrder: See there.
    """
    data, module = _module(hlo_proto)
    rest, computations = [], []
    before = module.start
    for one in fields(data, *module):
        if one.number == _COMPUTATIONS and one.wire == LENGTH:
            computations.append(Span(one.start, one.end))
        else:
            rest.append(data[before : one.end])
        before = one.end
    found = Split(data, hlo_pb2.HloModuleProto.FromString(b"".join(rest)))
    for computation in computations:
        _add(found, computation)
    return found


def in_order(hlo_proto: bytes) -> bytes:
    """The same HloProto with the fields of each instruction in the order of their numbers.

    Fields that explane does not know are left out, those that stand twice are merged.

    Raises:
        DecodeError: The bytes are no HloProto.
    """
    proto = hlo_pb2.HloProto.FromString(hlo_proto)
    proto.DiscardUnknownFields()
    return proto.SerializeToString(deterministic=True)


def _module(hlo_proto: bytes) -> tuple[bytes, Span]:
    """Bytes that hold the module, and where: a message that stands twice is its joined bytes."""
    spans = [
        Span(one.start, one.end)
        for one in fields(hlo_proto, 0, len(hlo_proto))
        if one.number == _MODULE and one.wire == LENGTH
    ]
    if len(spans) == 1:
        return hlo_proto, spans[0]
    joined = b"".join(hlo_proto[span.start : span.end] for span in spans)
    return joined, Span(0, len(joined))


def _add(found: Split, span: Span) -> None:
    """Adds a computation; protobuf has read all of it then, and lengths can be relied on."""
    data, (at, end) = found.data, span
    proto = hlo_pb2.HloComputationProto.FromString(data[at:end])
    n_instructions = len(proto.instructions)
    n_left = n_instructions
    while n_left:
        if at >= end:
            raise OtherOrder
        tag = data[at]
        if tag not in _TAGS:
            at = next(fields(data, at, end)).end
            continue
        size = data[at + 1]
        at += 2
        if size >= _MORE:
            high = data[at]
            if high < _MORE:
                size, at = size - _MORE | high << 7, at + 1
            else:
                size, at = read_varint(data, at - 1, end)
        if tag == _TAG:
            found.starts.append(at)
            found.ends.append(at + size)
            n_left -= 1
        at += size
    found.computations.append(
        Head(
            proto.id,
            as_text(proto.name),
            proto.root_id,
            proto.is_fusion_computation,
            as_text(proto.execution_thread),
            n_instructions,
        )
    )


def as_text(value: str | bytes) -> str:
    """A proto string; bytes that are no UTF-8 (protobuf hands them out raw) are replaced."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
