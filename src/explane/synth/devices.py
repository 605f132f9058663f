"""The GPUs that can be simulated: what their planes say, and how fast they are.

Peaks are dense vendor figures of the whole device (NVIDIA H100 SXM data sheet; AMD Instinct MI300X
data sheet), rounded; plane stats are what collectors write for these GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from explane.errors import UsageError
from explane.synth.program import CompiledProgram


class Vendor(Enum):
    """Whose collector writes the capture."""

    NVIDIA = "Nvidia"
    AMD = "AMD"


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One kind of GPU.

    Attributes:
        vendor: Its vendor.
        stats: Stats of its plane, in the collector's units (kHz, bytes/s, bytes).
        matrix_flops_per_s: Dense peak of the matrix units by element type.
        vector_flops_per_s: Peak of the vector units in f32.
        memory_bytes_per_s: Peak of the device memory.
        link_bytes_per_s: Peak to the other GPUs of the node, one direction.
    """

    vendor: Vendor
    stats: Mapping[str, int | str]
    matrix_flops_per_s: Mapping[str, float]
    vector_flops_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float

    def peak_flops(self, element_type: str) -> float:
        """Peak for `vector`, or for `matrix <element type>` with f32 as the fallback."""
        if element_type == "vector":
            return self.vector_flops_per_s
        known = self.matrix_flops_per_s
        return known.get(element_type.removeprefix("matrix "), known["f32"])


H100 = DeviceFacts(
    vendor=Vendor.NVIDIA,
    stats={
        "device_vendor": "Nvidia",
        "gpu_device_name": "NVIDIA H100 80GB HBM3",
        "clock_rate": 1_980_000,
        "core_count": 132,
        "memory_bandwidth": 3_352_320_000_000,
        "memory_size": 85_031_714_816,
        "compute_cap_major": 9,
        "compute_cap_minor": 0,
    },
    matrix_flops_per_s={"f32": 494e12, "bf16": 989e12, "f16": 989e12, "f8e4m3fn": 1979e12},
    vector_flops_per_s=67e12,
    memory_bytes_per_s=3.35e12,
    link_bytes_per_s=450e9,
)

MI300X = DeviceFacts(
    vendor=Vendor.AMD,
    stats={
        "device_vendor": "AMD",
        "clock_rate": 2_100_000,
        "core_count": 304,
        "memory_bandwidth": 2_662_400_000_000,
        "memory_size": 206_141_652_992,
        "compute_cap_major": 9,
        "compute_cap_minor": 4,
    },
    matrix_flops_per_s={"f32": 163e12, "bf16": 1307e12, "f16": 1307e12, "f8e4m3fnuz": 2614e12},
    vector_flops_per_s=163e12,
    memory_bytes_per_s=5.3e12,
    link_bytes_per_s=448e9,
)

_BY_PLATFORM = {"CUDA": H100, "ROCM": MI300X}


def device_of(program: CompiledProgram, vendor: Vendor | None = None) -> DeviceFacts:
    """The GPU that a program runs on: by its platform, else by the vendor that is asked for.

    Raises:
        UsageError: The program's dumps name no platform and no vendor is given.
    """
    if vendor is not None:
        return H100 if vendor is Vendor.NVIDIA else MI300X
    facts = _BY_PLATFORM.get(program.platform)
    if facts is None:
        raise UsageError(
            program.title, "its dumps name no platform", "say which vendor", slug="no_platform"
        )
    return facts
