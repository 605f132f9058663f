r"""Make the programs in `src/explane/data/programs/` again, without a GPU or a driver.

Two environments with CPython 3.11, about 1.2 GB each:

    python -m venv CUDA && CUDA/bin/pip install jax==0.10.2 jaxlib==0.10.2 optax \
        jax-cuda12-plugin==0.10.2 jax-cuda12-pjrt==0.10.2 nvidia-cuda-nvcc-cu12
    python -m venv ROCM && ROCM/bin/pip install jax==0.10.2 jaxlib==0.10.2 optax \
        jax-rocm7-plugin==0.10.2 jax-rocm7-pjrt==0.10.2

Then, in explane's own environment:

    python tools/compile_programs.py --cuda CUDA/bin/python --rocm ROCM/bin/python [TITLE ...]

The ROCm plugin needs stand-ins for the libraries of a ROCm installation; they are built on the
way (`tools/rocm_stubs.py`, needs gcc and binutils). No autotuning happens without a GPU, so tile
sizes are the compiler's defaults. Paths of this machine in the HLO's frame tables are replaced.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import rocm_stubs

from explane.synth.program import CompiledProgram
from explane.synth.program_files import SUFFIX, read_compiled, write_compiled

TOOLS = Path(__file__).resolve().parent
MODELS = TOOLS / "models"
OUTPUT = TOOLS.parent / "src" / "explane" / "data" / "programs"
NEUTRAL_MODELS = "/home/user/models/"
NEUTRAL_PACKAGES = "/home/user/venv/lib/python3.11/site-packages/"
FRAME_FILES = (1, 17, 1)
"""HloProto.hlo_module.stack_frame_index.file_names."""


class Target(NamedTuple):
    """One program: what is compiled, for what, with which extra flags."""

    platform: str
    model: str
    n_devices: int = 1
    flags: str = ""


LIBRARY_GEMMS = "--xla_gpu_enable_triton_gemm=false"
TARGETS = {
    "minigpt1_h100": Target("cuda", "minigpt"),
    "minigpt1_library_h100": Target("cuda", "minigpt", 1, LIBRARY_GEMMS),
    "minigpt_fsdp4_h100": Target("cuda", "minigpt_fsdp", 4),
    "minigpt_dp4_h100": Target("cuda", "minigpt_optax", 4),
    "minigpt_unrolled1_h100": Target("cuda", "minigpt_unrolled"),
    "minigpt_eval1_h100": Target("cuda", "minigpt_eval"),
    "minigpt_decode1_h100": Target("cuda", "minigpt_decode"),
    "convnet1_h100": Target("cuda", "convnet"),
    "mlp4_h100": Target("cuda", "mlp", 4),
    "solver1_h100": Target("cuda", "solver"),
    "ring4_h100": Target("cuda", "ring", 4),
    "minigpt1_mi300": Target("rocm", "minigpt"),
    "minigpt1_library_mi300": Target("rocm", "minigpt", 1, LIBRARY_GEMMS),
    "minigpt_fsdp4_mi300": Target("rocm", "minigpt_fsdp", 4),
    "minigpt_dp4_mi300": Target("rocm", "minigpt_optax", 4),
    "minigpt_decode1_mi300": Target("rocm", "minigpt_decode"),
    "convnet1_mi300": Target("rocm", "convnet"),
    "mlp4_mi300": Target("rocm", "mlp", 4),
    "solver1_mi300": Target("rocm", "solver"),
    "ring4_mi300": Target("rocm", "ring", 4),
}
DEVICE_FILES = {"cuda": "h100.txtpb", "rocm": "mi300.txtpb"}


def compile_target(target: Target, python: Path, folder: Path, stubs: Path | None) -> None:
    """Compile one target in its environment; the dumps land in the folder."""
    environment = dict(os.environ)
    environment["XLA_FLAGS"] = (
        f"--xla_dump_to={folder} --xla_dump_hlo_as_proto --xla_dump_hlo_as_text {target.flags}"
    )
    if stubs is not None:
        environment["LD_LIBRARY_PATH"] = str(stubs)
    device_file = TOOLS / "targets" / DEVICE_FILES[target.platform]
    command = [str(python), str(MODELS / "compile_one.py"), target.platform, str(device_file)]
    command += [target.model, str(target.n_devices)]
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)


def make_stubs(python: Path, folder: Path) -> Path:
    """Stand-ins for the libraries of the ROCm plugin of an environment."""
    packages = python.parent.parent / "lib"
    plugin = next(packages.glob("python*/site-packages/jax_plugins/*/xla_rocm_plugin.so"))
    rocm_stubs.main(plugin, folder)
    return folder


def neutral_path(path: str) -> str:
    """A source path without anything of this machine."""
    if path.startswith(f"{MODELS}/"):
        return NEUTRAL_MODELS + path.removeprefix(f"{MODELS}/")
    _, found, rest = path.partition("/site-packages/")
    return NEUTRAL_PACKAGES + rest if found else path


def read_varint(message: bytes, position: int) -> tuple[int, int]:
    """A varint and the position behind it."""
    result = shift = 0
    while True:
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def varint(number: int) -> bytes:
    """A varint's bytes."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def rewrite(message: bytes, path: Sequence[int], change: Callable[[bytes], bytes]) -> bytes:
    """The message with every length-delimited field at a path of field numbers changed.

    Everything else stays as it is, byte for byte, also fields that nobody here knows.
    """
    if not path:
        return change(message)
    out, position = bytearray(), 0
    while position < len(message):
        start = position
        tag, position = read_varint(message, position)
        wire_type = tag & 7
        if wire_type == 2:
            size, position = read_varint(message, position)
            content = message[position : position + size]
            position += size
            if tag >> 3 == path[0]:
                changed = rewrite(content, path[1:], change)
                out += varint(tag) + varint(len(changed)) + changed
                continue
        elif wire_type == 0:
            _, position = read_varint(message, position)
        else:
            position += 8 if wire_type == 1 else 4
        out += message[start:position]
    return bytes(out)


def pack(folder: Path, title: str) -> CompiledProgram:
    """The program of a dump folder, with neutral paths and the sources that it points into."""
    program = read_compiled(folder)
    hlo_proto = rewrite(
        program.hlo_proto, FRAME_FILES, lambda path: neutral_path(path.decode()).encode()
    )
    neutral = dataclasses.replace(
        program, title=title, compiler="jaxlib 0.10.2", hlo_proto=hlo_proto
    )
    files = {Path(frame.file).name for frame, _ in neutral.hlo.frames}
    sources = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(MODELS.glob("*.py"))
        if path.name in files
    }
    return dataclasses.replace(neutral, sources=sources)


def main() -> None:
    """Compile and pack the asked programs, all when none is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuda", type=Path, help="python of the environment with CUDA plugins")
    parser.add_argument("--rocm", type=Path, help="python of the environment with ROCm plugins")
    parser.add_argument("titles", nargs="*", metavar="TITLE")
    options = parser.parse_args()
    pythons = {"cuda": options.cuda, "rocm": options.rocm}
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        stubs = make_stubs(options.rocm, scratch / "stubs") if options.rocm else None
        for title in options.titles or TARGETS:
            target = TARGETS[title]
            python = pythons[target.platform]
            if python is None:
                print(f"{title}: left out, no --{target.platform}", file=sys.stderr)
                continue
            compile_target(
                target, python, scratch / title, stubs if target.platform == "rocm" else None
            )
            path = OUTPUT / f"{title}{SUFFIX}"
            write_compiled(pack(scratch / title, title), path)
            print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
