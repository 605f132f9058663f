"""An HLO module as readable text, close to XLA's own dump, with Python lines resolved.

Unlike XLA's text the source is printed with each instruction (from the frame tables or inline),
and foreign names are quoted, so that one instruction is always one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import numpy as np
from google.protobuf.message import DecodeError

from explane.capture._proto import hlo_pb2
from explane.capture.hlo_columns import Spans
from explane.capture.hlo_fields import (
    channel_id,
    constant_value,
    parameter_number,
    tuple_index,
)
from explane.capture.hlo_split import as_text
from explane.capture.model import I64
from explane.capture.program import Instruction, Program
from explane.capture.replica_groups import replica_groups, source_target_pairs
from explane.capture.shape import shape_of_bytes

_CALL_WORDS: Final = {"fusion": ("calls",), "while": ("condition", "body"), "call": ("to_apply",)}
_AT_ONCE: Final = 1 << 13
"""Instructions whose columns are looked up together."""

_SCHEDULING_NAME: Final = b"\x82\x01"
"""Tag of OpMetadata.scheduling_name."""

_MOST_KEPT: Final = 1 << 14
_LONGEST_KEPT: Final = 1 << 11
Key = TypeVar("Key")
Value = TypeVar("Value")


def program_text(program: Program) -> str:
    """The whole module: header, computations, one line per instruction, entry last.

    Computations with a schedule list their instructions in launch order, the others in file order.
    """
    return "".join(program_parts(program))


def program_parts(program: Program) -> Iterator[str]:
    """The text of `program_text`: the header, then parts of some thousand whole lines.

    Only the header tells of the program's id.
    """
    yield _header(program) + "\n"
    yield from _Text(program).parts()


class _Piece(NamedTuple):
    """Instructions of one computation, and the line before and behind them."""

    before: str
    ids: Sequence[int]
    root_id: int
    after: str


class _Common(NamedTuple):
    """What is the same for instructions with equal fields, ready to be put together."""

    inside: str
    before_calls: str
    after_calls: str
    backend_config: str


class _Text:
    """The text of all computations.

    Shapes, attributes and metadata are equal for many instructions, so they are made once for
    equal bytes, as far as these are kept.
    """

    def __init__(self, program: Program):
        self.program = program
        self.instructions = program.instructions
        self.names = _shown(self.instructions.columns.names)
        self.opcodes = _shown(self.instructions.opcodes)
        self.shapes: dict[bytes, str] = {}
        self.metadata: dict[bytes, str] = {}
        self.common: dict[tuple[str, bytes, bytes], _Common] = {}

    def parts(self) -> Iterator[str]:
        """All lines behind the header."""
        batch: list[_Piece] = []
        n_waiting = 0
        for piece in self._pieces():
            batch.append(piece)
            n_waiting += len(piece.ids)
            if n_waiting >= _AT_ONCE:
                yield self._written(batch)
                batch, n_waiting = [], 0
        yield self._written(batch)

    def _pieces(self) -> Iterator[_Piece]:
        program = self.program
        order = sorted(program.computations.values(), key=lambda c: c.id == program.entry_id)
        for computation in order:
            word = "ENTRY " if computation.id == program.entry_id else ""
            head = f"\n{word}%{_name(computation.name)} {{\n"
            ids = program.schedule.get(computation.id, computation.instruction_ids)
            for at in range(0, len(ids) or 1, _AT_ONCE):
                end = at + _AT_ONCE
                before, after = "" if at else head, "}\n" if end >= len(ids) else ""
                yield _Piece(before, ids[at:end], computation.root_id, after)

    def _written(self, batch: list[_Piece]) -> str:
        ids = [i for piece in batch for i in piece.ids]
        begins = [
            "  ROOT %" if i == piece.root_id else "  %" for piece in batch for i in piece.ids
        ]
        lines = self._lines(begins, self.instructions.rows_of(np.array(ids, np.int64)))
        written = []
        for piece in batch:
            written.append(piece.before)
            written.extend(islice(lines, len(piece.ids)))
            written.append(piece.after)
        return "".join(written)

    def _lines(self, begins: Sequence[str], rows: I64) -> Iterator[str]:
        """Instructions as text, each in one line."""
        columns, opcodes = self.instructions.columns, self.instructions.opcodes
        operands, called = columns.operands.of(rows), columns.called.of(rows)
        names = [self.names[i] for i in self.instructions.rows_of(operands.values).tolist()]
        called_ids = iter(called.values.tolist())
        at = 0
        for begin, row, code, shape, metadata, more, rest, n_operands, n_called in zip(
            begins,
            rows.tolist(),
            columns.opcode[rows].tolist(),
            self._bytes(columns.shape, rows),
            self._bytes(columns.metadata, rows),
            self._bytes(columns.more, rows),
            self._bytes(columns.rest, rows),
            operands.counts.tolist(),
            called.counts.tolist(),
            strict=True,
        ):
            common = self._common(row, opcodes[code], more + rest, shape)
            inside = common.inside
            if n_operands:
                inside = inside or f"%{', %'.join(names[at : at + n_operands])}"
                at += n_operands
            calls = self._calls(opcodes[code], islice(called_ids, n_called)) if n_called else ""
            yield (
                f"{begin}{self.names[row]} = {self.shapes.get(shape) or self._shape(shape)} "
                f"{self.opcodes[code]}({inside}){common.before_calls}{calls}"
                f"{common.after_calls}{self._metadata_of(metadata)}{common.backend_config}\n"
            )

    def _bytes(self, spans: Spans, rows: I64) -> list[bytes]:
        data = self.instructions.data
        places = zip(spans.start[rows].tolist(), spans.end[rows].tolist(), strict=True)
        return [data[start:end] for start, end in places]

    def _calls(self, opcode: str, ids: Iterable[int]) -> str:
        """The called computations, each with its role where that is known."""
        names = [f"%{_name(self.program.computations[i].name)}" for i in ids]
        words = _CALL_WORDS.get(opcode, ())
        if len(words) == len(names):
            return _listed(f"{word}={name}" for word, name in zip(words, names, strict=True))
        return f", calls={_braces(names)}"

    def _shape(self, data: bytes) -> str:
        text = str(shape_of_bytes(data))
        _keep(self.shapes, data, text)
        return text

    def _metadata_of(self, data: bytes) -> str:
        # The name comes last and makes all metadata differ; it is not printed.
        before, mark, name = data.rpartition(_SCHEDULING_NAME)
        if mark and name and name[0] == len(name) - 1:
            known = self.metadata.get(before)
            if known is not None:
                return known
            data = before if _is_metadata(before) else data
        known = self.metadata.get(data)
        if known is None:
            parts = _metadata(self.program, hlo_pb2.OpMetadata.FromString(data))
            known = f", metadata={{{' '.join(parts)}}}" if parts else ""
            _keep(self.metadata, data, known)
        return known

    def _common(self, row: int, opcode: str, fields: bytes, shape: bytes) -> _Common:
        key = (opcode, fields, shape if opcode == "constant" else b"")
        known = self.common.get(key)
        if known is None:
            known = _common(Instruction(self.instructions, row))
            if len(fields) <= _LONGEST_KEPT:
                _keep(self.common, key, known)
        return known


def _shown(names: Sequence[str]) -> Sequence[str]:
    """Names as they are printed: mostly all of them as they are, which is seen at a glance."""
    whole = "".join(names)
    plain = whole.isprintable() and " " not in whole and "" not in names
    return names if plain else [_name(name) for name in names]


def _is_metadata(data: bytes) -> bool:
    """False where what looks like the tag of another field was part of one."""
    try:
        hlo_pb2.OpMetadata.FromString(data)
    except DecodeError:
        return False
    return True


def _keep(kept: dict[Key, Value], key: Key, value: Value) -> None:
    """Keeps a value; when there are too many they begin anew."""
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[key] = value


def _common(instruction: Instruction) -> _Common:
    config = instruction.backend_config_bytes
    kind = instruction.fusion_kind
    before = [*_shape_attributes(instruction), *_contraction_attributes(instruction)]
    after = [*_library_attributes(instruction), *_collective_attributes(instruction)]
    return _Common(
        inside=_inside(instruction),
        before_calls=_listed([*before, f"kind={_name(kind)}"] if kind else before),
        after_calls=_listed(after),
        backend_config=f", backend_config={_printable(config)}" if config else "",
    )


def _listed(attributes: Iterable[str]) -> str:
    return "".join(f", {attribute}" for attribute in attributes)


def _header(program: Program) -> str:
    parts = [f"HloModule {_name(program.name)}", f"program_id={program.program_id}"]
    if program.schedule:
        parts.append("is_scheduled=true")
    if program.num_replicas:
        parts.append(f"replica_count={program.num_replicas}")
        parts.append(f"num_partitions={program.num_partitions}")
    return ", ".join(parts)


def _inside(instruction: Instruction) -> str:
    """What stands in the parentheses in place of operands."""
    if instruction.opcode == "parameter":
        return str(parameter_number(instruction))
    if instruction.opcode == "constant":
        value = constant_value(instruction)
        return "{...}" if value is None else str(value)
    return ""


def _shape_attributes(instruction: Instruction) -> Iterator[str]:
    proto = instruction.proto
    if instruction.opcode == "get-tuple-element":
        yield f"index={tuple_index(instruction)}"
    if proto.dimensions:
        yield f"dimensions={_braces(proto.dimensions)}"
    if proto.slice_dimensions:
        slices = (f"[{s.start}:{s.limit}:{s.stride}]" for s in proto.slice_dimensions)
        yield f"slice={_braces(slices)}"
    if proto.dynamic_slice_sizes:
        yield f"dynamic_slice_sizes={_braces(proto.dynamic_slice_sizes)}"
    if proto.gather_slice_sizes:
        yield f"slice_sizes={_braces(proto.gather_slice_sizes)}"
    if proto.comparison_direction:
        yield f"direction={_name(as_text(proto.comparison_direction))}"


def _contraction_attributes(instruction: Instruction) -> Iterator[str]:
    proto = instruction.proto
    if proto.HasField("dot_dimension_numbers"):
        for name in ("lhs_batch", "lhs_contracting", "rhs_batch", "rhs_contracting"):
            dims = getattr(proto.dot_dimension_numbers, f"{name}_dimensions")
            if dims:
                yield f"{name}_dims={_braces(dims)}"
    if proto.window.dimensions:
        sizes = "x".join(str(d.size) for d in proto.window.dimensions)
        strides = "x".join(str(d.stride) for d in proto.window.dimensions)
        yield f"window={{size={sizes} stride={strides}}}"


def _library_attributes(instruction: Instruction) -> Iterator[str]:
    if instruction.custom_call_target:
        yield f"custom_call_target={_quoted(instruction.custom_call_target)}"


def _collective_attributes(instruction: Instruction) -> Iterator[str]:
    if channel_id(instruction):
        yield f"channel_id={channel_id(instruction)}"
    rules: tuple[tuple[str, Callable[[Instruction], Iterable[Iterable[int]]]], ...] = (
        ("replica_groups", replica_groups),
        ("source_target_pairs", source_target_pairs),
    )
    for name, read in rules:
        groups = [_braces(group) for group in read(instruction)]
        if groups:
            yield f"{name}={_braces(groups)}"


def _metadata(program: Program, metadata: hlo_pb2.OpMetadata) -> list[str]:
    parts = []
    if metadata.op_name:
        parts.append(f"op_name={_quoted(as_text(metadata.op_name))}")
    frames = program.frames_in(metadata)
    if frames:
        parts.append(f"source_file={_quoted(frames[0].file)} source_line={frames[0].line}")
    if metadata.deduplicated_name:
        parts.append(f"deduplicated_name={_quoted(as_text(metadata.deduplicated_name))}")
    return parts


def _braces(values: Iterable[object]) -> str:
    return f"{{{','.join(map(str, values))}}}"


_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode


def _name(text: str) -> str:
    """A name as it is when it is plain, else quoted: names in a capture are foreign text."""
    return text if text and text.isprintable() and " " not in text else _quoted(text)


def _printable(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text if text.isprintable() else _quoted(text)
