"""The instructions of a program by id and by name, made when they are asked for.

Of the hundred thousand instructions of a large module an analysis asks for a few thousand. They
stay columns (see `hlo_columns`) until then.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from explane.capture._proto import hlo_pb2
from explane.capture.hlo_columns import InstructionColumns, Lists, Spans
from explane.capture.hlo_split import as_text
from explane.capture.model import I64
from explane.capture.shape import Shape, shape_of_bytes


class Instruction:
    """An HloInstructionProto; all but its names and ids is decoded when it is asked for.

    Two instructions are equal only if they are the same object.

    Attributes:
        id: 64-bit, unique in its module.
        name: Unique in its module.
        opcode: As in the proto, such as `fusion`, `custom-call`, `all-gather-start`.
        computation_id: The computation that lists it.
        operand_ids: Instructions whose results it takes, in order.
        called_computation_ids: Fused computation, reducer, condition and body, …, in order.
    """

    def __init__(self, module: Instructions, row: int):
        columns = module.columns
        self._module, self._row = module, row
        self.id: int = columns.id.item(row)
        self.name = columns.names[row]
        self.opcode = module.opcodes[columns.opcode.item(row)]
        self.computation_id: int = module.computation_id.item(row)
        self.operand_ids = columns.operands.at(row)
        self.called_computation_ids = columns.called.at(row)

    def __repr__(self) -> str:
        return f"Instruction({self.id}, {self.name!r}, {self.opcode!r})"

    @cached_property
    def proto(self) -> hlo_pb2.HloInstructionProto:
        """The HloInstructionProto itself (field numbers as in hlo.proto)."""
        return hlo_pb2.HloInstructionProto.FromString(self._bytes(self._module.columns.whole))

    @property
    def content(self) -> tuple[str, bytes, bytes]:
        """Opcode, shape and all other fields but names, ids, links and metadata, as stored."""
        columns = self._module.columns
        rest = self._bytes(columns.more) + self._bytes(columns.rest)
        return self.opcode, self._bytes(columns.shape), rest

    @cached_property
    def shape(self) -> Shape:
        """The result's shape."""
        return shape_of_bytes(self._bytes(self._module.columns.shape))

    @cached_property
    def metadata(self) -> hlo_pb2.OpMetadata:
        """Where it comes from; empty when that is not stored."""
        return hlo_pb2.OpMetadata.FromString(self._bytes(self._module.columns.metadata))

    @property
    def op_name(self) -> str:
        """OpMetadata.op_name; empty when there is none."""
        return as_text(self.metadata.op_name)

    @property
    def deduplicated_name(self) -> str:
        """OpMetadata.deduplicated_name; equal values mark equal bodies."""
        return as_text(self.metadata.deduplicated_name)

    @property
    def stack_frame_id(self) -> int:
        """1-based id of the innermost frame in `Program.frames`; 0 = none."""
        return self.metadata.stack_frame_id

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
        return backend_config_of(self.proto, self._module.payloads)

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

    def _bytes(self, spans: Spans) -> bytes:
        return self._module.data[spans.start.item(self._row) : spans.end.item(self._row)]


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
        return known if known is not None else self._keep(self._rows[key])

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.columns.id.tolist())

    def __len__(self) -> int:
        return len(self.columns.id)

    def rows_of(self, ids: I64) -> I64:
        """Rows of many ids; -1 for those that the module does not hold."""
        if not len(self._sorted):
            return np.full(len(ids), -1)
        place = np.searchsorted(self._sorted, ids).clip(max=len(self._sorted) - 1)
        return np.where(self._sorted[place] == ids, self._order[place], -1)

    def at(self, row: int) -> Instruction:
        """The instruction in a row."""
        known = self._made.get(self.columns.id.item(row))
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

    @cached_property
    def _rows(self) -> dict[int, int]:
        return dict(zip(self.columns.id.tolist(), range(len(self)), strict=True))

    def _keep(self, row: int) -> Instruction:
        made = Instruction(self, row)
        return self._made.setdefault(made.id, made)


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
