"""The instructions of a program by id and by name, made when they are asked for.

Of the hundred thousand instructions of a large module an analysis asks for a few thousand. They
stay columns (see `hlo_columns`) until then.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from explane.capture._proto import hlo_pb2
from explane.capture.hlo_columns import InstructionColumns, Lists
from explane.capture.hlo_split import as_text
from explane.capture.model import I64
from explane.capture.shape import Shape, shape_of_proto


@dataclass(frozen=True, eq=False)
class Instruction:
    """An HloInstructionProto; what is costly or rare is decoded when it is asked for.

    Two instructions are equal only if they are the same object.

    Attributes:
        id: 64-bit, unique in its module.
        name: Unique in its module.
        opcode: As in the proto, such as `fusion`, `custom-call`, `all-gather-start`.
        computation_id: The computation that lists it.
        operand_ids: Instructions whose results it takes, in order.
        called_computation_ids: Fused computation, reducer, condition and body, …, in order.
        message: The bytes of the HloInstructionProto.
        payloads: HloModuleProto.payloads of its module.
    """

    id: int
    name: str
    opcode: str
    computation_id: int
    operand_ids: tuple[int, ...]
    called_computation_ids: tuple[int, ...]
    message: bytes = field(repr=False)
    payloads: Sequence[bytes] = field(default=(), repr=False)

    @cached_property
    def proto(self) -> hlo_pb2.HloInstructionProto:
        """The HloInstructionProto itself (field numbers as in hlo.proto)."""
        return hlo_pb2.HloInstructionProto.FromString(self.message)

    @cached_property
    def shape(self) -> Shape:
        """The result's shape."""
        return shape_of_proto(self.proto.shape)

    @cached_property
    def op_name(self) -> str:
        """OpMetadata.op_name; empty when there is none."""
        return as_text(self.proto.metadata.op_name)

    @property
    def deduplicated_name(self) -> str:
        """OpMetadata.deduplicated_name; equal values mark equal bodies."""
        return as_text(self.proto.metadata.deduplicated_name)

    @property
    def stack_frame_id(self) -> int:
        """1-based id of the innermost frame in `Program.frames`; 0 = none."""
        return self.proto.metadata.stack_frame_id

    @property
    def custom_call_target(self) -> str:
        """Target of a custom call, such as `__cublas$lt$matmul`; else empty."""
        return as_text(self.proto.custom_call_target)

    @property
    def fusion_kind(self) -> str:
        """`kLoop`, `kInput`, `kOutput`, `kCustom`; empty for anything but a fusion."""
        return as_text(self.proto.fusion_kind)

    @cached_property
    def backend_config_bytes(self) -> bytes:
        """Field 43, or the payload of field 99: inline, or an index into the module's payloads."""
        return backend_config_of(self.proto, self.payloads)

    @cached_property
    def backend_config(self) -> Mapping[str, Any]:
        """The GPU backend config as JSON text decodes it; empty when absent or not JSON.

        int64 values are strings (protobuf's JSON form). Keys as in backend_configs.proto.
        """
        text = self.backend_config_bytes
        if not text.startswith(b"{"):
            return {}
        try:
            config = json.loads(text)
        except (ValueError, RecursionError):
            return {}
        return config if isinstance(config, dict) else {}


def backend_config_of(proto: hlo_pb2.HloInstructionProto, payloads: Sequence[bytes]) -> bytes:
    """The backend config of an instruction, wherever it is stored.

    Args:
        proto: The instruction.
        payloads: HloModuleProto.payloads of its module.
    """
    payload = proto.backend_config_payload
    which = payload.WhichOneof("payload")
    if which == "value":
        return payload.value
    if which == "id":
        return payloads[payload.id] if 0 <= payload.id < len(payloads) else b""
    return proto.backend_config


class Instructions(Mapping[int, Instruction]):
    """All instructions of a module by id.

    Attributes:
        data: The bytes that hold them.
        columns: Their fields, in file order; a row is a place in these.
        opcodes: Opcodes that occur, by the columns' code.
        computation_id: The computation that lists each.
        payloads: HloModuleProto.payloads, which backend configs may point into.
    """

    def __init__(
        self,
        data: bytes,
        columns: InstructionColumns,
        opcodes: Sequence[str],
        computation_id: I64,
        payloads: Sequence[bytes],
    ):
        self.data, self.columns = data, columns
        self.opcodes, self.computation_id = tuple(opcodes), computation_id
        self.payloads = payloads
        self._order = np.argsort(columns.id, kind="stable")
        self._sorted = columns.id[self._order]
        self._made: dict[int, Instruction] = {}

    def __getitem__(self, key: int) -> Instruction:
        known = self._made.get(key)
        return known if known is not None else self._keep(self.row_of(key))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and (key in self._made or self._row(key) >= 0)

    def __iter__(self) -> Iterator[int]:
        return iter(self.columns.id.tolist())

    def __len__(self) -> int:
        return len(self.columns.id)

    def row_of(self, key: int) -> int:
        """Row of an id.

        Raises:
            KeyError: The module does not hold it.
        """
        row = self._row(key)
        if row < 0:
            raise KeyError(key)
        return row

    def rows_of(self, ids: I64) -> I64:
        """Rows of many ids; -1 for those that the module does not hold."""
        if not len(self._sorted):
            return np.full(len(ids), -1)
        place = np.searchsorted(self._sorted, ids).clip(max=len(self._sorted) - 1)
        return np.where(self._sorted[place] == ids, self._order[place], -1)

    def at(self, row: int) -> Instruction:
        """The instruction in a row."""
        key = int(self.columns.id[row])
        known = self._made.get(key)
        return known if known is not None else self._keep(row)

    def with_opcodes(self, opcodes: Collection[str]) -> Iterator[Instruction]:
        """Instructions of some opcodes, in file order."""
        wanted = [code for code, opcode in enumerate(self.opcodes) if opcode in opcodes]
        return map(self.at, np.flatnonzero(np.isin(self.columns.opcode, wanted)).tolist())

    @cached_property
    def opcode_counts(self) -> Mapping[str, int]:
        """How many instructions have each opcode."""
        counts = np.bincount(self.columns.opcode, minlength=len(self.opcodes))
        return dict(zip(self.opcodes, counts.tolist(), strict=True))

    def _row(self, key: int) -> int:
        try:
            place = int(self._sorted.searchsorted(key))
        except OverflowError:
            return -1
        if place < len(self._sorted) and self._sorted[place] == key:
            return int(self._order[place])
        return -1

    def _keep(self, row: int) -> Instruction:
        made = self.read(row)
        return self._made.setdefault(made.id, made)

    def read(self, row: int) -> Instruction:
        """The instruction in a row, made anew and not kept: for those that are seen once."""
        columns = self.columns
        return Instruction(
            id=int(columns.id[row]),
            name=columns.names[row],
            opcode=self.opcodes[columns.opcode[row]],
            computation_id=int(self.computation_id[row]),
            operand_ids=columns.operands.at(row),
            called_computation_ids=columns.called.at(row),
            message=self.data[columns.whole.start[row] : columns.whole.end[row]],
            payloads=self.payloads,
        )


class ByName(Mapping[str, Instruction]):
    """The instructions of a module by name, the first one where a name is not unique."""

    def __init__(self, instructions: Instructions):
        self._instructions = instructions

    @cached_property
    def _rows(self) -> dict[str, int]:
        names = self._instructions.columns.names
        rows = dict(zip(names, range(len(names)), strict=True))
        if len(rows) < len(names):
            rows = dict(zip(reversed(names), reversed(range(len(names))), strict=True))
        return rows

    def __getitem__(self, name: str) -> Instruction:
        return self._instructions.at(self._rows[name])

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Owners(Mapping[int, tuple[int, ...]]):
    """Which instructions list a number (an operand, a called computation), in file order."""

    def __init__(self, instructions: Instructions, lists: Lists, once: bool):
        """With `once` an instruction that lists a number twice is named once."""
        owners = lists.owners
        order = np.lexsort((owners, lists.values))
        values, owners = lists.values[order], owners[order]
        if once and len(values):
            same = (np.diff(values) == 0) & (np.diff(owners) == 0)
            kept = np.concatenate([[True], ~same])
            values, owners = values[kept], owners[kept]
        self._owners = instructions.columns.id[owners]
        self._keys, self._starts = np.unique(values, return_index=True)
        self._ends = np.append(self._starts[1:], len(values))

    def __getitem__(self, key: int) -> tuple[int, ...]:
        place = int(self._keys.searchsorted(key))
        if place == len(self._keys) or self._keys[place] != key:
            raise KeyError(key)
        return tuple(self._owners[self._starts[place] : self._ends[place]].tolist())

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys.tolist())

    def __len__(self) -> int:
        return len(self._keys)
