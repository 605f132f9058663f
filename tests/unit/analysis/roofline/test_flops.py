"""FLOPs and bytes against calculations by hand."""

from __future__ import annotations

import pytest

from explane.analysis.roofline.cost import VECTOR_F64
from tests.builders_hlo import Hlo, HloComputation, HloShape, shape
from tests.unit.analysis.hlo_helpers import (
    convolution_numbers,
    cost,
    dot_numbers,
    fused,
    gemm_json,
    param,
    window,
)
from tests.wire_writer import bytes_field, int_field, packed_field


def parts(*texts: str) -> HloShape:
    return HloShape(parts=tuple(shape(text) for text in texts))


def dot(lhs: str, rhs: str, out: str, extra: bytes) -> list[Hlo]:
    return [
        param("x", lhs),
        param("y", rhs, 1),
        Hlo("d", "dot", out, ["x", "y"], extra=extra),
    ]


# ------------------------------------------------------------------------------------- products


def test_a_plain_dot() -> None:
    found = cost("d", dot("bf16[4,8]", "bf16[8,16]", "bf16[4,16]", dot_numbers([1], [0])))
    assert found.flops == 2 * 4 * 8 * 16
    assert found.rate == "bf16"
    assert found.n_bytes == 2 * (4 * 8 + 8 * 16 + 4 * 16)


def test_a_batched_dot_with_two_summed_dimensions() -> None:
    # batch 3, M 5, N 7, K 2 * 4; batch dimensions at different places
    numbers = dot_numbers([2, 3], [0, 3], [0], [1])
    found = cost("d", dot("f16[3,5,2,4]", "f16[2,3,7,4]", "f16[3,5,7]", numbers))
    assert found.flops == 2 * 3 * 5 * 7 * 8
    assert found.rate == "f16"


@pytest.mark.parametrize(
    ("element_type", "precision", "rate", "n_passes", "flops"),
    [
        ("f32", b"", "f32_default", 1, 2),
        ("f32", packed_field(1, [2, 2]), "f32", 1, 2),
        ("f32", int_field(2, 7), "bf16", 3, 2),
        ("f32", int_field(2, 9), "tf32", 1, 2),
        ("f64", b"", "f64", 1, 2),
        ("s8", b"", "s8", 1, 2),
        ("f8e4m3fn", b"", "f8", 1, 2),
        ("f8e5m2", b"", "f8", 1, 2),
        ("f4e2m1fn", b"", "f4", 1, 2),
    ],
)
def test_the_rate_follows_type_and_precision(
    element_type: str, precision: bytes, rate: str, n_passes: int, flops: int
) -> None:
    extra = dot_numbers([1], [0]) + (bytes_field(51, precision) if precision else b"")
    one = f"{element_type}[1,1]"
    found = cost("d", dot(one, one, one, extra))
    assert found.matrix is not None
    assert (found.rate, found.matrix.n_passes, found.flops) == (rate, n_passes, flops)


def test_a_dot_whose_dimensions_disagree_is_unknown() -> None:
    found = cost("d", dot("f32[4,8]", "f32[9,16]", "f32[4,16]", dot_numbers([1], [0])))
    assert found.flops is None
    assert "disagree" in found.unknown


def test_a_product_of_nothing_is_zero_and_known() -> None:
    found = cost("d", dot("f32[0,8]", "f32[8,16]", "f32[0,16]", dot_numbers([1], [0])))
    assert (found.flops, found.unknown) == (0, "")


def test_a_dot_in_a_triton_fusion_with_an_epilogue() -> None:
    body = fused(
        param("p", "bf16[64,32]"),
        param("q", "bf16[32,16]", 1),
        param("b", "f32[16]", 2),
        Hlo("d", "dot", "f32[64,16]", ["p", "q"], extra=dot_numbers([1], [0])),
        Hlo("bb", "broadcast", "f32[64,16]", ["b"]),
        Hlo("s", "add", "f32[64,16]", ["d", "bb"]),
        Hlo("c", "convert", "bf16[64,16]", ["s"]),
    )
    entry = [
        param("x", "bf16[64,32]"),
        param("y", "bf16[32,16]", 1),
        param("z", "f32[16]", 2),
        Hlo("f", "fusion", "bf16[64,16]", ["x", "y", "z"], ["fused"], fusion_kind="kCustom"),
    ]
    found = cost("f", entry, body)
    assert found.flops == 2 * 64 * 32 * 16
    assert found.vector_ops == 64 * 16
    assert found.n_bytes == 2 * 64 * 32 + 2 * 32 * 16 + 4 * 16 + 2 * 64 * 16


def test_split_k_sums_in_a_batch_dimension() -> None:
    body = fused(
        param("p", "bf16[64,2,16]"),
        param("q", "bf16[2,16,8]", 1),
        Hlo("d", "dot", "f32[2,64,8]", ["p", "q"], extra=dot_numbers([2], [1], [1], [0])),
    )
    entry = [
        param("x", "bf16[64,2,16]"),
        param("y", "bf16[2,16,8]", 1),
        Hlo("f", "fusion", "f32[2,64,8]", ["x", "y"], ["fused"]),
    ]
    assert cost("f", entry, body).flops == 2 * 64 * 32 * 8


def test_a_gemm_call_without_its_workspace() -> None:
    entry = [
        param("x", "bf16[64,32]"),
        param("y", "bf16[16,32]", 1),
        Hlo(
            "g", "custom-call", parts("bf16[64,16]", "s8[4096]"), ["x", "y"],
            target="__cublas$lt$matmul", backend_config=gemm_json(1, 1),
        ),
    ]  # fmt: skip
    found = cost("g", entry)
    assert found.flops == 2 * 64 * 32 * 16
    assert found.n_bytes == 2 * (64 * 32 + 16 * 32 + 64 * 16)


def test_an_fp8_gemm_call_with_its_scales() -> None:
    entry = [
        param("x", "f8e4m3fn[64,32]"),
        param("y", "f8e4m3fn[16,32]", 1),
        param("sx", "f32[]", 2),
        param("sy", "f32[]", 3),
        Hlo(
            "g", "custom-call", parts("bf16[64,16]", "s8[128]"), ["x", "y", "sx", "sy"],
            target="__cublas$lt$matmul$f8", backend_config=gemm_json(1, 1, epilogue="DEFAULT"),
        ),
    ]  # fmt: skip
    found = cost("g", entry)
    assert (found.flops, found.rate) == (2 * 64 * 32 * 16, "f8")
    assert found.n_bytes == 64 * 32 + 16 * 32 + 4 + 4 + 2 * 64 * 16


def test_a_batched_gemm_call() -> None:
    entry = [
        param("x", "f32[3,64,32]"),
        param("y", "f32[3,32,16]", 1),
        Hlo(
            "g", "custom-call", parts("f32[3,64,16]", "s8[128]"), ["x", "y"],
            target="__cublas$gemm", backend_config=gemm_json(2, 1, batch=[0]),
        ),
    ]  # fmt: skip
    assert cost("g", entry).flops == 2 * 3 * 64 * 32 * 16


def test_int4_operands_have_half_a_byte() -> None:
    found = cost("d", dot("s4[4,8]", "s4[8,16]", "s32[4,16]", dot_numbers([1], [0])))
    assert found.n_bytes == 4 * 8 // 2 + 8 * 16 // 2 + 4 * 4 * 16


# ---------------------------------------------------------------------------------- convolution


def convolution(
    lhs: str, rhs: str, out: str, extra: bytes, target: str = "", opcode: str = ""
) -> list[Hlo]:
    result: HloShape | str = parts(out, "u8[99]") if target else out
    made = Hlo("c", opcode or ("custom-call" if target else "convolution"), result, ["x", "y"])
    made.extra, made.target = extra, target
    return [param("x", lhs), param("y", rhs, 1), made]


def test_a_convolution_without_padding() -> None:
    # out 6x6 from 8x8 by 3x3: every product meets a real element
    extra = convolution_numbers(2) + window({"size": 3, "stride": 1}, {"size": 3, "stride": 1})
    entry = convolution("f32[2,4,8,8]", "f32[16,4,3,3]", "f32[2,16,6,6]", extra)
    assert cost("c", entry).flops == 2 * 2 * 16 * 4 * (6 * 3) * (6 * 3)


def test_products_with_padding_are_not_counted() -> None:
    # One dimension of 4 by 3 with padding 1: 3 kernel places, of 4 outputs 3 + 4 + 3 meet data.
    extra = convolution_numbers(1) + window({"size": 3, "stride": 1, "low": 1, "high": 1})
    entry = convolution("f32[1,1,4]", "f32[1,1,3]", "f32[1,1,4]", extra)
    assert cost("c", entry).flops == 2 * 10


def test_stride_and_window_dilation() -> None:
    # 7 elements, kernel 2 with dilation 2 reaches 3, stride 2: outputs at 0, 2, 4: 3 x 2 products
    dim = {"size": 2, "stride": 2, "window_dilation": 2}
    extra = convolution_numbers(1) + window(dim)
    entry = convolution("f32[1,1,7]", "f32[1,1,2]", "f32[1,1,3]", extra)
    assert cost("c", entry).flops == 2 * 6


def test_holes_of_a_dilated_input_are_not_counted() -> None:
    # 3 elements with base dilation 2 lie at 0, 2, 4; kernel 2, outputs at 0..3: places 0-1, 1-2,
    # 2-3, 3-4: one real element each.
    extra = convolution_numbers(1) + window({"size": 2, "stride": 1, "base": 2})
    entry = convolution("f32[1,1,3]", "f32[1,1,2]", "f32[1,1,4]", extra)
    assert cost("c", entry).flops == 2 * 4


def test_feature_groups() -> None:
    # 8 features in 4 groups: each output sees 2 inputs, which the kernel's shape says
    extra = convolution_numbers(1, groups=4) + window({"size": 1, "stride": 1})
    entry = convolution("f32[1,8,5]", "f32[12,2,1]", "f32[1,12,5]", extra)
    assert cost("c", entry).flops == 2 * 12 * 2 * 5


@pytest.mark.parametrize(
    ("target", "lhs", "rhs", "out"),
    [
        ("__cudnn$convForward", "bf16[2,4,8,8]", "bf16[16,4,3,3]", "bf16[2,16,6,6]"),
        ("__cudnn$convBackwardInput", "bf16[2,16,6,6]", "bf16[16,4,3,3]", "bf16[2,4,8,8]"),
        ("__cudnn$convBackwardFilter", "bf16[2,4,8,8]", "bf16[2,16,6,6]", "bf16[16,4,3,3]"),
    ],
)
def test_library_convolutions_do_the_forward_products(
    target: str, lhs: str, rhs: str, out: str
) -> None:
    extra = convolution_numbers(2) + window({"size": 3, "stride": 1}, {"size": 3, "stride": 1})
    found = cost("c", convolution(lhs, rhs, out, extra, target))
    assert (found.flops, found.rate) == (2 * 2 * 16 * 4 * 18 * 18, "bf16")
    n_bytes = 2 * (2 * 4 * 64 + 16 * 4 * 9 + 2 * 16 * 36)
    assert found.n_bytes == n_bytes


def test_a_convolution_whose_window_does_not_fit_is_unknown() -> None:
    extra = convolution_numbers(1) + window({"size": 3, "stride": 1})
    found = cost("c", convolution("f32[1,1,4]", "f32[1,1,3]", "f32[1,1,4]", extra))
    assert found.flops is None
    found = cost(
        "c", convolution("f32[1,1,4]", "f32[1,1,3]", "f32[1,1,4]", extra, "__cudnn$convForward")
    )
    assert (found.flops, found.unknown[:16]) == (None, "convolution call")


# ------------------------------------------------------------------- what XLA compiles itself


def test_an_elementwise_fusion() -> None:
    body = fused(
        param("p", "f32[100]"),
        param("q", "f32[]", 1),
        Hlo("b", "broadcast", "f32[100]", ["q"]),
        Hlo("m", "multiply", "f32[100]", ["p", "b"]),
        Hlo("e", "exponential", "f32[100]", ["m"]),
        Hlo("c", "convert", "bf16[100]", ["e"]),
    )
    entry = [
        param("x", "f32[100]"),
        param("y", "f32[]", 1),
        Hlo("f", "fusion", "bf16[100]", ["x", "y"], ["fused"]),
    ]
    found = cost("f", entry, body)
    assert (found.flops, found.rate) == (200, "vector_f32")
    assert found.n_bytes == 400 + 4 + 200


def test_a_reduction() -> None:
    adder = HloComputation(
        "add", [param("a", "f64[]"), param("b", "f64[]", 1), Hlo("s", "add", "f64[]", ["a", "b"])]
    )
    body = fused(
        param("p", "f64[8,32]"),
        param("i", "f64[]", 1),
        Hlo("r", "reduce", "f64[8]", ["p", "i"], ["add"]),
    )
    entry = [
        param("x", "f64[8,32]"),
        param("z", "f64[]", 1),
        Hlo("f", "fusion", "f64[8]", ["x", "z"], ["fused"]),
    ]
    found = cost("f", entry, adder, body)
    assert (found.flops, found.rate) == (8 * 32, VECTOR_F64)
    assert found.n_bytes == 8 * (8 * 32 + 1 + 8)


def test_a_slice_reads_and_computes_only_its_part() -> None:
    body = fused(
        param("p", "f32[64,100]"),
        param("i", "s32[]", 1),
        Hlo("n", "negate", "f32[64,100]", ["p"]),
        Hlo("s", "dynamic-slice", "f32[1,100]", ["n", "i"]),
    )
    entry = [
        param("x", "f32[64,100]"),
        param("j", "s32[]", 1),
        Hlo("f", "fusion", "f32[1,100]", ["x", "j"], ["fused"]),
    ]
    found = cost("f", entry, body)
    assert found.flops == 100
    assert found.n_bytes == 400 + 4 + 400


def test_an_update_in_place_touches_only_the_update() -> None:
    body = fused(
        param("p", "f32[64,100]"),
        param("u", "f32[1,100]", 1),
        param("i", "s32[]", 2),
        Hlo("b", "bitcast", "f32[6400]", ["p"]),
        Hlo("bu", "bitcast", "f32[100]", ["u"]),
        Hlo("d", "dynamic-update-slice", "f32[6400]", ["b", "bu", "i"]),
        Hlo("o", "bitcast", "f32[64,100]", ["d"]),
    )
    entry = [
        param("x", "f32[64,100]"),
        param("v", "f32[1,100]", 1),
        param("j", "s32[]", 2),
        Hlo("f", "fusion", "f32[64,100]", ["x", "v", "j"], ["fused"]),
    ]
    assert cost("f", entry, body).n_bytes == 400 + 4 + 400


def test_an_update_of_something_computed_writes_all_of_it() -> None:
    body = fused(
        param("p", "f32[64,100]"),
        param("u", "f32[1,100]", 1),
        param("i", "s32[]", 2),
        Hlo("n", "negate", "f32[64,100]", ["p"]),
        Hlo("d", "dynamic-update-slice", "f32[64,100]", ["n", "u", "i"]),
    )
    entry = [
        param("x", "f32[64,100]"),
        param("v", "f32[1,100]", 1),
        param("j", "s32[]", 2),
        Hlo("f", "fusion", "f32[64,100]", ["x", "v", "j"], ["fused"]),
    ]
    assert cost("f", entry, body).n_bytes == 25600 + 400 + 4 + 25600


def test_bare_slices_and_updates() -> None:
    entry = [
        param("x", "f32[64,100]"),
        param("v", "f32[1,100]", 1),
        param("j", "s32[]", 2),
        Hlo("s", "dynamic-slice", "f32[1,100]", ["x", "j"]),
        Hlo("d", "dynamic-update-slice", "f32[64,100]", ["x", "v", "j"]),
        Hlo("c", "copy", "f32[64,100]", ["x"]),
    ]
    assert cost("s", entry).n_bytes == 400 + 4 + 400
    assert cost("d", entry).n_bytes == 400 + 4 + 400
    assert cost("c", entry).n_bytes == 2 * 25600


def test_a_gather_reads_rows_and_indices() -> None:
    entry = [
        param("table", "bf16[32000,64]"),
        param("i", "s32[10,1]", 1),
        Hlo("g", "gather", "bf16[10,64]", ["table", "i"]),
    ]
    assert cost("g", entry).n_bytes == 2 * 640 + 40 + 2 * 640


@pytest.mark.parametrize(("combines", "n_target"), [(True, 640), (False, 0)])
def test_a_scatter_touches_rows_of_its_target(combines: bool, n_target: int) -> None:
    a, b = param("a", "f32[]"), param("b", "f32[]", 1)
    sum_ = Hlo("s", "add", "f32[]", ["a", "b"])
    reducer = HloComputation(
        "r", [a, b, sum_] if combines else [a, b], root="s" if combines else "b"
    )
    entry = [
        param("table", "f32[1000,64]"),
        param("i", "s32[10,1]", 1),
        param("u", "f32[10,64]", 2),
        Hlo("g", "scatter", "f32[1000,64]", ["table", "i", "u"], ["r"]),
    ]
    assert cost("g", entry, reducer).n_bytes == 4 * (640 + 10 + 640 + n_target)


def test_an_operand_passed_twice_is_read_once() -> None:
    entry = [param("x", "f32[10]"), Hlo("m", "multiply", "f32[10]", ["x", "x"])]
    assert cost("m", entry).n_bytes == 80


def test_a_fusion_with_two_results() -> None:
    body = fused(
        param("p", "f32[10]"),
        Hlo("n", "negate", "f32[10]", ["p"]),
        Hlo("c", "convert", "bf16[10]", ["p"]),
        Hlo("t", "tuple", parts("f32[10]", "bf16[10]"), ["n", "c"]),
    )
    entry = [
        param("x", "f32[10]"),
        Hlo("f", "fusion", parts("f32[10]", "bf16[10]"), ["x"], ["fused"]),
    ]
    found = cost("f", entry, body)
    assert (found.flops, found.n_bytes) == (10, 40 + 40 + 20)


def test_a_dynamic_slice_fusion_around_a_gemm_call() -> None:
    body = fused(
        param("p", "bf16[4,64,32]"),
        param("q", "bf16[32,16]", 1),
        param("i", "s32[]", 2),
        Hlo("s", "dynamic-slice", "bf16[1,64,32]", ["p", "i"]),
        Hlo("b", "bitcast", "bf16[64,32]", ["s"]),
        Hlo(
            "g", "custom-call", "bf16[64,16]", ["b", "q"],
            target="__cublas$gemm", backend_config=gemm_json(1, 0),
        ),
    )  # fmt: skip
    entry = [
        param("x", "bf16[4,64,32]"),
        param("y", "bf16[32,16]", 1),
        param("j", "s32[]", 2),
        Hlo("f", "fusion", "bf16[64,16]", ["x", "y", "j"], ["fused"]),
    ]
    found = cost("f", entry, body)
    assert found.flops == 2 * 64 * 32 * 16
    assert found.n_bytes == 2 * (64 * 32 + 32 * 16 + 64 * 16) + 4


# --------------------------------------------------------------------------------- the unknown


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (Hlo("u", "custom-call", "f32[8]", ["x"], target="my_ffi_call"), "my_ffi_call"),
        (Hlo("u", "sort", "f32[8]", ["x"]), "sort"),
        (Hlo("u", "all-reduce-start", "f32[8]", ["x"]), "collective"),
        (Hlo("u", "reduce-scatter", "f32[8]", ["x"]), "collective"),
    ],
)
def test_what_shapes_do_not_tell_is_unknown_and_never_zero(made: Hlo, word: str) -> None:
    found = cost("u", [param("x", "f32[8]"), made])
    assert found.flops is None
    assert found.n_bytes is None
    assert word in found.unknown
    assert word in found.bytes_unknown


def test_an_unknown_type_makes_only_the_bytes_unknown() -> None:
    strange = bytes_field(3, int_field(2, 77) + packed_field(3, [8]))
    entry = [Hlo("x", "parameter", extra=strange), Hlo("n", "negate", "f32[8]", ["x"])]
    found = cost("n", entry)
    assert (found.flops, found.n_bytes) == (8, None)
    assert found.bytes_unknown


def test_an_unknown_call_inside_a_fusion_makes_it_unknown() -> None:
    body = fused(param("p", "f32[8]"), Hlo("c", "custom-call", "f32[8]", ["p"], target="strange"))
    entry = [param("x", "f32[8]"), Hlo("f", "fusion", "f32[8]", ["x"], ["fused"])]
    assert cost("f", entry, body).flops is None


def test_copies_to_the_host_are_not_held_against_device_memory() -> None:
    host = bytes_field(
        3, int_field(2, 11) + packed_field(3, [8]) + bytes_field(5, int_field(8, 5))
    )
    entry = [param("x", "f32[8]"), Hlo("c", "copy", operands=["x"], extra=host)]
    found = cost("c", entry)
    assert (found.n_bytes, found.unknown[:11]) == (None, "host memory")


def test_an_async_wrapper_costs_what_it_runs() -> None:
    wrapped = HloComputation(
        "fused", [param("p", "f32[10]"), Hlo("n", "negate", "f32[10]", ["p"])]
    )
    start = Hlo("s", "async-start", parts("f32[10]", "f32[10]"), ["x"], ["fused"])
    found = cost("s", [param("x", "f32[10]"), start], wrapped)
    assert (found.flops, found.n_bytes) == (10, 80)
