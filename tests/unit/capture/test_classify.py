"""Names as libraries and collectors write them, and what they are."""

from __future__ import annotations

import pytest

from explane.capture.classify import (
    LineRole,
    collective_of_name,
    is_graph_launch,
    is_python_event,
    is_whole_graph,
    kind_of_name,
    refine_kind,
    role_of_line,
)
from explane.capture.model import Kind

COLLECTIVES = {
    # NCCL before 2.19, since, symmetric memory, grouped send and receive
    "ncclAllReduceRingLLKernel_sum_f16(ncclColl)": "all-reduce",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "all-reduce",
    "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, ncclWork*)": "all-gather",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all-reduce",
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
        "reduce-scatter"
    ),
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all-gather",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": "send-recv",
    "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "broadcast",
    "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "reduce",
    "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f8e5m2(ncclSymkDevWorkArgs4K)": "all-reduce",
    "ncclSymkDevKernel_ReduceScatter_LDMC_sum_f8e4m3": "reduce-scatter",
    "ncclSymDevKernel_AllGather_ST(ncclSymDevArgs)": "all-gather",
    "ncclFutureKernel_Something": "",
    # RCCL, MSCCL, NVSHMEM
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>) [clone .kd]": "",
    "rcclGenericKernel_4(ncclDevComm*)": "",
    "void rcclKernel_AllReduce<float>(int)": "all-reduce",
    "mscclKernel_Sum_hip_bfloat16_Simple_false": "",
    "nvshmemi_reduce_kernel(int)": "reduce",
    "void nvshmem::alltoall_on_stream_kernel<float>(float*)": "all-to-all",
    # XLA's own, and other libraries'
    "void stream_executor::gpu::AllReduceKernelImpl<float, (xla::Kind)0>(x)": "all-reduce",
    "one_shot_all_reduce_f32": "all-reduce",
    "two_shot_all_reduce_bf16_kernel": "all-reduce",
    "multimem_all_reduce_kernel": "all-reduce",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)": "all-reduce",
    "void stream_executor::gpu::RaggedAllToAllKernelImpl<4>(x)": "all-to-all",
    "userbuffers_fp16_sum_inplace_gpu_rr_rs": "",
    # Kernels named after the instruction (Triton collectives)
    "all_reduce": "all-reduce",
    "all_reduce_start_3": "all-reduce",
    "all_gather_12.kd": "all-gather",
    "collective_permute_start": "send-recv",
    # Copies between GPUs
    "MemcpyP2P": "peer-copy",
    "[CUDA memcpy PtoP]": "peer-copy",
}


@pytest.mark.parametrize(("name", "which"), COLLECTIVES.items())
def test_collectives_of_all_eras(name: str, which: str) -> None:
    assert kind_of_name(name) is Kind.COLLECTIVE
    assert collective_of_name(name) == which


@pytest.mark.parametrize(
    "name",
    [
        "all_gather_fusion",
        "loop_all_reduce_fusion_2",
        "input_reduce_fusion_3",
        "input_reduce_scatter_fusion",
        "all_reduce_scale_multiply_fusion",
        "loop_convert_fusion.kd",
        "wrapped_convert",
        "wrapped_copy",
        "memcpy_fusion",
        "memset_kernel_1",
        "loop_select_fusion_barrier",
        "barrier_and_add_fusion",
        "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI16x16x16x1_SN",
        "Im2d2Col.kd",
        "Im3d2Col",
        "nvjet_tst_192x128_64x4_1x2_h_bz_coopA_NTN",
        "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_nt_align4>(x::Params)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(x)",
        "void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaBwdConvertQGradKernel<x>>(y)",
        "void user::my_kernel(ncclComm*)",
        "replica_id",
        "CudaGraphExec:4",
        "",
        "=cmd|' /C calc'!A0",
    ],
)
def test_everything_else_is_compute(name: str) -> None:
    assert kind_of_name(name) is Kind.COMPUTE
    assert collective_of_name(name) == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("MemcpyD2D", Kind.MEMCPY),
        ("MemcpyH2D", Kind.MEMCPY),
        ("MemcpyOther", Kind.MEMCPY),
        ("[CUDA memcpy HtoD]", Kind.MEMCPY),
        ("Memcpy DtoH (Device -> Pinned)", Kind.MEMCPY),
        ("CopyDeviceToDevice", Kind.MEMCPY),
        ("CopyHostToDevice", Kind.MEMCPY),
        ("hipMemcpyDtoDAsync", Kind.MEMCPY),
        ("cuMemcpyDtoDAsync_v2", Kind.MEMCPY),
        ("__amd_rocclr_copyBuffer.kd", Kind.MEMCPY),
        ("__amd_rocclr_copyBufferRectAligned", Kind.MEMCPY),
        ("__amd_rocclr_copyImageToBuffer.kd", Kind.MEMCPY),
        ("Memset 0", Kind.MEMSET),
        ("Memset (Device)", Kind.MEMSET),
        ("[CUDA memset]", Kind.MEMSET),
        ("hipMemsetAsync", Kind.MEMSET),
        ("__amd_rocclr_fillBufferAligned.kd", Kind.MEMSET),
        ("__amd_rocclr_fillImage", Kind.MEMSET),
        ("Marker", Kind.MARKER),
        ("hipMarker", Kind.MARKER),
        ("Barrier", Kind.MARKER),
        ("<barrier packet>", Kind.MARKER),
        ("barrier_and", Kind.MARKER),
        ("hsa_barrier_packet", Kind.MARKER),
    ],
)
def test_copies_fills_and_markers(name: str, kind: Kind) -> None:
    assert kind_of_name(name) is kind


@pytest.mark.parametrize(
    ("name", "opcode", "kind"),
    [
        ("all_gather_1", "fusion", Kind.COMPUTE),
        ("all_reduce", "", Kind.COLLECTIVE),
        ("some_triton_kernel", "all-reduce-start", Kind.COLLECTIVE),
        ("MemcpyD2D", "collective-permute-start", Kind.COLLECTIVE),
        ("Memset 0", "all-reduce", Kind.MEMSET),
        ("ncclDevKernel_SendRecv()", "custom-call", Kind.COLLECTIVE),
        ("MemcpyD2D", "fusion", Kind.MEMCPY),
        ("MemcpyP2P", "copy", Kind.COLLECTIVE),
        ("wrapped_copy", "fusion", Kind.COMPUTE),
        ("transpose_kernel", "copy", Kind.MEMCPY),
        ("__amd_rocclr_fillBufferAligned.kd", "custom-call", Kind.MEMSET),
        ("loop_fusion", "dot", Kind.COMPUTE),
    ],
)
def test_the_opcode_beats_a_name_that_looks_like_an_instruction(
    name: str, opcode: str, kind: Kind
) -> None:
    assert refine_kind(name, kind_of_name(name), opcode) is kind


@pytest.mark.parametrize(
    ("name", "is_graph"),
    [
        ("cuGraphLaunch (CudaGraph:12)", True),
        ("cuGraphLaunch", True),
        ("cudaGraphLaunch_v10000", True),
        ("hipGraphLaunch", True),
        ("cuGraphLaunch_ptsz", True),
        ("cuGraphInstantiateWithFlags", False),
        ("hipGraphLaunchHelper_is_not_a_call", True),
        ("cuLaunchKernel", False),
        ("loop_graphlaunch_fusion", False),
        ("command_buffer::execute", False),
    ],
)
def test_graph_launches(name: str, *, is_graph: bool) -> None:
    assert is_graph_launch(name) is is_graph


def test_single_tests() -> None:
    assert is_python_event("$train.py:12 step")
    assert is_python_event("$builtins len")
    assert not is_python_event("PjitFunction(f)")
    assert is_whole_graph("CudaGraphExec:7")
    assert not is_whole_graph("cuGraphLaunch (CudaGraph:7)")


@pytest.mark.parametrize(
    ("name", "line_id", "role"),
    [
        ("Stream #7(Compute,MemcpyD2D)", 7, LineRole.STREAM),
        ("Stream #2", 2, LineRole.STREAM),
        ("Stream #16(Kernel)", 16, LineRole.STREAM),
        ("Stream #0(MemoryResidency,Compute)", 0, LineRole.STREAM),
        ("", 5, LineRole.STREAM),
        ("Steps", 1, LineRole.DERIVED),
        ("XLA Ops", 0xDEADBEEF + 5, LineRole.DERIVED),
        ("Framework Ops - from #13", 3, LineRole.DERIVED),
        ("renamed", 0xDEADBEEF, LineRole.DERIVED),
        ("CUPTI overhead", 1, LineRole.OTHER),
        ("_counters_", 1, LineRole.OTHER),
        ("Stream #0(MemoryResidency)", 0, LineRole.OTHER),
        ("Stream #268435457(UnifiedMemory)", 0x10000001, LineRole.OTHER),
    ],
)
def test_roles_of_lines(name: str, line_id: int, role: LineRole) -> None:
    assert role_of_line(name, line_id) is role
