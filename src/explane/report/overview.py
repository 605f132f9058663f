"""What a capture holds, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from explane.analysis.overview import OpTime, Overview
from explane.capture.model import MISSING
from explane.report.text import shortened, visible
from explane.units import format_count, format_ps, format_ratio

_MOST_OPS: Final = 40


def overview_lines(found: Overview, host_read: bool = True) -> list[str]:
    """One process's files in counts.

    Args:
        found: The counts.
        host_read: Whether the planes of the host were read.
    """
    kinds = ", ".join(f"{format_count(n)} {kind}" for kind, n in found.n_by_kind.items())
    n_kernels = sum(found.n_by_kind.values())
    lines = [
        f"{found.host}: read from the {found.source}",
        f"  GPU: {found.gpu or 'not named in the file'}",
        f"  device events: {format_count(n_kernels)} ({kinds or 'none'})",
        (
            f"  with the tracer's label: {format_count(found.n_labelled)}; "
            f"with a stored program: {format_count(found.n_with_program)}"
        ),
    ]
    for device in found.devices:
        window = device.end_ps - device.first_ps
        lines.append(
            f"  GPU {device.ordinal}: {format_count(device.n_kernels)} events on "
            f"{device.n_streams} streams, {format_ps(device.duration_ps)} of kernel time in a "
            f"window of {format_ps(window)}"
        )
    not_read = "  launches and host events: not read with --ops"
    lines += _host_lines(found) if host_read else [not_read]
    lines.append(f"  stored programs: {format_count(found.n_programs)}")
    if found.n_json_kernels is not None:
        lines.append(f"  device events in the JSON: {format_count(found.n_json_kernels)}")
    lines += [f"  note: {note.text}" for note in found.notes]
    return lines


def _host_lines(found: Overview) -> list[str]:
    return [
        (
            f"  launches: {format_count(found.n_launches)}, of graphs: "
            f"{format_count(found.n_graph_launches)}"
        ),
        (
            f"  host events: {format_count(found.n_host_events)} on {found.n_threads} "
            f"threads; {format_count(found.n_python_events)} of the Python tracer"
        ),
    ]


def op_lines(ops: Sequence[OpTime]) -> list[str]:
    """Time by the tracer's own label, most first."""
    lines = ["  time by labelled op:"]
    total_ps = max(sum(op.duration_ps for op in ops), 1)
    for op in ops[:_MOST_OPS]:
        label = shortened(visible(op.hlo_op), 60) if op.hlo_op else "(no label)"
        where = f" in program {op.program_id}" if op.program_id != MISSING else ""
        lines.append(
            f"  {format_ps(op.duration_ps):>12}  {format_ratio(op.duration_ps / total_ps):>7}  "
            f"{format_count(op.n_kernels):>9}  {label}{where}"
        )
    if len(ops) > _MOST_OPS:
        lines.append(f"  and {format_count(len(ops) - _MOST_OPS)} more")
    return lines
