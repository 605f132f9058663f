"""What a device or host event is, told by rule tables: from names, and from HLO opcodes.

Names are matched once per distinct name; the first rule that matches decides, and a name that no
rule knows is compute. Kernel names are free text, so each rule is anchored to a form that one
library, collector or compiler writes: `convert` is no convolution, `all_gather_fusion` and
`input_reduce_fusion` are no collectives. Where the HLO opcode of a kernel is known it beats a
name that only looks like an instruction (`refine_kind`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

import numpy as np

from explane.capture.model import I32, U8, Kernels, Kind

# Communication libraries. Names of all eras share the prefix: ncclKernel_ and ncclAllReduceRing
# (old), ncclDevKernel_ (since 2.19), ncclSymkDevKernel_ (symmetric memory, since 2.27),
# ncclDevKernel_Generic_N and rccl* (RCCL), msccl*, nvshmem* and rocshmem*. A C++ name may start
# with its return type and namespaces, or be mangled.
_CPP: Final = r"(?:_Z\w*?\d|(?:void\s+)?(?:[A-Za-z_]\w*::)*)"
_LIBRARY: Final = rf"{_CPP}_*(?:nccl|rccl|msccl|oneccl|hccl|xccl|ucc_|mnnvl_|nvshmem|rocshmem)"

# Collective kernels that name no library: XLA's one-shot and two-shot all-reduce and ragged
# all-to-all (stream_executor::gpu::…KernelImpl, symbols all_reduce_<type><strategy>), multimem
# and cross-device reductions and user buffers of inference and training libraries.
_DIRECT: Final = (
    rf"{_CPP}(?:(?:\w*_)?(?:one|two)_?shot_?all_?reduce|(?:Ragged)?All(?:Reduce|ToAll)Kernel"
    r"|multimem_(?:all|one|two|reduce)|cross_device_reduce_\d|userbuffers_|all_?reduce_fusion_kernel"
    r"|deep_ep::"
    # of one GPU alone: reductions of a warp or block
    r"|(?!\w*(?:warp|block|thread|lane))(?:\w*_)?(?:all_?reduce|all_?gather|reduce_?scatter"
    r"|all_?to_?allv?)_kernel\b)"
)

# A kernel that XLA named after a collective instruction (Triton collectives): all of the name.
_INSTRUCTION: Final = (
    r"(?:all_reduce|all_gather|reduce_scatter|all_to_all|ragged_all_to_all|collective_permute"
    r"|collective_broadcast)(?:_start)?(?:_\d+)*(?:\.kd)?$"
)

# Barrier packets of ROCm queues and range markers: no work.
_MARKER: Final = (
    r"\W*(?:hsa|hip|roctx|nvtx|cuda)?[ _]?(?:marker|barrier)"
    r"(?:[ _-]?(?:packet|and|or|value|event|range|start|stop))*\W*(?:\.kd)?$"
)

_BLIT: Final = r"__amd_rocclr_"
_DIRECTION: Final = r"Copy(?:Device|Host|Array|Peer)?To(?:Device|Host|Array|Peer)\w*$"
_API: Final = r"\[?(?:cuda|cu|hip|hsa_?(?:amd_)?)?[ _]?"

_RULES: Final = tuple(
    (kind, re.compile(pattern, flags))
    for kind, pattern, flags in (
        (Kind.MARKER, _MARKER, re.IGNORECASE),
        (Kind.COLLECTIVE, _LIBRARY, re.IGNORECASE),
        (Kind.COLLECTIVE, _DIRECT, re.IGNORECASE),
        (Kind.COLLECTIVE, _INSTRUCTION, 0),
        # Peer copies move data between GPUs: copy-engine collectives appear as nothing else.
        (Kind.COLLECTIVE, _API + r"memcpy[ _]?(?:p2p|ptop|peer)", re.IGNORECASE),
        # ROCm does copies and fills by blit kernels; CUPTI and roctracer name them by direction.
        (Kind.MEMCPY, _BLIT + r"copy", 0),
        (Kind.MEMSET, _BLIT + r"fill", 0),
        (Kind.MEMCPY, _API + r"memcpy(?!_?fusion|_kernel)", re.IGNORECASE),
        (Kind.MEMSET, _API + r"memset(?!_?fusion|_kernel)", re.IGNORECASE),
        (
            Kind.MEMCPY,
            r"Copy(?:Device|Host|Array|Unified|Peer)?To(?:Device|Host|Array|Peer)\w*$",
            0,
        ),
        (Kind.MEMSET, r"Fill(?:Buffer|Memory)\b", 0),
    )
)
_STRONG: Final = re.compile(f"{_LIBRARY}|{_DIRECT}", re.IGNORECASE)

# ------------------------------------------------------------------------------- HLO opcodes

GROUP_COLLECTIVES: Final = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
"""Opcodes of which all GPUs of a group run one together."""
COLLECTIVES: Final = (*GROUP_COLLECTIVES, "recv", "send")
COLLECTIVE_OPCODES: Final = frozenset(
    base + suffix for base in COLLECTIVES for suffix in ("", "-start", "-done")
)
_COPY_OPCODES: Final = frozenset({"copy", "copy-start", "copy-done"})


def kind_of_name(name: str) -> Kind:
    """Kind of a device event told by its name alone; COMPUTE when no rule knows it."""
    return next((kind for kind, rule in _RULES if rule.match(name)), Kind.COMPUTE)


def refine_kind(name: str, by_name: Kind, opcode: str) -> Kind:
    """Kind of a device event whose HLO instruction is known: the opcode beats the name.

    Args:
        name: Kernel name.
        by_name: What name and stats said.
        opcode: HLO opcode of the kernel's instruction (of the wrapped one for async wrappers);
            empty when unknown.

    A fill inside another op stays a fill (workspace cleared by an attention call), and a kernel
    of a communication library stays communication whatever instruction launched it.
    """
    if not opcode or by_name in (Kind.MARKER, Kind.MEMSET):
        return by_name
    if opcode in COLLECTIVE_OPCODES:
        return Kind.COLLECTIVE
    if opcode in _COPY_OPCODES:
        return Kind.MEMCPY if by_name is Kind.COMPUTE else by_name
    weak = by_name is Kind.COLLECTIVE and _INSTRUCTION_RULE.match(name) is not None
    return Kind.COMPUTE if weak else by_name


_INSTRUCTION_RULE: Final = re.compile(_INSTRUCTION)


def refine_kinds(
    kernels: Kernels, strings: Sequence[str], opcode: I32, opcodes: Sequence[str]
) -> U8:
    """`refine_kind` of all kernels, told once per distinct name, kind and opcode.

    Args:
        kernels: The kernels.
        strings: Pool of their names (`Capture.strings`).
        opcode: Position in `opcodes` of each kernel's HLO opcode, -1 where it is not known.
        opcodes: Distinct opcodes.
    """
    n_opcodes = len(opcodes) + 1
    key = (kernels.name.astype(np.int64) * len(Kind) + kernels.kind) * n_opcodes + opcode + 1
    distinct, inverse = np.unique(key, return_inverse=True)
    told = []
    for number in distinct.tolist():
        rest, op = divmod(number, n_opcodes)
        name, kind = divmod(rest, len(Kind))
        told.append(refine_kind(strings[name], Kind(kind), opcodes[op - 1] if op else ""))
    refined: U8 = np.array(told, dtype=np.uint8)[inverse]
    return refined


# --------------------------------------------------------------------------- kind of collective

_COLLECTIVES: Final = tuple(
    (word, re.compile(pattern, re.IGNORECASE))
    for word, pattern in (
        ("reduce-scatter", r"reduce_?scatter"),
        ("all-reduce", r"all_?reduce|cross_device_reduce"),
        ("all-gather", r"all_?gather"),
        ("all-to-all", r"all_?to_?all|alltoall"),
        ("broadcast", r"broadcast"),
        ("reduce", r"_reduce_|ncclKernel_Reduce|DevKernel_Reduce"),
        ("send-recv", r"send_?recv|collective_permute"),
        ("peer-copy", r"memcpy"),
    )
)


def collective_of_name(name: str) -> str:
    """Which collective a communication kernel runs, in words of the field; empty if not in it.

    RCCL's `ncclDevKernel_Generic` and unknown names say nothing of the collective.
    """
    if kind_of_name(name) is not Kind.COLLECTIVE:
        return ""
    head = re.split(r"[(<]", name, maxsplit=1)[0]
    return next((word for word, rule in _COLLECTIVES if rule.search(head)), "")


# ------------------------------------------------------------------------------- single tests

_GRAPH_LAUNCH: Final = re.compile(r"(?:cu|cuda|hip)?GraphLaunch(?![a-z])")
_WHOLE_GRAPH: Final = re.compile(r"CudaGraphExec:\s*\d+")


def is_graph_launch(name: str) -> bool:
    """True for the API call that launches a CUDA or HIP graph (`cuGraphLaunch (CudaGraph:1)`)."""
    return _GRAPH_LAUNCH.match(name) is not None


def is_whole_graph(name: str) -> bool:
    """True for the one event that stands for a whole graph launch (`CudaGraphExec:<id>`).

    CUPTI's graph-level tracing writes it in place of the kernels of the graph, so nothing inside
    can be attributed.
    """
    return _WHOLE_GRAPH.match(name) is not None


def is_python_event(name: str) -> bool:
    """True for events of the Python tracer: `$file.py:line function`, `$builtins len`."""
    return name.startswith("$")


# ------------------------------------------------------------------------ lines of device planes


class LineRole(Enum):
    """What a line of a GPU plane holds."""

    STREAM = "stream"
    DERIVED = "derived"
    """Only xprof adds it: the same work again, grouped by step, module, op or source."""
    OTHER = "other"
    """Tracer overhead, counters, memory events: no GPU work."""


_DERIVED_LINES: Final = re.compile(
    r"(?:Steps|XLA Modules|XLA Ops|Framework Ops|Framework Name Scope|Source code|Launch Stats"
    r"|TensorFlow Name Scope|TensorFlow Ops|.* - from #.*)$",
    re.DOTALL,
)
_NO_WORK_TYPE: Final = r"(?:MemoryResidency|UnifiedMemory|Generic|Overhead)"
_NO_WORK_LINES: Final = re.compile(
    rf"CUPTI overhead|_counters_|.*\({_NO_WORK_TYPE}(?:,\s*{_NO_WORK_TYPE})*\)$", re.DOTALL
)
_DERIVED_IDS: Final = range(0xDEADBEEF, 0xDEADBEEF + 8)


def role_of_line(name: str, line_id: int) -> LineRole:
    """What a line of a `/device:GPU:N` plane holds; unknown names count as streams.

    Sources: xprof's derived_timeline (names and reserved ids), XLA's cupti_collector (types of
    activity in the line's name).
    """
    if _DERIVED_LINES.match(name) or line_id in _DERIVED_IDS:
        return LineRole.DERIVED
    return LineRole.OTHER if _NO_WORK_LINES.match(name) else LineRole.STREAM
