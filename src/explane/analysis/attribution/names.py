"""What a kernel's name says about the work it belongs to.

Only library kernels, copies and fills are told by rules; a kernel that XLA compiled is known by
the name of its instruction (`Schedule.by_kernel_name`). Names are hints: the rules bound what an
instruction may have launched, they never decide alone.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from explane.capture.model import Kind


class KernelClass(IntEnum):
    """Families of kernels by name."""

    OTHER = 0
    """Nothing is known; may be anything a library or an FFI call launches."""
    COPY = 1
    MEMSET = 2
    GEMM = 3
    GEMM_TAIL = 4
    """Split-K and other reductions that end a GEMM, casts that end a convolution."""
    CONVOLUTION = 5
    CONVOLUTION_HEAD = 6
    """Layout changes, im2col and clearing in front of a convolution's main kernel."""
    ATTENTION = 7
    FFT = 8
    SORT = 9
    COLLECTIVE = 10
    HOST_COPY = 11
    """A copy from or to the host."""
    XLA = 12
    """Looks like a kernel that XLA named after an instruction."""


_RULES: Final = tuple(
    (family, re.compile(pattern, re.IGNORECASE))
    for family, pattern in (
        (
            KernelClass.GEMM_TAIL,
            r"splitk|split_k|postgsu|reduce_?1block|gemmk1_kernel|cublasLt.*reduc|opwithcasttensor",
        ),
        (KernelClass.ATTENTION, r"fmha|flash_|_attention|attn|aotriton|mha_(?:fwd|bwd)"),
        (
            KernelClass.CONVOLUTION_HEAD,
            r"im2col|im2d2col|im3d2col|nchwtonhwc|nhwctonchw|batched_transpose|tensoropwithscalar",
        ),
        (
            KernelClass.CONVOLUTION,
            r"cudnn|miopen|[fdw](?:prop|grad)|igemm_[fbw]|implicit_gemm|conv(?:olution|2d|3d)|_conv_",
        ),
        (KernelClass.FFT, r"fft"),
        (KernelClass.GEMM, r"gemm|gemv|cijk_|nvjet|cutlass|cublas|matmul|magma_"),
        (KernelClass.SORT, r"radix_?sort|mergesort|bitonic|cub::|rocprim|topk|top_k"),
    )
)
# A name that XLA makes of an instruction: lower-case words, digits and underscores only.
_XLA: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_XLA_WORDS: Final = re.compile(
    r"fusion|^wrapped_|^(?:loop|input|gemm|fused|triton|sort|copy|reduce|transpose|broadcast)_"
)
_SUFFIX: Final = re.compile(r"(?: \[clone \.kd\]|\.kd)+$")
_NUMBER: Final = re.compile(r"(?:_\d+)+$")


def base_name(name: str) -> str:
    """A kernel name without what ROCm's tracers append (`.kd`, ` [clone .kd]`)."""
    return _SUFFIX.sub("", name)


def stem_of(name: str) -> str:
    """A kernel name without the numbers at its end (`loop_add_fusion_3` -> `loop_add_fusion`)."""
    return _NUMBER.sub("", name)


_HOST_COPY: Final = re.compile(
    r"h2d|d2h|htod|dtoh|atoh|htoa|hosttodevice|devicetohost|hosttohost"
    r"|kind_(?:src|dst):(?:pinned|pageable|host|array_host)",
    re.IGNORECASE,
)
_BY_KIND: Final = {
    Kind.MEMSET: KernelClass.MEMSET,
    Kind.COLLECTIVE: KernelClass.COLLECTIVE,
}


def class_of_kernel(name: str, kind: int, details: str = "") -> KernelClass:
    """Family of a kernel, told by its kind (copies, fills, collectives) and then its name.

    Args:
        name: Kernel name as stored.
        kind: `Kind` value.
        details: What tells copies from and to the host: memcpy details, name of the API call.
    """
    if kind == Kind.MEMCPY:
        host = _HOST_COPY.search(name) or _HOST_COPY.search(details)
        return KernelClass.HOST_COPY if host else KernelClass.COPY
    if kind in _BY_KIND:
        return _BY_KIND[Kind(kind)]
    base = base_name(name)
    if _XLA.fullmatch(base) and _XLA_WORDS.search(base):
        return KernelClass.XLA
    return next((family for family, rule in _RULES if rule.search(base)), KernelClass.OTHER)
