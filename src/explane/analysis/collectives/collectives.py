"""Collectives across the GPUs of one capture: waiting, transfer, exposure, bandwidth, stragglers.

Bandwidth is the bus bandwidth of NVIDIA's nccl-tests (doc/PERFORMANCE.md there): bytes that each
link must carry whatever the algorithm, over the transfer part only, so that waiting for a late
GPU never looks like a slow network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from explane.analysis.attribution.result import Attribution
from explane.analysis.collectives.match import MatchedCollectives, match_collectives
from explane.analysis.columns import id_column, text_column
from explane.capture.classify import GROUP_COLLECTIVES
from explane.capture.model import I64, Capture, Kind
from explane.capture.program import Instruction, Program
from explane.capture.replica_groups import replica_groups


@dataclass(frozen=True, slots=True)
class Collectives:
    """All collectives of one host's capture.

    Attributes:
        table: `collectives.csv`, one row per kernel.
        summary: One row per instruction over all its operations.
        matched: The match, aligned with the rows of `table`.
    """

    table: pl.DataFrame
    summary: pl.DataFrame
    matched: MatchedCollectives


@dataclass(frozen=True, slots=True)
class Volume:
    """What one operation moves, from its HLO shapes.

    Attributes:
        opcode: Without `-start`.
        size_bytes: The full array on one GPU (nccl-tests' S); None when the shapes don't say.
        bus_factor: Bytes on the bus per byte of it, for the group's size.
        n_group: GPUs per group as compiled; 0 when not stored.
    """

    opcode: str
    size_bytes: int | None
    bus_factor: float
    n_group: int


def find_collectives(
    host: str,
    capture: Capture,
    programs: Mapping[int, Program],
    attribution: Attribution,
    kernel_step: I64,
) -> Collectives:
    """Match collectives across GPUs and take them apart.

    Args:
        host: Host label.
        capture: The capture.
        programs: Parsed programs by id.
        attribution: Kernels and their instructions.
        kernel_step: Step number of each kernel, or -1.
    """
    stored = attribution.stored(programs)
    instructions = [found[1] if found else None for found in stored]
    matched = match_collectives(capture, attribution, _groups(capture, attribution, instructions))
    volumes = [volume_of(*found) if found else None for found in stored]
    table = _table(host, capture, attribution, matched, kernel_step, volumes)
    return Collectives(table, _summary(table), matched)


def volume_of(program: Program, instruction: Instruction) -> Volume | None:
    """What a collective moves; None when the instruction is no collective."""
    inner = collective_inside(program, instruction)
    if inner is None:
        return None
    opcode = inner.opcode.removesuffix("-start")
    n_group = max((len(group) for group in replica_groups(inner)), default=0)
    n_group = n_group or program.num_replicas * program.num_partitions
    sizes = [program.instructions[i].shape.size_bytes for i in inner.operand_ids]
    operand = sum(s for s in sizes if s is not None) if None not in sizes else None
    if operand is None or n_group == 0:
        return Volume(opcode, None, 0.0, n_group)
    full = operand * n_group if opcode == "all-gather" else operand
    return Volume(opcode, full, _bus_factor(opcode, n_group), n_group)


def collective_inside(program: Program, instruction: Instruction) -> Instruction | None:
    """The collective that an instruction is or wraps (async-start, call, fusion), if any."""
    if instruction.opcode.removesuffix("-start") in GROUP_COLLECTIVES:
        return instruction
    wraps = instruction.opcode in ("async-start", "call", "fusion")
    if not wraps or not _has_collectives(program.instructions.opcodes):
        return None
    for computation_id in instruction.called_computation_ids:
        for inner_id in program.computations[computation_id].instruction_ids:
            inner = program.instructions[inner_id]
            if inner.opcode.removesuffix("-start") in GROUP_COLLECTIVES:
                return inner
    return None


@lru_cache
def _has_collectives(opcodes: tuple[str, ...]) -> bool:
    return any(opcode.removesuffix("-start") in GROUP_COLLECTIVES for opcode in opcodes)


def _bus_factor(opcode: str, n_group: int) -> float:
    """Bus bytes per byte, as nccl-tests defines them."""
    if opcode == "all-reduce":
        return 2 * (n_group - 1) / n_group
    if opcode in ("all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all"):
        return (n_group - 1) / n_group
    return 1.0


def _groups(
    capture: Capture, attribution: Attribution, instructions: list[Instruction | None]
) -> I64:
    """Replica group of each kernel's GPU, 0 where all take part or where it can't be told.

    Groups name logical devices. A process's ordinals are logical devices only when it has all of
    the program's devices, so groups are used only then.
    """
    ordinals = np.array([d.ordinal for d in capture.devices] or [0])
    group = np.zeros(len(capture.kernels), np.int64)
    for index, instruction in enumerate(instructions):
        if instruction is None:
            continue
        groups = replica_groups(instruction)
        members = {member: number for number, part in enumerate(groups) for member in part}
        if len(groups) < 2 or len(members) != len(ordinals):
            continue
        rows = np.flatnonzero(attribution.instruction == index)
        rank = np.searchsorted(np.sort(ordinals), capture.kernels.device[rows])
        group[rows] = [members.get(int(r), -1) for r in rank]
    return group


def _table(
    host: str,
    capture: Capture,
    attribution: Attribution,
    matched: MatchedCollectives,
    kernel_step: I64,
    volumes: list[Volume | None],
) -> pl.DataFrame:
    """One row per collective kernel, sorted by operation and GPU."""
    kernels, row = capture.kernels, matched.row
    instruction = attribution.instruction[row]
    known = [*volumes, None]
    size = np.array([-1 if v is None or v.size_bytes is None else v.size_bytes for v in known])
    factor = np.array([0.0 if v is None else v.bus_factor for v in known])
    opcodes = [v.opcode if v is not None else "" for v in known]
    transfer_ps, size_bytes = matched.transfer_ps(capture), size[instruction]
    frame = pl.DataFrame(
        [
            id_column("program_id", attribution.program_id[row]),
            text_column(
                "hlo_instruction", instruction, [k.name for k in attribution.instructions]
            ),
            pl.Series("occurrence", matched.occurrence),
            pl.repeat(host, len(row), dtype=pl.String, eager=True).rename("host"),
            pl.Series("device", kernels.device[row].astype(np.int64)),
            pl.Series("start_ps", kernels.start_ps[row]),
            pl.Series("duration_ps", kernels.duration_ps[row]),
            pl.Series("wait_ps", matched.wait_ps(capture)),
            pl.Series("transfer_ps", transfer_ps),
            pl.Series("exposed_ps", matched.exposed_ps),
            id_column("step", kernel_step[row]),
            text_column("kernel", kernels.name[row], capture.strings),
            pl.Series("opcode", [opcodes[i] or None for i in instruction], dtype=pl.String),
            pl.Series("operation", matched.operation),
            pl.Series("n_devices", matched.n_devices),
            id_column("size_bytes", size_bytes.astype(np.int64)),
            pl.Series(
                "bus_bytes", np.where(size_bytes < 0, np.nan, size_bytes * factor[instruction])
            ),
        ]
    )
    late = pl.col("device").sort_by("start_ps", "device").last().over("operation")
    spread = (pl.col("start_ps").max() - pl.col("start_ps").min()).over("operation")
    alone = pl.col("n_devices") < 2
    rate = pl.col("bus_bytes").fill_nan(None) / pl.col("transfer_ps") * 1e12
    return frame.with_columns(
        pl.when(alone).then(None).otherwise(late).alias("late_device"),
        pl.when(alone).then(None).otherwise(spread).alias("start_spread_ps"),
        pl.col("bus_bytes").fill_nan(None),
        pl.when(alone | (pl.col("transfer_ps") <= 0))
        .then(None)
        .otherwise(rate)
        .alias("bus_bytes_per_s"),
    )


def _summary(table: pl.DataFrame) -> pl.DataFrame:
    """Sums by instruction, the most exposed first; bandwidth is the median over operations."""
    return (
        table.group_by("host", "program_id", "hlo_instruction")
        .agg(
            pl.col("opcode").first(),
            pl.col("operation").n_unique().cast(pl.Int64).alias("n_operations"),
            pl.len().cast(pl.Int64).alias("n_kernels"),
            pl.col("n_devices").max(),
            pl.col("duration_ps", "wait_ps", "transfer_ps", "exposed_ps").sum(),
            pl.col("size_bytes").first(),
            pl.col("bus_bytes_per_s").median(),
            pl.col("bus_bytes_per_s").min().alias("bus_bytes_per_s_low"),
            pl.col("bus_bytes_per_s").max().alias("bus_bytes_per_s_high"),
            pl.col("late_device").drop_nulls().mode().sort().first().alias("usual_late_device"),
        )
        .sort(
            ["exposed_ps", "duration_ps", "program_id", "hlo_instruction"],
            descending=[True, True, False, False],
        )
    )


def straggler_table(
    host: str, capture: Capture, attribution: Attribution, collectives: Collectives
) -> pl.DataFrame:
    """Which GPU the others waited for, how long, and what it did meanwhile.

    Returns:
        Columns host, device, n_operations, caused_wait_ps (waiting of the other GPUs, summed),
        wait_each_ps (the longest wait of each operation, summed), doing (its instruction with
        most time while the others waited), doing_ps, busy_ps; most caused wait first.
    """
    table = collectives.table.filter(pl.col("late_device").is_not_null())
    operations = table.group_by("operation", "late_device", maintain_order=True).agg(
        pl.col("wait_ps").sum().alias("caused_wait_ps"),
        pl.col("wait_ps").max().alias("longest_ps"),
        pl.col("start_ps").min().alias("from_ps"),
        pl.col("start_ps").max().alias("to_ps"),
    )
    rows = []
    for (device,), part in operations.group_by(["late_device"], maintain_order=True):
        doing, doing_ps, busy_ps = _doing(capture, attribution, int(str(device)), part)
        sums = part.select("caused_wait_ps", "longest_ps").sum().row(0)
        rows.append((host, device, part.height, *sums, doing, doing_ps, busy_ps))
    schema = {
        "host": pl.String,
        "device": pl.Int64,
        "n_operations": pl.Int64,
        "caused_wait_ps": pl.Int64,
        "wait_each_ps": pl.Int64,
        "doing": pl.String,
        "doing_ps": pl.Int64,
        "busy_ps": pl.Int64,
    }
    made = pl.DataFrame(rows, schema=schema, orient="row")
    return made.sort("caused_wait_ps", "device", descending=[True, False])


def _doing(
    capture: Capture, attribution: Attribution, device: int, windows: pl.DataFrame
) -> tuple[str, int, int]:
    """The instruction with most time on a GPU during windows: name, its time, all busy time."""
    kernels = capture.kernels
    rows = np.flatnonzero(
        (kernels.device == device) & kernels.time_ok & (kernels.kind != Kind.COLLECTIVE)
    )
    inside = np.zeros(len(rows), np.int64)
    starts, ends = windows["from_ps"].to_numpy(), windows["to_ps"].to_numpy()
    order = np.argsort(starts)
    total = np.concatenate([[0], np.cumsum((ends - starts)[order])])

    def until(time_ps: I64) -> I64:
        place = np.searchsorted(starts[order], time_ps, side="right")
        last = np.concatenate([[np.iinfo(np.int64).min // 2], ends[order]])[place]
        reached: I64 = total[place] - np.maximum(last - time_ps, 0)
        return reached

    inside = until(kernels.ends(rows)) - until(kernels.start_ps[rows])
    names = [key.name for key in attribution.instructions]
    frame = pl.DataFrame(
        [
            text_column("op", attribution.instruction[rows], names),
            text_column("kernel", kernels.name[rows], capture.strings),
            pl.Series("time_ps", np.maximum(inside, 0)),
        ]
    ).filter(pl.col("time_ps") > 0)
    if not frame.height:
        return "no kernel: launch or host late", 0, 0
    by_op = frame.group_by(pl.coalesce("op", "kernel").alias("op")).agg(pl.col("time_ps").sum())
    name, time_ps = by_op.sort("time_ps", "op", descending=[True, False]).row(0)
    return str(name), int(time_ps), int(frame["time_ps"].sum())
