"""An HLO module as readable text, close to XLA's own dump, with Python lines resolved.

Unlike XLA's text the source is printed with each instruction (from the frame tables or inline),
and foreign names are quoted, so that one instruction is always one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from explane.capture.hlo_fields import (
    channel_id,
    constant_value,
    parameter_number,
    tuple_index,
)
from explane.capture.program import Computation, Instruction, Program, as_text
from explane.capture.replica_groups import replica_groups, source_target_pairs

_CALL_WORDS: Final = {"fusion": ("calls",), "while": ("condition", "body"), "call": ("to_apply",)}


def program_text(program: Program) -> str:
    """The whole module: header, computations, one line per instruction, entry last.

    Computations with a schedule list their instructions in launch order, the others in file order.
    """
    lines = [_header(program)]
    order = sorted(program.computations.values(), key=lambda c: c.id == program.entry_id)
    for computation in order:
        lines += ["", *_computation_lines(program, computation)]
    return "\n".join(lines) + "\n"


def instruction_text(program: Program, instruction: Instruction) -> str:
    """One instruction as one line, without indentation."""
    operands = ", ".join(f"%{_name(o.name)}" for o in program.operands_of(instruction))
    inside = _inside(instruction) or operands
    shape = str(instruction.shape)
    head = f"%{_name(instruction.name)} = {shape} {_name(instruction.opcode)}({inside})"
    return ", ".join([head, *_attributes(program, instruction)])


def _header(program: Program) -> str:
    parts = [f"HloModule {_name(program.name)}", f"program_id={program.program_id}"]
    if program.schedule:
        parts.append("is_scheduled=true")
    if program.num_replicas:
        parts.append(f"replica_count={program.num_replicas}")
        parts.append(f"num_partitions={program.num_partitions}")
    return ", ".join(parts)


def _computation_lines(program: Program, computation: Computation) -> Iterator[str]:
    word = "ENTRY " if computation.id == program.entry_id else ""
    yield f"{word}%{_name(computation.name)} {{"
    for instruction_id in program.schedule.get(computation.id, computation.instruction_ids):
        root = "ROOT " if instruction_id == computation.root_id else ""
        yield f"  {root}{instruction_text(program, program.instructions[instruction_id])}"
    yield "}"


def _inside(instruction: Instruction) -> str:
    """What stands in the parentheses in place of operands."""
    if instruction.opcode == "parameter":
        return str(parameter_number(instruction))
    if instruction.opcode == "constant":
        value = constant_value(instruction)
        return "{...}" if value is None else str(value)
    return ""


def _attributes(program: Program, instruction: Instruction) -> Iterator[str]:
    for part in _ATTRIBUTES:
        yield from part(program, instruction)
    metadata = _metadata(program, instruction)
    if metadata:
        yield f"metadata={{{' '.join(metadata)}}}"
    if instruction.backend_config_bytes:
        yield f"backend_config={_printable(instruction.backend_config_bytes)}"


def _shape_attributes(_: Program, instruction: Instruction) -> Iterator[str]:
    proto = instruction.proto
    if instruction.opcode == "get-tuple-element":
        yield f"index={tuple_index(instruction)}"
    if proto.dimensions:
        yield f"dimensions={_braces(proto.dimensions)}"
    if proto.slice_dimensions:
        slices = (f"[{s.start}:{s.limit}:{s.stride}]" for s in proto.slice_dimensions)
        yield f"slice={_braces(slices)}"
    if proto.dynamic_slice_sizes:
        yield f"dynamic_slice_sizes={_braces(proto.dynamic_slice_sizes)}"
    if proto.gather_slice_sizes:
        yield f"slice_sizes={_braces(proto.gather_slice_sizes)}"
    if proto.comparison_direction:
        yield f"direction={_name(as_text(proto.comparison_direction))}"


def _contraction_attributes(_: Program, instruction: Instruction) -> Iterator[str]:
    proto = instruction.proto
    if proto.HasField("dot_dimension_numbers"):
        for name in ("lhs_batch", "lhs_contracting", "rhs_batch", "rhs_contracting"):
            dims = getattr(proto.dot_dimension_numbers, f"{name}_dimensions")
            if dims:
                yield f"{name}_dims={_braces(dims)}"
    if proto.window.dimensions:
        sizes = "x".join(str(d.size) for d in proto.window.dimensions)
        strides = "x".join(str(d.stride) for d in proto.window.dimensions)
        yield f"window={{size={sizes} stride={strides}}}"


def _call_attributes(program: Program, instruction: Instruction) -> Iterator[str]:
    if instruction.fusion_kind:
        yield f"kind={_name(instruction.fusion_kind)}"
    called = program.called_by(instruction)
    words = _CALL_WORDS.get(instruction.opcode, ())
    if len(words) == len(called):
        for word, computation in zip(words, called, strict=True):
            yield f"{word}=%{_name(computation.name)}"
    elif called:
        yield f"calls={_braces(f'%{_name(c.name)}' for c in called)}"


def _library_attributes(_: Program, instruction: Instruction) -> Iterator[str]:
    if instruction.custom_call_target:
        yield f"custom_call_target={_quoted(instruction.custom_call_target)}"


def _collective_attributes(_: Program, instruction: Instruction) -> Iterator[str]:
    if channel_id(instruction):
        yield f"channel_id={channel_id(instruction)}"
    rules: tuple[tuple[str, Callable[[Instruction], Iterable[Iterable[int]]]], ...] = (
        ("replica_groups", replica_groups),
        ("source_target_pairs", source_target_pairs),
    )
    for name, read in rules:
        groups = [_braces(group) for group in read(instruction)]
        if groups:
            yield f"{name}={_braces(groups)}"


_ATTRIBUTES: Final = (
    _shape_attributes,
    _contraction_attributes,
    _call_attributes,
    _library_attributes,
    _collective_attributes,
)


def _metadata(program: Program, instruction: Instruction) -> list[str]:
    parts = []
    if instruction.op_name:
        parts.append(f"op_name={_quoted(instruction.op_name)}")
    frames = program.frames_of(instruction)
    if frames:
        parts.append(f"source_file={_quoted(frames[0].file)} source_line={frames[0].line}")
    if instruction.deduplicated_name:
        parts.append(f"deduplicated_name={_quoted(instruction.deduplicated_name)}")
    return parts


def _braces(values: Iterable[object]) -> str:
    return f"{{{','.join(map(str, values))}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _name(text: str) -> str:
    """A name as it is when it is plain, else quoted: names in a capture are foreign text."""
    return text if text and text.isprintable() and " " not in text else _quoted(text)


def _printable(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return text if text.isprintable() else _quoted(text)
