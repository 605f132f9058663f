"""Kernel names in the style of the vendors' libraries, invented anew for every seed.

The same call on equal shapes gets the same kernels, as a library would choose. Which kernels a
call launches is drawn from patterns seen in captures: a product alone, with a split-K reduction
behind it or a cleared workspace before it; a convolution between layout changes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from explane.synth.devices import Vendor

CLEAR = "\0clear"
"""Stands for a cleared workspace: a memset, not a kernel with a name of its own."""

_TILES = (32, 48, 64, 96, 128, 160, 192, 256)
_NVIDIA_TYPES = {
    "bf16": "bf16bf16_bf16f32_f32",
    "f32": "tf32f32_tf32f32_f32",
    "f16": "f16f16_f16f32_f32",
}
_AMD_TYPES = {"bf16": "BBS_BH", "f32": "SB", "f16": "HHS_BH"}


def gemm_kernels(vendor: Vendor, element_type: str, random: Random) -> tuple[str, ...]:
    """Kernels of one matrix product in launch order."""
    nvidia = vendor is Vendor.NVIDIA
    product = (_nvidia_gemm if nvidia else _tensile)(element_type, random)
    reduce = (
        _split_k_nvidia(random) if nvidia else f"Cijk_S_PostGSU{random.choice((2, 4, 8))}_modK"
    )
    patterns = ((product,), (product,), (product,), (product, reduce), (CLEAR, product))
    return random.choice(patterns)


def convolution_kernels(vendor: Vendor, element_type: str, random: Random) -> tuple[str, ...]:
    """Kernels of one convolution in launch order."""
    if vendor is Vendor.NVIDIA:
        return _cudnn(element_type, random)
    return _miopen(element_type, random)


def attention_kernels(vendor: Vendor, random: Random) -> tuple[str, ...]:
    """Kernels of one fused attention call."""
    if vendor is Vendor.NVIDIA:
        tile = random.choice((64, 128))
        return (f"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_{tile}x{tile}",)
    forward = f"void ck_tile::kentry<{random.choice((1, 2))}, ck_tile::FmhaFwdKernel<> >()"
    return (CLEAR, f"{forward} [clone .kd]")


def other_kernels(vendor: Vendor, what: str, random: Random) -> tuple[str, ...]:
    """Kernels of a library call of any other kind; `what` is one word for it."""
    made: dict[str, Callable[[Vendor, Random], tuple[str, ...]]] = {"fft": _fft, "sort": _sort}
    if what in made:
        return made[what](vendor, random)
    count = random.choice((1, 1, 2))
    tail = "" if vendor is Vendor.NVIDIA else " [clone .kd]"
    return tuple(
        f"void {what}_kernel<{i}, {random.choice(_TILES)}>(int){tail}" for i in range(count)
    )


def _nvidia_gemm(element_type: str, random: Random) -> str:
    m, n, k = random.choice(_TILES), random.choice(_TILES), random.choice((32, 64, 128))
    layout = "".join(random.choice("NT") for _ in range(2))
    stages, cluster = random.randrange(3, 8), f"{random.choice((1, 2))}x{random.choice((1, 2))}"
    style = random.randrange(4)
    if style == 0:
        start = f"nvjet_{random.choice(('tst', 'hsh', 'sst'))}_{m}x{n}_{k}x{stages}_{cluster}"
        return f"{start}_{random.choice('hv')}_bz_{layout}N"
    if style == 1:
        types = _NVIDIA_TYPES.get(element_type, _NVIDIA_TYPES["f32"])
        tile = f"tilesize{m}x{n}x{k}_warpgroupsize1x1x1_cublas"
        return f"sm90_xmma_gemm_{types}_{layout.lower()}_n_{tile}"
    name = f"cutlass_80_tensorop_{element_type}_s16816gemm_{m}x{n}_{k}x{stages}"
    full = f"{name}_{layout.lower()}_align{random.choice((2, 4, 8))}"
    return f"void cutlass::Kernel2<{full}>({full}::Params)"


def _split_k_nvidia(random: Random) -> str:
    lanes = random.choice((16, 32))
    return (
        f"void cublasLt::splitKreduce_kernel<{lanes}, 16, int, float, __nv_bfloat16, "
        "float, true, false>(cublasLt::cublasSplitKParams<float>)"
    )


def _tensile(element_type: str, random: Random) -> str:
    letters = random.choice(("Alik_Bljk", "Ailk_Bljk", "Ailk_Bjlk"))
    types = _AMD_TYPES.get(element_type, "SB")
    tile = f"MT{random.choice(_TILES)}x{random.choice(_TILES)}x{random.choice((16, 32, 64))}"
    knobs = "_".join(
        f"{key}{random.randrange(5)}" for key in ("SN_1LDSB", "APM", "GRVW", "TT", "WSGRA")
    )
    return f"Cijk_{letters}_{types}_{tile}_MI16x16x{random.choice((4, 16, 32))}x1_{knobs}"


def _cudnn(element_type: str, random: Random) -> tuple[str, ...]:
    sizes = (random.choice((64, 128, 256)), random.choice((64, 128)), random.choice((32, 64)))
    types = _NVIDIA_TYPES.get(element_type, _NVIDIA_TYPES["f32"])
    direction = random.choice(("fprop", "dgrad", "wgrad"))
    start = f"sm{random.choice((80, 90))}_xmma_{direction}_implicit_gemm_{types}"
    product = f"{start}_nhwckrsc_nhwc_tilesize{'x'.join(map(str, sizes))}"
    to = _cudnn_turn("nchwToNhwcKernel", "false, true", "nchw2nhwc")
    back = _cudnn_turn("nhwcToNchwKernel", "true, false", "nhwc2nchw")
    patterns = ((product,), (product,), (to, to, product, back), (CLEAR, product), (to, product))
    return random.choice(patterns)


def _cudnn_turn(kernel: str, flags: str, parameters: str) -> str:
    types = f"__half, __half, float, {flags}, (cudnnKernelDataType_t)0"
    return f"void cudnn::ops::{kernel}<{types}>(cudnn::ops::{parameters}_params_t<float>)"


def _miopen(element_type: str, random: Random) -> tuple[str, ...]:
    product = _tensile(element_type, random)
    turn = (
        f"batched_transpose_{random.choice((16, 32, 64))}x32_{random.choice(('half', 'dword'))}.kd"
    )
    implicit = (
        f"igemm_{random.choice(('fwd', 'bwd', 'wrw'))}_gtcx3_nhwc_{element_type}_"
        f"bt{random.choice(_TILES)}x{random.choice(_TILES)}x{random.choice((16, 32))}.kd"
    )
    patterns = (
        (f"Im{random.choice((2, 3))}d2Col.kd", product),
        (turn, turn, implicit, turn),
        (implicit,),
        (CLEAR, implicit, "SubTensorOpWithCastTensor1d.kd"),
        (f"naive_conv_ab_nonpacked_{random.choice(('fwd', 'bwd'))}_nhwc_float_double_float.kd",),
        (f"miopenSp3AsmConv_v30_3_1_gfx9_{element_type}_f2x3_stride1.kd",),
    )
    return random.choice(patterns)


def _fft(vendor: Vendor, random: Random) -> tuple[str, ...]:
    length = random.choice((256, 384, 512, 768))
    if vendor is Vendor.NVIDIA:
        first = (
            f"void vector_fft<{length}u, 8u, 8u, (padding_t)1>(kernel_arguments_t<unsigned int>)"
        )
        return (first, "void postprocess_kernel_r2c<float>(float*, int)")[: random.choice((1, 2))]
    return (f"fft_rtc_fwd_len{length}_factors_8_8_8_wgs_64_tpt_64_sp_ip_CI_unitstride_sbrr.kd",)


def _sort(vendor: Vendor, random: Random) -> tuple[str, ...]:
    spaces = "cub::" if vendor is Vendor.NVIDIA else "rocprim::detail::"
    tail = "" if vendor is Vendor.NVIDIA else " [clone .kd]"
    passes = random.choice((3, 4))
    names = ["DeviceRadixSortHistogramKernel", "DeviceRadixSortExclusiveSumKernel"]
    names += ["DeviceRadixSortOnesweepKernel"] * passes
    return tuple(f"void {spaces}{name}<int, float>(float*, int){tail}" for name in names)
