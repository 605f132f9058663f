"""Small hand-made tables in the form that an investigation has them."""

from __future__ import annotations

import numpy as np
import polars as pl

from explane.analysis.investigation import (
    HostFacts,
    Investigation,
    NotAnalysed,
    ProgramFile,
    SourceFile,
)
from explane.analysis.swimlane import LANE_COLUMNS
from tests.builders_hlo import Hlo, HloComputation, HloModule

MODULE = HloModule("jit_f", [HloComputation("main", [Hlo("add.1", "add")])], 7)


def swimlane(
    n_devices: int = 2,
    n_streams: int = 2,
    n_kernels: int = 40,
    step_ps: int = 1_000_000_000,
    host: str = "node",
) -> pl.DataFrame:
    """A step with a launching thread; kernels of several kinds, sizes and gaps, by seed."""
    random = np.random.default_rng(7)
    kinds = ["compute", "collective", "memcpy", "memset"]
    rows: list[tuple[object, ...]] = []
    for device in range(n_devices):
        for stream in range(n_streams):
            parts = np.sort(random.integers(0, step_ps, n_kernels))
            length = np.diff(parts, append=step_ps) * random.choice([1.0, 0.5, 0.9], n_kernels)
            for i in range(n_kernels):
                kind = "compute" if stream == 0 else kinds[int(random.integers(0, 4))]
                rows.append(
                    (
                        host, device, stream + 13, f"GPU {device} stream {stream + 13}", "gpu",
                        int(parts[i]), int(length[i]), kind, f"loop_add_fusion_{i}",
                        f"fusion.{i}", f"jit(f)/jit(main)/layer_{i % 4}/add", "/home/u/train.py",
                        10 + i % 5, "exact", int(stream == 0 and device == 0), 7,
                    )
                )  # fmt: skip
    none = (None,) * 5
    for i in range(n_kernels):
        start = int(i * step_ps * 0.7 / n_kernels)
        call = ("thread", start, int(step_ps * 0.01), "launch", "hipModuleLaunchKernel")
        rows.append((host, None, None, "python/123", *call, *none[:4], None, 0, None))
    outer = ("thread", 0, int(step_ps * 0.8), "host", "PjitFunction(f)")
    rows.append((host, None, None, "python/123", *outer, *none[:4], None, 0, None))
    return pl.DataFrame(rows, schema=LANE_COLUMNS, orient="row")


def tables(hostile: str = "") -> dict[str, pl.DataFrame]:
    """A small, consistent set of tables of one host; `hostile` is put into every name."""
    lanes = swimlane(2, 2, 12)
    gpu = lanes.filter(pl.col("lane_kind") == "gpu").with_columns(
        pl.col("name") + hostile, pl.col("op_name") + hostile, pl.col("hlo_instruction") + hostile
    )
    kernels = gpu.select(
        "host", "device", "stream", "start_ps", "duration_ps", pl.col("name").alias("kernel"),
        "kind", pl.int_range(pl.len()).alias("correlation_id"), pl.lit(7).alias("program_id"),
        pl.col("hlo_instruction").alias("hlo_op"), "hlo_instruction", "match",
        pl.lit(False).alias("in_graph"), pl.lit(None, pl.String).alias("iteration"),
        pl.lit(3).alias("step"), "op_name", "source_file", "source_line",
        pl.lit("loss_fn").alias("function"), pl.lit("own").alias("line_from"),
    )  # fmt: skip
    ops = (
        kernels.group_by("host", "program_id", "hlo_instruction", "kind", "op_name")
        .agg(
            pl.col("source_file", "source_line", "match").first(),
            pl.len().cast(pl.Int64).alias("n_kernels"),
            pl.col("duration_ps").sum(),
            pl.col("duration_ps").min().alias("low_ps"),
            pl.col("duration_ps").max().alias("high_ps"),
            pl.lit(4).alias("n"),
            pl.col("kernel").first().alias("unattributed_kernel"),
        )
        .sort("duration_ps", "hlo_instruction", "kind", descending=[True, False, False])
    )
    lines = (
        kernels.group_by("host", "source_file", "source_line", "function")
        .agg(pl.len().cast(pl.Int64).alias("n_kernels"), pl.col("duration_ps").sum())
        .sort("duration_ps", "source_line", descending=[True, False])
    )
    how = (
        kernels.group_by("match", "kind")
        .agg(
            pl.lit("label of the tracer").alias("reason"),
            pl.len().cast(pl.Int64).alias("n_kernels"),
            pl.col("duration_ps").sum(),
        )
        .sort("match", "kind")
    )
    steps = pl.DataFrame(
        [
            (
                "node",
                device,
                number,
                number * 10**9,
                number * 10**9 + 950_000_000 + number,
                1,
                "marker",
            )
            for device in (0, 1)
            for number in (3, 4, 5)
        ],
        schema=["host", "device", "step", "start_ps", "end_ps", "complete", "source"],
        orient="row",
    )
    streams = pl.DataFrame(
        [
            ("node", d, s, 10**9, 6 * 10**8, 10**8, 5 * 10**7, 0, 25 * 10**7, 12)
            for d in (0, 1)
            for s in (13, 14)
        ],
        schema=[
            "host", "device", "stream", "span_ps", "compute_ps", "collective_ps", "memcpy_ps",
            "memset_ps", "idle_ps", "n_kernels",
        ],
        orient="row",
    )  # fmt: skip
    idle = pl.DataFrame(
        [
            ("node", 0, 13, 3, 100, 5_000_000, "host_late", f"np.asarray{hostile}", "fusion.1"),
            ("node", 0, 13, 3, 900, 2_000_000, "queue", None, "fusion.2"),
        ],
        schema=[
            "host", "device", "stream", "step", "start_ps", "duration_ps", "cause", "host_event",
            "next_kernel",
        ],
        orient="row",
    )  # fmt: skip
    checks = pl.DataFrame(
        [
            ("node", "every kernel joins one launch", "yes", "48", "48", ""),
            ("node", f"copies {hostile}", "no", "3", "2", "one copy is missing"),
        ],
        schema=["host", "check", "holds", "left", "right", "note"],
        orient="row",
    )
    advice = pl.DataFrame(
        [
            (
                1, "host_late", 5 * 10**6, 0.005, 950_000_004, 940_000_000, 945_000_004, "",
                "the host is in time", f"prefetch {hostile}",
            ),
        ],
        schema=[
            "rank", "cause", "critical_path_ps", "critical_path_ratio", "step_ps", "low_ps",
            "high_ps", "overlaps_with", "assumption", "knob",
        ],
        orient="row",
    )  # fmt: skip
    trust = pl.DataFrame(
        [("node", f"steps are inferred {hostile}", 6, None, None, "no markers", "step time", 2)],
        schema=[
            "host", "item", "count", "gpu_time_ps", "gpu_time_ratio", "why", "affects", "severity",
        ],
        orient="row",
        schema_overrides={"gpu_time_ps": pl.Int64, "gpu_time_ratio": pl.Float64},
    )  # fmt: skip
    roofline = pl.DataFrame(
        [
            (7, f"fusion.1{hostile}", 4, 2 * 10**9, 10**6, 5 * 10**7, 9.89e14, 3.35e12, 0.04,
             "compute")
        ],
        schema=[
            "program_id", "hlo_instruction", "n_executions", "flops", "bytes", "duration_ps",
            "peak_flops_per_s", "peak_bytes_per_s", "peak_ratio", "bound",
        ],
        orient="row",
    )  # fmt: skip
    verdict = pl.DataFrame(
        {"host": ["node"], "verdict": ["host-bound"], "reason": ["the GPU waits for the host"]}
    )
    selfcheck = pl.DataFrame(
        {"match": ["name", "order"], "tested": [40, 8], "right": [40, 7], "tested_ps": [400, 90],
         "right_ps": [400, 80]}
    )  # fmt: skip
    path = gpu.filter(pl.col("on_critical_path") == 1)
    critical = path.select(
        pl.lit(3).alias("step"), pl.int_range(pl.len()).alias("order"), "start_ps", "duration_ps",
        "kind", "device", pl.col("name").alias("what"), "source_file", "source_line",
        "program_id", "hlo_instruction",
    )  # fmt: skip
    captures = pl.DataFrame({"host": ["node"], "question": ["Which?"], "capture": ["another"]})
    step_budgets = pl.DataFrame(
        [
            ("node", device, number, 1, 10**9, 6 * 10**8, 10**8, 5 * 10**7, 0, 25 * 10**7)
            for device in (0, 1)
            for number in (3, 4, 5)
        ],
        schema=[
            "host", "device", "step", "complete", "duration_ps", "compute_ps", "collective_ps",
            "memcpy_ps", "memset_ps", "idle_ps",
        ],
        orient="row",
    )  # fmt: skip
    skip = pl.DataFrame(
        [
            (
                "node", 0, "step_ps", 950_000_003, "ps", 950_000_003, 950_000_005, 3,
                "its length", "step",
            ),
            ("node", None, "n_kernels", 48, "count", None, None, None, "all", "capture"),
        ],
        schema=[
            "host", "device", "metric", "value", "unit", "low", "high", "n", "definition", "scope",
        ],
        orient="row",
    )  # fmt: skip
    return {
        "skip": skip, "step_budgets": step_budgets,
        "advice": advice, "checks": checks, "critical_path": critical, "how": how, "idle": idle,
        "kernels": kernels, "lines": lines, "new_captures": captures, "ops": ops,
        "roofline": roofline, "selfcheck": selfcheck, "steps": steps, "streams": streams,
        "swimlane": pl.concat([gpu, lanes.filter(pl.col("lane_kind") == "thread")]),
        "trust": trust, "verdict": verdict,
    }  # fmt: skip


def investigation(hostile: str = "") -> Investigation:
    """A whole small investigation; `hostile` is put into every name."""
    return Investigation(
        hosts=(HostFacts("node", "xplane", f"GPU X{hostile}", (0, 1), (0, 1), {}, False, False),),
        tables=tables(hostile),
        sources=(SourceFile(f"run/node{hostile}.xplane.pb", True, ""),),
        not_analysed=(NotAnalysed("collectives", f"only 1 GPU took part {hostile}"),),
        programs=(ProgramFile("node", 7, f"jit_f{hostile}", MODULE.to_bytes(), True),),
        partial=False,
    )
