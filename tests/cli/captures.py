"""A small capture for tests of the commands: two steps of a program with a graph, on one GPU."""

from __future__ import annotations

from pathlib import Path

from tests.builders import (
    U64,
    Hlo,
    HloComputation,
    HloModule,
    Module,
    Space,
    gpu_plane,
    host_plane,
    metadata_plane,
    task_environment,
)

US = 1_000_000  # picoseconds
KERNELS = ("loop_add_fusion", "loop_multiply_fusion", "input_reduce_fusion")
N_STEPS = 4
N_KERNELS = N_STEPS * len(KERNELS)


def small_capture() -> Space:
    """Every kernel labelled and launched by a call of its own 10 µs before it starts."""
    gpu, host = gpu_plane(), host_plane()
    stream = gpu.line("Stream #7(Compute)", line_id=7)
    thread = host.line("python", line_id=1)
    for step in range(N_STEPS):
        start_ps = (100 + 200 * step) * US
        thread.event("train", start_ps, 150 * US, step_num=step)
        for i, kernel in enumerate(KERNELS):
            call_ps, number = start_ps + (10 + 30 * i) * US, U64(1 + 10 * step + i)
            thread.event(kernel, call_ps, 5 * US, correlation_id=number, device_id=0)
            stream.event(
                kernel,
                call_ps + 10 * US,
                20 * US,
                correlation_id=number,
                hlo_op=kernel,
                hlo_module="jit_step",
                program_id=3,
            )
    program = _program()
    return Space([gpu, host, metadata_plane(program), task_environment()])


def _program() -> Module:
    body = [
        Hlo("x", "parameter", parameter_number=0),
        *(
            Hlo(
                kernel,
                "fusion",
                operands=("x",),
                fusion_kind="kLoop",
                op_name=f"jit(step)/{kernel}",
                source=("/home/user/train.py", 10 + i),
            )
            for i, kernel in enumerate(KERNELS)
        ),
    ]
    hlo = HloModule("jit_step", [HloComputation("main", body)], program_id=3)
    return Module(3, "jit_step(3)", hlo.to_bytes())


def write_small_capture(folder: Path) -> Path:
    """Writes it, with its JSON, as one run below a log dir; the log dir."""
    small_capture().write(folder / "plugins/profile/2026_01_02_03_04_05", with_json=True)
    return folder
