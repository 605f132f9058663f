"""Events of the Python tracer in bulk: nested calls that fill a span of the main thread."""

from __future__ import annotations

from random import Random

import numpy as np
import numpy.typing as npt

from explane.capture.model import I32, I64

_FILES = (
    "api",
    "pxla",
    "core",
    "dtypes",
    "array",
    "tree_util",
    "util",
    "sharding_impls",
    "loader",
)
_FUNCTIONS = (
    "shard_args",
    "<lambda>",
    "__hash__",
    "tree_leaves",
    "shape",
    "safe_zip",
    "_check_if_deleted",
    "<genexpr>",
    "collate",
    "__getitem__",
    "is_fully_addressable",
    "cc_shard_arg",
)
_BUILTINS = ("$builtins len", "$builtins isinstance", "$<unknown> append", "$builtins getattr")
_BLOCK = 64
_DEPTH = 4


def python_names(seed: int) -> tuple[str, ...]:
    """Names in the tracer's form `$file.py:line function`, and builtins."""
    random = Random(f"{seed} python names")
    names = {
        f"${random.choice(_FILES)}.py:{random.randrange(20, 1900)} {random.choice(_FUNCTIONS)}"
        for _ in range(90)
    }
    return (*sorted(names), *_BUILTINS)


def python_events(
    n_events: int, n_names: int, spans_ps: tuple[I64, int], seed: int
) -> tuple[I64, I64, I32]:
    """Start, duration and name number of nested calls.

    Args:
        n_events: Calls per span.
        n_names: How many names there are.
        spans_ps: Start of every span, and their common length.
        seed: Determines the nesting.

    Returns:
        Arrays of shape (spans, calls). Calls of a span nest properly and stay inside it.
    """
    starts_ps, length_ps = spans_ps
    n_blocks = -(-n_events // _BLOCK)
    random = Random(f"{seed} python calls")
    begin, end = _nested(random)
    blocks = np.arange(n_blocks)[:, None]
    first = ((blocks + begin) / n_blocks).ravel()[:n_events]
    last = ((blocks + end) / n_blocks).ravel()[:n_events]
    offset = np.floor(first * length_ps).astype(np.int64)
    duration = np.floor(last * length_ps).astype(np.int64) - offset
    names = np.random.default_rng([seed, 903]).integers(0, n_names, n_events, dtype=np.int32)
    shape = (len(starts_ps), n_events)
    return (
        starts_ps[:, None] + offset,
        np.broadcast_to(duration, shape),
        np.broadcast_to(names, shape),
    )


def _nested(random: Random) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Begin and end of `_BLOCK` nested intervals within (0, 1), parents before children."""
    intervals = [(0.01, 0.99, 0)]
    position = 0
    while len(intervals) < _BLOCK:
        begin, end, depth = intervals[position % len(intervals)]
        position += 1
        if depth >= _DEPTH:
            continue
        n_parts = random.randint(2, 4)
        width = (end - begin) / n_parts
        for i in range(n_parts):
            left = begin + width * (i + random.uniform(0.05, 0.3))
            intervals.append((left, begin + width * (i + random.uniform(0.5, 0.95)), depth + 1))
    chosen = sorted(intervals[:_BLOCK], key=lambda interval: (interval[0], -interval[1]))
    return np.array([i[0] for i in chosen]), np.array([i[1] for i in chosen])
