"""Correlation ids: one per API call of the process, in the order of the calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explane.capture.model import I64, MISSING
from explane.synth.plan import Plan
from explane.synth.records import Timeline

_FIRST_ID = 100


@dataclass(frozen=True)
class Correlations:
    """Ids of all calls.

    Attributes:
        runs: Per run: (repetition, device, call of the plan); MISSING for what is no API call.
        copies: Per step and copy: (repetition, device of the copy).
    """

    runs: tuple[I64, ...]
    copies: tuple[tuple[I64, ...], ...]


def number_calls(timeline: Timeline) -> Correlations:
    """Number all calls by their start; ids have gaps where untraced calls were."""
    shapes: list[tuple[int, ...]] = []
    starts: list[I64] = []
    for run in timeline.runs:
        block = run.times.call_start_ps[None] + run.offsets_ps[:, None, None]
        starts.append(np.where(_api(run.plan), block, MISSING))
        shapes.append(block.shape)
    for step in timeline.steps:
        for copy in step.copies:
            block = copy.call_ps[None] + step.offsets_ps[:, None]
            starts.append(block)
            shapes.append(block.shape)
    ids = iter(_split(_ids(starts, timeline.scenario.seed), shapes))
    return Correlations(
        runs=tuple(next(ids) for _ in timeline.runs),
        copies=tuple(tuple(next(ids) for _ in step.copies) for step in timeline.steps),
    )


def _api(plan: Plan) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([call.is_api for call in plan.calls], dtype=np.bool_)


def _ids(starts: list[I64], seed: int) -> I64:
    flat = np.concatenate([block.ravel() for block in starts])
    ids = np.full(len(flat), MISSING, dtype=np.int64)
    traced = np.flatnonzero(flat != MISSING)
    order = traced[np.argsort(flat[traced], kind="stable")]
    random = np.random.default_rng([seed, 901])
    ids[order] = _FIRST_ID + np.cumsum(random.integers(1, 4, len(order)))
    return ids


def _split(flat: I64, shapes: list[tuple[int, ...]]) -> list[I64]:
    ends = np.cumsum([np.prod(shape, dtype=np.int64) for shape in shapes])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
