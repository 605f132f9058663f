"""A pprof profile of an investigation: GPU time by Python stack or by named scope.

For `go tool pprof`, https://speedscope.app and other readers of profile.proto
(https://github.com/google/pprof/blob/main/proto/profile.proto). Kernels of one instruction on one
GPU make one sample, with two values: how many kernels, and their time in nanoseconds. Labels hold
what is known of them: `pprof -tagfocus`, `-tagroot` and `-tagleaf` work on these.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import polars as pl

from explane.analysis.columns import plain_texts
from explane.analysis.investigation import Investigation
from explane.analysis.lines.stacks import InstructionKey, instruction_stacks
from explane.capture.program import Frame
from explane.errors import one_line
from explane.export import protobuf
from explane.export.targets import By
from explane.units import PS_PER_NS

_LONGEST_TEXT: Final = 4_000
_NO_STACK: Final = Frame("", 0, "(no Python stack)")
_NO_SCOPE: Final = Frame("", 0, "(no op name)")
_LABELS: Final = (
    "host", "device", "program", "hlo_instruction", "kernel", "op_name", "kind", "match",
)  # fmt: skip
_DEPTH: Final = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}

# Field numbers of Profile and of the messages in it.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_DURATION, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT_TYPE = 10, 11, 12, 13, 14


def write_pprof(
    investigation: Investigation, stream: BinaryIO, by: By = By.STACK, user_re: str | None = None
) -> None:
    """Writes a gzipped profile; the same results give the same bytes.

    Args:
        investigation: Results with at least an attribution.
        stream: Where to.
        by: Frames are those of the Python stack, or the parts of `op_name`.
        user_re: As for the attribution.

    Raises:
        OSError: When the stream can't be written.
    """
    kernels = investigation.tables["kernels"].filter(pl.col("time_ok"))
    samples = _samples(kernels)
    stacks: Mapping[InstructionKey, tuple[Frame, ...]] = {}
    if by is By.STACK:
        stacks = instruction_stacks(investigation.programs, samples, user_re)
    profile = _Profile()
    for row in samples.iter_rows(named=True):
        frames = _scopes(row) if by is By.SCOPE else _stack(row, stacks)
        profile.sample(frames, (row["n_kernels"], row["time_ns"]), row)
    span_ns = _span_ps(kernels) // PS_PER_NS
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
        packed.write(profile.encoded(span_ns, f"GPU time by {by}, written by explane"))


def _samples(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels summed by GPU and instruction; `time_ns` adds up to the whole time, rounded once."""
    keys = [
        "host", "device", "program_id", "program", "hlo_instruction", "op_name", "source_file",
        "source_line", "kind", "match",
    ]  # fmt: skip
    unknown = pl.when(pl.col("hlo_instruction").is_null()).then("kernel").alias("kernel")
    sums = (
        kernels.with_columns(unknown)
        .group_by(*keys, "kernel")
        .agg(pl.len().cast(pl.Int64).alias("n_kernels"), pl.col("duration_ps").sum())
        .sort("duration_ps", *keys, "kernel", descending=[True] + [False] * (len(keys) + 1))
    )
    until_ns = pl.col("duration_ps").cum_sum() // PS_PER_NS
    return plain_texts(sums).with_columns(
        until_ns.diff().fill_null(until_ns.first()).alias("time_ns")
    )


def _span_ps(kernels: pl.DataFrame) -> int:
    """From the first start to the last end, the longest of the hosts: their clocks differ."""
    spans = kernels.group_by("host").agg(
        ((pl.col("start_ps") + pl.col("duration_ps")).max() - pl.col("start_ps").min()).alias("s")
    )
    return int(spans["s"].max() or 0)  # type: ignore[arg-type]


def _stack(
    row: Mapping[str, Any], stacks: Mapping[InstructionKey, tuple[Frame, ...]]
) -> Sequence[Frame]:
    """Frames of a sample's Python stack, innermost first."""
    key = (row["host"], row["program_id"], row["hlo_instruction"])
    return stacks.get(key, (_NO_STACK,))


def _scopes(row: Mapping[str, Any]) -> Sequence[Frame]:
    """Parts of a sample's op_name, innermost first; the innermost carries the Python line."""
    if not row["op_name"]:
        return (_NO_SCOPE,)
    *outer, last = scope_parts(row["op_name"])
    leaf = Frame(row["source_file"] or "", row["source_line"] or 0, last)
    return (leaf, *(Frame("", 0, part) for part in reversed(outer)))


def scope_parts(op_name: str) -> list[str]:
    """The scopes of an op_name, outermost first; a slash inside brackets separates none.

    XLA joins the names of merged operations as `a/(b/dot:c/dot)`, and jax writes transformations
    as `transpose(jvp(layer))`.
    """
    parts, depth = [""], 0
    for character in op_name:
        if character == "/" and depth == 0:
            parts.append("")
            continue
        depth = max(depth + _DEPTH.get(character, 0), 0)
        parts[-1] += character
    return parts


@dataclass
class _Profile:
    """Collects samples with the strings, functions and locations that they refer to."""

    _strings: dict[str, int] = field(default_factory=lambda: {"": 0})
    _functions: dict[tuple[str, str], int] = field(default_factory=dict)
    _locations: dict[Frame, int] = field(default_factory=dict)
    _samples: list[bytes] = field(default_factory=list)

    def sample(
        self, frames: Sequence[Frame], values: Sequence[int], labels: Mapping[str, Any]
    ) -> None:
        """Adds one sample; frames innermost first."""
        body = [
            protobuf.packed(1, [self._location(frame) for frame in frames]),
            protobuf.packed(2, values),
        ]
        for name in _LABELS:
            if labels[name] is not None and labels[name] != "":
                key, value = self._string(name), self._string(str(labels[name]))
                label = protobuf.integer(1, key) + protobuf.integer(2, value)
                body.append(protobuf.content(3, label))
        self._samples.append(protobuf.content(_SAMPLE, *body))

    def encoded(self, duration_ns: int, comment: str) -> bytes:
        """The whole profile."""
        kernels, time = (
            self._value_type("kernels", "count"),
            self._value_type("time", "nanoseconds"),
        )
        tail = [
            protobuf.integer(_DURATION, duration_ns),
            protobuf.content(_PERIOD_TYPE, time),
            protobuf.integer(_PERIOD, 1),
            protobuf.packed(_COMMENT, [self._string(comment)]),
            protobuf.integer(_DEFAULT_TYPE, self._string("time")),
        ]
        # One mapping that has all names tells readers that there is nothing to look up.
        known = b"".join(protobuf.integer(number, 1) for number in (1, 7, 8, 9))
        mapping = known + protobuf.integer(5, self._string("GPU"))
        return b"".join(
            [
                protobuf.content(_SAMPLE_TYPE, kernels),
                protobuf.content(_SAMPLE_TYPE, time),
                *self._samples,
                protobuf.content(_MAPPING, mapping),
                *self._encoded_locations(),
                *self._encoded_functions(),
                *(protobuf.text(_STRING, text) for text in self._strings),
                *tail,
            ]
        )

    def _encoded_locations(self) -> list[bytes]:
        encoded = []
        for frame, number in self._locations.items():
            function = self._function(frame)
            line = protobuf.integer(1, function) + protobuf.integer(2, frame.line)
            parts = protobuf.integer(1, number) + protobuf.integer(2, 1)
            encoded.append(protobuf.content(_LOCATION, parts, protobuf.content(4, line)))
        return encoded

    def _encoded_functions(self) -> list[bytes]:
        encoded = []
        for (name, file), number in self._functions.items():
            # No system name (field 3): readers would take `<module>` for mangled C++ and drop it.
            fields = ((1, number), (2, self._string(name)), (4, self._string(file)))
            encoded.append(
                protobuf.content(_FUNCTION, *(protobuf.integer(n, value) for n, value in fields))
            )
        return encoded

    def _value_type(self, kind: str, unit: str) -> bytes:
        return protobuf.integer(1, self._string(kind)) + protobuf.integer(2, self._string(unit))

    def _string(self, text: str) -> int:
        return self._strings.setdefault(one_line(text, _LONGEST_TEXT), len(self._strings))

    def _location(self, frame: Frame) -> int:
        return self._locations.setdefault(frame, len(self._locations) + 1)

    def _function(self, frame: Frame) -> int:
        name = frame.function or f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}"
        return self._functions.setdefault((name, frame.file), len(self._functions) + 1)
