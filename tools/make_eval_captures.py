"""Make a spread of simulated captures that no attribution was tuned on.

    python tools/make_eval_captures.py OUT [--seed N] [--programs FOLDER ...] [NAME ...]

Writes OUT/<name>/ (xplane, trace.json.gz, meta.json) and OUT/<name>.truth.csv.gz. Another seed
gives other library names, durations, side streams and trip counts of the same kinds of captures.
`--programs` adds folders of XLA's raw dumps, each simulated in two ways.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from explane.synth.devices import Vendor
from explane.synth.program import CompiledProgram
from explane.synth.program_files import bundled_program, read_compiled
from explane.synth.scenario import (
    Branches,
    Causes,
    Era,
    GraphLabels,
    Graphs,
    OtherProgram,
    Scenario,
    Tracer,
)
from explane.synth.simulate import simulate, write_capture
from explane.units import PS_PER_MS, PS_PER_US

NAMED, MODULE = GraphLabels.COMMAND_BUFFER, GraphLabels.MODULE
BARE = GraphLabels.NOTHING


class Case(NamedTuple):
    """A capture to make."""

    program: CompiledProgram
    scenario: Scenario


def plain(labels: GraphLabels, *, node_ids: bool = False) -> Graphs:
    """Graphs that keep schedule order."""
    return Graphs(labels=labels, node_ids=node_ids)


def branched(
    labels: GraphLabels, how: Branches, ratio: float, *, node_ids: bool = False
) -> Graphs:
    """Graphs with side streams."""
    return Graphs(labels=labels, branches=how, branch_ratio=ratio, node_ids=node_ids)


def cases(seed: int) -> dict[str, Case]:
    """The captures made of explane's own programs."""

    def case(title: str, graphs: Graphs, n_steps: int = 6, **more: object) -> Case:
        scenario = Scenario(seed=seed, n_steps=n_steps, graphs=graphs, **more)  # type: ignore[arg-type]
        return Case(bundled_program(title), scenario)

    def other(title: str, every: int, executions: int = 1) -> tuple[OtherProgram, ...]:
        return (OtherProgram(bundled_program(title), every, executions),)

    random, needs = Branches.RANDOM, Branches.DEPENDENCIES
    quiet = Tracer(thunk_events=False, library_labels=False)
    old = Tracer(era=Era.OLD)
    return {
        "minigpt1-h100-named": case("minigpt1_h100", plain(NAMED), 8),
        "minigpt1-h100-bare": case("minigpt1_h100", plain(BARE), 5, tracer=quiet),
        "library1-h100-named": case("minigpt1_library_h100", plain(NAMED), 8),
        "library1-h100-bare": case("minigpt1_library_h100", plain(BARE), tracer=quiet),
        "library1-h100-branched": case("minigpt1_library_h100", branched(MODULE, needs, 0.5)),
        "library1-mi300-module": case("minigpt1_library_mi300", plain(MODULE), tracer=old),
        "library1-mi300-bare-branched": case(
            "minigpt1_library_mi300", branched(BARE, random, 0.15), tracer=quiet
        ),
        "minigpt1-mi300-bare": case("minigpt1_mi300", plain(BARE), tracer=quiet),
        "unrolled1-h100-bare": case("minigpt_unrolled1_h100", plain(BARE), tracer=quiet),
        "unrolled1-h100-branched": case("minigpt_unrolled1_h100", branched(NAMED, random, 0.2)),
        "fsdp4-h100-named": case("minigpt_fsdp4_h100", plain(NAMED)),
        "fsdp4-h100-random": case("minigpt_fsdp4_h100", branched(NAMED, random, 0.15)),
        "fsdp4-h100-needs": case("minigpt_fsdp4_h100", branched(NAMED, needs, 0.6)),
        "fsdp4-h100-nodes": case(
            "minigpt_fsdp4_h100", branched(MODULE, random, 0.25, node_ids=True)
        ),
        "fsdp4-h100-true": case("minigpt_fsdp4_h100", plain(GraphLabels.TRUE)),
        "fsdp4-h100-off": case("minigpt_fsdp4_h100", Graphs(enabled=False)),
        "fsdp4-mi300-bare": case(
            "minigpt_fsdp4_mi300", branched(BARE, random, 0.15), tracer=quiet
        ),
        "fsdp4-mi300-lossy": case(
            "minigpt_fsdp4_mi300", plain(MODULE), tracer=Tracer(lost_graph_ratio=0.4)
        ),
        "dp4-h100-random": case("minigpt_dp4_h100", branched(NAMED, random, 0.15)),
        "dp4-h100-bare-needs": case(
            "minigpt_dp4_h100", branched(BARE, needs, 0.4), 5, tracer=quiet
        ),
        "dp4-mi300-module": case("minigpt_dp4_mi300", plain(MODULE), tracer=old),
        "dp4-mi300-lossy": case(
            "minigpt_dp4_mi300", plain(NAMED), tracer=Tracer(lost_graph_ratio=0.25)
        ),
        "convnet1-h100-named": case("convnet1_h100", plain(NAMED), 8),
        "convnet1-h100-bare": case("convnet1_h100", plain(BARE), 8, tracer=quiet),
        "convnet1-mi300-bare": case("convnet1_mi300", plain(BARE), 8, tracer=quiet),
        "mlp4-h100-random": case(
            "mlp4_h100", branched(MODULE, random, 0.2), 10, causes=Causes(readback=True)
        ),
        "mlp4-mi300-bare": case("mlp4_mi300", plain(BARE), 10, tracer=quiet),
        "solver1-h100-named": case("solver1_h100", plain(NAMED), 9),
        "solver1-h100-bare": case("solver1_h100", plain(BARE), 9, tracer=quiet),
        "solver1-mi300-module": case("solver1_mi300", plain(MODULE), 9),
        "decode1-h100-bare": case("minigpt_decode1_h100", plain(BARE), 24, tracer=quiet),
        "ring4-h100": case("ring4_h100", plain(NAMED), 10),
        "train-and-eval-h100": case(
            "minigpt1_h100", plain(BARE), others=other("minigpt_eval1_h100", 2), tracer=quiet
        ),
        "train-and-decode-mi300": case(
            "minigpt1_mi300", plain(MODULE), others=other("minigpt_decode1_mi300", 1, 3)
        ),
        "recompiled-h100": case(
            "convnet1_h100", plain(MODULE), causes=Causes(compile_steps=(2, 4))
        ),
        "straggler-fsdp4-h100": case(
            "minigpt_fsdp4_h100",
            branched(NAMED, needs, 0.3),
            causes=Causes(straggler_device=2, straggler_ps=PS_PER_MS),
            tracer=Tracer(clock_skew_ps=-9 * PS_PER_US, python_events=2000, n_extra_devices=4),
        ),
        "cut-mi300": case(
            "minigpt_dp4_mi300", plain(NAMED), tracer=Tracer(device_end_ps=45 * PS_PER_MS)
        ),
    }


def dump_cases(folders: list[Path], seed: int) -> Iterator[tuple[str, Case]]:
    """Two captures of every dump folder; the vendor is taken from its name if need be."""
    for folder in folders:
        program = read_compiled(folder)
        amd = program.platform == "ROCM" or "mi3" in folder.name
        vendor = Vendor.AMD if amd else Vendor.NVIDIA
        quiet = Tracer(thunk_events=False, library_labels=False)
        for name, graphs in (
            ("named-random", branched(NAMED, Branches.RANDOM, 0.15)),
            ("bare-needs", branched(BARE, Branches.DEPENDENCIES, 0.4)),
        ):
            scenario = Scenario(seed=seed, vendor=vendor, graphs=graphs, tracer=quiet)
            yield f"{folder.name}-{name}", Case(program, scenario)


def main() -> None:
    """Make the captures that were asked for, all when none is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seed", type=int, default=71)
    parser.add_argument("--programs", type=Path, nargs="+", default=[], metavar="FOLDER")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    made = cases(options.seed) | dict(dump_cases(options.programs, options.seed))
    for name in options.names or made:
        simulated = simulate(*made[name])
        folder = options.out / name
        write_capture(simulated, folder)
        (folder / "truth.csv.gz").replace(options.out / f"{name}.truth.csv.gz")
        print(f"{name}: {simulated.n_kernels} kernels, {simulated.truth.n_lost} lost")


if __name__ == "__main__":
    main()
