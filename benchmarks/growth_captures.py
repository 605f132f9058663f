"""Makes the captures of `growth.py`: `python growth_captures.py FOLDER AXIS SIZE`.

A program of its own, since a measured process inherits the peak of memory of its parent.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from large_captures import repeated

from explane.capture._proto import hlo_pb2
from explane.synth.program import CompiledProgram
from explane.synth.program_files import bundled_program
from explane.synth.scenario import OtherProgram, Scenario
from explane.synth.simulate import simulate, write_capture

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


if __name__ == "__main__":
    MAKERS = {"kernels": kernels, "gpus": gpus, "programs": programs, "module": module}
    MAKERS[sys.argv[2]](Path(sys.argv[1]), int(sys.argv[3]))
