"""Identification by what device planes state, and the table of peaks itself."""

from __future__ import annotations

import pytest

from explane.analysis.roofline.gpus import gpu_by_key, identify_gpu, known_gpus
from explane.errors import UsageError

Stats = dict[str, int | float | str]

MI300X: Stats = {
    "device_vendor": "AMD", "core_count": 304, "memory_size": 206141652992, "clock_rate": 2100000,
    "compute_cap_major": 9, "compute_cap_minor": 4, "memory_bandwidth": 2662400000000,
}  # fmt: skip
MI355X: Stats = {
    "device_vendor": "AMD", "core_count": 256, "memory_size": 309220868096, "clock_rate": 2400000,
    "compute_cap_major": 9, "compute_cap_minor": 5,
}  # fmt: skip
H100: Stats = {
    "device_vendor": "Nvidia", "gpu_device_name": "NVIDIA H100 80GB HBM3", "core_count": 132,
    "memory_size": 85031714816, "clock_rate": 1980000, "compute_cap_major": 9,
    "compute_cap_minor": 0,
}  # fmt: skip


def without(stats: Stats, *names: str) -> Stats:
    return {key: value for key, value in stats.items() if key not in names}


@pytest.mark.parametrize(
    ("stats", "key"),
    [
        (MI300X, "mi300x"),
        ({**MI300X, "memory_size": 274877906944}, "mi325x"),
        ({**MI300X, "core_count": 228, "memory_size": 137438953472}, "mi300a"),
        ({**MI300X, "gpu_device_name": "gfx942"}, "mi300x"),
        (MI355X, "mi355x"),
        ({**MI355X, "clock_rate": 2200000}, "mi350x"),
        (H100, "h100-sxm"),
        (without(H100, "core_count", "memory_size"), "h100-sxm"),
        ({**H100, "gpu_device_name": "NVIDIA H200", "memory_size": 150754820096}, "h200"),
        ({**H100, "gpu_device_name": "NVIDIA H100 PCIe", "core_count": 114}, "h100-pcie"),
        ({**H100, "gpu_device_name": "NVIDIA H100 NVL", "memory_size": 100485038080}, "h100-nvl"),
        (
            {
                "device_vendor": "Nvidia", "gpu_device_name": "NVIDIA A100-SXM4-80GB",
                "core_count": 108, "memory_size": 85100068864, "compute_cap_major": 8,
                "compute_cap_minor": 0,
            },
            "a100-sxm-80gb",
        ),
    ],
)  # fmt: skip
def test_known_products(stats: Stats, key: str) -> None:
    found = identify_gpu(stats)
    assert found.gpu is not None
    assert found.gpu.key == key


def test_products_that_can_not_be_told_apart_are_candidates() -> None:
    found = identify_gpu(without(MI355X, "clock_rate"))
    assert found.gpu is None
    assert {gpu.key for gpu in found.candidates} == {"mi350x", "mi355x"}
    assert "MI350X or AMD Instinct MI355X" in found.reason


def test_without_a_name_an_a100_of_80_gb_is_one_of_two() -> None:
    stats: Stats = {"device_vendor": "Nvidia", "core_count": 108, "memory_size": 85100068864}
    assert {g.key for g in identify_gpu(stats).candidates} == {"a100-sxm-80gb", "a100-pcie-80gb"}


@pytest.mark.parametrize(
    "stats",
    [
        {"device_vendor": "Nvidia", "gpu_device_name": "NVIDIA GeForce GTX 1080 Ti"},
        {"device_vendor": "Nvidia", "gpu_device_name": "NVIDIA A10G", "core_count": 80},
        # one eighth of an MI300X in partition mode is not an MI300X
        {**MI300X, "core_count": 38, "memory_size": 25769803776},
        # MI300 shares its compute capability with no NVIDIA GPU, but 9.0 is also an H100
        {**H100, "device_vendor": "AMD"},
        {"device_vendor": "Intel", "core_count": 132, "memory_size": 85031714816},
    ],
)
def test_what_is_not_in_the_table_is_nothing(stats: Stats) -> None:
    found = identify_gpu(stats)
    assert (found.gpu, found.candidates) == (None, ())
    assert "not in the table" in found.reason


def test_a_plane_that_states_nothing() -> None:
    assert identify_gpu({}).reason == "the capture does not state the GPU"


def test_a_vendor_alone_is_not_enough() -> None:
    found = identify_gpu({"device_vendor": "AMD"})
    assert found.gpu is None
    assert len(found.candidates) > 1


def test_every_product_is_there_with_its_sources() -> None:
    keys = {gpu.key for gpu in known_gpus()}
    wanted = (
        "mi210 mi250x mi300a mi300x mi325x mi350x mi355x a100-40gb a100-sxm-80gb a10 l4 l40s "
        "h100-sxm h100-pcie h100-nvl h200 gh200-96gb b200 b300 gb200 rtx-4090 rtx-5090 "
        "v100-sxm2-16gb t4"
    )
    assert set(wanted.split()) <= keys
    for gpu in known_gpus():
        assert gpu.memory.source
        assert all(peak.source and peak.per_s > 0 for peak in gpu.peaks.values()), gpu.key


@pytest.mark.parametrize(
    ("key", "rate", "tflops"),
    [
        ("h100-sxm", "bf16", 989.4),
        ("h100-sxm", "f32_default", 494.7),
        ("h100-sxm", "f32", 66.9),
        ("h100-sxm", "f64", 66.9),
        ("h100-sxm", "vector_f64", 33.5),
        ("mi300x", "f8", 2614.9),
        # XLA does not ask AMD's matrix units for TF32 by default
        ("mi300x", "f32_default", 163.4),
        ("mi300x", "tf32", 653.7),
        ("v100-sxm2-16gb", "f32_default", 15.7),
        ("mi355x", "f4", 10066.3),
    ],
)
def test_the_peak_of_a_data_type(key: str, rate: str, tflops: float) -> None:
    peak = gpu_by_key(key).flops_peak(rate)
    assert peak is not None
    assert peak.per_s == pytest.approx(tflops * 1e12)


@pytest.mark.parametrize("rate", ["bf16", "f8", "type_77"])
def test_a_type_that_the_hardware_lacks_has_no_peak(rate: str) -> None:
    assert gpu_by_key("v100-sxm2-16gb").flops_peak(rate) is None


@pytest.mark.parametrize(
    ("key", "per_clock", "clock_mhz"),
    [
        # FP16 FLOPs per clock of one compute unit: CDNA 2, 3 and 4
        ("mi210", 1024, 1700),
        ("mi250x", 1024, 1700),
        ("mi300a", 2048, 2100),
        ("mi300x", 2048, 2100),
        ("mi325x", 2048, 2100),
        ("mi350x", 4096, 2200),
        ("mi355x", 4096, 2400),
        # and of one SM: Volta, Turing, Ampere, Ada, Hopper, Blackwell, at the boost clock
        ("v100-sxm2-16gb", 1024, 1530),
        ("t4", 1024, 1590),
        ("a100-sxm-80gb", 2048, 1410),
        ("a10", 1024, 1695),
        ("l4", 1024, 2040),
        ("l40s", 1024, 2490),
        ("h100-sxm", 4096, 1830),
        ("h100-pcie", 4096, 1620),
        ("h200", 4096, 1830),
        ("b200", 8192, 1850),
        ("rtx-4090", 512, 2520),
        ("rtx-5090", 512, 2407),
    ],
)
def test_peaks_agree_with_units_times_clock(key: str, per_clock: int, clock_mhz: int) -> None:
    gpu = gpu_by_key(key)
    assert gpu.n_cores is not None
    expected = gpu.n_cores * per_clock * clock_mhz * 1e6
    assert gpu.peaks["f16"].per_s == pytest.approx(expected, rel=0.005)


def test_no_peak_is_one_with_sparsity() -> None:
    # From 16 to 8 bits rates double, and TF32 has half the rate of 16 bits: a figure with
    # sparsity among dense ones would show as a factor of two.
    for gpu in known_gpus():
        half = gpu.peaks["f16"].per_s
        for name, factor in (("bf16", 1), ("f8", 2), ("s8", 2), ("tf32", 0.5)):
            peak = gpu.peaks.get(name)
            consumer_s8 = name == "s8" and gpu.key.startswith("rtx-")  # int8 has four times
            older_s8 = name == "s8" and gpu.key in {"mi210", "mi250x"}  # and once here
            if peak is not None and not consumer_s8 and not older_s8:
                assert peak.per_s / half == pytest.approx(factor, rel=0.03), (gpu.key, name)


def test_a_gpu_is_chosen_by_key_or_name() -> None:
    assert gpu_by_key("H100-SXM") is gpu_by_key("NVIDIA H100 SXM 80 GB")
    with pytest.raises(UsageError, match="h100-sxm"):
        gpu_by_key("h100")
