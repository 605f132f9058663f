"""FLOPs of fused attention calls, where their shapes and attributes determine them.

Forward: Q·Kᵀ and P·V. Backward: dV, dP, dQ, dK, and Q·Kᵀ once more, since only the softmax
statistics are among the operands. With a causal mask or a sliding window only the pairs of query
and key that the mask leaves are counted; a kernel that works through masked tiles does more. Masks
by sequence length (padding, packed or paged sequences) depend on data: unknown.

Sources: cudnn_fmha_backend_config of backend_configs.proto and XLA's call names; attributes of
Transformer Engine's `te_fused_attn_*_ffi` and its enums NVTE_Mask_Type and NVTE_QKV_Layout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from explane.analysis.roofline.cost import MatrixWork
from explane.analysis.roofline.flops_dot import matrix_rate
from explane.capture.hlo_dimensions import Precision
from explane.capture.program import Instruction, Program
from explane.capture.shape import Shape

FMHA_PREFIXES: Final = ("__cudnn$fmha", "__cudnn$f8$fmha")
TRANSFORMER_ENGINE: Final = re.compile(r"te_fused_attn_(forward|backward)(_ffi)?$")
_MLIR_ATTRIBUTE: Final = re.compile(
    r"(\w+)\s*=\s*(-?[\d.]+(?:e[+-]?\d+)?|true|false)", re.IGNORECASE
)
_TE_NO_MASK, _TE_CAUSAL, _TE_CAUSAL_BOTTOM_RIGHT = 0, 2, 4
# NVTE_QKV_Layout: 10-14 pack sequences of different length (THD), 17 and above mix or page them.
_TE_DENSE_LAYOUTS: Final = frozenset({*range(10), 15, 16})


@dataclass(frozen=True, slots=True)
class _Problem:
    """One attention: sizes per call, and what the mask leaves."""

    n_heads: int  # batch * heads
    n_queries: int
    n_keys: int
    qk_size: int
    v_size: int
    n_pairs: int


class _DataDependentError(Exception):
    """The mask depends on data, so that the shapes do not tell the work."""


def attention_work(program: Program, instruction: Instruction) -> tuple[MatrixWork | None, str]:
    """(work, reason): work of a fused attention call, or None and why it is unknown."""
    target = instruction.custom_call_target
    engine = TRANSFORMER_ENGINE.search(target)
    try:
        if engine is not None:
            problem = _engine_problem(instruction)
            backward = engine.group(1) == "backward"
        else:
            problem = _cudnn_problem(program, instruction)
            backward = "Backward" in target
    except _DataDependentError as error:
        return None, f"attention: {error}"
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return None, "attention: its attributes are not understood"
    operands = program.operands_of(instruction)
    if problem is None or not operands:
        return None, "attention: its attributes and shapes disagree"
    # Each product with the size of Q and K, and each with that of V; backward recomputes one.
    n_qk, n_v = (3, 2) if backward else (1, 1)
    terms = problem.n_heads * problem.n_pairs * (n_qk * problem.qk_size + n_v * problem.v_size)
    rate, n_passes = matrix_rate(operands[0].shape, operands[0].shape, Precision("", 0))
    return MatrixWork(2 * terms, rate, n_passes), ""


def is_attention(target: str) -> bool:
    """True for the targets of cuDNN's and Transformer Engine's fused attention."""
    return target.startswith(FMHA_PREFIXES) or TRANSFORMER_ENGINE.search(target) is not None


def mlir_attributes(text: bytes) -> dict[str, int | float]:
    """Numbers and booleans of an MLIR attribute dictionary `{a = 1 : i64, b = false}`."""
    found: dict[str, int | float] = {}
    for name, value in _MLIR_ATTRIBUTE.findall(text.decode("utf-8", "replace")):
        if value.lower() in {"true", "false"}:
            found[name] = int(value.lower() == "true")
        else:
            found[name] = float(value) if re.search(r"[.e]", value, re.IGNORECASE) else int(value)
    return found


def _engine_problem(instruction: Instruction) -> _Problem | None:
    """Transformer Engine: sizes and mask are attributes of the FFI call."""
    attributes = mlir_attributes(instruction.backend_config_bytes)
    if attributes["qkv_layout"] not in _TE_DENSE_LAYOUTS:
        raise _DataDependentError("packed sequences, their lengths are data")
    if attributes.get("max_segments_per_seq", 1) > 1:
        raise _DataDependentError("several segments in one sequence, their lengths are data")
    mask = attributes["mask_type"]
    if mask not in {_TE_NO_MASK, _TE_CAUSAL, _TE_CAUSAL_BOTTOM_RIGHT}:
        raise _DataDependentError("padding mask, sequence lengths are data")
    n_queries, n_keys = int(attributes["q_max_seqlen"]), int(attributes["kv_max_seqlen"])
    size = attributes.get("head_dim", 0)
    shift = n_keys - n_queries if mask == _TE_CAUSAL_BOTTOM_RIGHT else 0
    right = 0 if mask != _TE_NO_MASK else int(attributes.get("window_size_right", -1))
    problem = _Problem(
        n_heads=int(attributes["input_batch"] * attributes["attn_heads"]),
        n_queries=n_queries,
        n_keys=n_keys,
        qk_size=int(attributes.get("qk_head_dim", size)),
        v_size=int(attributes.get("v_head_dim", size)),
        n_pairs=unmasked_pairs(
            n_queries, n_keys, shift, int(attributes.get("window_size_left", -1)), right
        ),
    )
    return problem if _holds_output(instruction.shape, problem) else None


def _holds_output(result: Shape, problem: _Problem) -> bool:
    """The first result is as large as the output (forward) or a gradient (backward)."""
    first = next(iter(result.leaves), None)
    expected = problem.n_heads * problem.n_queries * problem.v_size
    return first is not None and first.n_elements >= expected > 0


def _cudnn_problem(program: Program, instruction: Instruction) -> _Problem | None:
    """cuDNN: batch, heads and lengths from `intermediate_tensor_shape` (the scores)."""
    config: Mapping[str, Any] = instruction.backend_config["cudnn_fmha_backend_config"]
    if int(config.get("max_seg_per_batch", 1)) > 1 or config.get("is_paged_attention"):
        raise _DataDependentError("packed or paged sequences, their lengths are data")
    mask = config.get("mask_type", "CAUSAL" if config.get("is_causal_mask") else "NO_MASK")
    if mask not in {"NO_MASK", "CAUSAL"}:
        raise _DataDependentError(f"mask {mask}, sequence lengths are data")
    scores = config["intermediate_tensor_shape"]["dimensions"]
    n_batch, n_heads, n_queries, n_keys = (int(size) for size in scores)
    rows = n_batch * n_heads * n_queries
    operands = program.operands_of(instruction)
    # Forward gives the output first; backward takes its gradient after Q, K, V and statistics.
    is_backward = "Backward" in instruction.custom_call_target
    output = operands[4].shape if is_backward else next(iter(instruction.shape.leaves))
    if operands[0].shape.n_elements % rows or output.n_elements % rows:
        return None
    window = int(config.get("sliding_window_length", 0))
    left = window - 1 if window > 0 else -1
    return _Problem(
        n_heads=n_batch * n_heads,
        n_queries=n_queries,
        n_keys=n_keys,
        qk_size=operands[0].shape.n_elements // rows,
        v_size=output.n_elements // rows,
        n_pairs=unmasked_pairs(n_queries, n_keys, 0, left, 0 if mask == "CAUSAL" else -1),
    )


def unmasked_pairs(n_queries: int, n_keys: int, shift: int, left: int, right: int) -> int:
    """Pairs (query q, key k) with q + shift - left <= k <= q + shift + right.

    A limit of -1 is none. Causal is right = 0; a sliding window of w keys is left = w - 1.
    """
    if left < 0 and right < 0:
        return n_queries * n_keys
    total = 0
    for query in range(n_queries):
        centre = query + shift
        first = max(centre - left, 0) if left >= 0 else 0
        last = min(centre + right, n_keys - 1) if right >= 0 else n_keys - 1
        total += max(last - first + 1, 0)
    return total
