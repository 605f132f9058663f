"""What was seen of the causes that are groups of kernels: how many, and the largest ops."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import polars as pl

from explane.analysis.advice.resharding import resharded_for
from explane.analysis.replay.device import Shares
from explane.analysis.replay.facts import StepFacts
from explane.capture.hlo_fields import buffer_donors, input_output_aliases
from explane.capture.model import Bools
from explane.capture.program import Program

_MOST_NAMES: Final = 3
_FOLDERS: Final = re.compile(r".*[/\\]")


def groups_seen(
    facts: StepFacts, groups: Mapping[str, Shares], kernels: pl.DataFrame, in_median: Bools
) -> dict[str, str]:
    """Evidence by cause, for the causes that have kernels in the median step.

    Args:
        facts: The capture and what is known of it.
        groups: Share of its time that would be left of each kernel, by cause.
        kernels: Kernel table.
        in_median: Kernels of the median step.
    """
    shares = {**groups, "while_readback": 1.0 - facts.condition_copies.astype(np.float64)}
    found = {}
    for cause, left in shares.items():
        rows = in_median & (left < 1.0)
        if rows.any():
            told = _largest(kernels, rows, 1.0 - left)
            more = _MORE[cause](facts, kernels.filter(rows)) if cause in _MORE else ""
            found[cause] = f"{told}; {more}" if more else told
    n_python = facts.capture.n_python_events
    if n_python:
        n_all = facts.capture.n_host_events + len(facts.capture.launches)
        found["python_tracer"] = f"{n_python} of {n_all} host events are the Python tracer's"
    return found


def _largest(kernels: pl.DataFrame, rows: Bools, gone: Shares) -> str:
    """How many kernels, and the instructions with most time that would go, with their lines."""
    names = [pl.col(name).cast(pl.String) for name in ("hlo_instruction", "kernel")]
    mine = kernels.filter(rows).with_columns(
        pl.coalesce(names).alias("what"),
        pl.col("source_file").cast(pl.String),
        (pl.col("duration_ps") * pl.Series(gone[rows])).alias("gone_ps"),
    )
    sums = (
        mine.group_by("what", "source_file", "source_line")
        .agg(pl.col("gone_ps").sum())
        .sort(["gone_ps", "what"], descending=[True, False])
        .head(_MOST_NAMES)
    )
    shown = sums.select("what", "source_file", "source_line").iter_rows()
    count = "one kernel" if mine.height == 1 else f"{mine.height} kernels"
    return f"{count} in the step, most of it in {', '.join(_named(*row) for row in shown)}"


def _named(what: str, file: str | None, line: int | None) -> str:
    return f"{what} ({_FOLDERS.sub('', file)}:{line})" if file else what


def _calls(facts: StepFacts, kernels: pl.DataFrame) -> str:
    """The foreign calls that the collectives feed."""
    calls = {
        call.custom_call_target
        for program in _programs(facts, kernels)
        for name, call in resharded_for(program).items()
        if name in set(kernels["hlo_instruction"])
    }
    return f"they only feed {', '.join(sorted(calls)[:_MOST_NAMES])}"


def _donated(facts: StepFacts, kernels: pl.DataFrame) -> str:
    """How many buffers of the programs in question are donated."""
    told = []
    for program in _programs(facts, kernels):
        donated = {(a.parameter_number, a.parameter_index) for a in input_output_aliases(program)}
        donated |= set(buffer_donors(program))
        entry = program.computations[program.entry_id]
        n_all = sum(
            sum(1 for _ in i.shape.leaves)
            for i in program.instructions_of(entry)
            if i.opcode == "parameter"
        )
        told.append(f"{program.name} takes over {len(donated)} of its {n_all} parameters")
    return ", ".join(told)


def _programs(facts: StepFacts, kernels: pl.DataFrame) -> list[Program]:
    """The parsed programs of some kernels."""
    ids = kernels["program_id"].drop_nulls().unique().sort().to_list()
    return [facts.programs[i] for i in ids if i in facts.programs]


_MORE: Final = {"donation": _donated, "resharding": _calls}
