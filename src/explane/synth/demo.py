"""The capture of `explane demo`: simulated, and named so everywhere it can be."""

from __future__ import annotations

from pathlib import Path

from explane.synth.program_files import bundled_program
from explane.synth.scenario import Branches, Causes, GraphLabels, Graphs, Scenario, Tracer
from explane.synth.simulate import simulate, write_capture
from explane.units import PS_PER_MS, PS_PER_US

HOST = "simulated-node"
_PROGRAM = "minigpt_fsdp4_h100"
_RUN = Path("plugins") / "profile" / "2026_01_01_00_00_00"

DEMO = Scenario(
    seed=20,
    n_steps=8,
    graphs=Graphs(
        labels=GraphLabels.COMMAND_BUFFER,
        branches=Branches.DEPENDENCIES,
        branch_ratio=0.3,
        node_ids=False,
    ),
    tracer=Tracer(host=HOST, first_step=100, python_events=300),
    causes=Causes(
        host_gap_ps=900 * PS_PER_US,
        host_gap_name="next_batch",
        straggler_device=2,
        straggler_ps=600 * PS_PER_US,
        collective_ps=PS_PER_MS,
        readback=True,
    ),
)
"""MiniGPT with sharded parameters on four GPUs. Before every step the host reads the loss and
then waits for the loader, one GPU is slower than the others, and one collective is slow."""


def demo_capture(folder: Path) -> Path:
    """Make the demo's capture, laid out as jax lays out a log dir.

    Beside the xplane and its JSON lie `truth.csv.gz` and `meta.json`, which the report must not
    need, and the model's source under `source/`.

    Returns:
        The run folder below `folder`, which holds the capture.
    """
    program = bundled_program(_PROGRAM)
    run = folder / _RUN
    write_capture(simulate(program, DEMO), run)
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    for name, text in program.sources.items():
        (source / name).write_text(text, encoding="utf-8")
    return run
