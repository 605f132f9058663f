"""Tiny HloProto modules, written against xla/service/hlo.proto and xla/xla_data.proto.

body = HloComputation("fused", [Hlo("p", "parameter", parameter_number=0)], is_fusion=True)
entry = HloComputation("main", [Hlo("loop_fusion", "fusion", calls=["fused"])])
HloModule("jit_f", [body, entry], program_id=15).to_bytes()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.wire_writer import bytes_field, entry, int_field, packed_field

ELEMENT_TYPES: Mapping[str, int] = {
    "pred": 1,
    "s8": 2,
    "s32": 4,
    "s64": 5,
    "u8": 6,
    "u32": 8,
    "f16": 10,
    "f32": 11,
    "f64": 12,
    "tuple": 13,
    "bf16": 16,
    "token": 17,
    "f8e5m2": 19,
    "f8e4m3fn": 20,
    "s4": 21,
    "f8e5m2fnuz": 24,
    "f8e4m3fnuz": 25,
    "f4e2m1fn": 32,
}
"""PrimitiveType numbers of xla_data.proto that tests need."""


@dataclass(frozen=True)
class HloShape:
    """A ShapeProto; `parts` makes a tuple."""

    element_type: str = "f32"
    dimensions: tuple[int, ...] = ()
    parts: tuple[HloShape, ...] = ()

    def to_bytes(self) -> bytes:
        """The serialised ShapeProto."""
        number = ELEMENT_TYPES["tuple" if self.parts else self.element_type]
        body = int_field(2, number) + packed_field(3, self.dimensions)
        body += b"".join(bytes_field(4, part.to_bytes()) for part in self.parts)
        order = tuple(reversed(range(len(self.dimensions))))
        return body if self.parts else body + bytes_field(5, packed_field(1, order))


def shape(text: str) -> HloShape:
    """Shape from HLO-like text: `f32[8,16]`, `pred[]`."""
    element_type, _, rest = text.partition("[")
    sizes = rest.rstrip("]")
    return HloShape(element_type, tuple(int(size) for size in sizes.split(",") if size))


@dataclass
class Hlo:
    """One HLO instruction; operands and called computations by name.

    `frame` is the 1-based id of its innermost stack frame in `HloModule.frames`; `extra` is
    appended as it is (fields that this builder does not know).
    """

    name: str
    opcode: str
    shape: HloShape | str = "f32[8]"
    operands: Sequence[str] = ()
    calls: Sequence[str] = ()
    op_name: str = ""
    source: tuple[str, int] | None = None
    frame: int = 0
    dedup: str = ""
    target: str = ""
    fusion_kind: str = ""
    backend_config: str = ""
    parameter_number: int | None = None
    channel_id: int = 0
    extra: bytes = b""

    def metadata(self) -> bytes:
        """The serialised OpMetadata, empty when there is none."""
        out = bytes_field(2, self.op_name) if self.op_name else b""
        if self.source is not None:
            out += bytes_field(3, self.source[0]) + int_field(4, self.source[1])
        out += bytes_field(12, self.dedup) if self.dedup else b""
        return out + int_field(15, self.frame) if self.frame else out


@dataclass
class HloComputation:
    """One computation; the last instruction is the root unless `root` names another."""

    name: str
    instructions: list[Hlo]
    is_fusion: bool = False
    root: str = ""


@dataclass
class HloModule:
    """One module; the last computation is the entry. Schedules follow the listed order.

    `frames` holds (file, function, line, parent frame id), ids 1-based as in the proto.
    `first_id` lets ids exceed 2^31, as they do since jax 0.8.
    """

    name: str
    computations: list[HloComputation]
    program_id: int = 1
    frames: Sequence[tuple[str, str, int, int]] = ()
    num_replicas: int = 1
    num_partitions: int = 1
    first_id: int = 1
    scheduled: bool = True

    def to_bytes(self) -> bytes:
        """The serialised HloProto (field 1 = the module), as a profiler stores it."""
        return bytes_field(1, self.module_bytes())

    def module_bytes(self) -> bytes:
        """The serialised HloModuleProto."""
        ids = dict(self._instruction_ids())
        numbers = {c.name: self.first_id + i for i, c in enumerate(self.computations)}
        main = self.computations[-1]
        body = bytes_field(1, self.name) + bytes_field(2, main.name)
        for computation in self.computations:
            body += bytes_field(3, self._computation(computation, ids, numbers))
        body += (
            bytes_field(4, _program_shape(main))
            + int_field(5, self.program_id)
            + int_field(6, numbers[main.name])
        )
        if self.scheduled:
            body += bytes_field(7, self._schedule(ids, numbers))
        device = int_field(1, self.num_replicas) + int_field(2, self.num_partitions)
        for part in range(self.num_partitions):
            ids_of = [part * self.num_replicas + replica for replica in range(self.num_replicas)]
            device += bytes_field(3, packed_field(1, ids_of))
        return body + bytes_field(15, device) + self._frames()

    def _instruction_ids(self) -> Iterator[tuple[str, int]]:
        number = self.first_id
        for computation in self.computations:
            for instruction in computation.instructions:
                yield instruction.name, number
                number += 1

    def _computation(
        self, made: HloComputation, ids: Mapping[str, int], numbers: Mapping[str, int]
    ) -> bytes:
        body = bytes_field(1, made.name)
        for instruction in made.instructions:
            body += bytes_field(2, _instruction(instruction, ids, numbers))
        root = made.root or made.instructions[-1].name
        body += bytes_field(4, _program_shape(made))
        body += int_field(5, numbers[made.name]) + int_field(6, ids[root])
        return body + int_field(7, int(made.is_fusion)) + bytes_field(8, "main")

    def _schedule(self, ids: Mapping[str, int], numbers: Mapping[str, int]) -> bytes:
        out = b""
        for computation in self.computations:
            if not computation.is_fusion:
                order = packed_field(1, [ids[i.name] for i in computation.instructions])
                out += bytes_field(1, entry(numbers[computation.name], order))
        return out

    def _frames(self) -> bytes:
        files = _distinct(frame[0] for frame in self.frames)
        functions = _distinct(frame[1] for frame in self.frames)
        body = b"".join(bytes_field(1, name) for name in files)
        body += b"".join(bytes_field(2, name) for name in functions)
        for file, function, line, _ in self.frames:
            location = int_field(1, files.index(file) + 1)
            location += int_field(2, functions.index(function) + 1) + int_field(3, line)
            body += bytes_field(3, location)
        for number, frame in enumerate(self.frames, 1):
            body += bytes_field(4, int_field(1, number) + int_field(2, frame[3]))
        return bytes_field(17, body) if body else b""


def _shape_bytes(made: Hlo) -> bytes:
    return (shape(made.shape) if isinstance(made.shape, str) else made.shape).to_bytes()


def _program_shape(made: HloComputation) -> bytes:
    """ProgramShapeProto: parameters 1, result 2, parameter_names 3."""
    parameters = [i for i in made.instructions if i.opcode == "parameter"]
    root = made.root or made.instructions[-1].name
    result = next(i for i in made.instructions if i.name == root)
    body = b"".join(bytes_field(1, _shape_bytes(i)) for i in parameters)
    body += bytes_field(2, _shape_bytes(result))
    return body + b"".join(bytes_field(3, i.name) for i in parameters)


def _instruction(made: Hlo, ids: Mapping[str, int], numbers: Mapping[str, int]) -> bytes:
    body = bytes_field(1, made.name) + bytes_field(2, made.opcode)
    body += bytes_field(3, _shape_bytes(made)) + bytes_field(7, made.metadata())
    if made.parameter_number is not None:
        body += int_field(9, made.parameter_number)
    body += bytes_field(11, made.fusion_kind) if made.fusion_kind else b""
    body += int_field(26, made.channel_id) if made.channel_id else b""
    body += bytes_field(28, made.target) if made.target else b""
    body += int_field(35, ids[made.name])
    body += packed_field(36, [ids[name] for name in made.operands])
    body += packed_field(38, [numbers[name] for name in made.calls])
    body += bytes_field(43, made.backend_config) if made.backend_config else b""
    return body + made.extra


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
