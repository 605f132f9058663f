"""Idle gaps on each device's critical stream, with the cause of each gap and its host event.

The critical stream is the one with most compute time. A gap lies between two kernels of that
stream; what launched the kernel after it decides the cause:

    stream   ├─ A ─┤           gap            ├─ B ─┤
    host late               ├call┤                       the call began after the gap began
    launch call long     ├──────call───────┤             the call itself fills most of the gap
    waiting   ├call┤                                     the call was over before the gap began

- *host_late*: the host wasn't there. Its event is the innermost one that covers at least half of
  the time from the gap's begin to the call, on the launching thread, else on the thread that
  dispatches (the one with the step markers or execute calls).
- *launch_call_long*: the launch call covers at least half of the gap.
- *wait_collective*, *wait_copy*, *wait_stream*: the kernel had been launched, and starts within
  5 µs (`WAIT_TOLERANCE_PS`) of the end of work on another stream that ran during the gap. This
  also holds when the call began inside the gap but what follows it is at least half of the gap.
- *queue*: launched before the gap, and nothing that the capture shows was waited for. Gaps between
  kernels of one graph launch are of this kind, unless another branch was waited for.
- *unknown*: the kernel has no launch in the capture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from explane.analysis.columns import coded_column, id_column, plain_texts, same_text
from explane.analysis.steps.launches import LaunchJoin, join_launches
from explane.analysis.steps.steps import Steps, find_steps
from explane.analysis.verdict.budget import Budgets, stream_budgets
from explane.analysis.verdict.host_causes import host_events_of
from explane.analysis.verdict.idle_causes import CAUSES, HOST_LATE, Gap, causes_of, gaps_of
from explane.capture.model import I32, U8, Bools, Capture
from explane.memory import freed


@dataclass(frozen=True, slots=True)
class IdleGaps:
    """Gaps of the critical streams by device and time; columns have one entry per gap.

    Attributes:
        gaps: Where they are and how their launch calls lie.
        cause: Position in `CAUSES`.
        host_event: Row in `Capture.host_events` of the event that explains a late host, or -1.
        waited_for: Row of the kernel that was waited for, or -1.
        in_graph: True when both neighbours belong to one graph launch.
        table: `idle.csv`, one row per gap.
    """

    gaps: Gap
    cause: U8
    host_event: I32
    waited_for: I32
    in_graph: Bools
    table: pl.DataFrame

    def __len__(self) -> int:
        return len(self.gaps)

    @property
    def summary(self) -> pl.DataFrame:
        """Gaps by device, cause and host event: count, time, share of the stream's idle time."""
        keys = ["host", "device", "cause", "host_event"]
        table = plain_texts(
            self.table.group_by(keys).agg(
                pl.len().cast(pl.Int64).alias("n_gaps"),
                pl.col("duration_ps").sum(),
                pl.col("duration_ps").max().alias("longest_ps"),
            )
        )
        total = pl.col("duration_ps").sum().over("host", "device")
        ratio = (pl.col("duration_ps") / total).alias("duration_ratio")
        order = ["host", "device", "duration_ps", "cause", "host_event"]
        return table.with_columns(ratio).sort(order, descending=[False, False, True, False, False])


def idle_gaps(
    capture: Capture,
    join: LaunchJoin | None = None,
    steps: Steps | None = None,
    budgets: Budgets | None = None,
) -> IdleGaps:
    """Find and explain the idle gaps of every device's critical stream.

    Args:
        capture: The capture.
        join: Its launches, when already joined.
        steps: Its steps, when already found.
        budgets: Its budgets, when already made.
    """
    join = join or join_launches(capture)
    steps = steps or find_steps(capture, join)
    budgets = budgets or stream_budgets(capture)
    gaps = gaps_of(capture, join, budgets.critical_stream)
    cause, waited_for = freed(causes_of(capture, gaps), len(capture.kernels))
    late = cause == HOST_LATE
    host_event = np.full(len(gaps), -1, dtype=np.int32)
    host_event[late] = host_events_of(capture, join, gaps.launch[late], gaps.start_ps[late])
    same = (gaps.launch >= 0) & (gaps.launch == join.kernel_launch[gaps.before])
    in_graph = same & join.in_graph[gaps.after]
    table = _table(capture, gaps, cause, host_event, waited_for).with_columns(
        id_column("step", steps.numbers(steps.kernel_index[gaps.after])),
        pl.Series("inside_graph", in_graph),
    )
    return IdleGaps(gaps, cause, host_event, waited_for, in_graph, table)


def _table(
    capture: Capture, gaps: Gap, cause: U8, host_event: I32, waited_for: I32
) -> pl.DataFrame:
    """`idle.csv`; the steps are filled in by the caller."""
    kernels, events, texts = capture.kernels, capture.host_events, capture.strings
    event_name = np.append(events.name, -1)[host_event]
    event_thread = np.append(events.thread, -1)[host_event]
    waited_name = np.append(kernels.name, -1)[waited_for]
    return pl.DataFrame(
        {
            "host": same_text("host", capture.host, len(gaps)),
            "device": kernels.device[gaps.after],
            "stream": kernels.stream[gaps.after],
            "step": np.zeros(len(gaps), dtype=np.int64),
            "start_ps": gaps.start_ps,
            "duration_ps": gaps.duration_ps,
            "cause": coded_column("cause", cause, CAUSES),
            "host_event": coded_column("host_event", event_name, texts),
            "next_kernel": coded_column("next_kernel", kernels.name[gaps.after], texts),
            "waited_for": coded_column("waited_for", waited_name, texts),
            "host_thread": coded_column(
                "host_thread", event_thread, [thread.name for thread in capture.threads]
            ),
            "host_ps": gaps.host_ps,
            "call_ps": gaps.call_ps,
            "after_call_ps": gaps.after_call_ps,
        }
    )
