"""One process's capture to all its results, and the results of several processes to one.

HostCapture ─┬─ launches, steps, budgets, idle, SKIP, verdict
             ├─ programs ── attribution ─┬─ ops, lines, roofline
             │                           └─ collectives, critical path, what-if
             └─ reconciliation ── advice, trust list, new captures
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from explane.analysis.advice.advice import advice_table
from explane.analysis.advice.evidence import causes_seen
from explane.analysis.advice.evidence_groups import groups_seen
from explane.analysis.advice.kernel_groups import kernel_groups
from explane.analysis.attribution.attribute import attribute
from explane.analysis.attribution.result import Attribution
from explane.analysis.attribution.selfcheck import selfcheck
from explane.analysis.collectives.collectives import find_collectives, straggler_table
from explane.analysis.collectives.refined import with_refined_kinds
from explane.analysis.host_facts import expected_of, host_facts, read_programs
from explane.analysis.investigation import Investigation, NotAnalysed
from explane.analysis.lines.op_tables import kernel_table, line_table, op_sources, op_table
from explane.analysis.program_facts import KnownPrograms, ProgramFacts, program_facts
from explane.analysis.replay.critical_path import path_summary
from explane.analysis.replay.facts import StepFacts
from explane.analysis.replay.play import Play, play_steps
from explane.analysis.roofline.roofline import RooflineOptions, roofline
from explane.analysis.steps.launches import LaunchJoin, join_launches
from explane.analysis.steps.steps import Steps, find_steps
from explane.analysis.swimlane import swimlane_table
from explane.analysis.trust.reconcile import Records, check_table, largest_device_count, reconcile
from explane.analysis.trust.replay_checks import replay_checks
from explane.analysis.trust.trust import TrustInputs, new_capture_table, trust_items, trust_table
from explane.analysis.verdict.budget import Budgets, stream_budgets
from explane.analysis.verdict.idle import idle_gaps
from explane.analysis.verdict.latency import Latency
from explane.analysis.verdict.skip import launch_rows, skip_metrics
from explane.analysis.verdict.verdict import Expected, find_verdict
from explane.capture.model import MISSING, Capture, HostCapture
from explane.capture.program import Program
from explane.memory import freed, give_back, lean_stage
from explane.options import Options
from explane.progress import NULL, Progress

_ALLOCATIONS: Final = ("MemoryAllocation", "MemoryDeallocation")
"""Host events of XLA's allocators."""


_IN_BOTH: Final = (
    "host", "device", "stream", "start_ps", "duration_ps", "kernel", "kind", "correlation_id",
    "step", "time_ok",
)  # fmt: skip
"""Columns that `kernels` and `rows` have alike; a report keeps each once in memory."""


@dataclass(frozen=True, slots=True)
class _Base:
    """Results that need no program."""

    record: HostCapture
    join: LaunchJoin
    steps: Steps
    budgets: Budgets


Told = Callable[[str, pl.DataFrame], None]
"""Who wants to know a table of the result, by stem, before the others are known."""


def no_one(_stem: str, _table: pl.DataFrame) -> None:
    """Nobody wants to know."""


def investigate_host(
    record: HostCapture,
    options: Options | None = None,
    progress: Progress = NULL,
    told: Told = no_one,
    memory: KnownPrograms | None = None,
) -> Investigation:
    """All results on one process.

    Args:
        record: Its capture and the JSON beside it.
        options: Choices; None for the defaults.
        progress: Told what is being done.
        told: Told of `rows` and `kernels`, which are long to write, as soon as they are final.
        memory: Programs of other processes that this worker has seen; None for a process alone.
    """
    chosen, capture = options or Options(), record.main
    with lean_stage(progress, "hlo: programs"):
        programs, broken = read_programs(capture.programs)
        facts = program_facts(programs, chosen.user_re, memory)
    with lean_stage(progress, "attribute: kernels to instructions"):
        attribution = attribute(capture, programs, chosen.programs, facts.schedules)
        record = with_refined_kinds(record, programs, attribution)
    with lean_stage(progress, "analyse: launches, steps"):
        base = _base(record)
    with lean_stage(progress, "attribute: kernels, self-check"):
        tables = _how_tables(record.main, facts, attribution)
        tables["kernels"] = _kernels(record.main, base.steps, facts, attribution)
    told("kernels", tables["kernels"])
    with lean_stage(progress, "analyse: verdict"):
        found, latency = _verdict_tables(base, expected_of(capture, programs))
        rows = freed(launch_rows(record.main, base.join, base.steps, latency))
        tables |= found | {"rows": rows.with_columns(tables["kernels"].select(_IN_BOTH))}
        del rows, latency
    told("rows", tables["rows"])
    with lean_stage(progress, "attribute: operations, lines"):
        tables |= _sum_tables(tables["kernels"])
    with lean_stage(progress, "analyse: collectives, critical path, roofline"):
        gpu, found = _step_tables(base, facts, attribution, tables["kernels"], chosen)
        tables |= found
    with lean_stage(progress, "analyse: reconciliation"):
        tables |= _trust_tables(base, programs, attribution, tables)
    return Investigation(
        hosts=(host_facts(record, gpu),),
        tables=tables,
        sources=(),
        not_analysed=tuple(_not_analysed(base, tables, broken)),
        programs=facts.files(capture),
        partial=capture.partial or bool(record.xplane_problem),
    )


Load = Callable[[], HostCapture]
"""Reads a process's capture. What makes few tables of it takes this in place of a capture, so that
nobody else holds the parts that are done with."""


def investigate_verdict(load: Load, progress: Progress = NULL, rows: bool = True) -> Investigation:
    """Step 1 alone: launches, steps, budgets, idle gaps, SKIP metrics and the verdict.

    Args:
        load: Reads one process's capture.
        progress: Told what is being done.
        rows: Whether the table with a row per kernel is wanted.
    """
    record = load()
    with lean_stage(progress, "analyse: verdict"):
        base = _base(record)
        tables, latency = _verdict_tables(base)
        join, steps = base.join, base.steps
        del base
        record = record.without_host_events()  # nothing else asks for them
        if rows:
            give_back()
            tables["rows"] = launch_rows(record.main, join, steps, latency)
    return Investigation(
        hosts=(host_facts(record),),
        tables=tables,
        sources=(),
        not_analysed=(),
        programs=(),
        partial=record.main.partial or bool(record.xplane_problem),
    )


def investigate_attribution(
    load: Load,
    options: Options | None = None,
    progress: Progress = NULL,
    memory: KnownPrograms | None = None,
) -> Investigation:
    """Step 4 alone: kernels to instructions and lines, with the self-check.

    Args:
        load: Reads one process's capture.
        options: Choices; None for the defaults.
        progress: Told what is being done.
        memory: As for `investigate_host`.
    """
    chosen, record = options or Options(), load()
    with lean_stage(progress, "analyse: launches, steps"):
        steps = find_steps(record.main)
        record = record.without_host_events()  # nothing else asks for them
    with lean_stage(progress, "hlo: programs"):
        programs, broken = read_programs(record.main.programs)
        facts = program_facts(programs, chosen.user_re, memory)
    with lean_stage(progress, "attribute: kernels to instructions"):
        attribution = attribute(record.main, programs, chosen.programs, facts.schedules)
        record = with_refined_kinds(record, programs, attribution)
        tables = _how_tables(record.main, facts, attribution)
        record = record.without_launches()  # nor for these from here on
    with lean_stage(progress, "attribute: kernels, self-check"):
        tables["kernels"] = _kernels(record.main, steps, facts, attribution)
    result = Investigation(
        hosts=(host_facts(record),),
        tables=tables,
        sources=(),
        not_analysed=tuple(_broken_programs(broken)),
        programs=facts.files(record.main),
        partial=record.main.partial or bool(record.xplane_problem),
    )
    del record, steps, attribution  # a third of the memory that sums over kernels would add to
    with lean_stage(progress, "attribute: operations, lines"):
        return replace(result, tables=tables | _sum_tables(freed(tables["kernels"])))


def merge(investigations: Sequence[Investigation]) -> Investigation:
    """Results of several processes as one: tables below each other, hosts in order."""
    if len(investigations) == 1:
        return investigations[0]
    stems = dict.fromkeys(stem for one in investigations for stem in one.tables)
    return Investigation(
        hosts=tuple(host for one in investigations for host in one.hosts),
        tables={
            stem: pl.concat(
                [one.tables[stem] for one in investigations if stem in one.tables],
                how="diagonal_relaxed",
            )
            for stem in stems
        },
        sources=tuple(dict.fromkeys(s for one in investigations for s in one.sources)),
        not_analysed=tuple(dict.fromkeys(n for one in investigations for n in one.not_analysed)),
        programs=tuple(p for one in investigations for p in one.programs),
        partial=any(one.partial for one in investigations),
    )


def _base(record: HostCapture) -> _Base:
    join = freed(join_launches(record.main))
    steps = freed(find_steps(record.main, join))
    return _Base(record, join, steps, freed(stream_budgets(record.main, steps)))


def _verdict_tables(
    base: _Base, expected: Expected | None = None
) -> tuple[dict[str, pl.DataFrame], Latency]:
    """Steps, streams, devices, idle, SKIP and the verdict; what rows need beside them."""
    capture = base.record.main
    skip = freed(skip_metrics(capture, base.join, base.steps))  # first: it needs most memory
    idle = freed(idle_gaps(capture, base.join, base.steps, base.budgets))
    verdict = find_verdict(base.record, base.join, base.steps, base.budgets, idle, expected)
    tables: dict[str, pl.DataFrame] = {
        "steps": base.steps.table,
        "streams": base.budgets.table,
        "devices": base.budgets.devices,
        "step_budgets": base.budgets.steps,
        "idle": idle.table,
        "idle_causes": idle.summary,
        "skip": skip.table,
        "top_kernels": skip.top_kernels,
        "verdict": verdict.table,
        "verdict_parts": verdict.parts_table,
    }
    return tables, skip.latency


def _how_tables(
    capture: Capture, facts: ProgramFacts, attribution: Attribution
) -> dict[str, pl.DataFrame]:
    """How kernels were attributed, and how often that comes back right where it is known."""
    checked = freed(selfcheck(capture, facts.programs, attribution, facts.schedules)).table
    how = freed(attribution.how(capture.kernels))
    return {
        "how": _with_host(how, capture.host),
        "selfcheck": _with_host(checked, capture.host),
    }


def _kernels(
    capture: Capture, steps: Steps, facts: ProgramFacts, attribution: Attribution
) -> pl.DataFrame:
    """Every kernel with its instruction and line."""
    sources = op_sources(attribution, facts.programs, facts.lines)
    return kernel_table(capture.host, capture, attribution, sources, steps.kernel_step)


def _sum_tables(kernels: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Kernel time by instruction and by Python line."""
    return {"ops": freed(op_table(kernels)), "lines": line_table(kernels)}


def _step_tables(
    base: _Base,
    known: ProgramFacts,
    attribution: Attribution,
    kernels: pl.DataFrame,
    options: Options,
) -> tuple[str, dict[str, pl.DataFrame]]:
    """The GPU's name; collectives, stragglers, roofline, critical path, what-if, swimlanes."""
    capture, steps, programs = base.record.main, base.steps, known.programs
    collectives = find_collectives(capture.host, capture, programs, attribution, steps.kernel_step)
    stragglers = straggler_table(capture.host, capture, attribution, collectives)
    peaks = RooflineOptions(options.gpu or "", options.peak_flops_per_s, options.peak_bytes_per_s)
    roof = roofline(capture, programs, attribution, peaks, steps.kernel_step, known.costs)
    bus_bytes = collectives.table["bus_bytes"].cast(pl.Float64).to_numpy()
    facts = StepFacts(capture, base.join, attribution, programs, collectives.matched, bus_bytes)
    groups = kernel_groups(facts, roof)
    play = play_steps(facts, steps, kernels, groups)
    evidence = causes_seen(play.path, stragglers, roof.table, kernels)
    evidence |= groups_seen(facts, groups, kernels, play.in_median)
    gpu = roof.identity.gpu.name if roof.identity.gpu is not None else ""
    return gpu, {
        "collectives": collectives.table,
        "collective_ops": collectives.summary,
        "stragglers": stragglers,
        "roofline": roof.table,
        "roofline_steps": roof.steps,
        "roofline_coverage": _with_host(roof.coverage, capture.host),
        "critical_path": play.path,
        "critical_path_kinds": path_summary(play.path),
        "whatif": play.whatif,
        "advice": _advice(capture.host, steps, play, evidence),
        "swimlane": swimlane_table(
            capture, kernels, play.in_median, base.join.kernel_launch, play.on_path
        ),
    }


def _advice(host: str, steps: Steps, play: Play, evidence: Mapping[str, str]) -> pl.DataFrame:
    """Causes in the median step; where steps miss most of the work, only compilation.

    Steps that differ much are no reason to keep silent: the trust list says that the estimates
    are then of steps like the median step.
    """
    if play.median is None or steps.withheld != steps.uneven:
        return advice_table(host, play.whatif.clear(), MISSING, evidence, steps.table)
    return advice_table(host, play.whatif, play.median.window.number, evidence, steps.table)


def _trust_tables(
    base: _Base,
    programs: Mapping[int, Program],
    attribution: Attribution,
    tables: Mapping[str, pl.DataFrame],
) -> dict[str, pl.DataFrame]:
    """Reconciliation, trust list, new captures."""
    capture = base.record.main
    records = Records(
        base.record, base.join, base.steps.table, base.budgets.table, programs, attribution
    )
    played = replay_checks(tables["whatif"], tables["critical_path"], _median_step_ps(base.steps))
    checks = check_table(capture.host, (*reconcile(records), *played))
    items = trust_items(
        TrustInputs(
            record=base.record,
            kernels=tables["kernels"],
            checks=checks,
            selfcheck=tables["selfcheck"],
            steps=base.steps.table,
            verdict=tables["verdict"],
            n_partitions=largest_device_count(capture, programs, attribution),
            uneven=base.steps.uneven,
        )
    )
    total_ps = int(capture.kernels.duration_ps[capture.kernels.time_ok].sum())
    return {
        "checks": checks,
        "trust": trust_table(capture.host, items, total_ps),
        "new_captures": new_capture_table(capture.host, items),
    }


def _median_step_ps(steps: Steps) -> int | None:
    """Measured length of the median step; None without a complete one."""
    row = steps.median_row
    return int(steps.end_ps[row] - steps.start_ps[row]) if row >= 0 else None


def _not_analysed(
    base: _Base, tables: Mapping[str, pl.DataFrame], broken: Mapping[int, str]
) -> list[NotAnalysed]:
    """Parts without a result, and why."""
    found = _broken_programs(broken)
    capture = base.record.main
    if not capture.programs:
        reason = "the trace JSON holds no HLO" if capture.source == "json" else "no HLO is stored"
        found += [NotAnalysed("ops", reason), NotAnalysed("roofline", reason)]
    held = any(text.startswith(_ALLOCATIONS) for text in capture.strings)
    reason = "allocations are in the file and not read" if held else "the file has no memory data"
    found.append(NotAnalysed("memory", reason))
    if not tables["collectives"].height:
        found.append(NotAnalysed("collectives", "no collective kernels are in the capture"))
    if not tables["whatif"].height:
        reason = "no complete step was found, so no step can be played without a cause"
        missing = [] if tables["advice"].height else ["advice"]
        missing += ["critical path", "swimlanes"]
        found += [NotAnalysed(part, reason) for part in missing]
    elif base.steps.withheld and not tables["advice"].height:
        reason = f"{base.steps.withheld}: what steps would take without a cause is not estimated"
        found.append(NotAnalysed("advice", reason))
    return found


def _broken_programs(broken: Mapping[int, str]) -> list[NotAnalysed]:
    return [NotAnalysed("ops", f"program {i} can't be read: {why}") for i, why in broken.items()]


def _with_host(table: pl.DataFrame, host: str) -> pl.DataFrame:
    """A table with the host as its last column, unless it has one."""
    return table if "host" in table.columns else table.with_columns(pl.lit(host).alias("host"))
