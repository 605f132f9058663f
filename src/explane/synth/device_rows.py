"""Device planes and the truth table of a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from explane.capture.model import I32, I64, Bools
from explane.synth.annotations import annotation_stats
from explane.synth.correlation import Correlations
from explane.synth.devices import Vendor
from explane.synth.dialect import DeviceWork, Dialect, occupancy
from explane.synth.plan import Plan, PlannedKernel
from explane.synth.records import Copy, Run, Timeline
from explane.synth.scenario import Era, GraphLabels
from explane.synth.tables import (
    Events,
    LineSpec,
    PlaneTable,
    RowCollector,
    Stat,
    Template,
    TemplateSet,
    Text,
    Unsigned,
)
from explane.synth.timeline import COPY
from explane.synth.truth import Truth, TruthBlock, TruthEntry

_COPY_BYTES_PER_PS = 50e9 / 1e12
_LINE_WORDS = {"MemcpyD2D", "MemcpyH2D", "MemcpyD2H"}


class DeviceRows:
    """Builds the plane of one device and its part of the truth."""

    def __init__(self, timeline: Timeline, correlations: Correlations, ordinal: int) -> None:
        self._timeline = timeline
        self._correlations = correlations
        self._ordinal = ordinal
        scenario = timeline.scenario
        self._dialect = Dialect(timeline.device.vendor, scenario.tracer.era, scenario.seed)
        self._templates = TemplateSet()
        self._known: dict[tuple[int, int], I32] = {}
        self._rows = RowCollector()

    def build(self, truth: Truth) -> PlaneTable:
        """The plane; what the collector kept is added to the truth."""
        for run, ids in zip(self._timeline.runs, self._correlations.runs, strict=True):
            self._add_run(run, ids, truth)
        for step, all_ids in zip(self._timeline.steps, self._correlations.copies, strict=True):
            for copy, ids in zip(step.copies, all_ids, strict=True):
                self._add_copy(copy, step.offsets_ps, ids, truth)
        # The collector's columns here are (stream, template, …, truth code).
        events = self._recorded(self._rows.events(), truth)
        truth.blocks.append(_truth_block(events, self._ordinal))
        return self._plane(events)

    def _add_run(self, run: Run, ids: I64, truth: Truth) -> None:
        if not run.plan.kernels:
            return
        d = self._ordinal
        start = run.times.start_ps[d] + run.offsets_ps[:, None]
        call_of = np.zeros(len(run.plan.kernels), dtype=np.int64)
        for index, call in enumerate(run.plan.calls):
            call_of[call.first : call.first + call.count] = index
        self._rows.add(
            run.times.stream[d],
            self._plan_templates(run.plan, run.program_id),
            start,
            run.times.duration_ps[d],
            (ids[:, d][:, call_of], truth.codes(run.plan)),
        )

    def _add_copy(self, copy: Copy, offsets_ps: I64, ids: I64, truth: Truth) -> None:
        at = np.flatnonzero(copy.devices == self._ordinal)
        if not len(at):
            return
        i = int(at[0])
        size_bytes = (
            int(copy.duration_ps[i] * _COPY_BYTES_PER_PS) if copy.direction == "H2D" else 4
        )
        work = self._dialect.copy(copy.direction, size_bytes)
        template = self._templates.number(Template(work.name, *self._own_stats(work)))
        code = truth.code(TruthEntry(work.name, "", False, ""))
        start = copy.start_ps[i] + offsets_ps
        self._rows.add(COPY, template, start, copy.duration_ps[i], (ids[:, i], code))

    def _plan_templates(self, plan: Plan, program_id: int) -> I32:
        key = (id(plan), program_id)
        if key not in self._known:
            numbers = [
                self._templates.number(self._template(kernel, plan, program_id))
                for kernel in plan.kernels
            ]
            self._known[key] = np.array(numbers, dtype=np.int32)
        return self._known[key]

    def _template(self, kernel: PlannedKernel, plan: Plan, program_id: int) -> Template:
        before, after = self._own_stats(kernel.work)
        graphs = self._timeline.scenario.graphs
        if kernel.graph and self._dialect.vendor is Vendor.NVIDIA:
            after += self._graph_stats(kernel)
        if kernel.label or (kernel.graph and graphs.labels is not GraphLabels.NOTHING):
            after += annotation_stats(plan.program, program_id, kernel.label)
        return Template(kernel.work.name, before, after)

    def _graph_stats(self, kernel: PlannedKernel) -> tuple[Stat, ...]:
        graph_id = kernel.graph * self._timeline.n_devices + self._ordinal + 1
        stats: tuple[Stat, ...] = (("cuda_graph_id", Unsigned(graph_id)),)
        if self._timeline.scenario.graphs.node_ids:
            node = Unsigned((graph_id << 32) + kernel.node)
            stats += (("cuda_graph_node_id", node),)
        return stats

    def _own_stats(self, work: DeviceWork) -> tuple[tuple[Stat, ...], tuple[Stat, ...]]:
        """Stats before and after the correlation id that every event of the vendor has."""
        if self._dialect.vendor is Vendor.AMD:
            return (), (work.details,)
        stats: list[Stat] = []
        if self._dialect.era is Era.NEW:
            stats.append(("scope_range_id", 11 + self._ordinal))
        stats.append(("context_id", Text(f"$${self._ordinal + 1}")))
        if work.details[0] == "kernel_details":
            registers = int(work.details[1].split("regs:")[1].split()[0])
            stats.append(("theoretical_occupancy_pct", occupancy(registers)))
            stats.append(("occupancy_min_grid_size", 132))
            stats.append(("occupancy_suggested_block_size", 1024))
        return (), (*stats, work.details)

    def _recorded(self, events: Events, truth: Truth) -> Events:
        """What the collector kept, at the times that it believes."""
        tracer, seed = self._timeline.scenario.tracer, self._timeline.scenario.seed
        random = np.random.default_rng([seed, 902, self._ordinal])
        keep = np.ones(len(events), dtype=np.bool_)
        if tracer.lost_graph_ratio:
            lost = random.random(len(events)) < tracer.lost_graph_ratio
            keep &= ~(lost & truth.in_graph()[events.number])
        if tracer.one_per_launch:
            keep &= _last_of_launch(events) | ~truth.in_graph()[events.number]
        if tracer.device_end_ps is not None:
            keep &= events.start_ps < tracer.device_end_ps
        truth.n_lost += int((~keep).sum())
        kept = events.take(np.flatnonzero(keep))
        return Events(
            kept.line,
            kept.template,
            kept.start_ps + tracer.clock_skew_ps,
            kept.duration_ps,
            kept.correlation_id,
            kept.number,
        )

    def _plane(self, events: Events) -> PlaneTable:
        streams, line = np.unique(events.line, return_inverse=True)
        lines = self._lines(streams, line.astype(np.int32), events.template)
        no_number = np.full(len(events), -1, dtype=np.int64)
        placed = Events(
            line.astype(np.int32),
            events.template,
            events.start_ps,
            events.duration_ps,
            events.correlation_id,
            no_number,
        )
        return PlaneTable(
            name=f"/device:GPU:{self._ordinal}",
            plane_id=self._ordinal,
            lines=lines,
            templates=tuple(self._templates.templates),
            events=placed,
            stats=plane_stats(self._timeline),
        )

    def _lines(self, streams: I32, line: I32, template: I32) -> tuple[LineSpec, ...]:
        """Stream ids are the driver's: dense on new ROCm, far apart per device elsewhere."""
        scenario = self._timeline.scenario
        random = Random(f"{scenario.seed} streams")
        dense = self._dialect.vendor is Vendor.AMD and self._dialect.era is Era.NEW
        first = 2 if dense else random.randrange(13, 24) + 18 * self._ordinal
        specs = []
        for index in range(len(streams)):
            used = np.unique(template[line == index])
            names = {self._templates.templates[int(t)].name for t in used}
            specs.append(LineSpec(first + index, self._line_name(first + index, names, random)))
        return tuple(specs)

    def _line_name(self, stream_id: int, names: set[str], random: Random) -> str:
        if self._dialect.vendor is Vendor.AMD:
            return f"Stream #{stream_id}" + ("(Kernel)" if self._dialect.era is Era.OLD else "")
        words = sorted({_line_word(name) for name in names})
        random.shuffle(words)
        return f"Stream #{stream_id}({','.join(words)})"


def _last_of_launch(events: Events) -> Bools:
    """Which events are the latest to start of those with their correlation id."""
    order = np.lexsort((events.start_ps, events.correlation_id))
    ids = events.correlation_id[order]
    last = np.zeros(len(events), dtype=np.bool_)
    last[order] = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
    return last


def _line_word(name: str) -> str:
    if name in _LINE_WORDS:
        return name
    return "Memset" if name.startswith("Memset ") else "Compute"


def plane_stats(timeline: Timeline) -> dict[str, int | float | str | Unsigned]:
    """Stats of a device plane; bandwidth and memory size are stored unsigned."""
    unsigned = ("memory_bandwidth", "memory_size")
    return {
        key: Unsigned(value) if key in unsigned and isinstance(value, int) else value
        for key, value in timeline.device.stats.items()
    }


def idle_plane(timeline: Timeline, ordinal: int) -> PlaneTable:
    """The plane of a GPU that did nothing."""
    vendor = {"device_vendor": timeline.device.vendor.value}
    return PlaneTable(f"/device:GPU:{ordinal}", ordinal, stats=vendor)


def _truth_block(events: Events, ordinal: int) -> TruthBlock:
    return TruthBlock(
        ordinal,
        events.correlation_id,
        events.start_ps,
        events.duration_ps,
        events.number.astype(np.int32),
    )


def device_planes(
    timeline: Timeline, correlations: Correlations, truth: Truth
) -> Sequence[PlaneTable]:
    """Planes of all devices, idle ones behind the others."""
    n_devices, n_idle = timeline.n_devices, timeline.scenario.tracer.n_extra_devices
    busy = [DeviceRows(timeline, correlations, d).build(truth) for d in range(n_devices)]
    return [*busy, *(idle_plane(timeline, n_devices + i) for i in range(n_idle))]
