"""What is written of a simulated capture beside its truth: scenario, causes, true step times."""

from __future__ import annotations

from typing import Any

import numpy as np

from explane.capture.model import I64
from explane.synth.host_clock import HostClock
from explane.synth.records import Timeline
from explane.synth.truth import Truth


def describe(timeline: Timeline, truth: Truth, clock: HostClock) -> dict[str, Any]:
    """The content of `meta.json`; times in picoseconds, in the host's clock."""
    scenario = timeline.scenario
    causes, tracer, graphs = scenario.causes, scenario.tracer, scenario.graphs
    times = step_times(timeline, clock)
    return {
        "simulated": True,
        "seed": scenario.seed,
        "vendor": timeline.device.vendor.value,
        "programs": {str(i): program.title for i, program in sorted(timeline.programs.items())},
        "n_devices": timeline.n_devices,
        "n_steps": scenario.n_steps,
        "n_kernels": sum(len(block.code) for block in truth.blocks),
        "n_lost": truth.n_lost,
        "graph_labels": graphs.labels.value if graphs.enabled else "off",
        "branches": graphs.branches.value,
        "branch_ratio": graphs.branch_ratio,
        "clock_skew_ps": tracer.clock_skew_ps,
        "clock_offset_ps": clock.offset_ps,
        "clock_drift_ppm": clock.drift_ppm,
        "causes": {name: getattr(causes, name) for name in causes.__slots__},
        "step_ps": step_period_ps(times),
        "step_times": times,
    }


def step_times(timeline: Timeline, clock: HostClock) -> list[dict[str, int]]:
    """The true begin and end of every step on every device, and on the host.

    A device's step is from the start of the first kernel of the step's first execution to the
    end of the last kernel of its last one, without the main thread's copies.
    """
    rows = []
    for d in range(timeline.n_devices):
        numbers = np.concatenate([run.step for run in timeline.runs if run.plan.kernels])
        begin = clock.stored_ps(_per_run(timeline, d, end=False))
        end = clock.stored_ps(_per_run(timeline, d, end=True))
        for step in np.unique(numbers):
            at = numbers == step
            rows.append(
                {
                    "step": int(step) + timeline.scenario.tracer.first_step,
                    "device": d,
                    "start_ps": int(begin[at].min()),
                    "end_ps": int(end[at].max()),
                }
            )
    return rows


def step_period_ps(times: list[dict[str, int]]) -> int:
    """Median span from one step's start to the next one's, on the device where it is longest.

    Of a single step its own length.
    """
    periods = []
    for device in {row["device"] for row in times}:
        rows = [row for row in times if row["device"] == device]
        starts = np.array([row["start_ps"] for row in rows], dtype=np.int64)
        length = rows[0]["end_ps"] - rows[0]["start_ps"]
        periods.append(int(np.median(np.diff(starts))) if len(rows) > 1 else length)
    return max(periods)


def _per_run(timeline: Timeline, device: int, *, end: bool) -> I64:
    blocks = []
    for run in timeline.runs:
        if run.plan.kernels:
            start, duration = run.times.start_ps[device], run.times.duration_ps[device]
            edge = (start + duration).max() if end else start.min()
            blocks.append(edge + run.offsets_ps)
    return np.concatenate(blocks) + timeline.scenario.tracer.clock_skew_ps
