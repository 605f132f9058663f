"""Plane tables to the trace.json that XLA writes beside an xplane.pb.

Left out, as XLA does: planes other than devices and `/host:CPU`, plane stats, programs, and some
stats (`program_id`, `kernel_details`, …). Only the earliest events fit under the cap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import polars as pl
from isal import igzip

from explane.synth.tables import Events, PlaneTable, Template, Text, Unsigned

CAP = 1_000_000
_HIDDEN = frozenset({"kernel_details", "program_id", "_r", "_p", "_pt", "_c", "_ct"})
_HOST_PID = 701
_PS_DIGITS = 6
_BATCH = 100_000


def write_trace_json(planes: Iterable[PlaneTable], path: Path, cap: int = CAP) -> int:
    """Write `trace.json.gz`; returns how many events it holds.

    Ties at the cap are kept, so the count can be a little above it.
    """
    shown = [plane for plane in planes if _pid(plane) is not None]
    frames = [_frame(plane, plane.events) for plane in shown if plane.events is not None]
    events = pl.concat(frames).sort("start_ps", maintain_order=True)
    if len(events) > cap:
        events = events.filter(pl.col("start_ps") <= events["start_ps"][cap - 1])
    with path.open("wb") as raw, _compressed(raw) as out:
        out.write(b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[\n')
        out.write("".join(f"{json.dumps(row)},\n" for row in _names(shown)).encode())
        for at in range(0, len(events), _BATCH):
            text = events["text"][at : at + _BATCH].str.join(",\n").item()
            out.write(text.encode() + b",\n")
        out.write(b"{}]}\n")
    return len(events)


def _compressed(raw: BinaryIO) -> BinaryIO:
    """A gzip stream without name and time, so that equal captures are equal files."""
    return cast(BinaryIO, igzip.IGzipFile("", "wb", 2, raw, 0.0))  # type: ignore[no-untyped-call]


def _pid(plane: PlaneTable) -> int | None:
    if plane.name.startswith("/device:GPU:"):
        return 1 + plane.plane_id
    return _HOST_PID if plane.name == "/host:CPU" else None


def _names(planes: Iterable[PlaneTable]) -> Iterator[dict[str, object]]:
    for plane in planes:
        pid = _pid(plane)
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane.name}}
        for index, line in enumerate(plane.lines):
            head = {"ph": "M", "pid": pid, "tid": line.line_id & 0xFFFFFFFF}
            yield head | {"name": "thread_name", "args": {"name": line.name}}
            order = index + 1 if pid == _HOST_PID else line.line_id
            yield head | {"name": "thread_sort_index", "args": {"sort_index": order}}


def _frame(plane: PlaneTable, events: Events) -> pl.DataFrame:
    """The text of every event of a plane, and its start."""
    parts = [_fragments(template) for template in plane.templates]
    tids = np.array([line.line_id & 0xFFFFFFFF for line in plane.lines], dtype=np.int64)
    value = np.where(events.correlation_id >= 0, events.correlation_id, events.number)
    columns = {
        "start_ps": events.start_ps,
        "duration_ps": np.maximum(events.duration_ps, 1),
        "tid": tids[events.line] if len(tids) else np.zeros(0, dtype=np.int64),
        "value": value,
        "template": events.template,
    }
    pieces = pl.DataFrame(
        {
            "template": np.arange(len(parts), dtype=np.int32),
            **{f"piece{i}": [part[i] for part in parts] for i in range(5)},
        },
        schema_overrides={f"piece{i}": pl.String for i in range(5)},
    )
    frame = pl.DataFrame(columns).join(pieces, on="template", how="left", maintain_order="left")
    own, nothing = pl.col("value") >= 0, pl.lit("")
    text = pl.concat_str(
        pl.lit(f'{{"ph":"X","pid":{_pid(plane)},"tid":'),
        pl.col("tid").cast(pl.String),
        pl.lit(',"ts":'),
        _microseconds("start_ps"),
        pl.lit(',"dur":'),
        _microseconds("duration_ps"),
        pl.col("piece0"),
        pl.when(own).then(pl.col("piece1")).otherwise(nothing),
        pl.when(own).then(pl.col("value").cast(pl.String)).otherwise(nothing),
        pl.when(own).then(pl.col("piece2")).otherwise(pl.col("piece3")),
        pl.col("piece4"),
    )
    return frame.select("start_ps", text=text)


def _microseconds(column: str) -> pl.Expr:
    """Picoseconds as microseconds with six decimals, exactly."""
    value, unit = pl.col(column), 10**_PS_DIGITS
    decimals = (value % unit).cast(pl.String).str.zfill(_PS_DIGITS)
    return pl.concat_str((value // unit).cast(pl.String), pl.lit("."), decimals)


def _fragments(template: Template) -> tuple[str, str, str, str, str]:
    """The text of an event around its own number.

    Up to where the number's key would stand, the key, what follows the number, what follows when
    there is none, and the rest. Keys of `args` are sorted and all values are strings.
    """
    key = template.number_key or "correlation_id"
    shown = sorted(
        (name, _shown(value))
        for name, value in (*template.before, *template.after)
        if name not in _HIDDEN
    )
    before = ",".join(f"{json.dumps(n)}:{json.dumps(v)}" for n, v in shown if n < key)
    after = ",".join(f"{json.dumps(n)}:{json.dumps(v)}" for n, v in shown if n > key)
    return (
        f',"name":{json.dumps(template.name)},"args":{{{before}',
        f'{"," if before else ""}"{key}":"',
        '",' if after else '"',
        "," if before and after else "",
        f"{after}}}}}",
    )


def _shown(value: object) -> str:
    if isinstance(value, Text | Unsigned):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)
