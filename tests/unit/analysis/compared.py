"""Small captures by hand for tests of the comparison: kernels, steps and program of a side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from explane.analysis.advice.advice import ADVICE_SCHEMA
from explane.analysis.investigation import HostFacts, Investigation, ProgramFile
from explane.analysis.replay.whatif import WHATIF_SCHEMA
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.export.made import investigation, kernel

US = 1_000_000
_PARTS = ("compute", "collective", "memcpy", "memset", "idle")


def side(
    kernels: Sequence[Mapping[str, Any]],
    step_us: Mapping[int, int] | None = None,
    program: Sequence[Hlo] = (),
    n_devices: int = 1,
    gpu: str = "MI300X",
) -> Investigation:
    """An investigation with the tables that a comparison reads.

    Args:
        kernels: Rows of `kernel` or `ran`.
        step_us: Length of each whole step, the same on all devices.
        program: Instructions of program 7; without any, kernels have no structure.
        n_devices: GPUs that have the steps.
        gpu: Its name.
    """
    lengths = step_us or {}
    steps = [
        ("node", device, number, 1_000 * number * US, (1_000 * number + length) * US, True,
         "marker", 1, "")
        for device in range(n_devices)
        for number, length in lengths.items()
    ]  # fmt: skip
    made = investigation(kernels, steps)
    tables = dict(made.tables)
    launches = tables["rows"].with_columns(
        tables["kernels"].select("host", "device", "step"),
    )
    tables["rows"] = launches.with_columns(pl.lit(True).alias("first_of_launch"))
    tables["kernels"] = tables["kernels"].with_columns(pl.lit(1).alias("execution"))
    tables["step_budgets"] = _budgets(tables["steps"])
    tables["verdict"] = pl.DataFrame({"host": ["node"], "verdict": ["GPU-bound"]})
    tables["verdict_parts"] = pl.DataFrame(
        {"part": ["compute", "gap"], "time_ps": [75, 25], "low": [0.7, 0.2], "high": [0.8, 0.3],
         "n": [len(lengths), len(lengths)]}
    )  # fmt: skip
    tables["advice"] = pl.DataFrame(schema=ADVICE_SCHEMA)
    tables["whatif"] = pl.DataFrame(schema=WHATIF_SCHEMA)
    facts = HostFacts("node", "xplane", gpu, (0,), (0,), {}, False, False)
    programs = (_module(program),) if program else ()
    return replace(made, hosts=(facts,), tables=tables, programs=programs)


def _budgets(steps: pl.DataFrame) -> pl.DataFrame:
    """Half of each step is compute, half idle."""
    length = pl.col("end_ps") - pl.col("start_ps")
    shares = {part: length // 2 if part in ("compute", "idle") else pl.lit(0) for part in _PARTS}
    return steps.select(
        "host", "device", "step", *(share.alias(f"{part}_ps") for part, share in shares.items())
    )


def _module(instructions: Sequence[Hlo]) -> ProgramFile:
    module = HloModule("jit_step", [HloComputation("main", list(instructions))], program_id=7)
    return ProgramFile("node", 7, "jit_step", module.to_bytes(), True)


def ran(
    name: str | None, step: int, duration_us: int, line: int | None = 12, **given: Any
) -> dict[str, Any]:
    """A kernel of an instruction in a step; its op_name is `jit(step)/NAME`."""
    base = {
        "step": step,
        "op_name": f"jit(step)/layer/{name}" if name else None,
        "source_file": "/me/model.py" if name and line else None,
        "source_line": line if name else None,
    }
    return kernel(1_000 * step * US, duration_us * US, name, **{**base, **given})


def with_whatif(made: Investigation, causes: Mapping[tuple[str, str], int]) -> Investigation:
    """The same with the time of causes on the critical path of its first step."""
    rows = [("node", 3, c, w, 100 * US, 90 * US, 90 * US, ps, 1) for (c, w), ps in causes.items()]
    table = pl.DataFrame(rows, schema=WHATIF_SCHEMA, orient="row")
    return replace(made, tables={**made.tables, "whatif": table})


def with_advice(
    made: Investigation, *advised: tuple[str, str, int, tuple[int, int]]
) -> Investigation:
    """The same with advice: cause, part, its time, predicted least and most, in microseconds."""
    rows = [
        {
            "rank": rank, "cause": cause, "what": what, "critical_path_ps": us * US,
            "step_ps": 100 * US, "low_ps": low * US, "high_ps": high * US, "host": "node",
        }
        for rank, (cause, what, us, (low, high)) in enumerate(advised, 1)
    ]  # fmt: skip
    table = pl.DataFrame(rows, schema=ADVICE_SCHEMA)
    return replace(made, tables={**made.tables, "advice": table})
