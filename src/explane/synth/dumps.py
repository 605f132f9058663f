"""Reads XLA's raw dumps of one compiled module (`--xla_dump_to`, as text and as proto).

Three files of one prefix: `*gpu_after_optimizations.hlo.pb` (HloProto), `*.thunk_sequence*.txt`
(what the runtime executes) and `*.thunk_metadata.txt` (thunk id -> HLO instruction).

The sequence is text, one thunk a line, children two or four blanks deeper:

    022: kWhile        [prev=021 (1)  | next=052 (2) ]
    condition:
        023: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1] threads: ...
      body:
        024: kCustomKernel [source | next=032 (6)] loop_convert_fusion_6 grid: ...

A section's name may stand at the indent of its thunk (`condition:`) or deeper (`body:`), so it is
bound to the parent of the next line that is a thunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.errors import CaptureError
from explane.synth.program import CompiledProgram, Dimensions, Thunk

_HLO = "gpu_after_optimizations.hlo.pb"
_LINE = re.compile(
    r"(?P<indent> *)(?P<id>\d+): (?P<kind>k\w+) +\[(?P<order>[^\]]*)\] ?(?P<rest>.*)"
)
_SECTION = re.compile(r"(?P<indent> *)(?P<name>[a-z_0-9]+):\s*$")
_KERNEL = re.compile(r"(?P<name>\S+) grid: \[(?P<grid>[^\]]*)\] threads: \[(?P<block>[^\]]*)\]")
_SHARED = re.compile(r"shared_memory: (\d+)")
_STREAM = re.compile(r"stream=([^,\s]+)")
_ASYNC = re.compile(r"async_id=(\d+)")
_PREVIOUS = re.compile(r"prev=\d+ \((\d+)\)")
_METADATA = re.compile(r"thunk_metadata \{(.*?)\n\}", re.DOTALL)
_ANNOTATION = re.compile(r'profile_annotation: "([^"]*)"')
_THUNK_ID = re.compile(r"thunk_id: (\d+)")
_DESCRIPTION = re.compile(r'device_description_str: "([^"]*)"')
_CONTROL = ("kWhile", "kConditional")


@dataclass
class _Open:
    """A thunk whose children are still being read."""

    indent: int
    values: dict[str, str]
    section: str = ""
    parts: dict[str, list[_Open]] = field(default_factory=dict)


def read_dump_folder(folder: Path) -> CompiledProgram:
    """Read the one module that a dump folder holds.

    The platform is taken from the file names or the target description beside them, and is empty
    when neither says.

    Raises:
        CaptureError: Dumps of no module or of several, or without a thunk sequence.
    """
    modules = sorted(folder.glob(f"*{_HLO}"))
    if len(modules) != 1:
        raise CaptureError(
            folder, f"dumps of {len(modules)} modules, need one", slug="not_compiled"
        )
    hlo_proto = modules[0].read_bytes()
    hlo = read_program(StoredProgram(0, folder.name, hlo_proto))
    target = _first_text(folder, "*gpu_target_config.pbtxt")
    described = _DESCRIPTION.search(target)
    return CompiledProgram(
        title=folder.name,
        name=hlo.name,
        platform=_platform(modules[0].name, target),
        device=described.group(1) if described else "",
        compiler="",
        n_devices=max(1, hlo.num_replicas) * max(1, hlo.num_partitions),
        hlo_proto=hlo_proto,
        thunks=_read_thunks(folder),
    )


def _first_text(folder: Path, pattern: str) -> str:
    found = sorted(folder.glob(pattern))
    return found[0].read_text(encoding="utf-8") if found else ""


def _platform(file_name: str, target: str) -> str:
    if 'platform_name: "ROCM"' in target or re.search(r"\.gfx\d", file_name):
        return "ROCM"
    if 'platform_name: "CUDA"' in target or re.search(r"\.sm_\d", file_name):
        return "CUDA"
    return ""


def _read_thunks(folder: Path) -> tuple[Thunk, ...]:
    sequence = _first_text(folder, "*.thunk_sequence_after_thunk_passes.txt")
    sequence = sequence or _first_text(folder, "*.thunk_sequence.txt")
    if not sequence:
        raise CaptureError(folder, "no thunk sequence among the dumps", slug="not_compiled")
    annotations = parse_thunk_metadata(_first_text(folder, "*.thunk_metadata.txt"))
    return parse_thunk_sequence(sequence.splitlines(), annotations)


def parse_thunk_metadata(text: str) -> dict[int, str]:
    """Thunk id -> annotation, which is the instruction's name; ids of 0 are left out."""
    found = {}
    for block in _METADATA.findall(text):
        annotation, number = _ANNOTATION.search(block), _THUNK_ID.search(block)
        if annotation and number:
            found[int(number.group(1))] = annotation.group(1)
    return found


def parse_thunk_sequence(lines: Iterable[str], annotations: dict[int, str]) -> tuple[Thunk, ...]:
    """The thunks of a sequence dump, nested as the runtime nests them."""
    root = _Open(-1, {})
    stack, section = [root], ("", 0)
    for line in lines:
        named = _SECTION.match(line)
        if named:
            section = (named["name"], len(named["indent"]))
        found = _LINE.match(line)
        if not found:
            continue
        opened = _Open(len(found["indent"]), found.groupdict())
        while stack[-1].indent >= opened.indent:
            stack.pop()
        parent = stack[-1]
        if section[0] and parent.values.get("kind") in _CONTROL and opened.indent > section[1]:
            parent.section, section = section[0], ("", 0)
        parent.parts.setdefault(parent.section, []).append(opened)
        stack.append(opened)
    return tuple(_thunk(child, annotations) for child in _children(root))


def _children(opened: _Open) -> Iterator[_Open]:
    for part in opened.parts.values():
        yield from part


def _thunk(opened: _Open, annotations: dict[int, str]) -> Thunk:
    values = opened.values
    rest, number = values["rest"], int(values["id"])
    kernel, previous = _KERNEL.match(rest), _PREVIOUS.search(values["order"])
    parts = {
        name: tuple(_thunk(child, annotations) for child in part)
        for name, part in opened.parts.items()
    }
    return Thunk(
        kind=values["kind"],
        thunk_id=number,
        instruction=annotations.get(number, "") if number else "",
        kernel=kernel["name"] if kernel else "",
        grid=_dimensions(kernel["grid"]) if kernel else (),
        block=_dimensions(kernel["block"]) if kernel else (),
        shared_bytes=_number(_SHARED, rest),
        stream=_text(_STREAM, rest),
        async_id=_number(_ASYNC, rest),
        distance=int(previous.group(1)) if previous else 0,
        parts=parts,
    )


def _dimensions(text: str) -> Dimensions:
    return tuple(int(size) for size in text.split(","))


def _text(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1) if found else ""


def _number(pattern: re.Pattern[str], text: str) -> int:
    return int(_text(pattern, text) or 0)
