"""What can't be trusted in this capture, with counts, and which capture would settle it.

Each item names what can't be trusted, how many records and how much GPU time it concerns, why, and
which parts of the report depend on it. Nothing here is estimated but where the text says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from explane.analysis.columns import plain_texts
from explane.analysis.trust.doubts import affected_by
from explane.analysis.verdict.coverage import small_window
from explane.capture.host_names import says_graphs_off
from explane.capture.model import HostCapture, NoteKind

TRUST_SCHEMA = {
    "item": pl.String,
    "count": pl.Int64,
    "gpu_time_ps": pl.Int64,
    "gpu_time_ratio": pl.Float64,
    "why": pl.String,
    "affects": pl.String,
    "host": pl.String,
    "severity": pl.Int64,
}
"""Columns of `trust.csv`; `severity` 2 = wrong conclusions possible, 1 = gaps, 0 = to know."""

NEW_CAPTURE_SCHEMA = {"question": pl.String, "capture": pl.String, "host": pl.String}
"""Columns of `new_captures.csv`."""


_CHECKS_OF_LOSS = (
    "every launch has its kernels",
    "launches of ",
    "kernels per step are constant",
    "compute kernels are the same",
    "collective kernels are the same",
    "memcpy kernels are the same",
    "GPU records cover",
)
"""Beginnings of the checks that fail where the collector lost kernels."""


@dataclass(frozen=True, slots=True)
class TrustItem:
    """One thing that can't be trusted.

    Attributes:
        item: What, one clause.
        count: How many records it concerns, or None when it can't be counted.
        gpu_time_ps: GPU time that it concerns, or None when it is not about GPU time.
        why: The reason, one sentence.
        affects: Parts of the report that depend on it.
        severity: 2 = conclusions may be wrong, 1 = something is missing, 0 = worth knowing.
        question, capture: What stays open, and the capture that would answer it; may be empty.
    """

    item: str
    count: int | None
    gpu_time_ps: int | None
    why: str
    affects: str
    severity: int
    question: str = ""
    capture: str = ""


@dataclass(frozen=True, slots=True)
class TrustInputs:
    """What the items are found in; tables as in the investigation, of one host.

    Attributes:
        record: The capture and the JSON beside it.
        kernels: Kernel table.
        checks: Reconciliation.
        selfcheck: Self-check of the attribution.
        steps: Step table.
        verdict: Verdict table.
        n_partitions: Devices that the largest program was compiled for; 0 when unknown.
        uneven: How much complete steps differ, where none can stand for all; else empty.
    """

    record: HostCapture
    kernels: pl.DataFrame
    checks: pl.DataFrame
    selfcheck: pl.DataFrame
    steps: pl.DataFrame
    verdict: pl.DataFrame
    n_partitions: int
    uneven: str


def trust_items(inputs: TrustInputs) -> tuple[TrustItem, ...]:
    """Everything that can't be trusted, gravest first."""
    finders = (
        _not_production,
        _files,
        _collector,
        _coverage,
        _failed_checks,
        _times,
        _steps,
        _python_tracer,
        _unattributed,
        _matched_by_order,
        _lines,
    )
    items = [item for find in finders for item in find(inputs)]
    return tuple(sorted(items, key=lambda item: (-item.severity, -(item.gpu_time_ps or 0))))


def trust_table(host: str, items: tuple[TrustItem, ...], total_ps: int) -> pl.DataFrame:
    """Items as `trust.csv`; the ratio is of all kernel time."""
    rows = [
        (
            i.item,
            i.count,
            i.gpu_time_ps,
            i.gpu_time_ps / total_ps if i.gpu_time_ps is not None and total_ps else None,
            i.why,
            i.affects,
            host,
            i.severity,
        )
        for i in items
    ]
    return pl.DataFrame(rows, schema=TRUST_SCHEMA, orient="row")


def new_capture_table(host: str, items: tuple[TrustItem, ...]) -> pl.DataFrame:
    """Open questions and the captures that would answer them, each once."""
    rows = dict.fromkeys((i.question, i.capture, host) for i in items if i.question)
    return pl.DataFrame(list(rows), schema=NEW_CAPTURE_SCHEMA, orient="row")


def _not_production(inputs: TrustInputs) -> Iterator[TrustItem]:
    """XLA ran graphs op by op because it was profiled: production does not."""
    capture = inputs.record.main
    codes = [code for code, text in enumerate(capture.strings) if says_graphs_off(text)]
    if not codes:
        return
    seen = pl.Series(capture.host_events.name).is_in(codes).sum()
    yield TrustItem(
        "the profile runs op by op what production runs as graphs",
        int(seen),
        None,
        "XLA reports that command buffers are disabled while a profiler is active",
        "verdict, launch overhead, idle causes, estimates: all are conditional on op-by-op launch",
        2,
        "How large is launch overhead in production?",
        "capture with XLA_FLAGS including --xla_enable_command_buffers_during_profiling=true",
    )


def _files(inputs: TrustInputs) -> Iterator[TrustItem]:
    """Damage and losses that the readers found."""
    record = inputs.record
    for note in record.main.notes:
        if note.kind is NoteKind.INFO:
            continue
        damaged = note.kind is NoteKind.DAMAGE
        yield TrustItem(
            f"records are {'damaged' if damaged else 'missing'} ({note.slug.replace('_', ' ')})",
            note.count if note.count >= 0 else None,
            None,
            note.text,
            "all totals are lower bounds",
            2,
            "What is in the lost records?",
            "an intact copy of the file" if damaged else _more_records(record),
        )
    if record.xplane_problem:
        yield TrustItem(
            "only the trace JSON was used",
            None,
            None,
            f"the xplane can't be used: {record.xplane_problem}",
            "attribution (no HLO), roofline, GPU facts",
            2,
            "Which instruction and line is each kernel?",
            "an intact .xplane.pb of the same run",
        )
    if record.json_problem:
        yield TrustItem(
            "the trace JSON can't be read",
            None,
            None,
            record.json_problem,
            "reconciliation of the two files",
            0,
        )


def _more_records(record: HostCapture) -> str:
    """How to lose no records on this vendor's GPUs."""
    stated = {str(d.stats.get("device_vendor", "")).casefold() for d in record.main.devices}
    option = "a higher limit of the collector"
    if "amd" in stated:
        option = "the XLA flag --xla_gpu_rocm_max_trace_events with a higher number"
    elif "nvidia" in stated:
        option = (
            "higher gpu_max_activity_api_events and gpu_max_callback_api_events in the "
            "advanced_configuration of jax.profiler.ProfileOptions()"
        )
    return f"a capture of fewer steps, or {option}"


def _collector(inputs: TrustInputs) -> Iterator[TrustItem]:
    """Errors and warnings that the profiler itself stored."""
    capture = inputs.record.main
    for word, texts in (("error", capture.errors), ("warning", capture.warnings)):
        for text in dict.fromkeys(texts):
            yield TrustItem(
                f"the profiler stored an {word}" if word == "error" else "the profiler warned",
                texts.count(text),
                None,
                text,
                "all totals may be lower bounds",
                2,
            )


def _coverage(inputs: TrustInputs) -> Iterator[TrustItem]:
    """GPUs that the program has and this file does not."""
    capture = inputs.record.main
    n_devices = len(capture.devices)
    if inputs.n_partitions > max(n_devices, 1):
        yield TrustItem(
            f"{n_devices} of {inputs.n_partitions} GPUs are in this capture",
            inputs.n_partitions - n_devices,
            None,
            "the program was compiled for more devices than this file has planes for",
            "collectives, stragglers and imbalance across the other GPUs are not judged",
            1,
            "Which GPU is late?",
            "captures of all hosts of the job, analysed as one run folder",
        )
    small = small_window(capture)
    if small:
        yield TrustItem(
            "the captured time holds hardly any GPU work",
            None,
            None,
            small,
            "figures of the whole capture; those of complete steps stand for the steps only",
            1,
            "Is this the moment that matters?",
            "a capture of some steps of the steady state",
        )
    active = set(inputs.kernels["device"].unique().to_list())
    silent = [d.ordinal for d in capture.devices if d.ordinal not in active]
    if silent and active:
        yield TrustItem(
            f"{len(silent)} GPUs in this file have no device events",
            len(silent),
            None,
            "their planes are empty: not used by this process, or their records are lost",
            "per-GPU comparison",
            0,
        )


def _failed_checks(inputs: TrustInputs) -> Iterator[TrustItem]:
    """Checks of the reconciliation that don't hold."""
    lost = _more_records(inputs.record)
    for row in inputs.checks.filter(pl.col("holds") == "no").iter_rows(named=True):
        yield TrustItem(
            f"a check fails: {row['check']}",
            None,
            None,
            f"{row['left']} against {row['right']}; {row['note']}".rstrip("; "),
            affected_by(str(row["check"])),
            2,
            *(
                ("Which kernels are missing, and how long do they take?", lost)
                if row["check"].startswith(_CHECKS_OF_LOSS)
                else ()
            ),
        )


def _times(inputs: TrustInputs) -> Iterator[TrustItem]:
    """Events whose times can't be true."""
    n_bad = int((~inputs.record.main.kernels.time_ok).sum())
    if n_bad:
        yield TrustItem(
            "device events with impossible times are left out of all sums",
            n_bad,
            None,
            "negative duration, zero time stamp, or far outside the capture",
            "every figure is a lower bound by their time",
            1,
        )


def _steps(inputs: TrustInputs) -> Iterator[TrustItem]:
    """Steps that are inferred, or unknown, or left out."""
    steps = inputs.steps
    if steps.height == 0:
        yield TrustItem(
            "steps are unknown",
            None,
            None,
            "no step markers, and no program repeats",
            "step time, ranges over steps, what to change",
            1,
            "How long is a step?",
            "capture with `with jax.profiler.StepTraceAnnotation('train', step_num=i):` "
            "around each step",
        )
        return
    inferred = sorted(set(steps["source"].unique().to_list()) - {"marker"})
    if inferred:
        yield TrustItem(
            "steps are inferred, not marked",
            int(steps.filter(pl.col("source") != "marker").height),
            None,
            f"no usable step markers; steps are taken from: {', '.join(inferred)}",
            "step time and every range over steps",
            0,
            "Are these the steps of the training loop?",
            "capture with `with jax.profiler.StepTraceAnnotation('train', step_num=i):` "
            "around each step",
        )
    left_out = steps.filter(pl.col("complete") == 0)
    if left_out.height:
        yield TrustItem(
            "incomplete or odd steps are left out of averages",
            left_out.height,
            None,
            "cut by the window, with a compilation inside, or different from the others",
            "averages are over the remaining steps",
            0,
        )
    if inputs.uneven:
        yield TrustItem(
            "no step stands for the others",
            int(steps["complete"].sum()),
            None,
            inputs.uneven,
            "step time and what to change: both are of steps like the median step",
            1,
        )


def _python_tracer(inputs: TrustInputs) -> Iterator[TrustItem]:
    """The Python tracer slows the host down."""
    capture = inputs.record.main
    if capture.n_python_events:
        yield TrustItem(
            "the Python tracer was on and slows the host",
            capture.n_python_events,
            None,
            "each traced Python call costs host time that production does not pay",
            "host-late idle, host-bound verdict",
            1,
            "How late is the host without the tracer?",
            "capture with jax.profiler.ProfileOptions().python_tracer_level = 0",
        )


def _unattributed(inputs: TrustInputs) -> Iterator[TrustItem]:
    """Kernels without an instruction, by reason."""
    none = inputs.kernels.filter((pl.col("match") == "none") & pl.col("time_ok"))
    sums = none.group_by("reason").agg(
        pl.len().cast(pl.Int64).alias("n"), pl.col("duration_ps").sum()
    )
    for row in sums.sort("duration_ps", "reason", descending=[True, False]).iter_rows(named=True):
        yield TrustItem(
            "kernels without an instruction",
            row["n"],
            row["duration_ps"],
            str(row["reason"]),
            "ops, lines, roofline: this time is shown as unattributed and not spread",
            1,
            "Which instructions are these kernels?",
            "capture with XLA_FLAGS including --xla_gpu_enable_command_buffer= (empty): "
            "every kernel then carries its label"
            if none["in_graph"].any()
            else "",
        )


def _matched_by_order(inputs: TrustInputs) -> Iterator[TrustItem]:
    """Kernels matched by name or order, with the error that the self-check found."""
    tested = {row["match"]: row for row in inputs.selfcheck.iter_rows(named=True)}
    for word in ("order", "name"):
        rows = inputs.kernels.filter((pl.col("match") == word) & pl.col("time_ok"))
        if not rows.height:
            continue
        time_ps = int(rows["duration_ps"].sum())
        check = tested.get(word)
        if check and check["tested_ps"]:
            wrong = 1 - check["right_ps"] / check["tested_ps"]
            told = (
                f"the self-check put {check['right']} of {check['tested']} such kernels right; "
                f"about {round(time_ps * wrong)} ps may be misattributed (inferred)"
            )
        else:
            told = "too few labelled kernels in this capture to measure how often this is right"
        yield TrustItem(
            f"instructions found by {word}, not read",
            rows.height,
            time_ps,
            told,
            "ops, lines, collectives and roofline of kernels inside graphs",
            1 if word == "order" else 0,
        )


def _lines(inputs: TrustInputs) -> Iterator[TrustItem]:
    """Python lines that are not the instruction's own, or lie in a library."""
    timed = inputs.kernels.filter(pl.col("hlo_instruction").is_not_null() & pl.col("time_ok"))
    how = pl.col("line_from").fill_null("none")
    found = timed.group_by("line_from").agg(
        pl.len().cast(pl.Int64).alias("n"), pl.col("duration_ps").sum()
    )
    sums = (
        plain_texts(found)
        .with_columns(
            pl.when(how.str.ends_with("_library"))
            .then(pl.lit("library"))
            .otherwise(how)
            .alias("line_from")
        )
        .group_by("line_from")
        .agg(pl.col("n", "duration_ps").sum())
    )
    for row in sums.sort("line_from").iter_rows(named=True):
        why = _LINE_WHY.get(row["line_from"])
        if why:
            yield TrustItem(*why[:1], row["n"], row["duration_ps"], why[1], "time by line", 0)


_LINE_WHY = {
    "none": (
        "kernels without a Python line",
        "neither the instruction nor its neighbours have one",
    ),
    "fused_root": (
        "lines taken from the root of a fusion",
        "the fusion has no line of its own; its other lines are listed with it",
    ),
    "inside": (
        "lines taken from inside a fusion",
        "neither the fusion nor its root has a line; the heaviest instruction inside gives it",
    ),
    "operand": ("lines taken from an operand", "the instruction has no line of its own"),
    "user": ("lines taken from a user of the result", "the instruction has no line of its own"),
    "library": (
        "lines inside libraries",
        "no frame of the stack is in the user's files; see --user-re",
    ),
}
