"""Roofline: the work of each instruction against the time of its kernels and the GPU's peaks.

FLOPs and bytes belong to one *execution* of an instruction, however many kernels it launched; its
time is the union of those kernels, so that parallel ones are not counted twice. Everything that is
not known (no model, no peak, no execution) is listed with its reason and its time.

Rates above the peak are flagged, never clipped: then the model or the peak is wrong, or (bytes
only) operands were still in a cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.attribution.result import Attribution, InstructionKey
from explane.analysis.distinct import ranks
from explane.analysis.intervals import intervals, running_end
from explane.analysis.roofline.cost import Cost, unknown_cost
from explane.analysis.roofline.flops import ProgramCosts
from explane.analysis.roofline.gpus import Gpu, GpuIdentity, Peak, gpu_by_key, identify_gpu
from explane.capture.model import I64, Capture
from explane.capture.program import Program
from explane.units import PS_PER_S

ABOVE_PEAK: Final = "model or peak wrong"
ABOVE_MEMORY_PEAK: Final = "model or peak wrong, or operands in a cache"
INSIDE_A_FUSION: Final = "inside a fusion: not launched by itself"
COLUMNS: Final = (
    "program_id", "hlo_instruction", "n_executions", "flops", "bytes", "duration_ps",
    "peak_flops_per_s", "peak_bytes_per_s", "peak_ratio", "bound",
)  # fmt: skip
"""First columns of `roofline.csv`, in order."""

_GIVEN: Final = "given by the user"
_EXECUTION: Final = ["instruction", "device", "execution", "iteration"]


@dataclass(frozen=True, slots=True)
class RooflineOptions:
    """What the user states about the GPU; empty and None take it from the capture.

    Attributes:
        gpu: Key or name of a product of peaks.toml.
        peak_flops_per_s: Overrides the peak of every data type.
        peak_bytes_per_s: Overrides the memory peak.
    """

    gpu: str = ""
    peak_flops_per_s: float | None = None
    peak_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Roofline:
    """The roofline of one capture.

    Attributes:
        table: One row per instruction that ran, most time above the roof first. `COLUMNS`, all
            per execution (duration is the lower median over executions), then host, rate,
            n_passes (the peak is already divided by it), roof_ps (least time that the peaks
            allow), total_ps, low_ps, high_ps, above_roof_ps (sum over executions), flag, unknown
            (reason, empty when modelled), flops_source, bytes_source.
        steps: host, device, step, modelled_ps, roof_ps, above_roof_ps, unknown_ps: sums over the
            executions that began in the step. `above_roof_ps` is the most that could be saved if
            every modelled op ran at its roof; ops that run beside each other save less.
        coverage: reason (`modelled` first), n_instructions, n_kernels, duration_ps,
            duration_ratio. Adds up to all kernels with true times.
        identity: The GPU, or why it is unknown.
        overridden: True when the user gave a peak or the GPU.
    """

    table: pl.DataFrame
    steps: pl.DataFrame
    coverage: pl.DataFrame
    identity: GpuIdentity
    overridden: bool


@dataclass(frozen=True, slots=True)
class _Peaks:
    """The peaks in force."""

    gpu: Gpu | None
    options: RooflineOptions

    def flops(self, rate: str, n_passes: int) -> Peak | None:
        """The peak for FLOPs of the program, when the hardware needs several passes for one."""
        peak = self.gpu.flops_peak(rate) if self.gpu is not None else None
        if self.options.peak_flops_per_s is not None:
            peak = Peak(self.options.peak_flops_per_s, _GIVEN)
        return Peak(peak.per_s / n_passes, peak.source) if peak is not None else None

    def bytes(self) -> Peak | None:
        if self.options.peak_bytes_per_s is not None:
            return Peak(self.options.peak_bytes_per_s, _GIVEN)
        return self.gpu.memory if self.gpu is not None else None


def roofline(
    capture: Capture,
    programs: Mapping[int, Program],
    attribution: Attribution,
    options: RooflineOptions | None = None,
    kernel_step: I64 | None = None,
    costs: Mapping[int, Mapping[str, Cost]] | None = None,
) -> Roofline:
    """Sets each instruction's work against its time.

    Args:
        capture: Kernels and device stats.
        programs: Parsed programs by id.
        attribution: Aligned with `capture.kernels`.
        options: What the user states about the GPU.
        kernel_step: Step number of each kernel, or -1; without it `steps` is empty.
        costs: By program id and instruction name, where they are known already.

    Raises:
        UsageError: `options.gpu` names no known product.
    """
    chosen = options or RooflineOptions()
    if costs is None:
        costs = {program_id: ProgramCosts(program) for program_id, program in programs.items()}
    identity = _identity(capture, chosen)
    instructions = _instruction_frame(
        attribution.instructions, programs, costs, _Peaks(identity.gpu, chosen)
    )
    steps = kernel_step if kernel_step is not None else np.full(len(attribution), -1)
    kernels = _kernel_frame(capture, attribution, steps)
    roofs = instructions.select("instruction", "roof_ps")
    coverage = _coverage(kernels, instructions)
    executions = _executions(kernels).join(roofs, on="instruction", how="left")
    del kernels  # it is large
    return Roofline(
        table=_table(executions, instructions, capture.host),
        steps=_steps(executions, capture.host),
        coverage=coverage,
        identity=identity,
        overridden=chosen != RooflineOptions(),
    )


def _identity(capture: Capture, options: RooflineOptions) -> GpuIdentity:
    """The GPU of the user's choice, else of all devices that ran kernels, if they are the same."""
    if options.gpu:
        gpu = gpu_by_key(options.gpu)
        return GpuIdentity(gpu, (gpu,), _GIVEN)
    used = set(np.unique(capture.kernels.device).tolist())
    stated = [identify_gpu(d.stats) for d in capture.devices if d.ordinal in used]
    if not stated:
        return GpuIdentity(None, (), "the capture does not state the GPU")
    if any(identity.candidates != stated[0].candidates for identity in stated):
        return GpuIdentity(None, (), "the devices are different products")
    return stated[0]


def _instruction_frame(
    keys: Sequence[InstructionKey],
    programs: Mapping[int, Program],
    costs: Mapping[int, Mapping[str, Cost]],
    peaks: _Peaks,
) -> pl.DataFrame:
    """Cost, peaks and roof of each distinct instruction, by its index."""
    rows = [_instruction_row(key, _cost(key, programs, costs), peaks) for key in keys]
    schema = {
        "program_id": pl.Int64,
        "hlo_instruction": pl.String,
        "flops": pl.Int64,
        "bytes": pl.Int64,
        "rate": pl.String,
        "n_passes": pl.Int64,
        "peak_flops_per_s": pl.Float64,
        "peak_bytes_per_s": pl.Float64,
        "flops_source": pl.String,
        "bytes_source": pl.String,
        "roof_ps": pl.Float64,
        "bound": pl.String,
        "unknown": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("instruction")


def _cost(
    key: InstructionKey,
    programs: Mapping[int, Program],
    costs: Mapping[int, Mapping[str, Cost]],
) -> Cost:
    """The cost of a launched instruction; a label may also name one that a fusion swallowed."""
    program = programs[key.program_id]
    instruction = program.by_name[key.name]
    if program.computations[instruction.computation_id].is_fusion:
        return unknown_cost(INSIDE_A_FUSION)
    return costs[key.program_id][key.name]


def _instruction_row(key: InstructionKey, cost: Cost, peaks: _Peaks) -> tuple[object, ...]:
    flops_peak = peaks.flops(cost.rate, cost.n_passes) if not cost.unknown else None
    bytes_peak = peaks.bytes()
    unknown = _why_unknown(cost, flops_peak, bytes_peak)
    roof_ps, bound = None, None
    if not unknown and flops_peak is not None and bytes_peak is not None:
        compute_ps = (cost.flops or 0) / flops_peak.per_s * PS_PER_S
        memory_ps = (cost.n_bytes or 0) / bytes_peak.per_s * PS_PER_S
        roof_ps = max(compute_ps, memory_ps)
        bound = "compute" if compute_ps > memory_ps else "memory"
    return (
        key.program_id,
        key.name,
        cost.flops,
        cost.n_bytes,
        cost.rate if not cost.unknown else None,
        cost.n_passes if not cost.unknown else None,
        flops_peak.per_s if flops_peak is not None else None,
        bytes_peak.per_s if bytes_peak is not None else None,
        flops_peak.source if flops_peak is not None else None,
        bytes_peak.source if bytes_peak is not None else None,
        roof_ps,
        bound,
        unknown,
    )


def _why_unknown(cost: Cost, flops_peak: Peak | None, bytes_peak: Peak | None) -> str:
    """The first thing that keeps an instruction out of the roofline; empty when nothing does."""
    if cost.unknown or cost.bytes_unknown:
        return cost.unknown or cost.bytes_unknown
    if bytes_peak is None:
        return "no peaks for this GPU"
    return f"no peak for {cost.rate} on this GPU" if flops_peak is None else ""


def _kernel_frame(capture: Capture, attribution: Attribution, steps: I64) -> pl.DataFrame:
    """Kernels with true times."""
    kernels = capture.kernels
    frame = pl.DataFrame(
        {
            "instruction": attribution.instruction,
            "device": kernels.device,
            "execution": attribution.execution,
            "iteration": attribution.iteration,
            "step": steps,
            "start_ps": kernels.start_ps,
            "end_ps": kernels.end_ps,
            "duration_ps": kernels.duration_ps,
        }
    )
    return frame if kernels.time_ok.all() else frame.filter(pl.Series(kernels.time_ok))


def _executions(kernels: pl.DataFrame) -> pl.DataFrame:
    """One row per execution of an instruction: union of its kernels, step of its first kernel.

    kernel a   |=====|                  union: a, the rest of b, c
    kernel b      |=====|               (the gap before c does not count)
    kernel c                |===|
    """
    is_known = (kernels["instruction"] >= 0) & (kernels["execution"] >= 0)
    known = kernels if is_known.all() else kernels.filter(is_known)
    execution = ranks(*(known[name].to_numpy() for name in _EXECUTION))
    start, end = known["start_ps"].to_numpy(), known["end_ps"].to_numpy()
    order = np.lexsort((end, start, execution))
    parts = intervals(start[order], end[order], execution[order])
    first = np.flatnonzero(np.diff(parts.group, prepend=-1))
    begin = parts.start_ps.copy()
    begin[1:] = np.maximum(begin[1:], running_end(parts)[:-1])
    begin[first] = parts.start_ps[first]
    covered = np.append(np.maximum(parts.end_ps - begin, 0), 0)  # `reduceat` needs a last part
    rows = known["instruction", "device", "step"][order[first]]
    return pl.DataFrame(
        {
            "instruction": rows["instruction"].cast(pl.UInt32),
            "device": rows["device"],
            "union_ps": np.add.reduceat(covered, first)[: len(first)],
            "step": rows["step"],
        }
    )


def _table(executions: pl.DataFrame, instructions: pl.DataFrame, host: str) -> pl.DataFrame:
    above = (pl.col("union_ps") - pl.col("roof_ps")).clip(0).sum().round().cast(pl.Int64)
    table = executions.group_by("instruction").agg(
        pl.len().cast(pl.Int64).alias("n_executions"),
        pl.col("union_ps").quantile(0.5, "lower").cast(pl.Int64).alias("duration_ps"),
        pl.col("union_ps").sum().alias("total_ps"),
        pl.col("union_ps").min().alias("low_ps"),
        pl.col("union_ps").max().alias("high_ps"),
        pl.when(pl.col("roof_ps").first().is_not_null()).then(above).alias("above_roof_ps"),
    )
    timed = pl.when(pl.col("duration_ps") > 0)
    return (
        table.join(instructions, on="instruction", how="left")
        .with_columns(
            timed.then(pl.col("roof_ps") / pl.col("duration_ps")).alias("peak_ratio"),
            pl.lit(host).alias("host"),
        )
        .with_columns(
            pl.when(pl.col("peak_ratio") > 1)
            .then(
                pl.when(pl.col("bound") == "memory")
                .then(pl.lit(ABOVE_MEMORY_PEAK))
                .otherwise(pl.lit(ABOVE_PEAK))
            )
            .alias("flag"),
            pl.col("roof_ps").round().cast(pl.Int64),
        )
        .sort(
            ["above_roof_ps", "total_ps", "program_id", "hlo_instruction"],
            descending=[True, True, False, False],
            nulls_last=True,
        )
        .select(
            *COLUMNS, "host", "rate", "n_passes", "roof_ps", "total_ps", "low_ps", "high_ps",
            "above_roof_ps", "flag", "unknown", "flops_source", "bytes_source",
        )
    )  # fmt: skip


def _steps(executions: pl.DataFrame, host: str) -> pl.DataFrame:
    modelled = pl.col("roof_ps").is_not_null()
    spent, roof = pl.col("union_ps"), pl.col("roof_ps")
    return (
        executions.filter(pl.col("step") >= 0)
        .group_by("device", "step")
        .agg(
            spent.filter(modelled).sum().alias("modelled_ps"),
            roof.sum().round().cast(pl.Int64),
            (spent - roof).clip(0).sum().round().cast(pl.Int64).alias("above_roof_ps"),
            spent.filter(~modelled).sum().alias("unknown_ps"),
        )
        .sort("device", "step")
        .select(pl.lit(host).alias("host"), pl.all())
    )


def _coverage(kernels: pl.DataFrame, instructions: pl.DataFrame) -> pl.DataFrame:
    """Time of all kernels by why they are in the roofline or not."""
    reason = (
        pl.when(pl.col("instruction") < 0)
        .then(pl.lit("no instruction"))
        .when(pl.col("execution") < 0)
        .then(pl.lit("execution unknown"))
        .when(pl.col("unknown") == "")
        .then(pl.lit("modelled"))
        .otherwise(pl.col("unknown"))
    )
    total = max(int(kernels["duration_ps"].sum()), 1)
    numbers = instructions.with_columns(pl.col("instruction").cast(pl.Int32))
    sums = kernels.group_by("instruction", pl.col("execution").clip(-1, 0)).agg(
        pl.len().cast(pl.Int64).alias("n_kernels"), pl.col("duration_ps").sum()
    )
    return (
        sums.join(numbers, on="instruction", how="left")
        .with_columns(reason.alias("reason"))
        .group_by("reason")
        .agg(
            pl.col("instruction").filter(pl.col("instruction") >= 0).n_unique().cast(pl.Int64)
            .alias("n_instructions"),
            pl.col("n_kernels").sum(),
            pl.col("duration_ps").sum(),
        )
        .with_columns((pl.col("duration_ps") / total).alias("duration_ratio"))
        .sort(
            [pl.col("reason") == "modelled", "duration_ps", "reason"],
            descending=[True, True, False],
        )
    )  # fmt: skip
