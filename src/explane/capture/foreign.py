"""Captures that hold nothing explane can analyse: which of the known kinds, and what to do.

Told by what the profiler writes, never by a guess from one name: planes, launch calls with their
correlation ids, and names of host events and threads that only one backend of XLA uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from explane.capture.assemble import distinct
from explane.capture.classify import is_python_event
from explane.capture.model import MISSING, Capture, NoteKind
from explane.errors import CaptureError

_TPU_PLANE: Final = re.compile(r"/device:TPU")

# Names that XLA's GPU backends and the GPU collectors give to host events.
_GPU_NAME: Final = re.compile(
    r"PjRtStreamExecutor|StreamExecutorGpu|TfrtGpu|PjRtGpu|Gpu(?:Executable|Client|Compiler)"
    r"|:XLA GPU module|command_buffer::|Thunks::(?:Prepare|Initialize)$"
    r"|^(?:cu|cuda|hip)(?:[A-Z]\w*)?(?:Launch|Memcpy|Memset|Synchronize)\w*"
)
_GPU_SESSION: Final = ("cuda_version", "rocm_version", "gpu_version", "oneapi_version")

# Names of XLA's CPU client and executor, all eras (TfrtCpuClient until 2025, PjRtCpuClient since).
_CPU_NAME: Final = re.compile(
    r"(?:Tfrt|PjRt)?Cpu(?:Client|Executable|LoadedExecutable|Buffer)|ThunkExecutor::Execute"
    r"|:XLA CPU module"
)
_CPU_THREAD: Final = re.compile(r"(?:tf_)?XLA(?:Tfrt|PjRt)?Cpu|(?:tf_)?XLAEigen")

# Names that any backend's client uses when a program is run.
_EXECUTE_NAME: Final = re.compile(
    r"(?:Common)?Pj[Rr]t\w*::Execut|PJRT_LoadedExecutable_Execute|PjitFunction\(|XlaModule:"
    r"|\w*LoadedExecutable::Execut"
)
_XLA_NAME: Final = re.compile(rf"{_EXECUTE_NAME.pattern}|:XLA \w+ module|Thunks?::|XlaModule")
_TENSORFLOW_NAME: Final = re.compile(
    r"ExecutorState::Process$|ExecutorPropagateOutputs$|EagerLocalExecute|EagerExecute"
    r"|FunctionRun$|SessionRun$|TraceContext$|\w+Op::DoCompute"
)
_START_FAILURE: Final = (
    "capture again with ProfileOptions.raise_error_on_start_failure = True to see why: the "
    "tracing library is missing or not permitted, or another profiler holds it"
)


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """What the host side of a capture says of the backend that ran.

    Attributes:
        n_launches: Host calls with a correlation id.
        gpu: A name that only a GPU backend uses; empty when there is none. Likewise:
        cpu: of XLA's CPU backend,
        execute: of any backend running a program,
        xla: of XLA at all,
        tensorflow: of TensorFlow's own executor.
    """

    n_launches: int
    gpu: str
    cpu: str
    execute: str
    xla: str
    tensorflow: str


def evidence(capture: Capture) -> HostEvidence:
    """Looks through the distinct names of host events, launches and threads."""
    codes = np.concatenate([capture.host_events.name, capture.launches.name])
    used = map(capture.text, distinct(codes, len(capture.strings)))
    names = [text for text in used if not is_python_event(text)]
    threads = [thread.name for thread in capture.threads]
    session = [name for name in _GPU_SESSION if name in capture.session]
    return HostEvidence(
        n_launches=len(capture.launches),
        gpu=_first(_GPU_NAME, names) or "".join(session[:1]),
        cpu=_first(_CPU_NAME, names) or _first(_CPU_THREAD, threads),
        execute=_first(_EXECUTE_NAME, names),
        xla=_first(_XLA_NAME, names),
        tensorflow=_first(_TENSORFLOW_NAME, names),
    )


def _first(pattern: re.Pattern[str], names: list[str]) -> str:
    """The first name in which a pattern is found; empty when there is none."""
    return next((name for name in names if pattern.search(name)), "")


def refusal(capture: Capture) -> CaptureError | None:
    """Why a capture can't be analysed at all, as one line; None when it can be.

    A capture with GPU events can, unless another framework made it; whether its numbers can be
    trusted is not decided here.
    """
    tpu = [name for name in capture.other_planes if _TPU_PLANE.search(name)]
    if tpu:
        return CaptureError(
            capture.path,
            f"TPU capture (plane {tpu[0]}); explane analyses GPU captures",
            "use XProf for it",
            "tpu-capture",
        )
    if is_plainly_xla(capture):
        return None
    found = evidence(capture)
    if not len(capture.kernels):
        return _without_kernels(capture, found)
    if found.xla or not found.tensorflow:
        return None
    return CaptureError(
        capture.path,
        f"not an XLA capture: TensorFlow launched its {len(capture.kernels):,} GPU events op by "
        "op, none belongs to an HLO module",
        "use XProf for it, or capture a program compiled by XLA (JAX, or jit_compile=True)",
        "not-xla",
    )


def is_plainly_xla(capture: Capture) -> bool:
    """Whether a capture has GPU events and a label or program of XLA, so that no doubt is left."""
    kernels = capture.kernels
    labels = (kernels.hlo_op, kernels.hlo_module, kernels.program_id)
    labelled = bool(capture.programs) or any(np.any(column != MISSING) for column in labels)
    return bool(len(kernels)) and labelled


def _without_kernels(capture: Capture, found: HostEvidence) -> CaptureError:
    """The error for a capture without any GPU event, most certain cause first."""
    damage = [note.text for note in capture.notes if note.kind is NoteKind.DAMAGE]
    if capture.partial:
        reason = f"damaged, with no GPU event in what can be read: {damage[0] if damage else ''}"
        remedy = "copy the file again in binary form, or capture again"
        return CaptureError(capture.path, reason, remedy, "damaged-capture")
    if found.n_launches or found.gpu:
        return _tracing_failed(capture, found)
    if found.cpu:
        return CaptureError(
            capture.path,
            f"CPU-backend capture: XLA ran on the CPU ({found.cpu}), there is no GPU to analyse",
            "capture where jax.devices() lists a GPU (GPU build of jaxlib, JAX_PLATFORMS unset)",
            "cpu-capture",
        )
    if found.execute or capture.errors:
        return _tracing_failed(capture, found)
    if capture.n_host_events or capture.devices:
        return CaptureError(
            capture.path,
            f"this process launched no GPU work: {_what_there_is(capture)}",
            "capture the worker process that runs the model, while it runs",
            "no-gpu-work",
        )
    others = f" (it has {', '.join(capture.other_planes[:3])})" if capture.other_planes else ""
    return CaptureError(
        capture.path,
        f"it holds no GPU and no host events{others}: no capture of the JAX profiler",
        "give a file that jax.profiler wrote",
        "empty-capture",
    )


def _tracing_failed(capture: Capture, found: HostEvidence) -> CaptureError:
    """The error for GPU work that the collector did not record; its own messages come first."""
    messages = [f"profiler error: {text}; " for text in capture.errors[:2]]
    messages += [f"profiler warning: {text}; " for text in capture.warnings[:1] if not messages]
    if found.n_launches:
        seen = f"{found.n_launches:,} launch calls"
    else:
        seen = f"execute events ({found.gpu or found.execute})" if found.execute else "GPU work"
    return CaptureError(
        capture.path,
        f"{''.join(messages)}device tracing failed: the host side has {seen}, "
        f"but no GPU event was recorded{_unknown_devices(capture)}",
        _START_FAILURE,
        "no-device-events",
    )


def _unknown_devices(capture: Capture) -> str:
    """Planes of devices that are no `/device:GPU:N`, as a clause."""
    names = [name for name in capture.other_planes if name.startswith("/device:")]
    return f" (explane reads no planes of this kind: {', '.join(names[:3])})" if names else ""


def _what_there_is(capture: Capture) -> str:
    gpus = f", and {len(capture.devices)} GPUs without events" if capture.devices else ""
    python = f"{capture.n_python_events:,} of them Python's"
    return f"{capture.n_host_events:,} host events, {python}{gpus}"
