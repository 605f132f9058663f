"""Which GPU a capture was made on, and its peak rates from the vendor's documents.

A device is identified by what its plane states: vendor, compute units, memory, driver name and
compute capability. Every stated fact must fit; one product left is the answer. Several are told
apart by their maximum clock where that differs, else they are candidates and the user has to
choose. The numbers are in `explane/data/peaks.toml`, each with its source.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from explane.analysis.roofline.cost import F32_DEFAULT, VECTOR_F32, VECTOR_F64
from explane.errors import UsageError

# The driver keeps some of the memory, more with ECC: the capture states a little less than the
# product has.
_MEMORY_RATIO: Final = (0.90, 1.02)
_GIB: Final = 1 << 30
_ARCHITECTURE: Final = re.compile(r"gfx[0-9a-f]+", re.IGNORECASE)
_VENDORS: Final = {"Nvidia": ("nvidia",), "AMD": ("amd", "advanced micro devices")}
_VECTOR_KEYS: Final = {VECTOR_F32: "f32", VECTOR_F64: "f64"}


@dataclass(frozen=True, slots=True)
class Peak:
    """A peak rate as a document states it: FLOP/s or bytes/s, and the document's title."""

    per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A product: what identifies it, and its dense peaks of the whole device.

    Attributes:
        key: Short name for `--gpu`, such as `h100-sxm`.
        n_cores: SMs or compute units; None when no document states it.
        memory_gib: Nominal device memory.
        device_names: Patterns for the driver's name of the device.
        peaks: FLOP/s by data type, see peaks.toml.
    """

    key: str
    name: str
    vendor: str
    n_cores: int | None
    memory_gib: int
    device_names: tuple[str, ...]
    compute_capability: str
    max_clock_mhz: int | None
    memory: Peak
    peaks: Mapping[str, Peak]
    note: str

    def flops_peak(self, rate: str) -> Peak | None:
        """The peak for a `Cost.rate`; None when the documents give none for it.

        float32 products run on the tensor cores as TF32 on NVIDIA by default. Without a matrix
        unit for float32 and float64 the vector units are the peak.
        """
        if rate == F32_DEFAULT:
            use_tf32 = self.vendor == "Nvidia" and "tf32" in self.peaks
            return self.flops_peak("tf32" if use_tf32 else "f32")
        if rate in _VECTOR_KEYS:
            return self.peaks.get(_VECTOR_KEYS[rate])
        return self.peaks.get(f"{rate}_matrix") or self.peaks.get(rate)


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """The answer for one device.

    Attributes:
        gpu: The product, when it is certain (or chosen by the user); else None.
        candidates: All products that fit what the capture states.
        reason: How it was found, or why not, as a clause for people.
    """

    gpu: Gpu | None
    candidates: tuple[Gpu, ...]
    reason: str


@cache
def known_gpus() -> tuple[Gpu, ...]:
    """All products of peaks.toml, in its order."""
    text = files("explane.data").joinpath("peaks.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    return tuple(_gpu(key, entry, data["sources"]) for key, entry in data["gpus"].items())


def _gpu(key: str, entry: Mapping[str, Any], sources: Mapping[str, str]) -> Gpu:
    memory = entry["memory"]
    return Gpu(
        key=key,
        name=entry["name"],
        vendor=entry["vendor"],
        n_cores=entry.get("cores"),
        memory_gib=entry["memory_gib"],
        device_names=tuple(entry.get("device_names", ())),
        compute_capability=entry["compute_capability"],
        max_clock_mhz=entry.get("max_clock_mhz"),
        memory=Peak(memory["bytes_per_s"], sources[memory["source"]]),
        peaks={
            name: Peak(peak["value"] * 1e12, sources[peak["source"]])
            for name, peak in entry["tflops"].items()
        },
        note=entry.get("note", ""),
    )


def gpu_by_key(key: str) -> Gpu:
    """The product of a `--gpu` option, by key or by name.

    Raises:
        UsageError: There is no such product; the message lists the keys.
    """
    wanted = key.strip().casefold()
    for gpu in known_gpus():
        if wanted in (gpu.key, gpu.name.casefold()):
            return gpu
    keys = ", ".join(gpu.key for gpu in known_gpus())
    raise UsageError(
        key, "no such GPU in the table of peaks", f"choose one of: {keys}", "no-such-gpu"
    )


def identify_gpu(stats: Mapping[str, int | float | str]) -> GpuIdentity:
    """The product that a device plane's stats describe.

    Args:
        stats: As `Device.stats`: device_vendor, core_count, memory_size in bytes,
            gpu_device_name, compute_cap_major and _minor, clock_rate in kHz.
    """
    if not stats.get("device_vendor") and not stats.get("gpu_device_name"):
        return GpuIdentity(None, (), "the capture does not state the GPU")
    fitting = tuple(gpu for gpu in known_gpus() if _fits(gpu, stats))
    if not fitting:
        return GpuIdentity(None, (), f"{_described(stats)} is not in the table of peaks")
    if len(fitting) > 1:
        fitting = _by_clock(fitting, stats)
    if len(fitting) > 1:
        names = " or ".join(gpu.name for gpu in fitting)
        return GpuIdentity(None, fitting, f"{_described(stats)} may be {names}")
    named = _product_name(stats) != ""
    measured = "core_count" in stats and "memory_size" in stats
    if named or measured:
        return GpuIdentity(fitting[0], fitting, f"identified from {_described(stats)}")
    return GpuIdentity(None, fitting, f"{_described(stats)} is not enough to tell the product")


def _fits(gpu: Gpu, stats: Mapping[str, int | float | str]) -> bool:
    """True when nothing that the capture states contradicts the product."""
    checks = (
        _vendor(stats) in ("", gpu.vendor),
        _agrees(stats.get("core_count"), gpu.n_cores),
        _memory_fits(stats.get("memory_size"), gpu.memory_gib),
        _name_fits(_product_name(stats), gpu.device_names),
        _capability(stats) in ("", gpu.compute_capability),
    )
    return all(checks)


def _vendor(stats: Mapping[str, int | float | str]) -> str:
    """`Nvidia` or `AMD`, another vendor as stated, empty when the capture has none."""
    stated = str(stats.get("device_vendor", ""))
    for vendor, words in _VENDORS.items():
        if stated.casefold().startswith(words):
            return vendor
    return stated


def _by_clock(fitting: tuple[Gpu, ...], stats: Mapping[str, int | float | str]) -> tuple[Gpu, ...]:
    """Those with the stated maximum clock, when the clock tells the products apart."""
    clock = _clock_mhz(stats)
    same = tuple(gpu for gpu in fitting if gpu.max_clock_mhz == clock)
    return same if clock is not None and same else fitting


def _agrees(stated: object, known: int | None) -> bool:
    return not isinstance(stated, int | float) or known is None or int(stated) == known


def _memory_fits(stated: object, memory_gib: int) -> bool:
    if not isinstance(stated, int | float) or stated <= 0:
        return True
    low, high = _MEMORY_RATIO
    return low <= stated / (memory_gib * _GIB) <= high


def _product_name(stats: Mapping[str, int | float | str]) -> str:
    """The driver's name of the product; empty when it is missing or only an architecture."""
    name = str(stats.get("gpu_device_name", "")).strip()
    return "" if _ARCHITECTURE.match(name) else name


def _name_fits(name: str, patterns: tuple[str, ...]) -> bool:
    return not name or any(re.fullmatch(p, name, re.IGNORECASE) for p in patterns)


def _capability(stats: Mapping[str, int | float | str]) -> str:
    if "compute_cap_major" not in stats:
        return ""
    return f"{stats['compute_cap_major']}.{stats.get('compute_cap_minor', 0)}"


def _clock_mhz(stats: Mapping[str, int | float | str]) -> int | None:
    """`clock_rate` is in kHz; it is the product's maximum, not what the GPU ran at."""
    clock = stats.get("clock_rate")
    return round(clock / 1000) if isinstance(clock, int | float) and clock > 0 else None


def _described(stats: Mapping[str, int | float | str]) -> str:
    """What the capture states, for a sentence."""
    memory = stats.get("memory_size")
    parts = [
        str(stats.get("gpu_device_name", "") or stats.get("device_vendor", "")),
        f"{stats['core_count']} cores" if "core_count" in stats else "",
        f"{memory / _GIB:.0f} GiB" if isinstance(memory, int | float) else "",
    ]
    return ", ".join(part for part in parts if part)
