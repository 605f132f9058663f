"""Which kernels one instruction may launch: kind, names and number, from its HLO alone.

Facts from xla/service/gpu/thunk_emitter.cc and from thunk dumps of compiled programs; what the
HLO leaves open (a library's choice of kernels) is stated as a range, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from explane.analysis.attribution.schedule import LaunchKind
from explane.capture.classify import COLLECTIVES
from explane.capture.program import Instruction, Program

NO_LAUNCH: Final = frozenset(
    {
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "after-all",
        "add-dependency",
        "domain",
        "optimization-barrier",
        "get-dimension-size",
    }
)
_NO_LAUNCH_TARGETS: Final = frozenset({"nop", "pin", "unpin", "createbuffer", "create_buffer"})
_SLICE_FUSIONS: Final = frozenset(
    {"dynamic_slice_fusion", "address_computation", "dynamic_address_computation"}
)
_HOST_COPIES: Final = frozenset({"copy-start", "infeed", "outfeed"})
_IDS: Final = frozenset({"partition-id", "replica-id"})
_FILL_OPCODES: Final = frozenset({"constant", "broadcast", "bitcast", "parameter"})
_MOVE_OPCODES: Final = frozenset({"parameter", "copy", "bitcast", "tuple"})
_MANY: Final = 16
_TRITON_NAME: Final = re.compile(r'\bname\s*=\s*\\?"([^"\\]+)')


@dataclass(frozen=True, slots=True)
class Work:
    """What an instruction launches; see `Launch` for the fields.

    `hero` is the inner instruction that the tracer labels its kernels with, where it is known to.
    """

    kind: LaunchKind
    names: tuple[str, ...] = ()
    collective: str = ""
    alternatives: tuple[LaunchKind, ...] = ()
    max_kernels: int = 1
    optional: bool = False
    convertible: bool = True
    n_thunks: int = 1
    hero: str = ""


def kernel_name_of(instruction_name: str) -> str:
    """The kernel name that XLA makes of an instruction's name: only letters, digits and `_`."""
    return re.sub(r"[^A-Za-z0-9]", "_", instruction_name)


def collective_opcode(opcode: str) -> str:
    """The collective that an opcode stands for (`all-gather-start` -> `all-gather`), or empty."""
    base = opcode.removesuffix("-start")
    return base if base in COLLECTIVES else ""


def work_of(program: Program, instruction: Instruction) -> Work | None:
    """What an instruction that is no call, loop, conditional or async wrapper launches.

    Returns:
        None when it launches nothing (no thunk, or only a wait).
    """
    opcode = instruction.opcode
    if opcode in NO_LAUNCH or opcode.endswith(("-done", "-update")):
        return None
    if opcode == "fusion":
        return _fusion(program, instruction)
    if opcode == "custom-call":
        return _custom_call(instruction)
    if collective_opcode(opcode):
        return _collective(collective_opcode(opcode))
    name = (kernel_name_of(instruction.name),)
    simple = _simple(opcode, name)
    if simple is not None:
        return simple
    if opcode == "sort":
        return Work(LaunchKind.SORT, name, max_kernels=_MANY)
    if opcode in ("convolution", "dot"):
        kind = LaunchKind.GEMM if opcode == "dot" else LaunchKind.CONVOLUTION
        return Work(kind, name, max_kernels=_MANY)
    return Work(LaunchKind.CUSTOM, name, max_kernels=2)


def _simple(opcode: str, name: tuple[str, ...]) -> Work | None:
    """Work of instructions whose kernels mostly have no name of their own."""
    if opcode == "copy":
        return Work(LaunchKind.COPY)
    if opcode in _IDS:
        return Work(LaunchKind.HOST_COPY, name)
    if opcode == "fft":
        return Work(LaunchKind.FFT, max_kernels=4, convertible=False)
    if opcode in _HOST_COPIES:
        return Work(LaunchKind.HOST_COPY, max_kernels=_MANY, optional=True, convertible=False)
    return None


def _collective(opcode: str) -> Work:
    return Work(LaunchKind.COLLECTIVE, collective=opcode, max_kernels=2, convertible=False)


def _fusion(program: Program, instruction: Instruction) -> Work:
    config = _config(instruction, "fusion_backend_config")
    body = _called(program, instruction)
    custom = str((config.get("custom_fusion_config") or {}).get("name", ""))
    own = kernel_name_of(instruction.name)
    if custom in _SLICE_FUSIONS:
        return _slice_fusion(body, own, custom)
    kind = str(config.get("kind", ""))
    if kind == "__dynamic_memcpy":
        return Work(LaunchKind.COPY, (own,))
    if kind.startswith("__cudnn"):
        return Work(LaunchKind.LIBRARY, (own,), max_kernels=4)
    root_id = program.computations[body[0].computation_id].root_id if body else -1
    root = program.instructions.get(root_id)
    if root is not None and is_contiguous_slice(program, root):
        return Work(LaunchKind.COPY, (own,))
    sorts = [kernel_name_of(i.name) for i in body if i.opcode == "sort"]
    if sorts:
        return Work(LaunchKind.SORT, (own, *sorts), max_kernels=_MANY)
    if body and all(i.opcode in _FILL_OPCODES for i in body):
        return Work(LaunchKind.CUSTOM, (own,), alternatives=(LaunchKind.MEMSET,))
    if body and all(i.opcode in _MOVE_OPCODES for i in body):
        n_copies = max(sum(i.opcode == "copy" for i in body), 1)
        copies = (LaunchKind.COPY,)
        return Work(LaunchKind.CUSTOM, (own,), alternatives=copies, max_kernels=n_copies)
    # Scatters and in-place updates may copy or clear their output first.
    prepares = any(i.opcode in ("scatter", "select-and-scatter") for i in body)
    return Work(LaunchKind.CUSTOM, (own,), max_kernels=3 if prepares else 1)


def _slice_fusion(body: list[Instruction], own: str, era: str) -> Work:
    """A dynamic-slice fusion runs what it wraps: a copy, a library call or a collective.

    Under its former name (`address_computation`) the wrapped call's own label is seen.
    """
    for inner in body:
        if inner.opcode == "custom-call":
            work = _custom_call(inner)
            if work is not None:
                hero = inner.name if era.endswith("address_computation") else ""
                return replace(work, names=(own,), n_thunks=2, hero=hero)
        if collective_opcode(inner.opcode):
            return Work(
                LaunchKind.COLLECTIVE,
                collective=collective_opcode(inner.opcode),
                max_kernels=3,
                convertible=False,
                n_thunks=2,
            )
    return Work(LaunchKind.COPY, (own,), n_thunks=2)


def _custom_call(instruction: Instruction) -> Work | None:
    target = instruction.custom_call_target.lower()
    if target in _NO_LAUNCH_TARGETS:
        return None
    if "$" in target and "conv" in target:
        return Work(LaunchKind.CONVOLUTION, max_kernels=_MANY, convertible=False)
    if "cublas" in target or "gemm" in target or "matmul" in target:
        return Work(LaunchKind.GEMM, max_kernels=4)
    if "triton" in target or "mosaic" in target:
        names = (*_triton_names(instruction), kernel_name_of(instruction.name))
        return Work(LaunchKind.CUSTOM, names, max_kernels=2)
    if "sort" in target or "topk" in target:
        return Work(LaunchKind.SORT, max_kernels=_MANY)
    return Work(LaunchKind.LIBRARY, max_kernels=_MANY, optional=True)


def _triton_names(instruction: Instruction) -> tuple[str, ...]:
    """Kernel name that a Triton call carries in its config (`name = "…"`), if it does."""
    text = instruction.backend_config_bytes.decode("utf-8", "replace")
    return tuple(dict.fromkeys(kernel_name_of(n) for n in _TRITON_NAME.findall(text)))


def is_contiguous_slice(program: Program, root: Instruction) -> bool:
    """True for a slice whose elements lie in one piece, which XLA runs as a copy.

    From the slowest dimension on: sizes of one, then at most one cut dimension, then whole ones.
    """
    if root.opcode != "slice" or not root.operand_ids:
        return False
    operand = program.instructions.get(root.operand_ids[0])
    if operand is None or operand.opcode != "parameter":
        return False
    kept, whole = root.shape.dimensions, operand.shape.dimensions
    order = tuple(reversed(root.shape.minor_to_major)) or tuple(range(len(kept)))
    if len(kept) != len(whole) or _has_stride(root):
        return False
    sizes = [(kept[d], whole[d]) for d in order if d < len(kept)]
    while sizes and sizes[0][0] == 1:
        sizes.pop(0)
    return all(part == full for part, full in sizes[1:])


def _has_stride(instruction: Instruction) -> bool:
    return any(d.stride > 1 for d in instruction.proto.slice_dimensions)


def _config(instruction: Instruction, key: str) -> dict[str, Any]:
    value = instruction.backend_config.get(key)
    return value if isinstance(value, dict) else {}


def _called(program: Program, instruction: Instruction) -> list[Instruction]:
    """Instructions of the computations that an instruction calls, in file order."""
    computations: Iterable[int] = instruction.called_computation_ids
    return [
        program.instructions[i]
        for c in computations
        if c in program.computations
        for i in program.computations[c].instruction_ids
    ]
