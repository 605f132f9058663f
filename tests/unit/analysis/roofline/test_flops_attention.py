"""Fused attention calls: work where shapes and attributes determine it, else unknown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from explane.analysis.roofline.cost import Cost
from explane.analysis.roofline.flops_attention import mlir_attributes, unmasked_pairs
from tests.builders_hlo import Hlo, HloShape, shape
from tests.unit.analysis.hlo_helpers import cost, param

B, H, S, D = 2, 4, 8, 16
FULL = B * H * S * S * D
CAUSAL = B * H * (S * (S + 1) // 2) * D
QKV = f"bf16[{B},{S},{H},{D}]"
STATS = f"f32[{B},{H},{S}]"

ENGINE = {
    "input_batch": B, "attn_heads": H, "q_max_seqlen": S, "kv_max_seqlen": S, "qk_head_dim": D,
    "v_head_dim": D, "mask_type": 0, "qkv_layout": 9, "max_segments_per_seq": 1,
    "window_size_left": -1, "window_size_right": -1,
}  # fmt: skip


def results(*texts: str) -> HloShape:
    return HloShape(parts=tuple(shape(text) for text in texts))


def engine(
    direction: str = "forward", *, changes: dict[str, int] | None = None, **more: int
) -> Cost:
    attributes = ", ".join(
        f"{k} = {v} : i64" for k, v in {**ENGINE, **(changes or {}), **more}.items()
    )
    config = "{" + attributes + ", deterministic = false, scaling_factor = 8.8e-02 : f64}"
    entry = [param(name, QKV, n) for n, name in enumerate("qkv")]
    entry.append(
        Hlo(
            "a", "custom-call", results(QKV, STATS, "u8[64]"), ["q", "k", "v"],
            target=f"te_fused_attn_{direction}_ffi", backend_config=config,
        )
    )  # fmt: skip
    return cost("a", entry)


def cudnn(target: str, n_operands: int, **changes: Any) -> Cost:
    config = {
        "intermediate_tensor_shape": {"dimensions": [str(n) for n in (B, H, S, S)]},
        "mask_type": "NO_MASK", "sliding_window_length": 0, "max_seg_per_batch": 1,
        "is_paged_attention": False, **changes,
    }  # fmt: skip
    names = [f"o{n}" for n in range(n_operands)]
    entry = [param(name, QKV, n) for n, name in enumerate(names)]
    entry.append(
        Hlo(
            "a", "custom-call", results(QKV, QKV, "u8[64]"), names, target=target,
            backend_config=json.dumps({"cudnn_fmha_backend_config": config}),
        )
    )  # fmt: skip
    return cost("a", entry)


def test_forward_is_two_products() -> None:
    found = engine()
    assert (found.flops, found.rate) == (2 * 2 * FULL, "bf16")
    # Q, K, V, output, statistics; the workspace is left out
    assert found.n_bytes == 4 * 2 * B * S * H * D + 4 * B * H * S


def test_backward_is_five_products() -> None:
    assert engine("backward").flops == 2 * 5 * FULL


def test_a_causal_mask_leaves_the_triangle() -> None:
    assert engine(mask_type=2).flops == 2 * 2 * CAUSAL
    assert engine("backward", mask_type=2).flops == 2 * 5 * CAUSAL


def test_different_sizes_of_keys_and_values() -> None:
    found = engine(v_head_dim=D // 2)
    assert found.flops == 2 * (FULL + FULL // 2)


def test_a_sliding_window() -> None:
    # causal, two keys to the left: 1 + 2 + 3 * (S - 2) pairs
    found = engine(mask_type=2, window_size_left=2)
    assert found.flops == 2 * 2 * B * H * (1 + 2 + 3 * (S - 2)) * D


@pytest.mark.parametrize(
    "changes",
    [{"mask_type": 1}, {"mask_type": 3}, {"qkv_layout": 14}, {"max_segments_per_seq": 2}],
)
def test_what_depends_on_lengths_in_the_data_is_unknown(changes: dict[str, int]) -> None:
    found = engine(changes=changes)
    assert found.flops is None
    assert "data" in found.unknown
    assert found.n_bytes is not None  # the tensors' sizes are known all the same


def test_attributes_that_contradict_the_shapes_are_unknown() -> None:
    assert engine(attn_heads=64).flops is None


def test_cudnn_forward_and_backward() -> None:
    assert cudnn("__cudnn$fmhaSoftmax", 3).flops == 2 * 2 * FULL
    assert cudnn("__cudnn$fmhaSoftmaxBackward", 6).flops == 2 * 5 * FULL
    assert cudnn("__cudnn$fmhaScaleBiasSoftmaxDropout", 4, mask_type="CAUSAL").flops == 4 * CAUSAL


def test_cudnn_sliding_window_counts_the_query_itself() -> None:
    found = cudnn("__cudnn$fmhaSoftmax", 3, mask_type="CAUSAL", sliding_window_length=2)
    assert found.flops == 2 * 2 * B * H * (1 + 2 * (S - 1)) * D


@pytest.mark.parametrize(
    "changes",
    [{"mask_type": "PADDING"}, {"max_seg_per_batch": 2}, {"is_paged_attention": True}],
)
def test_cudnn_with_lengths_in_the_data_is_unknown(changes: dict[str, Any]) -> None:
    assert "data" in cudnn("__cudnn$fmhaSoftmax", 3, **changes).unknown


def test_a_call_without_its_config_is_unknown() -> None:
    entry = [param("q", QKV), Hlo("a", "custom-call", QKV, ["q"], target="__cudnn$fmhaSoftmax")]
    assert cost("a", entry).flops is None


@pytest.mark.parametrize(
    ("n_queries", "n_keys", "shift", "left", "right", "expected"),
    [
        (4, 6, 0, -1, -1, 24),
        (4, 6, 0, -1, 0, 1 + 2 + 3 + 4),
        (4, 6, 2, -1, 0, 3 + 4 + 5 + 6),
        (6, 4, 0, -1, 0, 1 + 2 + 3 + 4 + 4 + 4),
        (4, 4, 0, 1, 1, 2 + 3 + 3 + 2),
        (4, 4, 0, 0, -1, 4 + 3 + 2 + 1),
    ],
)
def test_unmasked_pairs(
    n_queries: int, n_keys: int, shift: int, left: int, right: int, expected: int
) -> None:
    assert unmasked_pairs(n_queries, n_keys, shift, left, right) == expected


def test_mlir_attributes() -> None:
    text = b"{a = 16 : i64, b = -1 : i64, c = false, d = 1.000000e-01 : f64, e = true}"
    assert mlir_attributes(text) == {"a": 16, "b": -1, "c": 0, "d": 0.1, "e": 1}
