"""Independent records of the same work, counted and set side by side.

A number is only worth as much as the records behind it. Each check states two figures that should
agree, whether they do, and why not when the reason is known. `holds` is one of

    yes             they agree
    no              they don't; it goes on the trust list
    explained       they differ, and the record itself says why
    not available   one of the two records is not in this capture
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from explane.analysis.attribution.result import Attribution, Execution, possible_duration_ps
from explane.analysis.steps.launches import LaunchJoin
from explane.capture.classify import GROUP_COLLECTIVES
from explane.capture.model import Capture, HostCapture, Kind, NoteKind
from explane.capture.program import Program

CHECK_SCHEMA = {
    "check": pl.String,
    "holds": pl.String,
    "left": pl.String,
    "right": pl.String,
    "note": pl.String,
    "host": pl.String,
}
"""Columns of `checks.csv`."""

# The collector's clocks are matched by one pair of readings: a few microseconds of error are
# usual, a millisecond is not.
_CLOCK_TOLERANCE_PS = 1_000_000_000
_LEAST_COVERAGE_RATIO = 0.8


@dataclass(frozen=True, slots=True)
class Check:
    """Two records side by side."""

    check: str
    holds: str
    left: str
    right: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Records:
    """All records of one process that checks compare; what is None is not available.

    Attributes:
        record: The capture and the JSON beside it.
        join: Kernels and their launches.
        steps: Step table.
        streams: Stream budgets.
        programs: Parsed programs by id.
        attribution: Kernels and their instructions.
    """

    record: HostCapture
    join: LaunchJoin
    steps: pl.DataFrame
    streams: pl.DataFrame
    programs: Mapping[int, Program]
    attribution: Attribution | None


def reconcile(records: Records) -> tuple[Check, ...]:
    """All checks that can be made, in a fixed order."""
    finders = (
        _json_against_xplane,
        _kernels_have_launches,
        _launches_have_kernels,
        _copies,
        _kernels_per_step,
        _equal_work,
        _budgets,
        _executions_equal,
        _host_executions,
        _expected_kernels,
        _collectives_recorded,
        _attributed_total,
        _true_times,
        _clocks,
        _window,
        _losses,
        _devices,
    )
    return tuple(check for find in finders for check in find(records))


def check_table(host: str, checks: tuple[Check, ...]) -> pl.DataFrame:
    """Checks as `checks.csv`."""
    rows = [(c.check, c.holds, c.left, c.right, c.note, host) for c in checks]
    return pl.DataFrame(rows, schema=CHECK_SCHEMA, orient="row")


def _holds(equal: bool) -> str:
    return "yes" if equal else "no"


def _json_against_xplane(records: Records) -> Iterator[Check]:
    """Device events of both files, per device."""
    name, json, main = "device events: JSON = xplane", records.record.json, records.record.main
    if json is None:
        reason = records.record.json_problem or "there is no trace JSON beside the xplane"
        if main.source == "json":
            reason = records.record.xplane_problem or "only the trace JSON was given"
        yield Check(name, "not available", str(len(main.kernels)), "", reason)
        return
    cut = next((n for n in json.notes if n.slug == "json_cut"), None)
    for device in main.devices:
        left = int((json.kernels.device == device.ordinal).sum())
        right = int((main.kernels.device == device.ordinal).sum())
        holds, note = _holds(left == right), ""
        if left != right and cut is not None:
            holds, note = "explained", cut.text
        yield Check(f"{name}, GPU {device.ordinal}", holds, str(left), str(right), note)


def _kernels_have_launches(records: Records) -> Iterator[Check]:
    n, joined = len(records.record.main.kernels), records.join.n_joined
    if not len(records.record.main.launches):
        note = "the capture has no host calls with correlation ids"
        yield Check("every kernel joins one launch", "not available", str(n), "", note)
        return
    yield Check("every kernel joins one launch", _holds(n == joined), str(n), str(joined))


def _launches_have_kernels(records: Records) -> Iterator[Check]:
    join, capture = records.join, records.record.main
    if not len(capture.launches):
        return
    empty = join.without_kernels
    n_graphs = int((empty & capture.launches.is_graph).sum())
    n_other = int(empty.sum()) - n_graphs
    n_with = join.n_launches - n_graphs - n_other
    note = f"{n_graphs} graph launches without kernels; a captured graph may be empty"
    holds = _holds(n_other == 0) if not n_graphs or n_other else "explained"
    yield Check(
        "every launch has its kernels",
        holds,
        str(join.n_launches),
        str(n_with),
        note if n_graphs else "",
    )


def _copies(records: Records) -> Iterator[Check]:
    """Copy calls and the copies that they made (graphs and collectives make copies too)."""
    capture, join = records.record.main, records.join
    words = np.array([_is_copy_call(s) for s in capture.strings] + [False])
    calls = words[capture.launches.name] & join.is_launch
    if not calls.any():
        return
    n_calls, n_done = int(calls.sum()), int((calls & (join.n_kernels > 0)).sum())
    yield Check("copy calls have copies", _holds(n_calls == n_done), str(n_calls), str(n_done))


def _is_copy_call(name: str) -> bool:
    return name.startswith(("hip", "cu")) and ("Memcpy" in name or "Memset" in name)


def _kernels_per_step(records: Records) -> Iterator[Check]:
    name, whole = "kernels per step are constant", records.steps.filter(pl.col("complete") == 1)
    if whole.height < 2 or "n_kernels" not in whole.columns:
        yield Check(name, "not available", "", "", "fewer than two complete steps")
        return
    for (device,), part in whole.group_by(["device"], maintain_order=True):
        low, high = part["n_kernels"].min(), part["n_kernels"].max()
        yield Check(f"{name}, GPU {device}", _holds(low == high), str(low), str(high))


def _equal_work(records: Records) -> Iterator[Check]:
    """Kernels by kind on every GPU that has any."""
    kernels = records.record.main.kernels
    active = np.unique(kernels.device)
    if len(active) < 2:
        return
    for kind in (Kind.COMPUTE, Kind.COLLECTIVE, Kind.MEMCPY):
        counts = np.array([int((kernels.kind[kernels.device == d] == kind).sum()) for d in active])
        if not counts.any():
            continue
        odd = [f"GPU {d}: {c}" for d, c in zip(active, counts, strict=True) if c != _usual(counts)]
        outside = bool(odd) and kind == Kind.MEMCPY and _only_outside(records, active.tolist())
        yield Check(
            f"{kind.word} kernels are the same on all GPUs",
            "explained" if outside else _holds(not odd),
            str(counts.min()),
            str(counts.max()),
            "; ".join([*odd, *(["copies of no program, as of inputs and results"] * outside)]),
        )


def _only_outside(records: Records, active: Sequence[int]) -> bool:
    """Whether every GPU has as many copies of programs, so that only others differ.

    Inputs and results are copied by the host, often for one GPU only.
    """
    if records.attribution is None:
        return False
    kernels = records.record.main.kernels
    of_programs = (kernels.kind == Kind.MEMCPY) & (records.attribution.program_id >= 0)
    counts = {int((of_programs & (kernels.device == device)).sum()) for device in active}
    return len(counts) == 1


def _usual(counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """The most frequent count, of several the largest."""
    values, n = np.unique(counts, return_counts=True)
    return int(values[n == n.max()].max())


def _budgets(records: Records) -> Iterator[Check]:
    parts = ["compute_ps", "collective_ps", "memcpy_ps", "memset_ps", "idle_ps"]
    if not records.streams.height:
        return
    left = int(records.streams.select(pl.sum_horizontal(parts)).to_series().sum())
    right = int(records.streams["span_ps"].sum())
    rows = records.streams.filter(pl.sum_horizontal(parts) != pl.col("span_ps")).height
    note = f"{rows} streams differ" if rows else "picoseconds over all streams"
    yield Check(
        "stream budgets add up to their spans", _holds(rows == 0), str(left), str(right), note
    )


def _executions_equal(records: Records) -> Iterator[Check]:
    attribution = records.attribution
    devices = np.unique(records.record.main.kernels.device)
    if attribution is None or not attribution.executions or len(devices) < 2:
        return
    runs = Counter((e.program_id, e.device) for e in attribution.executions)
    for program_id in sorted({program_id for program_id, _ in runs}):
        counts = {int(d): runs[program_id, int(d)] for d in devices}
        low, high = min(counts.values()), max(counts.values())
        runs_on = [d for d, n in counts.items() if n]
        single = len(runs_on) == 1
        yield Check(
            f"executions of {_program_name(records, program_id)} are the same on all GPUs",
            "explained" if single else _holds(low == high),
            str(low),
            str(high),
            f"it runs on GPU {runs_on[0]} only" if single else "",
        )


def _program_name(records: Records, program_id: int) -> str:
    program = records.programs.get(program_id)
    return f"{program.name}({program_id})" if program else f"program {program_id}"


def _host_executions(records: Records) -> Iterator[Check]:
    """Executions that the host started and executions that the GPUs show."""
    attribution, capture = records.attribution, records.record.main
    if attribution is None or not attribution.executions:
        return
    by_module: dict[str, int] = {}
    for execution in attribution.executions:
        program = records.programs.get(execution.program_id)
        if program is not None:
            by_module[program.name] = by_module.get(program.name, 0) + 1
    suffix = ":XLA GPU module"
    codes = {i: s[: -len(suffix)] for i, s in enumerate(capture.strings) if s.endswith(suffix)}
    if not codes:
        yield Check(
            "host executions = executions on the GPUs",
            "not available",
            "",
            str(sum(by_module.values())),
            "the host plane has no `<module>:XLA GPU module` events",
        )
        return
    for module in sorted(set(by_module) & set(codes.values())):
        wanted = [code for code, name in codes.items() if name == module]
        left = int(np.isin(capture.host_events.name, wanted).sum())
        name = f"host executions of {module} = executions on the GPUs"
        yield Check(name, _holds(left == by_module[module]), str(left), str(by_module[module]))


def _expected_kernels(records: Records) -> Iterator[Check]:
    """Kernels of each execution against the HLO schedule."""
    attribution = records.attribution
    if attribution is None or not attribution.executions:
        yield Check(
            "kernels per execution = HLO schedule",
            "not available",
            "",
            "",
            "no stored program was executed, or there is no HLO in the capture",
        )
        return
    by_program: dict[int, list[Execution]] = {}
    for execution in attribution.executions:
        by_program.setdefault(execution.program_id, []).append(execution)
    for program_id, runs in sorted(by_program.items()):
        missing = sum(e.n_missing for e in runs)
        expected = sum(e.n_expected for e in runs)
        short = sum(e.n_missing > 0 for e in runs)
        yield Check(
            f"launches of {_program_name(records, program_id)} = HLO schedule",
            _holds(missing == 0),
            str(expected),
            str(expected - missing),
            f"{short} of {len(runs)} executions lack kernels" if missing else "",
        )


def _collectives_recorded(records: Records) -> Iterator[Check]:
    """Programs with collectives must show collective kernels."""
    capture, attribution = records.record.main, records.attribution
    if attribution is None:
        return
    ran = {e.program_id for e in attribution.executions}
    n_ops = sum(
        count
        for program_id in ran
        if program_id in records.programs
        for opcode, count in records.programs[program_id].instructions.opcode_counts.items()
        if opcode.removesuffix("-start") in GROUP_COLLECTIVES
    )
    if n_ops:
        n_kernels = int((capture.kernels.kind == Kind.COLLECTIVE).sum())
        note = "" if n_kernels else "communication time is unknown, not zero"
        yield Check(
            "programs with collectives show collective kernels",
            _holds(n_kernels > 0),
            f"{n_ops} instructions",
            f"{n_kernels} kernels",
            note,
        )


def _attributed_total(records: Records) -> Iterator[Check]:
    attribution, kernels = records.attribution, records.record.main.kernels
    if attribution is None:
        return
    found, duration_ps = attribution.attributed(), possible_duration_ps(kernels)
    total = int(duration_ps.sum())
    parts = int(duration_ps[found].sum()), int(duration_ps[~found].sum())
    yield Check(
        "attributed + unattributed = kernel time",
        _holds(sum(parts) == total and not attribution.check(kernels)),
        str(sum(parts)),
        str(total),
        f"{parts[0]} ps attributed, {parts[1]} ps not",
    )


def _true_times(records: Records) -> Iterator[Check]:
    kernels = records.record.main.kernels
    n_bad = int((~kernels.time_ok).sum())
    yield Check("device events have possible times", _holds(n_bad == 0), str(n_bad), "0")


def _clocks(records: Records) -> Iterator[Check]:
    """No kernel starts before its launch call, beyond what matching two clocks costs."""
    capture, join = records.record.main, records.join
    rows = np.flatnonzero((join.kernel_launch >= 0) & capture.kernels.time_ok)
    name = "no kernel starts before its launch call"
    if not len(rows):
        yield Check(name, "not available", "", "", "no kernel joins a launch")
        return
    lead_ps = capture.launches.start_ps[join.kernel_launch[rows]] - capture.kernels.start_ps[rows]
    n_early, worst_ps = int((lead_ps > 0).sum()), int(lead_ps.max())
    far = worst_ps > _CLOCK_TOLERANCE_PS
    note = f"the earliest by {worst_ps} ps" if n_early else ""
    if n_early and not far:
        note += "; host and GPU clocks are matched once per capture, to a few microseconds"
    holds = "yes" if not n_early else "no" if far or n_early * 2 > len(rows) else "explained"
    yield Check(name, holds, str(n_early), "0", note)
    if far:
        yield Check("times are in one clock domain", "no", str(worst_ps), "0", "picoseconds")


def _window(records: Records) -> Iterator[Check]:
    """The GPU's records reach as far as the host's work does."""
    capture, join = records.record.main, records.join
    kernels, launches = capture.kernels, capture.launches
    ok = kernels.time_ok
    if not ok.any() or not len(launches):
        return
    last_launch = int(launches.start_ps[join.is_launch].max(initial=0))
    first_launch = int(launches.start_ps[join.is_launch].min(initial=last_launch))
    window_ps = max(last_launch - first_launch, 1)
    reached_ps = min(int(kernels.ends(ok).max()), last_launch) - first_launch
    ratio = reached_ps / window_ps
    yield Check(
        "GPU records cover the time of the launches",
        _holds(ratio >= _LEAST_COVERAGE_RATIO),
        str(max(reached_ps, 0)),
        str(window_ps),
        "picoseconds from the first launch"
        if ratio >= _LEAST_COVERAGE_RATIO
        else "device records end before the launches do: the collector stopped or lost the rest",
    )


def _losses(records: Records) -> Iterator[Check]:
    notes = [n for n in records.record.main.notes if n.kind is not NoteKind.INFO]
    count = sum(max(n.count, 1) for n in notes)
    texts = "; ".join(n.text for n in notes)
    yield Check(
        "no records are reported lost or damaged", _holds(not notes), str(count), "0", texts
    )


def _devices(records: Records) -> Iterator[Check]:
    """Devices in the file and devices that the executed programs are compiled for."""
    capture = records.record.main
    needed = largest_device_count(capture, records.programs, records.attribution)
    name = "GPUs in the file = GPUs of the program"
    if not needed:
        yield Check(name, "not available", str(len(capture.devices)), "", "not stored in the HLO")
        return
    have, n_active = len(capture.devices), len(np.unique(capture.kernels.device))
    elsewhere = have < needed and n_active == have
    holds = "explained" if elsewhere else _holds(n_active >= needed)
    note = f"{have} planes, {n_active} with events"
    if elsewhere:
        note += "; the other GPUs belong to other processes or hosts of the job"
    yield Check(name, holds, str(n_active), str(needed), note)


def largest_device_count(
    capture: Capture, programs: Mapping[int, Program], attribution: Attribution | None
) -> int:
    """Devices of the largest executed program; 0 when it is not stored."""
    ran = set(np.unique(capture.kernels.program_id).tolist())
    if attribution is not None:
        ran |= {e.program_id for e in attribution.executions}
    counts = [p.num_replicas * p.num_partitions for i, p in programs.items() if i in ran]
    return max(counts, default=0)
