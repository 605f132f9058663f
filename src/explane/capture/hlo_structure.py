"""What of a stored HLO module is the same in every process that compiled the same program.

Every process of a job compiles and stores its program by itself, and the bytes differ: ids, paths
and frames in the metadata, the order of maps, what tuning chose. Two digests leave that out:

    structure   computations, instructions in order, names, opcodes, shapes, operands, launch
                order and all fields that explane knows, with places in the file for ids; without
                metadata, channels and tuning
    origin      the structure, the metadata and its frame table: op_names and Python lines

Configs whose bytes an analysis reads or compares (of calls other than cuBLAS's and cuDNN's, and
inside fusions) stand in both as they are, so there another order of a map makes another program.
Neither tells of control predecessors, nor of what stands beside the computations (aliases).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from explane.capture._proto import hlo_pb2
from explane.capture.hlo_columns import Spans
from explane.capture.hlo_split import as_text
from explane.capture.instructions import Instructions, backend_config_of
from explane.capture.model import I64, Bools
from explane.capture.program import Program

_TUNING: Final = {
    "gemm_backend_config": ("selected_algorithm", "autotune_workspace_size"),
    "cudnn_conv_backend_config": ("algorithm",),
    "cudnn_fmha_backend_config": ("algorithm",),
    "fusion_backend_config": (
        "triton_gemm_config",
        "block_level_fusion_config",
        "cudnn_fusion_config",
    ),
}
"""What tuning chooses, by part of GpuBackendConfig (backend_configs.proto)."""

_LIBRARY_CALL: Final = re.compile(r"__cu(?:blas|dnn)\$[a-z0-9$]*", re.IGNORECASE)
_KERNEL_CALL: Final = re.compile("triton|mosaic", re.IGNORECASE)
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Structure:
    """Digests of one program that its copies share; see the module's text."""

    structure: bytes
    origin: bytes


def structure_of(program: Program) -> Structure:
    """The digests of a program."""
    instructions, columns = program.instructions, program.instructions.columns
    digest = hashlib.blake2b(digest_size=16)
    _add_computations(digest, program)
    _add(digest, columns.operands.counts, instructions.rows_of(columns.operands.values))
    _add_texts(digest, columns.names)
    _add_texts(digest, instructions.opcodes)
    _add(digest, columns.opcode)
    _add_coded(digest, _bytes(instructions, columns.shape), bytes)
    inside = _inside_fusions(program)
    more, rest = _bytes(instructions, columns.more), _bytes(instructions, columns.rest)
    fields = zip(columns.opcode.tolist(), inside.tolist(), more, rest, strict=True)
    _add_coded(digest, fields, _Fields(program))
    metadata = _bytes(instructions, columns.metadata)
    _add_coded(digest, metadata, _twin)
    origin = digest.copy()
    _add_coded(origin, metadata, _known_metadata)
    if program.proto is not None:
        _add_text(origin, program.proto.stack_frame_index.SerializeToString(deterministic=True))
    return Structure(digest.digest(), origin.digest())


def _add_computations(digest: hashlib.blake2b, program: Program) -> None:
    """The module's head, and its computations with what they call and in what order they run."""
    instructions, computations = program.instructions, program.computations.values()
    head = (program.name, program.num_replicas, program.num_partitions, len(program.schedule) > 0)
    heads = [
        (c.name, len(c.instruction_ids), c.is_fusion, c.execution_thread) for c in computations
    ]
    entry = [c.id for c in computations].index(program.entry_id)
    _add_text(digest, repr((head, heads, entry)).encode("utf-8", "replace"))
    _add(digest, instructions.rows_of(np.array([c.root_id for c in computations], np.int64)))
    called = instructions.columns.called
    _add(digest, called.counts, _called_places(program))
    for computation in computations:
        ids = program.schedule.get(computation.id)
        _add_text(digest, b"" if ids is None else b"scheduled")
        _add(digest, instructions.rows_of(np.array(ids or (), np.int64)))


def _called_places(program: Program) -> I64:
    """Places of the computations that instructions call."""
    place = {key: at for at, key in enumerate(program.computations)}
    values = program.instructions.columns.called.values.tolist()
    return np.array([place[key] for key in values], np.int64)


def _inside_fusions(program: Program) -> Bools:
    """Whether each instruction runs as a part of a fusion."""
    instructions = program.instructions
    place = {key: at for at, key in enumerate(program.computations)}
    home = np.array([place[key] for key in instructions.computation_id.tolist()], np.int64)
    fusions = [code for code, opcode in enumerate(instructions.opcodes) if opcode == "fusion"]
    is_fusion = np.isin(instructions.columns.opcode, fusions)
    owners, called = instructions.columns.called.owners, _called_places(program)
    inside = np.zeros(len(place), dtype=np.bool_)
    while True:
        n_before = np.count_nonzero(inside)
        inside[called[is_fusion[owners] | inside[home[owners]]]] = True
        if np.count_nonzero(inside) == n_before:
            found: Bools = inside[home]
            return found


class _Fields:
    """Normal forms of what stands beside an instruction's name, shape, metadata and links."""

    def __init__(self, program: Program) -> None:
        self._opcodes = program.instructions.opcodes
        self._payloads = program.instructions.payloads

    def __call__(self, key: tuple[int, bool, bytes, bytes]) -> bytes:
        """The form of fields with the opcode that they belong to and whether in a fusion."""
        opcode, inside, more, rest = key
        proto = hlo_pb2.HloInstructionProto.FromString(more + rest)
        proto.DiscardUnknownFields()
        config = backend_config_of(proto, self._payloads)
        if not inside:
            proto.ClearField("channel_id")
            if not _is_read_as_bytes(self._opcodes[opcode], as_text(proto.custom_call_target)):
                config = _without_tuning(config)
        proto.ClearField("backend_config_payload")
        proto.backend_config = config
        return proto.SerializeToString(deterministic=True)


def _is_read_as_bytes(opcode: str, target: str) -> bool:
    """Whether an analysis may look at the text of a config outside fusions."""
    if opcode != "custom-call":
        return False
    return not _LIBRARY_CALL.fullmatch(target) or _KERNEL_CALL.search(target) is not None


def _without_tuning(config: bytes) -> bytes:
    """A config without what tuning chose, in one order; as it is where it is no JSON."""
    if not config.startswith(b"{"):
        return config
    try:
        parts: dict[str, Any] = json.loads(config)
        for part, names in _TUNING.items():
            if isinstance(parts.get(part), dict):
                for name in names:
                    parts[part].pop(name, None)
        return json.dumps(parts, sort_keys=True).encode()
    except (ValueError, RecursionError):
        return config


def _twin(metadata: bytes) -> bytes:
    """The only part of the metadata that tells of structure: which bodies are equal."""
    name = hlo_pb2.OpMetadata.FromString(metadata).deduplicated_name
    return as_text(name).encode("utf-8", "replace")


def _known_metadata(metadata: bytes) -> bytes:
    proto = hlo_pb2.OpMetadata.FromString(metadata)
    proto.DiscardUnknownFields()
    return proto.SerializeToString(deterministic=True)


def _bytes(instructions: Instructions, spans: Spans) -> list[bytes]:
    data = instructions.data
    places = zip(spans.start.tolist(), spans.end.tolist(), strict=True)
    return [data[start:end] for start, end in places]


def _add(digest: hashlib.blake2b, *columns: npt.NDArray[Any]) -> None:
    for column in columns:
        _add_text(digest, column.astype(np.int64).tobytes())


def _add_text(digest: hashlib.blake2b, text: bytes) -> None:
    digest.update(b"%d " % len(text))  # so that no two texts run together
    digest.update(text)


def _add_texts(digest: hashlib.blake2b, texts: Sequence[str]) -> None:
    _add_coded(digest, texts, lambda text: text.encode("utf-8", "replace"))


def _add_coded(digest: hashlib.blake2b, keys: Iterable[Key], form: Callable[[Key], bytes]) -> None:
    """Adds the form of each key; forms are made and added once, then told by their number."""
    known: dict[Key, int] = {}
    forms: dict[bytes, int] = {}
    codes = []
    for key in keys:
        code = known.get(key)
        if code is None:
            code = known[key] = forms.setdefault(form(key), len(forms))
        codes.append(code)
    _add(digest, np.array(codes, np.int64), np.array([len(one) for one in forms], np.int64))
    _add_text(digest, b"".join(forms))
