"""What bounds the workload: host, GPU, communication or copies; or why that can't be said.

The rule, printed with its numbers: the parts of the complete steps of all devices (see `parts`)
are added up. Of *host* (idle because a launch came late or its call took long, also on the GPU
that a collective waits for), *exposed* communication and *exposed* copies the largest decides
when it is at least `DECIDES_RATIO` of the time; else the workload is GPU-bound. Hidden
communication never counts, however long, and waiting for a GPU that is slower is no
communication. The verdict is withheld when the capture doesn't cover the GPUs (see `coverage`),
or when idle time that nothing explains is at least `DECIDES_RATIO`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.steps.launches import LaunchJoin
from explane.analysis.steps.steps import Steps
from explane.analysis.verdict.budget import Budgets
from explane.analysis.verdict.coverage import coverage_problems
from explane.analysis.verdict.idle import IdleGaps
from explane.analysis.verdict.parts import PARTS, StepParts, step_parts
from explane.analysis.verdict.peer_waits import PeerWaits, peer_waits
from explane.capture.model import Capture, HostCapture, Kind
from explane.memory import freed
from explane.units import format_ps, format_ratio

#: From this share of the time on a part decides the verdict.
DECIDES_RATIO: Final = 0.25
#: Parts below this share are not mentioned.
FLOOR_RATIO: Final = 0.05
# A device with less compute time than this share of the usual one is an outlier.
_OUTLIER_RATIO: Final = 0.5
_BOUNDS: Final = {
    "host-bound": ("host_late", "launch_call_long", "peer_host_late"),
    "communication-bound": ("collective",),
    "copy-bound": ("copy",),
}
_WORDS: Final = {
    "compute": "compute",
    "collective": "exposed communication",
    "peer_late": "waiting for a GPU that joins a collective late",
    "peer_host_late": "waiting for a GPU whose host launched late",
    "copy": "exposed copies",
    "host_late": "idle because the host launched late",
    "launch_call_long": "idle because launch calls took long",
    "gap": "short pauses between queued kernels",
    "unexplained": "idle without an explanation",
}
_COLLECTIVE_OPCODE: Final = re.compile(
    rb"\x12[\x09-\x1d](?:all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    rb"|collective-broadcast|ragged-all-to-all)"
)
RULE: Final = (
    f"over the complete steps of all GPUs, the largest of host (idle because of late or long"
    f" launch calls, also on the GPU that a collective waits for), exposed communication and"
    f" exposed copies decides if it takes at least {DECIDES_RATIO:.0%} of the time; else the"
    f" workload is GPU-bound. Waiting for a slower GPU is no"
    f" communication. Unexplained idle time of"
    f" {DECIDES_RATIO:.0%} or missing records withhold the verdict. Parts from {FLOOR_RATIO:.0%}"
    " on are named"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one capture.

    Attributes:
        host: Host of the capture.
        word: `host-bound`, `GPU-bound`, `communication-bound`, `copy-bound` or `withheld`.
        reason: Its numbers, or why it is withheld; one sentence.
        remarks: What must be said beside it.
        problems: Why the capture can't carry a verdict; empty when it can.
        parts: Parts of the time.
        outliers: Devices left out because they miss compute that the others have.
    """

    host: str
    word: str
    reason: str
    remarks: tuple[str, ...]
    problems: tuple[str, ...]
    parts: StepParts
    outliers: tuple[int, ...]

    @property
    def table(self) -> pl.DataFrame:
        """`verdict.csv`: one row with the verdict, its rule and the shares that decided."""
        shares = {f"{name}_ratio": [self.parts.ratio(name)] for name in PARTS}
        idle = self.parts.ratio("host_late", "launch_call_long", "gap", "unexplained")
        window = "complete steps" if self.parts.of_steps else "device spans"
        return pl.DataFrame(
            {
                "host": [self.host],
                "verdict": [self.word],
                "reason": [" ".join((self.reason, *self.remarks))],
                "rule": [RULE],
                "window": [window],
                "n_windows": [len(self.parts.duration_ps)],
                "n_devices": [len(np.unique(self.parts.device))],
                **shares,
                "idle_ratio": [idle],
                "idle_least_ratio": [idle - self.parts.graph_idle_ratio],
                "problems": ["; ".join(self.problems)],
            }
        )

    @property
    def parts_table(self) -> pl.DataFrame:
        """`verdict_parts.csv`: parts per device with their range over the steps."""
        return self.parts.table(self.host)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the programs of the capture say that it should hold.

    Attributes:
        n_partitions: Devices that the largest program was compiled for; 0 when unknown.
        has_collectives: Whether a program that ran holds collectives between devices.
    """

    n_partitions: int = 0
    has_collectives: bool = False


def find_verdict(
    record: HostCapture | Capture,
    join: LaunchJoin,
    steps: Steps,
    budgets: Budgets,
    idle: IdleGaps,
    expected: Expected | None = None,
) -> Verdict:
    """What bounds the workload of one process.

    Args:
        record: Its capture.
        join: Launches of the capture.
        steps: Its steps.
        budgets: Its budgets.
        idle: Idle gaps of its critical streams.
        expected: What its programs say; None to look for collectives only.
    """
    capture = record.main if isinstance(record, HostCapture) else record
    problems = freed(coverage_problems(capture, join, steps))
    parts = step_parts(capture, steps, budgets.activity, idle)
    outliers = _outliers(budgets)
    if outliers:
        parts = parts.of_devices(
            [d for d in np.unique(parts.device).tolist() if d not in outliers]
        )
    expected = expected or Expected(has_collectives=_programs_hold_collectives(capture))
    if not problems:
        problems = list(_unexplained(capture, parts, expected))
    word, reason = _decide(parts, problems)
    remarks = tuple(
        itertools.chain(
            _about_devices(capture, expected, outliers),
            _about_steps(steps, parts, word),
            _about_peers(peer_waits(capture, steps), parts, word),
            _about_records(capture, parts, expected, word),
        )
    )
    return Verdict(capture.host, word, reason, remarks, tuple(problems), parts, tuple(outliers))


def _decide(parts: StepParts, problems: list[str]) -> tuple[str, str]:
    """The word and its sentence."""
    if problems:
        return "withheld", "Reason: " + "; ".join(problems) + "."
    shares = {word: parts.ratio(*names) for word, names in _BOUNDS.items()}
    word = max(shares, key=lambda w: shares[w])
    if shares[word] < DECIDES_RATIO:
        word = "GPU-bound"
    named = [(parts.ratio(name), name) for name in PARTS]
    listed = [
        f"{_WORDS[name]} {format_ratio(share)}"
        for share, name in sorted(named, key=lambda pair: (-pair[0], PARTS.index(pair[1])))
        if share >= FLOOR_RATIO
    ]
    where = "complete steps" if parts.of_steps else "GPU windows"
    return word, f"Of the time of the {where}: {', '.join(listed)}."


def _unexplained(capture: Capture, parts: StepParts, expected: Expected) -> Iterator[str]:
    """Idle time that nothing explains, when there is enough of it to change the verdict."""
    share = parts.ratio("unexplained")
    if share < DECIDES_RATIO:
        return
    idle = f"the GPUs idle for {format_ratio(share)}"
    if not len(capture.launches):
        yield f"{idle} and no launch calls explain why"
    elif _collectives_missing(capture, expected):
        yield f"{idle}, the program has collectives and none was recorded"
    else:
        yield (
            f"{idle} though their work was launched and nothing was waited for: records may be"
            " missing"
        )


def _programs_hold_collectives(capture: Capture) -> bool:
    """Whether a stored module that ran has a collective instruction.

    Looks for the opcode as HloInstructionProto writes it (field 2, a string), so that a verdict
    needs no parsed program. A text that looks the same elsewhere is not to be expected.
    """
    ran = np.unique(capture.kernels.program_id).tolist()
    stored = [capture.programs[i].hlo_proto for i in ran if i in capture.programs]
    return any(_COLLECTIVE_OPCODE.search(proto) is not None for proto in stored)


def _collectives_missing(capture: Capture, expected: Expected) -> bool:
    """True when a program of several devices has collectives and no kernel is one."""
    several = len(np.unique(capture.kernels.device)) > 1 or expected.n_partitions > 1
    seen = bool((capture.kernels.kind == Kind.COLLECTIVE).any())
    return several and expected.has_collectives and not seen


def _outliers(budgets: Budgets) -> list[int]:
    """Devices that hold much less compute than the usual device with compute."""
    time_ps = budgets.devices["compute_ps"].to_numpy()
    if not time_ps.any():
        return []
    usual = np.median(time_ps[time_ps > 0])
    return budgets.devices["device"].filter(pl.Series(time_ps < _OUTLIER_RATIO * usual)).to_list()


def _about_devices(capture: Capture, expected: Expected, outliers: list[int]) -> Iterator[str]:
    """Devices that are left out or not captured."""
    n_devices = len(np.unique(capture.kernels.device))
    if outliers:
        names = ", ".join(str(device) for device in outliers)
        yield f"GPU {names}: less compute than on the others, left out."
    if expected.n_partitions > n_devices > 0:
        yield (
            f"{n_devices} of {expected.n_partitions} devices captured: imbalance between them is"
            " not judged."
        )


def _about_steps(steps: Steps, parts: StepParts, word: str) -> Iterator[str]:
    """Windows, run-ahead and compilation."""
    if not parts.of_steps and len(parts.duration_ps):
        yield f"Measured over whole GPU windows, not steps: {steps.withheld}."
    if word != "withheld" and steps.median_ahead > 0:
        yield f"The host runs {_steps(steps.median_ahead)} ahead of the GPUs."
    first = steps.device == steps.device.min(initial=np.iinfo(np.int32).max)
    compile_ps = int(steps.compile_ps[first].sum())
    if compile_ps:
        yield f"The host compiles for {format_ps(compile_ps)} before and between the steps."


def _about_peers(waits: PeerWaits, parts: StepParts, word: str) -> Iterator[str]:
    """The GPU that the others wait for most."""
    if word == "withheld" or parts.ratio("peer_late", "peer_host_late") < FLOOR_RATIO:
        return
    time_ps = np.bincount(waits.late_device, weights=waits.windows.duration_ps)
    device = int(np.argmax(time_ps))
    share = format_ratio(float(time_ps[device] / time_ps.sum()))
    yield f"Of the waiting inside collectives {share} is for GPU {device}."


def _about_records(
    capture: Capture, parts: StepParts, expected: Expected, word: str
) -> Iterator[str]:
    """What the records are not good for."""
    if parts.graph_idle_ratio >= FLOOR_RATIO:
        yield (
            f"{format_ratio(parts.graph_idle_ratio)} is idle time inside graph launches, which"
            " some collectors record coarsely: it may be work."
        )
    if word != "withheld" and _collectives_missing(capture, expected):
        yield "The program has collectives and none was recorded: communication time is unknown."
    if word in ("host-bound", "withheld"):
        yield from _python_tracer(capture)


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def _python_tracer(capture: Capture) -> Iterator[str]:
    """How much of the host record is the Python tracer's."""
    if not capture.n_python_events:
        return
    share = capture.n_python_events / (capture.n_host_events + len(capture.launches))
    yield (
        f"{format_ratio(share)} of the host events are Python calls: the Python tracer slows the"
        " host, so capture again with jax.profiler.ProfileOptions().python_tracer_level = 0."
    )
