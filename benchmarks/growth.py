"""How time and memory grow with kernels, GPUs, programs and the size of a program.

    python benchmarks/growth.py FOLDER [--axes kernels gpus programs module] [--largest N]
        [--commands verdict attribute report]

Makes simulated captures in FOLDER, where they are kept, and runs explane's commands on them, each
once in a process of its own. CPU seconds are shown, since they depend least on what else the
machine does, and beside them the exponent: 1 where ten times as much takes ten times as long.
Prints a table for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from large_captures import repeated
from measure import Usage, run

from explane.capture._proto import hlo_pb2
from explane.synth.program import CompiledProgram
from explane.synth.program_files import bundled_program
from explane.synth.scenario import OtherProgram, Scenario
from explane.synth.simulate import simulate, write_capture
from tools import ours

SMALL = Scenario(seed=4, n_steps=4)


def kernels(folder: Path, size: int) -> None:
    repeated(folder.parent / "source", folder / "node.xplane.pb", size)


def gpus(folder: Path, size: int) -> None:
    write(bundled_program("minigpt_dp4_h100"), replace(SMALL, n_steps=24, n_devices=size), folder)


def programs(folder: Path, size: int) -> None:
    """A training step, and other programs that run once in every step."""
    others = (OtherProgram(bundled_program("mlp4_h100")),) * (size - 1)
    write(bundled_program("minigpt1_h100"), replace(SMALL, others=others), folder)


def module(folder: Path, size: int) -> None:
    """A program of so many megabytes: its computations are there many times."""
    program = bundled_program("minigpt1_h100")
    write(replace(program, hlo_proto=blown_up(program, size * 10**6)), SMALL, folder)


def blown_up(program: CompiledProgram, size: int) -> bytes:
    proto = hlo_pb2.HloProto.FromString(program.hlo_proto)
    computations = list(proto.hlo_module.computations)
    n_copies = (size - len(program.hlo_proto)) // len(program.hlo_proto)
    n_ids = 1 + max(max(i.id for i in c.instructions) for c in computations)
    n_ids = max(n_ids, 1 + max(c.id for c in computations))
    for copy in range(1, n_copies + 1):
        for old in computations:
            new = proto.hlo_module.computations.add()
            new.CopyFrom(old)
            new.id, new.name = old.id + copy * n_ids, f"{old.name}.{copy}"
            new.root_id = old.root_id + copy * n_ids
            for instruction in new.instructions:
                instruction.id += copy * n_ids
                instruction.name += f".{copy}"
                for ids in (instruction.operand_ids, instruction.called_computation_ids):
                    ids[:] = [i + copy * n_ids for i in ids]
    return proto.SerializeToString(deterministic=True)


def write(program: CompiledProgram, scenario: Scenario, folder: Path) -> None:
    write_capture(simulate(program, scenario), folder)
    for other in (*folder.glob("*.json*"), *folder.glob("*.csv.gz")):
        other.unlink()


AXES: dict[str, tuple[Callable[[Path, int], None], tuple[int, ...]]] = {
    "kernels": (kernels, (15_000, 150_000, 1_500_000, 15_000_000)),
    "gpus": (gpus, (1, 8, 64)),
    "programs": (programs, (1, 100, 1000)),
    "module": (module, (1, 10, 100)),
}


def rows(axis: str, folder: Path, largest: int, commands: list[str]) -> Iterator[str]:
    make, sizes = AXES[axis]
    before: dict[str, tuple[int, Usage]] = {}
    for size in sizes:
        if size > largest:
            continue
        capture = folder / f"{axis}{size}"
        if not any(capture.glob("*.xplane.pb")):
            capture.mkdir(parents=True, exist_ok=True)
            make(capture, size)
        file = next(capture.glob("*.xplane.pb"))
        cells = [f"{size:,} {axis}", f"{file.stat().st_size / 1e6:.0f}"]
        for command in commands:
            usage = measured(command, capture, folder)
            cells += [
                usage.failed or f"{usage.cpu_s:.1f}",
                exponent(before.get(command), size, usage),
            ]
            cells.append(f"{usage.peak_mib:.0f}")
            before[command] = size, usage
        yield f"| {' | '.join(cells)} |"


def measured(command: str, capture: Path, folder: Path) -> Usage:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        given = {"{capture}": str(capture), "{out}": f"{place}/out"}
        words = [given.get(word, word) for word in ours()[f"explane {command}"]]
        usage = run(words, limit_s=3000, limit_gib=20)
    print(capture.name, command, usage, file=sys.stderr, flush=True)
    return usage


def exponent(before: tuple[int, Usage] | None, size: int, usage: Usage) -> str:
    if before is None or usage.failed or before[1].failed:
        return ""
    return f"{math.log(usage.cpu_s / before[1].cpu_s) / math.log(size / before[0]):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--axes", nargs="+", default=list(AXES), choices=AXES)
    parser.add_argument("--largest", type=int, default=sys.maxsize)
    parser.add_argument("--commands", nargs="+", default=["verdict", "attribute", "report"])
    chosen = parser.parse_args()
    heads = [f"{command}: CPU s | exponent | peak MiB" for command in chosen.commands]
    print(f"| capture | MB | {' | '.join(heads)} |")
    print("|---|---|" + "---|" * 3 * len(heads))
    for axis in chosen.axes:
        for row in rows(axis, chosen.folder, chosen.largest, chosen.commands):
            print(row, flush=True)


if __name__ == "__main__":
    main()
