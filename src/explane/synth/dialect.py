"""What one thunk makes the device do, in a vendor's words: events, details, host calls."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random

from explane.capture.model import Kind
from explane.capture.program import Instruction, Program
from explane.synth import library_names
from explane.synth.devices import Vendor
from explane.synth.program import Dimensions, Thunk
from explane.synth.scenario import Era

COPIES = frozenset({"kCopy", "kDynamicSliceFusion", "kHostToDeviceCopy", "kDeviceToDeviceCopy"})
IDS = frozenset({"kPartitionId", "kReplicaId"})
CLEARS = frozenset({"kMemzero", "kMemset32BitValue", "kMemset32"})
GEMMS = frozenset({"kGemm", "kCublasLtMatmul", "kCublasLtMatmulF8"})
COLLECTIVES = {
    "kAllGather": "AllGather",
    "kAllReduce": "AllReduce",
    "kReduceScatter": "ReduceScatter",
    "kCollectiveBroadcast": "Broadcast",
    "kAllToAll": "SendRecv",
    "kRaggedAllToAll": "SendRecv",
    "kCollectivePermute": "SendRecv",
    "kSend": "SendRecv",
    "kRecv": "SendRecv",
}
_REDUCING = frozenset({"AllReduce", "ReduceScatter"})
_NCCL_TYPES = {
    "bf16": "bf16",
    "f32": "f32",
    "f16": "f16",
    "f64": "f64",
    "s32": "i32",
    "u32": "u32",
}
_COPY_BYTES_SHOWN = 1 << 31


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """One device event of a thunk.

    Attributes:
        name: Event name as the collector writes it.
        kind: Compute, collective, copy or memset by what the thunk does; on ROCm copies and
            memsets are kernels by name.
        details: (stat name, text) of its launch or copy details.
        api: Name of the host call on this vendor.
        share: Part of the instruction's time; the rest goes to its siblings.
    """

    name: str
    kind: Kind
    details: tuple[str, str]
    api: str
    share: float = 1.0


@dataclass(frozen=True)
class Dialect:
    """A vendor's collector of one era; names of libraries depend on the seed."""

    vendor: Vendor
    era: Era
    seed: int

    def work_of(
        self, thunk: Thunk, instruction: Instruction, program: Program
    ) -> list[DeviceWork]:
        """Device events of a thunk that is no container, in launch order."""
        if thunk.kernel:
            return [self._own_kernel(thunk)]
        if thunk.kind in COPIES:
            return [self.copy("D2D", instruction.shape.size_bytes or 1)]
        if thunk.kind in IDS:
            return [self.copy("H2D", 4)]
        if thunk.kind in CLEARS:
            return [self.clear(instruction.shape.size_bytes or 1)]
        if thunk.kind in COLLECTIVES:
            return [self._collective(thunk, instruction, program)]
        return self._library(thunk, instruction, program)

    def copy(self, direction: str, size_bytes: int) -> DeviceWork:
        """A copy: `D2D`, `H2D` or `D2H`."""
        if self.vendor is Vendor.AMD:
            details = self._amd_details((16, 1, 1), (512, 1, 1), 0)
            api = f"hipMemcpy{direction.replace('2', 'to')}Async"
            name = "__amd_rocclr_copyBuffer.kd"
            return DeviceWork(name, Kind.MEMCPY, ("kernel_details", details), api)
        word = {"D": "device", "H": "pinned"}
        text = (
            f"kind_src:{word[direction[0]]} kind_dst:{word[direction[2]]} "
            f"size:{min(size_bytes, _COPY_BYTES_SHOWN)} dest:0 async:1"
        )
        api = f"cuMemcpy{direction.replace('2', 'to')}Async_v2"
        return DeviceWork(f"Memcpy{direction}", Kind.MEMCPY, ("memcpy_details", text), api)

    def clear(self, size_bytes: int) -> DeviceWork:
        """A memset."""
        if self.vendor is Vendor.AMD:
            details = self._amd_details((4, 1, 1), (256, 1, 1), 0)
            name = "__amd_rocclr_fillBufferAligned.kd"
            return DeviceWork(name, Kind.MEMSET, ("kernel_details", details), "hipMemsetAsync")
        text = f"kind:device num_bytes:{size_bytes} async:1"
        return DeviceWork("Memset 0", Kind.MEMSET, ("memset_details", text), "cuMemsetD32Async")

    def graph_launch(self, graph_id: int) -> str:
        """Name of the host call that launches a graph."""
        amd = self.vendor is Vendor.AMD
        return "hipGraphLaunch" if amd else f"cuGraphLaunch (CudaGraph:{graph_id})"

    def _own_kernel(self, thunk: Thunk) -> DeviceWork:
        details = self._details(thunk.kernel, thunk.grid, thunk.block, thunk.shared_bytes)
        amd = self.vendor is Vendor.AMD
        name = f"{thunk.kernel}.kd" if amd else thunk.kernel
        api = "hipModuleLaunchKernel" if amd else name
        return DeviceWork(name, Kind.COMPUTE, ("kernel_details", details), api)

    def _collective(self, thunk: Thunk, instruction: Instruction, program: Program) -> DeviceWork:
        word = COLLECTIVES[thunk.kind]
        random = Random(f"{self.seed} collective {instruction.shape}")
        arguments = "(ncclDevKernelArgsStorage<4096ul>)"
        if self.vendor is Vendor.AMD:
            channel = random.choice(("", "_1", "_2", "_4"))
            name = f"ncclDevKernel_Generic{channel}{arguments} [clone .kd]"
            details = self._amd_details((random.choice((32, 64)), 1, 1), (512, 1, 1), 0)
            return DeviceWork(
                name, Kind.COLLECTIVE, ("kernel_details", details), "hipExtLaunchKernel"
            )
        parts = [word]
        if word in _REDUCING:
            first = next(iter(instruction.shape.leaves)).element_type
            parts += [_reduction(instruction, program), _NCCL_TYPES.get(first, "u8")]
        if word != "SendRecv":
            parts += [random.choice(("RING", "TREE", "NVLS")), random.choice(("LL", "SIMPLE"))]
        name = f"ncclDevKernel_{'_'.join(parts)}{arguments}"
        details = self._details(name, (random.choice((16, 24, 32)), 1, 1), (544, 1, 1), 0)
        return DeviceWork(name, Kind.COLLECTIVE, ("kernel_details", details), name)

    def _library(self, thunk: Thunk, call: Instruction, program: Program) -> list[DeviceWork]:
        names = self._library_names(thunk, call, program)
        main = max(range(len(names)), key=lambda i: names[i] != library_names.CLEAR)
        if len(names) > 2:
            main = len(names) - 2
        rest = 0.25 / max(1, len(names) - 1)
        shares = [rest] * len(names)
        shares[main] = 1.0 - rest * (len(names) - 1)
        return [self._library_kernel(n, s) for n, s in zip(names, shares, strict=True)]

    def _library_names(self, thunk: Thunk, call: Instruction, program: Program) -> tuple[str, ...]:
        operands = program.operands_of(call)
        signature = f"{call.custom_call_target} {call.shape} {[str(o.shape) for o in operands]}"
        random = Random(f"{self.seed} {signature}")
        element_type = operands[0].shape.element_type if operands else "f32"
        if thunk.kind in GEMMS:
            return library_names.gemm_kernels(self.vendor, element_type, random)
        if thunk.kind == "kConvolution":
            return library_names.convolution_kernels(self.vendor, element_type, random)
        if thunk.kind == "kCuDnn" or "fmha" in call.custom_call_target:
            return library_names.attention_kernels(self.vendor, random)
        what = thunk.kind.removeprefix("k").lower()
        return library_names.other_kernels(self.vendor, what, random)

    def _library_kernel(self, name: str, share: float) -> DeviceWork:
        if name == library_names.CLEAR:
            work = self.clear(1 << 20)
            return DeviceWork(work.name, work.kind, work.details, work.api, share)
        number = zlib.crc32(f"{self.seed} {name}".encode())
        grid, block = (64 << number % 5, 1 + number % 3, 1), (128 << number % 2, 1, 1)
        api = "hipExtModuleLaunchKernel" if name.startswith("Cijk") else "hipLaunchKernel"
        details = ("kernel_details", self._details(name, grid, block, 49152))
        nvidia = self.vendor is Vendor.NVIDIA
        return DeviceWork(name, Kind.COMPUTE, details, name if nvidia else api, share)

    def _details(self, name: str, grid: Dimensions, block: Dimensions, shared_bytes: int) -> str:
        if self.vendor is Vendor.AMD:
            return self._amd_details(grid, block, shared_bytes)
        registers = 16 + 8 * (zlib.crc32(name.encode()) % 30)
        return (
            f"regs:{registers} static_shared:0 dynamic_shared:{shared_bytes} "
            f"grid:{_comma(grid)} block:{_comma(block)} occ_pct:{occupancy(registers)}"
        )

    def _amd_details(self, grid: Dimensions, block: Dimensions, shared_bytes: int) -> str:
        launch = f"grid:{_comma(grid)} block:{_comma(block)}"
        if self.era is Era.OLD:
            return f" {launch} private_mem:0 group_mem:{shared_bytes} occ_pct:0"
        return f"regs:64 static_shared:{shared_bytes} dynamic_shared:0 {launch} private_mem:0"


def occupancy(registers: int) -> float:
    """Theoretical occupancy in per cent that registers alone allow (65,536 per multiprocessor)."""
    warps = min(64, 65536 // (32 * max(registers, 1)))
    return warps / 64 * 100


def _reduction(instruction: Instruction, program: Program) -> str:
    bodies = program.called_by(instruction)
    root = program.root_of(bodies[0]) if bodies else None
    words = {"maximum": "Max", "minimum": "Min", "multiply": "Prod"}
    return words.get(root.opcode if root else "add", "Sum")


def _comma(sizes: Dimensions) -> str:
    return ",".join(map(str, sizes))
