"""A small investigation by hand: two GPUs, three instructions with Python stacks, one without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from explane.analysis.investigation import HostFacts, Investigation, ProgramFile
from explane.analysis.replay.critical_path import PATH_SCHEMA
from tests.builders_hlo import Hlo, HloComputation, HloModule

US = 1_000_000
LIBRARY = "/v/lib/python3.12/site-packages/flax/linen/linear.py"
FRAMES = (
    ("/me/train.py", "<module>", 90, 0),  # 1, outermost
    ("/me/train.py", "step", 41, 1),  # 2
    ("/me/model.py", "layer", 12, 2),  # 3
    (LIBRARY, "dense", 7, 3),  # 4: layer:12 called the library
    ("/me/train.py", "step", 41, 2),  # 5: the same call again, as inlining leaves it
    ("/me/model.py", "head", 30, 5),  # 6
)
INSTRUCTIONS = (
    Hlo("dot.1", "custom-call", op_name="jit(step)/layer/dot", frame=4),
    Hlo("add.2", "fusion", op_name="jit(step)/(layer/add:head/add)", frame=3),
    Hlo("mul.3", "fusion", op_name="jit(step)/head/mul", frame=6),
)
LINES = {
    "dot.1": ("/me/model.py", 12),
    "add.2": ("/me/model.py", 12),
    "mul.3": ("/me/model.py", 30),
}
OP_NAMES = {hlo.name: hlo.op_name for hlo in INSTRUCTIONS}


def program(host: str = "node") -> ProgramFile:
    module = HloModule(
        "jit_step", [HloComputation("main", list(INSTRUCTIONS))], program_id=7, frames=FRAMES
    )
    return ProgramFile(host, 7, "jit_step", module.to_bytes(), True)


def kernel(
    start_ps: int,
    duration_ps: int,
    instruction: str | None = "dot.1",
    launch_ps: int | None = None,
    **given: Any,
) -> dict[str, Any]:
    """One row of `kernels` and `rows` together."""
    file, line = LINES.get(instruction or "", (None, None))
    row = {
        "host": "node",
        "device": 0,
        "stream": 13,
        "start_ps": start_ps,
        "duration_ps": duration_ps,
        "kernel": f"kernel_of_{instruction}",
        "kind": "compute",
        "correlation_id": 5,
        "program_id": 7 if instruction else None,
        "hlo_instruction": instruction,
        "match": "exact" if instruction else "none",
        "in_graph": False,
        "iteration": None,
        "step": 3,
        "op_name": OP_NAMES.get(instruction or ""),
        "source_file": file,
        "source_line": line,
        "function": None,
        "line_from": "own" if file else "none",
        "program": "jit_step" if instruction else None,
        "opcode": "fusion" if instruction else None,
        "reason": "no candidate" if instruction is None else "label",
        "time_ok": True,
        "details": None,
        "launch_start_ps": launch_ps,
        "launch_duration_ps": None if launch_ps is None else 2 * US,
        "launch_thread": None if launch_ps is None else "python",
        "launch_name": None if launch_ps is None else "hipModuleLaunchKernel",
        "queue_ps": None if launch_ps is None else 7,
    }
    return {**row, **given}


_KERNEL_SCHEMA: dict[str, Any] = {
    "host": pl.String, "device": pl.Int32, "stream": pl.Int64, "start_ps": pl.Int64,
    "duration_ps": pl.Int64, "kernel": pl.String, "kind": pl.String, "correlation_id": pl.Int64,
    "program_id": pl.Int64, "hlo_instruction": pl.String, "match": pl.String,
    "in_graph": pl.Boolean, "iteration": pl.String, "step": pl.Int64, "op_name": pl.String,
    "source_file": pl.String, "source_line": pl.Int64, "function": pl.String,
    "line_from": pl.String, "program": pl.String, "opcode": pl.String, "reason": pl.String,
    "time_ok": pl.Boolean, "details": pl.String,
}  # fmt: skip
_ROW_SCHEMA: dict[str, Any] = {
    "launch_start_ps": pl.Int64, "launch_duration_ps": pl.Int64, "launch_thread": pl.String,
    "launch_name": pl.String, "queue_ps": pl.Int64,
}  # fmt: skip
_STEP_SCHEMA: dict[str, Any] = {
    "host": pl.String, "device": pl.Int32, "step": pl.Int64, "start_ps": pl.Int64,
    "end_ps": pl.Int64, "complete": pl.Boolean, "source": pl.String, "n_kernels": pl.Int64,
    "reason_incomplete": pl.String,
}  # fmt: skip
_IDLE_SCHEMA: dict[str, Any] = {
    "host": pl.String, "device": pl.Int32, "stream": pl.Int64, "step": pl.Int64,
    "start_ps": pl.Int64, "duration_ps": pl.Int64, "cause": pl.String, "host_event": pl.String,
    "next_kernel": pl.String, "waited_for": pl.String, "host_thread": pl.String,
    "inside_graph": pl.Boolean,
}  # fmt: skip
_STREAM_SCHEMA: dict[str, Any] = {
    "host": pl.String, "device": pl.Int32, "stream": pl.Int64, "stream_name": pl.String,
}  # fmt: skip


def investigation(
    kernels: Sequence[Mapping[str, Any]],
    steps: Sequence[tuple[Any, ...]] = (),
    idle: Sequence[tuple[Any, ...]] = (),
    path: Sequence[tuple[Any, ...]] = (),
    hosts: Sequence[str] = ("node",),
) -> Investigation:
    """An investigation with the tables that exports read."""
    table = pl.DataFrame(list(kernels), schema=_KERNEL_SCHEMA | _ROW_SCHEMA)
    streams = table.select("host", "device", "stream").unique().rows()
    tables = {
        "kernels": table.select(*_KERNEL_SCHEMA),
        "rows": table.select("start_ps", *_ROW_SCHEMA),
        "steps": pl.DataFrame(list(steps), schema=_STEP_SCHEMA, orient="row"),
        "idle": pl.DataFrame(list(idle), schema=_IDLE_SCHEMA, orient="row"),
        "critical_path": pl.DataFrame(list(path), schema=PATH_SCHEMA, orient="row"),
        "streams": pl.DataFrame(
            [(*key, f"Stream #{key[2]}(Compute)") for key in streams],
            schema=_STREAM_SCHEMA,
            orient="row",
        ),
    }
    facts = tuple(
        HostFacts(h, "xplane", "MI300X", (0, 1), (0, 1), {}, False, False) for h in hosts
    )
    return Investigation(facts, tables, (), (), tuple(program(h) for h in hosts), False)
