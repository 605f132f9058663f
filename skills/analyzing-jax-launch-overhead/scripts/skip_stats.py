#!/usr/bin/env python3
"""Launch overhead of one JAX GPU trace: verdict, budgets, idle causes, SKIP figures, rows.csv.

    python3 -I -S skip_stats.py HOST.trace.json.gz [-o DIR]

Standard library only and one file, for machines where nothing can be installed. It is a second,
independent implementation of what `explane verdict` computes; a test holds both against each
other. Times are integer picoseconds since the session start. Definitions are printed in skip.json
and explained in SKILL.md. Exit codes: 0 done, 1 the trace can't be used, 2 wrong call.
"""

# ruff: noqa: B905, PTH123, RUF007 - for older Pythons too

import argparse
import csv
import gzip
import json
import re
import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from heapq import merge
from operator import add
from pathlib import Path

CHUNK = 1 << 20
LONGEST_EVENT = 64 << 20
KINDS = ("compute", "collective", "memcpy", "memset")
WAIT_TOLERANCE_PS = 5_000_000  # how soon after what it waited for a kernel must start
XLA_EVENT_CAP = 1_000_000
CAUSES_OF_KIND = {"compute": "wait_stream", "collective": "wait_collective"}

COLLECTIVE = re.compile(
    r"(?:void\s+)?(?:\w+::)*_*(?:nccl|rccl|msccl|nvshmem|rocshmem)|\[?(?:cuda|cu|hip)?[ _]?memcpy"
    r"[ _]?(?:p2p|ptop|peer)|(?:\w*_)?(?:one|two)_?shot_?all_?reduce",
    re.IGNORECASE,
)
INSTRUCTION = re.compile(
    r"(?:all_reduce|all_gather|reduce_scatter|all_to_all|ragged_all_to_all|collective_permute"
    r"|collective_broadcast)(?:_start)?(?:_\d+)*(?:\.kd)?$"
)
COPY = re.compile(r"__amd_rocclr_copy|\[?(?:cuda|cu|hip)?[ _]?memcpy(?!_?fusion|_kernel)", re.I)
FILL = re.compile(r"__amd_rocclr_fill|\[?(?:cuda|cu|hip)?[ _]?memset(?!_?fusion|_kernel)", re.I)
MARKER = re.compile(r"\W*(?:hsa|hip|roctx|nvtx|cuda)?[ _]?(?:marker|barrier)(?:[ _-]?\w+)?$", re.I)
NO_STREAM = re.compile(
    r"Steps$|XLA |Framework |TensorFlow |Source code$|Launch Stats$|CUPTI overhead|_counters_"
)
API = re.compile(r"(?:cu|cuda|hip|hsa_)[A-Z]|(?:hsa|hip|cuda|cu)_|CudaGraph\w*:")
MAKES_WORK = re.compile(r"Launch(?!HostFunc)|[Mm]emcpy|[Mm]emset")
GRAPH_LAUNCH = re.compile(r"(?:cu|cuda|hip)?GraphLaunch(?![a-z])")
GRAPH_LABEL = re.compile(r"(?:command_buffer|call)(?:[._]\d+)*$")
EXECUTE = (
    re.compile(r":XLA GPU module"),
    re.compile(r"GpuExecutable::ExecuteThunks"),
    re.compile(r"::EnqueueExecution$|LoadedExecutable::ExecuteHelper$"),
    re.compile(r"LoadedExecutable::Execute\w*$|^PJRT_LoadedExecutable_Execute$"),
    re.compile(r"^(?:Pjit|Pmap|Jit|Xla)\w*Function\(|^PjitFunction"),
)
COMPILE = re.compile(
    r"^(?!\$).*(?<!pre)(?<!de)compil(?!ed)"
    r"|^\$(?:compiler|pxla|dispatch|compilation_cache|pjit|stages)\.py:\d+ \w*compile\w*$",
    re.IGNORECASE,
)
WAIT = re.compile(
    r"Await|Block(?:Host)?Until|block_until_ready|Synchronize|WaitFor|Wait for|^Wait\b|\bwait\b"
    r"|ToLiteral|SemaphoreAcquire|\bsleep\b|\bacquire\b|Barrier",
    re.IGNORECASE,
)


class Unusable(Exception):
    """The trace can't be analysed; the text is one line for the user."""


# ------------------------------------------------------------------------------------- reading


def chunks(path):
    """Text of a plain or gzip file, told by its first bytes, in pieces."""
    with open(path, "rb") as probe:
        packed = probe.read(2) == b"\x1f\x8b"
    opener = gzip.open if packed else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        while piece := file.read(CHUNK):
            yield piece


def batches(path):
    """Lists of trace events. A list ends where `[` + text + `]` is whole JSON."""
    source, text = chunks(path), ""
    begin = re.compile(r'"traceEvents"\s*:\s*\[')
    while not (found := begin.search(text)):
        piece = next(source, "")
        text += piece
        if not piece or len(text) > LONGEST_EVENT:
            raise Unusable("no JSON with traceEvents in it")
    text = text[found.end() :]
    for piece in source:
        text += piece
        batch, text = cut(text)
        if batch:
            yield batch
        elif len(text) > LONGEST_EVENT:
            raise Unusable("an event doesn't end within 64 MiB")
    yield rest(text)


def cut(text):
    """The events that end in a text, and the text behind them."""
    end = len(text)
    for _ in range(8):
        end = text.rfind("{", 0, end)
        before = text[:end].rstrip() if end > 0 else ""
        if not before.endswith(","):
            continue
        try:
            return json.loads(f"[{before[:-1]}]", strict=False), text[end:]
        except ValueError:
            continue
    return [], text


def rest(text):
    """The last events, one by one up to the end of the array or of the text."""
    decoder, place, events = json.JSONDecoder(strict=False), 0, []
    while (place := re.compile(r"[\s,]*").match(text, place).end()) < len(text):
        if text[place] == "]":
            break
        try:
            event, place = decoder.raw_decode(text, place)
        except ValueError:
            sys.stderr.write("the trace ends inside an event: it is cut\n")
            break
        events.append(event)
    return events


SMALL = {"kind": "b", "device": "i", "thread": "i", "name": "i", "label": "i", "module": "i"}


class Table:
    """Columns of equal length: machine numbers, one array each; `end` once it is sorted."""

    def __init__(self, *names):
        self.names = names
        for name in names:
            setattr(self, name, array(SMALL.get(name, "q")))
        self.appends = [getattr(self, name).append for name in names]

    def __len__(self):
        return len(self.start)

    def add(self, *values):
        """One row."""
        for append, value in zip(self.appends, values):
            append(value)

    def sort(self, *keys):
        """Rows by some columns, `-name` falling, file order among equals."""
        order = list(range(len(self)))
        for key in reversed(keys):  # one after the other: a key of several takes much memory
            order.sort(key=getattr(self, key.lstrip("-")).__getitem__, reverse=key[0] == "-")
        for name in self.names:
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, map(column.__getitem__, order)))
        self.end, self.appends = array("q", map(add, self.start, self.length)), None

    def rows_of(self, column, value):
        """Rows with a value of the column that the table is sorted by first."""
        values = getattr(self, column)
        return range(bisect_left(values, value), bisect_right(values, value))


class Trace:
    """What one file holds: kernels, launch calls and other host events, with names as codes."""

    def __init__(self, path):
        self.host = Path(path).name.split(".trace.json")[0]
        self.texts, self.codes = [], {}
        names = "device stream start length name kind correlation label graph module"
        self.kernels = Table(*names.split())
        self.launches = Table("thread", "start", "length", "name", "correlation")
        self.events = Table("thread", "start", "length", "name", "step")
        self.processes, self.lines, self.threads = {}, {}, {}
        self.kinds, self.streams, self.n_events, self.n_python = {}, {}, 0, 0
        unplaced = []
        for batch in batches(path):
            for event in batch:
                self.take(event, unplaced)
        for event in unplaced:
            self.take(event, None)
        self.kernels.sort("device", "start", "stream")
        self.launches.sort("start", "thread")
        self.events.sort("thread", "start", "-length")

    def code(self, text):
        """Number of a text."""
        found = self.codes.get(text)
        if found is None:
            found = self.codes[text] = len(self.texts)
            self.texts.append(text)
        return found

    def take(self, event, unplaced):
        """One trace event; those of a process that is not named yet are put off."""
        phase = event.get("ph") if isinstance(event, dict) else None
        if phase == "M":
            self.describe(event)
        elif phase == "X":
            start, pid = picoseconds(event.get("ts")), number(event.get("pid"))
            process = self.processes.get(pid)
            if start is None:
                return
            if process is not None:
                self.n_events += 1
                self.place(event, process, start, pid)
            elif unplaced is not None:
                unplaced.append(event)

    def describe(self, event):
        """Names of processes and threads; GPUs are told by name, never by number."""
        args = arguments(event)
        name = str(args.get("name", ""))
        if event.get("name") == "process_name":
            found = re.search(r"/device:GPU:(\d+)", name)
            role = int(found[1]) if found else "host" if "/host:CPU" in name else "other"
            self.processes.setdefault(number(event.get("pid")), role)
        elif event.get("name") == "thread_name":
            self.lines.setdefault((number(event.get("pid")), number(event.get("tid"))), name)

    def place(self, event, process, start, pid):
        """A complete event to its table."""
        if process == "other":
            return
        length = picoseconds(event.get("dur")) or 0
        length = 0 if length == 1 else length  # XLA writes at least 1 ps
        line, args = (pid, number(event.get("tid"))), arguments(event)
        name, correlation = str(event.get("name", "")), number(args.get("correlation_id"))
        if process == "host":
            thread = self.threads.setdefault(line, len(self.threads))
            if correlation >= 0:
                self.launches.add(thread, start, length, self.code(name), correlation)
            else:
                self.n_python += name.startswith("$")
                step = number(args.get("step_num"))
                self.events.add(thread, start, length, self.code(name), step)
        elif self.is_stream(line):
            kind = self.kind(name, args)
            if kind is not None:
                label, module = (
                    self.code(str(args[key])) if args.get(key) else -1
                    for key in ("hlo_op", "hlo_module")
                )
                graph = number(args.get("cuda_graph_id"))
                fields = (self.code(name), kind, correlation, label, graph, module)
                self.kernels.add(process, line[1], start, length, *fields)

    def is_stream(self, line):
        """Whether a line of a GPU holds what ran on it, by its name."""
        name = self.lines.get(line, "")
        if name not in self.streams:
            self.streams[name] = not NO_STREAM.match(name)
        return self.streams[name]

    def kind(self, name, args):
        """Number of a kernel's kind in KINDS; None for markers."""
        if name not in self.kinds:
            self.kinds[name] = kind_of(name)
        kind = self.kinds[name]
        if kind != 1 and "memset_details" in args:
            return 3
        return 2 if kind != 1 and "memcpy_details" in args else kind

    def thread_name(self, thread):
        """Name of a host thread."""
        lines = list(self.threads)
        return self.lines.get(lines[thread], "") if thread >= 0 else ""


def kind_of(name):
    """Kind of a kernel by its name, as a position in KINDS; None for markers."""
    if MARKER.match(name):
        return None
    if COLLECTIVE.match(name) or INSTRUCTION.match(name):
        return 1
    return 2 if COPY.match(name) else 3 if FILL.match(name) else 0


def arguments(event):
    """The `args` of an event; empty when it has none."""
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def picoseconds(microseconds):
    """A time of the JSON as whole picoseconds; None when it is no number below 50 days."""
    if not isinstance(microseconds, (int, float)) or not abs(microseconds) < 4.3e12:
        return None
    return round(microseconds * 1e6)


def number(text):
    """A whole number given as text or number, as 64 bits with sign; -1 for anything else."""
    if text is None:
        return -1
    try:
        value = int(text)
    except (TypeError, ValueError, OverflowError):
        return -1
    if value >= 1 << 63:
        value -= 1 << 64
    return value if -(1 << 63) <= value < 1 << 63 else -1


# ------------------------------------------------------------------------------------ intervals


class Parts:
    """Disjoint intervals, sorted: two arrays instead of a list of pairs."""

    def __init__(self):
        self.starts, self.ends = array("q"), array("q")

    def __len__(self):
        return len(self.starts)

    def __iter__(self):
        return zip(self.starts, self.ends)

    def add(self, start, end):
        """One interval that begins after all others."""
        self.starts.append(start)
        self.ends.append(end)


def union(parts):
    """Disjoint intervals, sorted, that cover the same time."""
    joined, late = Parts(), []
    starts, ends = joined.starts, joined.ends
    for start, end in parts:
        if end <= start:
            continue
        if not starts or start > ends[-1]:
            joined.add(start, end)
        elif start >= starts[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            late.append((start, end))
    return union(sorted([*joined, *late])) if late else joined


def covered(parts, start, end):
    """Time of [start, end) that disjoint sorted intervals cover."""
    starts, ends = parts.starts, parts.ends
    total, place = 0, max(bisect_right(starts, start) - 1, 0)
    while place < len(starts) and starts[place] < end:
        total += max(min(end, ends[place]) - max(start, starts[place]), 0)
        place += 1
    return total


def subtract(left, right):
    """Disjoint sorted intervals of `left` without those of `right`."""
    kept, place = Parts(), 0
    starts, ends = right.starts, right.ends
    for start, end in left:
        while place < len(ends) and ends[place] <= start:
            place += 1
        at = place
        while at < len(starts) and starts[at] < end:
            if starts[at] > start:
                kept.add(start, starts[at])
            start, at = max(start, ends[at]), at + 1
        if start < end:
            kept.add(start, end)
    return kept


def shares(parts):
    """Time of each kind, none of it twice: overlap goes to the first kind in KINDS.

    Args:
        parts: (start, end, kind) of the events.
    """
    by_kind = [union((s, e) for s, e, kind in parts if kind == k) for k in range(len(KINDS))]
    times, taken = [], Parts()
    for own in by_kind:
        left = subtract(own, taken)
        times.append(sum(left.ends) - sum(left.starts))
        taken = union(merge(taken, left))
    return times


def innermost(trace, thread, starts, ends, wanted=None):
    """Per window the innermost event of a thread that covers at least half of it.

    Only events whose name code is `wanted` count (None: all). Gives rows, -1 for none.
    """
    events = trace.events
    rows = events.rows_of("thread", thread)
    row, last = rows.start, rows.stop
    found, stack = array("q", [-1]) * len(starts), []
    middles = array("q", (start + (end - start) // 2 for start, end in zip(starts, ends)))
    for index in sorted(range(len(middles)), key=middles.__getitem__):
        start, end, middle = starts[index], ends[index], middles[index]
        while row < last and events.start[row] <= middle:
            if wanted is None or wanted[events.name[row]]:
                stack.append(row)
            row += 1
        if stack:
            stack = [event for event in stack if events.end[event] > middle]
        for event in reversed(stack):
            part = min(events.end[event], end) - max(events.start[event], start)
            if 2 * part >= end - start:
                found[index] = event
                break
    return found


# ------------------------------------------------------------------------------------- launches


class Launched:
    """Which call launched each kernel, and its launch-to-start time in parts.

    t_l = kernel start - call start, 0 where clock skew makes it negative. call: the call's own
    time, at most t_l. floor: the least of (t_l - call) seen on a stream that had run dry before
    the call, per device, graph launches apart. queue: the rest.
    """

    def __init__(self, trace):
        self.trace = trace
        kernels, names = trace.kernels, trace.texts
        self.good = good_times(kernels)
        self.can = [not API.match(n) or bool(MAKES_WORK.search(n)) for n in names]
        self.is_graph = [bool(GRAPH_LAUNCH.match(name)) for name in names]
        self.call_of = self.join()
        rows = range(len(kernels))
        self.known = bytearray(self.good[row] and self.call_of[row] >= 0 for row in rows)
        self.first = self.firsts()
        self.t_l, self.call, self.floor = array("q"), array("q"), array("q")
        self.raw = array("q")
        for row in rows:
            call = self.call_of[row] if self.known[row] else -1
            raw = kernels.start[row] - trace.launches.start[call] if call >= 0 else 0
            self.raw.append(raw)
            self.t_l.append(max(raw, 0))
            length = max(trace.launches.length[call], 0) if call >= 0 else 0
            self.call.append(min(length, max(raw, 0)))
        self.floors()
        self.homes, self.main = home_threads(trace), dispatch_thread(trace)
        self.layers = {d: device_layers(trace, self.good, d) for d in sorted(set(kernels.device))}

    def join(self):
        """Row of each kernel's call, or -1; of several calls with one id the latest before it."""
        launches, kernels = self.trace.launches, self.trace.kernels
        tables = [self.by_id(True), self.by_id(False)]
        calls = array("q")
        for start, number_ in zip(kernels.start, kernels.correlation):
            call = -1
            for ids, rows in tables if number_ >= 0 else ():
                place = bisect_left(ids, number_)
                while place < len(ids) and ids[place] == number_:
                    if call < 0 or launches.start[rows[place]] <= start:
                        call = rows[place]
                    place += 1
                if call >= 0:
                    break
            calls.append(call)
        return calls

    def by_id(self, can):
        """Correlation ids of the calls that can make device work, or of the others, and rows."""
        launches = self.trace.launches
        names, ids = launches.name, launches.correlation
        rows = [row for row in range(len(launches)) if bool(self.can[names[row]]) is can]
        rows.sort(key=ids.__getitem__)
        return array("q", map(ids.__getitem__, rows)), array("q", rows)

    def firsts(self):
        """Whether each kernel is the first one of its launch."""
        earliest, starts = array("q", [-1]) * len(self.trace.launches), self.trace.kernels.start
        for row, call in enumerate(self.call_of):
            if self.known[row]:
                now = earliest[call]
                if now < 0 or starts[row] <= starts[now]:
                    earliest[call] = row
        first = bytearray(len(starts))
        for row in earliest:
            if row >= 0:
                first[row] = 1
        return first

    def floors(self):
        """Fills `floor`: per device and kind of launch, else the least that was seen, else 0."""
        kernels, least = self.trace.kernels, {}
        reach = {}
        for row in range(len(kernels)):
            if not self.good[row]:
                continue
            lane = kernels.device[row], kernels.stream[row]
            call = self.call_of[row]
            start = self.trace.launches.start[call] if call >= 0 else None
            if self.first[row] and reach.get(lane, start) <= start:
                cell = kernels.device[row], self.is_graph[self.trace.launches.name[call]]
                wait = self.t_l[row] - self.call[row]
                least[cell] = min(least.get(cell, wait), wait)
            reach[lane] = max(reach.get(lane, kernels.end[row]), kernels.end[row])
        other = min(least.values(), default=0)
        for row, call in enumerate(self.call_of):
            graph = call >= 0 and self.is_graph[self.trace.launches.name[call]]
            floor = least.get((kernels.device[row], graph), other)
            self.floor.append(min(floor, self.t_l[row] - self.call[row]))

    def in_graph(self, row, siblings):
        """Whether a kernel ran inside a command buffer (CUDA or HIP graph)."""
        kernels, call = self.trace.kernels, self.call_of[row]
        label = kernels.label[row]
        if call >= 0 and self.is_graph[self.trace.launches.name[call]]:
            return True
        if kernels.graph[row] > 0 or (label >= 0 and GRAPH_LABEL.match(self.trace.texts[label])):
            return True
        return (
            label < 0 and siblings[kernels.correlation[row]] > 1 and kernels.correlation[row] >= 0
        )

    def sums(self, rows):
        """SKIP figures over some kernels."""
        kernels = self.trace.kernels
        rows = [row for row in rows if self.good[row]]
        first = [row for row in rows if self.first[row]]
        joined = [row for row in rows if self.known[row]]
        time = sum(kernels.length[row] for row in rows)
        raw = sorted(self.raw[row] for row in first)
        call, floor = (sum(c[row] for row in first) for c in (self.call, self.floor))
        tklqt = sum(self.t_l[row] for row in first)
        return {
            "n_kernels": len(rows),
            "n_kernels_with_launch": len(joined),
            "n_launches": len(first),
            "kernel_time_ps": time,
            "akd_ps": time // len(rows) if rows else 0,
            "tklqt_ps": tklqt,
            "tklqt_per_kernel_ps": sum(self.t_l[row] for row in joined),
            "tklqt_call_ps": call,
            "tklqt_floor_ps": floor,
            "tklqt_queue_ps": tklqt - call - floor,
            "median_t_l_ps": median(raw),
            "n_negative_t_l": sum(value < 0 for value in raw),
        }


def good_times(kernels):
    """False for kernels whose times can't be true: negative, or start and duration both 0."""
    unset = bytearray(not s and not d for s, d in zip(kernels.start, kernels.length))
    bad_zero = not all(unset)
    times = zip(kernels.length, unset)
    return bytearray(length >= 0 and not (zero and bad_zero) for length, zero in times)


def median(ordered):
    """Lower median of sorted numbers; 0 without any."""
    return ordered[(len(ordered) - 1) // 2] if ordered else 0


# ---------------------------------------------------------------------------------- idle causes


def budgets(trace, good):
    """Rows of streams.csv; per stream from its first start to its last end."""
    kernels, lanes = trace.kernels, defaultdict(lambda: array("q"))
    for row in range(len(kernels)):
        lanes[kernels.device[row], kernels.stream[row]].append(row)
    rows = []
    for (device, stream), members in sorted(lanes.items()):
        parts = [(kernels.start[r], kernels.end[r], kernels.kind[r]) for r in members if good[r]]
        span = max((p[1] for p in parts), default=0) - min((p[0] for p in parts), default=0)
        times = shares(parts)
        row = {"host": trace.host, "device": device, "stream": stream, "span_ps": span}
        row |= {f"{kind}_ps": time for kind, time in zip(KINDS, times)}
        rows.append(row | {"idle_ps": span - sum(times), "n_kernels": len(members)})
    return rows


def critical_streams(streams):
    """Per device the stream with most compute time, then most work, then the lowest id."""
    best = {}
    for row in streams:
        rank = (row["compute_ps"], row["span_ps"] - row["idle_ps"], -row["stream"])
        if row["device"] not in best or rank > best[row["device"]][0]:
            best[row["device"]] = rank, row["stream"]
    return {device: stream for device, (_, stream) in best.items()}


def gaps(trace, launched, device, stream):
    """(start, end, kernel after) of the idle gaps of one stream."""
    kernels = trace.kernels
    rows = kernels.rows_of("device", device)
    rows = [row for row in rows if kernels.stream[row] == stream and launched.good[row]]
    rows.sort(key=kernels.end.__getitem__, reverse=True)
    rows.sort(key=kernels.start.__getitem__)
    found, reach = [], None
    for row in rows:
        if reach is not None and kernels.start[row] > reach:
            found.append((reach, kernels.start[row], row))
        reach = max(kernels.end[row], reach) if reach is not None else kernels.end[row]
    return found


class Gaps:
    """Idle gaps of the critical streams with cause and host event, by device."""

    def __init__(self, trace, steps):
        self.trace, self.steps = trace, steps
        self.device, self.stream, self.cause = array("i"), array("q"), []
        self.start, self.length = array("q"), array("q")
        self.after, self.call, self.event = array("q"), array("q"), array("q")

    def __len__(self):
        return len(self.start)

    def __iter__(self):
        return map(self.row, range(len(self)))

    def add(self, device, stream, gap, call, cause):
        """One gap: (start, end, kernel after)."""
        self.device.append(device)
        self.stream.append(stream)
        self.start.append(gap[0])
        self.length.append(gap[1] - gap[0])
        self.after.append(gap[2])
        self.call.append(call)
        self.event.append(-1)
        self.cause.append(cause)

    def event_name(self, place):
        """The host event of a gap; empty for none."""
        event = self.event[place]
        return self.trace.texts[self.trace.events.name[event]] if event >= 0 else ""

    def row(self, place):
        """A row of idle.csv."""
        kernels, after = self.trace.kernels, self.after[place]
        return {
            "host": self.trace.host,
            "device": self.device[place],
            "stream": self.stream[place],
            "step": self.steps.shown(after),
            "start_ps": self.start[place],
            "duration_ps": self.length[place],
            "cause": self.cause[place],
            "host_event": self.event_name(place),
            "next_kernel": self.trace.texts[kernels.name[after]],
        }

    def parts(self, device, name):
        """Disjoint time of the gaps of a device that belong to a part of the time."""
        first, last = bisect_left(self.device, device), bisect_right(self.device, device)
        return union(
            (self.start[i], self.start[i] + self.length[i])
            for i in range(first, last)
            if name in parts_of(self.cause[i], self.length[i])
        )


def idle_gaps(trace, launched, streams, steps):
    """Every gap of the critical streams with cause and host event."""
    kernels, launches, found = trace.kernels, trace.launches, Gaps(trace, steps)
    for device, stream in sorted(critical_streams(streams).items()):
        others = [
            row
            for row in kernels.rows_of("device", device)
            if kernels.stream[row] != stream and launched.good[row] and kernels.length[row] > 0
        ]
        others.sort(key=kernels.end.__getitem__)
        ends = array("q", map(kernels.end.__getitem__, others))
        for gap in gaps(trace, launched, device, stream):
            start, end, after = gap
            call = launched.call_of[after]
            at = (launches.start[call], launches.end[call]) if call >= 0 else None
            cause = cause_of(start, end, at, waited_for(trace, others, ends, start, end))
            found.add(device, stream, gap, call, cause)
    name_host_events(trace, launched, found)
    return found


def waited_for(trace, rows, ends, start, end):
    """Kind of the kernel of another stream that ended inside a gap and just before its end."""
    place = bisect_right(ends, end) - 1
    if place < 0 or ends[place] <= start or end - ends[place] > WAIT_TOLERANCE_PS:
        return None
    return KINDS[trace.kernels.kind[rows[place]]]


def cause_of(start, end, call, waited):
    """Why a gap is there, from its launch call and from what ended just before it."""
    if call is None:
        return "unknown"
    before = min(max(call[0] - start, 0), end - start)
    inside = max(min(call[1], end) - max(call[0], start), 0)
    if waited and 2 * (end - start - before - inside) >= end - start:
        return CAUSES_OF_KIND.get(waited, "wait_copy")
    if 2 * inside >= end - start:
        return "launch_call_long"
    return "queue" if call[0] < start else "host_late"


def name_host_events(trace, launched, found):
    """Gives late gaps the host event that fills the time before their launch call."""
    homes, main, by_thread = launched.homes, launched.main, defaultdict(list)
    for place, cause in enumerate(found.cause):
        if cause == "host_late":
            by_thread[homes[trace.launches.thread[found.call[place]]]].append(place)
    missing = []
    for thread, places in by_thread.items():
        missing += fill_names(trace, thread, found, places)
    if main >= 0:
        fill_names(trace, main, found, missing)


def fill_names(trace, thread, found, places):
    """Host events from one thread; returns the gaps that it has none for."""
    starts = array("q", map(found.start.__getitem__, places))
    ends = array("q", (trace.launches.start[found.call[place]] for place in places))
    missing = []
    for place, event in zip(places, innermost(trace, thread, starts, ends)):
        if event >= 0:
            found.event[place] = event
        else:
            missing.append(place)
    return missing


def home_threads(trace):
    """Per launching thread the one whose host events surround its calls, itself if it can be."""
    starts = defaultdict(lambda: array("q"))
    for thread, start in zip(trace.launches.thread, trace.launches.start):
        starts[thread].append(start)
    candidates = sorted(set(trace.events.thread))
    return {thread: home_of(trace, thread, calls, candidates) for thread, calls in starts.items()}


def home_of(trace, thread, calls, candidates):
    """The tightest thread around at least half of some calls."""
    sample = calls[:: max(len(calls) // 2000, 1)]
    scores = []
    for candidate in dict.fromkeys([thread, *candidates]):
        found = innermost(trace, candidate, sample, sample)
        inside = [event for event in found if event >= 0]
        if 2 * len(inside) < len(sample):
            continue
        if candidate == thread:
            return thread
        lengths = sorted(trace.events.length[event] for event in inside)
        middle = (lengths[(len(lengths) - 1) // 2] + lengths[len(lengths) // 2]) / 2
        scores.append((-min(len(inside) / len(sample), 0.9), middle, candidate))
    return min(scores)[2] if scores else thread


def dispatch_thread(trace):
    """The thread with most step markers, else with most time in execute calls; -1 for none."""
    events = trace.events
    marked = Counter(t for t, step in zip(events.thread, events.step) if step >= 0)
    if not marked:
        calls = [any(p.search(text) for p in EXECUTE) for text in trace.texts]
        for row in range(len(events)):
            if calls[events.name[row]]:
                marked[events.thread[row]] += events.length[row]
    return min(marked, key=lambda thread: (-marked[thread], thread)) if marked else -1


# ---------------------------------------------------------------------------------------- steps


def execute_events(trace, launched, wanted):
    """Per kernel the innermost host event of some names around its launch, -1 for none."""
    launches, by_thread = trace.launches, defaultdict(lambda: array("q"))
    for call in range(len(launches)) if any(wanted) else ():
        by_thread[launched.homes[launches.thread[call]]].append(call)
    event_of = array("q", [-1]) * len(launches)
    for thread, calls in by_thread.items():
        moments = array("q", map(launches.start.__getitem__, calls))
        for call, event in zip(calls, innermost(trace, thread, moments, moments, wanted)):
            event_of[call] = event
    return array("q", (event_of[call] if call >= 0 else -1 for call in launched.call_of))


def nested(events, wanted):
    """Whether no two events of a thread overlap without nesting; else they are no calls."""
    reach = {}
    for row in range(len(events)):
        if wanted[events.name[row]]:
            thread, end = events.thread[row], reach.get(events.thread[row], events.start[row])
            if events.start[row] < end < events.end[row]:
                return False
            reach[thread] = max(end, events.end[row])
    return True


class Steps:
    """Steps per device: from step markers, else from executions on the host, else by repetition.

    A kernel belongs to the step whose marker began last before its launch. A step's window on a
    device ends with its last kernel and begins where the step before ended. Left out of medians:
    the first step, steps after a missing one, during which the host compiles, with an odd number
    of kernels, or (if few are) more than 1.5 times longer or shorter than the median.
    """

    def __init__(self, trace, launched):
        self.trace, self.launched = trace, launched
        self.numbers, self.windows, self.source = [], [], "unknown"
        events, compiles = trace.events, [bool(COMPILE.search(text)) for text in trace.texts]
        rows = (row for row in range(len(events)) if compiles[events.name[row]])
        self.compiling = union((events.start[row], events.end[row]) for row in rows)
        self.of_kernel = array("q", [-1]) * len(trace.kernels)
        runs = self.executions()
        if not self.by_markers(runs) and runs:
            self.source, self.of_kernel = "inferred", runs
            self.numbers = list(range(max(runs) + 1))
            self.windows = self.host_windows()
        self.rows = self.tile() if self.source != "unknown" else []

    def complete(self, device):
        """Complete steps of a device."""
        return [row for row in self.rows if row["device"] == device and row["complete"]]

    def withheld(self):
        """Why medians over the steps can't stand for the workload; empty when they can."""
        kernels, lengths = self.trace.kernels, []
        for device in sorted({row["device"] for row in self.rows}):
            lengths.append(sorted(row["duration_ps"] for row in self.complete(device)))
        slowest = max(lengths, key=median, default=[])
        if not slowest:
            return "no complete step"
        good = [d if ok else 0 for d, ok in zip(kernels.length, self.launched.good)]
        held = sum(d for d, step in zip(good, self.of_kernel) if step >= 0)
        if self.source != "marker" and held < 0.75 * sum(good):
            return "inferred steps hold less than three quarters of the kernel time"
        if slowest[-1] / max(slowest[0], 1) > 1.5:
            return f"complete steps differ by a factor of {slowest[-1] / max(slowest[0], 1):.2f}"
        return ""

    def shown(self, row):
        """Number of a kernel's step as shown; empty for none."""
        return self.numbers[self.of_kernel[row]] if self.of_kernel[row] >= 0 else ""

    def moment(self, row):
        """When a kernel was launched, as far as known."""
        call = self.launched.call_of[row]
        return self.trace.launches.start[call] if call >= 0 else self.trace.kernels.start[row]

    def by_markers(self, runs):
        """Steps from host events with a step_num; False when none has GPU work."""
        events, launched = self.trace.events, self.launched
        marks = [row for row in range(len(events)) if events.step[row] >= 0]
        threads = Counter(events.thread[row] for row in marks)
        if not threads:
            return False
        thread = max(threads, key=lambda t: (threads[t], -t))
        marks = [row for row in marks if events.thread[row] == thread]
        begins = [events.start[row] for row in marks]
        index = array("q")
        for row, call in enumerate(launched.call_of):
            index.append(bisect_right(begins, self.moment(row)) - 1 if call >= 0 else -1)
        inside = [i >= 0 and self.moment(r) < events.end[marks[i]] for r, i in enumerate(index)]
        length = self.trace.kernels.length
        if 2 * sum(d for d, i in zip(length, inside) if i) >= sum(length):
            ends = [events.end[row] for row in marks]  # what follows the last may be anything
            pauses = [begin - end for begin, end in zip(begins[1:], ends)]
            limit = max(ends) + max(min(pauses, default=0), 0)
            late = (self.moment(row) >= limit for row in range(len(index)))
            index = array("q", (-1 if after else i for i, after in zip(index, late)))
        index = self.snapped(index, runs) if runs else index
        used = sorted(set(index) - {-1})
        if not used:
            return False
        place = {step: number_ for number_, step in enumerate(used)}
        self.of_kernel = array("q", (place.get(step, -1) for step in index))
        self.numbers = [events.step[marks[step]] for step in used]
        self.windows = [(events.start[marks[s]], events.end[marks[s]]) for s in used]
        self.source = "marker"
        return True

    def snapped(self, index, runs):
        """Whole executions to one marker each, where that makes launches per step more even."""
        kernels, result = self.trace.kernels, array("q", index)
        for device in sorted(set(kernels.device)):
            rows = [row for row in kernels.rows_of("device", device) if runs[row] >= 0]
            seen, calls = set(), []
            for row in rows:
                call = self.launched.call_of[row]
                if call not in seen:
                    seen.add(call)
                    calls.append(row)
            votes = defaultdict(Counter)
            for row in calls:
                votes[runs[row]][index[row]] += 1
            if len(votes) < 2:
                continue
            used = sorted({index[row] for row in calls} - {-1})
            if len(used) == len(votes):
                chosen = dict(zip(sorted(votes), used))
            else:
                chosen = {run: min(v, key=lambda i: (-v[i], i)) for run, v in votes.items()}
            if uneven(chosen[runs[row]] for row in calls) < uneven(index[row] for row in calls):
                for row in rows:
                    result[row] = chosen[runs[row]]
        return result

    def executions(self):
        """Execution of each kernel, counted per device; None when none can be told."""
        kernels, times = self.trace.kernels, Counter()
        for module, length in zip(kernels.module, kernels.length):
            times[module] += length if module >= 0 else 0
        main = max(times, key=times.get, default=-1)
        runs = None
        if main >= 0:
            for pattern in EXECUTE[:-1]:
                runs = runs or self.by_host_events(pattern, main)
        runs = runs or self.by_repetition((main, -1)) or self.by_repetition((main,))
        if main >= 0:  # the Python call says least
            runs = runs or self.by_host_events(EXECUTE[-1], main)
        return self.filled(runs) if runs else None

    def by_host_events(self, pattern, main):
        """Executions of the main program from the host event that runs it, around each launch."""
        trace, kernels, order, runs = self.trace, self.trace.kernels, defaultdict(dict), array("q")
        wanted = [bool(pattern.search(text)) for text in trace.texts]
        if not nested(trace.events, wanted):
            return None
        held = execute_events(trace, self.launched, wanted)
        mine = [module == main for module in kernels.module]
        time = sum(d for d, m, event in zip(kernels.length, mine, held) if m and event >= 0)
        if not time or time < 0.8 * sum(d for d, m in zip(kernels.length, mine) if m):
            return None
        own = {event for m, event in zip(mine, held) if m and event >= 0}
        pairs = {(d, trace.events.start[e], e) for d, e in zip(kernels.device, held) if e in own}
        for device, _, event in sorted(pairs):
            order[device][event] = len(order[device])
        for device, event in zip(kernels.device, held):
            runs.append(order[device].get(event, -1))
        return runs

    def by_repetition(self, modules):
        """Executions from the launches of some programs: the rarest regular return."""
        kernels, runs = self.trace.kernels, array("q", [-1]) * len(self.trace.kernels)
        for rows in self.by_launch():
            rows = [row for row in rows if kernels.module[row] in modules]
            items, keys = {}, []
            for row in rows:
                if self.item(row) not in items:
                    items[self.item(row)] = len(keys)
                    keys.append(self.key(row))
            numbers = returns(keys)
            for row in rows:
                runs[row] = numbers[items[self.item(row)]]
        return runs if max(runs, default=-1) > 0 else None

    def by_launch(self):
        """Kernels of each device in order of their launch."""
        kernels = self.trace.kernels
        for device in sorted(set(kernels.device)):
            rows = list(kernels.rows_of("device", device))  # by start
            rows.sort(key=self.moment)
            yield rows

    def filled(self, runs):
        """Other programs between two executions count to the later one."""
        for rows in self.by_launch():
            following = -1
            for row in reversed(rows):
                following = runs[row] if runs[row] >= 0 else following
                runs[row] = following if runs[row] < 0 and following > 0 else runs[row]
        return runs

    def item(self, row):
        """What counts once in the sequence: a launch, or a kernel without one."""
        call = self.launched.call_of[row]
        return call if call >= 0 else -2 - row

    def key(self, row):
        """What has to come back for the sequence of launches to repeat."""
        kernels, launches, call = (
            self.trace.kernels,
            self.trace.launches,
            self.launched.call_of[row],
        )
        name = launches.name[call] if call >= 0 else -1
        if call >= 0 and self.launched.is_graph[name]:
            return "graph", name, kernels.label[row], kernels.graph[row]
        return "kernel", name, kernels.label[row], kernels.name[row]

    def host_windows(self):
        """First launch to end of last launch of each inferred step."""
        launches, windows = self.trace.launches, {}
        for row, step in enumerate(self.of_kernel):
            if step >= 0 and self.launched.good[row]:
                call, start = self.launched.call_of[row], self.moment(row)
                end = launches.end[call] if call >= 0 else start
                low, high = windows.get(step, (start, end))
                windows[step] = min(low, start), max(high, end)
        return [windows.get(step, (0, 0)) for step in range(len(self.numbers))]

    def tile(self):
        """Rows of steps.csv: windows that touch, per device; why one is left out."""
        kernels, cells = self.trace.kernels, defaultdict(lambda: array("q"))
        for row, step in enumerate(self.of_kernel):
            if step >= 0 and self.launched.good[row]:
                cells[kernels.device[row], step].append(row)
        rows, before = [], None
        for (device, step), members in sorted(cells.items()):
            first = min(kernels.start[row] for row in members)
            end = max(kernels.end[row] for row in members)
            start, follows = first, False
            if before and before["device"] == device:
                follows = step == before["index"] + 1
                follows &= self.numbers[step] - before["step"] <= 1
                end = max(end, before["end_ps"])
                start = before["end_ps"] if follows else max(before["end_ps"], first)
            row = {"host": self.trace.host, "device": device, "step": self.numbers[step]}
            row |= {"start_ps": min(start, end), "end_ps": end, "complete": 0}
            row |= {"source": self.source, "duration_ps": end - min(start, end)}
            row |= {"n_kernels": len(members), "reason_incomplete": "", "index": step}
            rows.append(row | {"first_kernel_ps": first, "follows": follows, "members": members})
            before = row
        self.judge(rows)
        return rows

    def judge(self, rows):
        """Fills `complete` and the reason where a step is not."""
        for device in sorted({row["device"] for row in rows}):
            mine = [row for row in rows if row["device"] == device]
            counts = Counter(row["n_kernels"] for row in mine)
            usual, times = min(counts.items(), key=lambda item: (-item[1], item[0]))
            low = high = usual
            if 2 * times <= len(mine):
                usual = median(sorted(row["n_kernels"] for row in mine))
                low, high = 0.75 * usual, 1.25 * usual
            for row in mine:
                compiled = self.compile_ps(row["index"])
                if compiled and compiled >= min(1_000_000_000, 0.01 * row["duration_ps"]):
                    row["reason_incomplete"] = "the host compiles"
                elif row is mine[0] and len(mine) > 1:
                    row["reason_incomplete"] = "first step: its beginning is not in the capture"
                elif row is not mine[0] and not row["follows"]:
                    row["reason_incomplete"] = "the step before it is missing"
                elif not low <= row["n_kernels"] <= high:
                    row["reason_incomplete"] = f"{row['n_kernels']} kernels, {usual} are usual"
            self.outliers([row for row in mine if not row["reason_incomplete"]])
        for row in rows:
            row["complete"] = int(not row["reason_incomplete"])

    def outliers(self, rows):
        """Marks few steps that are much longer or shorter than the others."""
        usual = max(median(sorted(row["duration_ps"] for row in rows)), 1)
        far = [r for r in rows if not 1 / 1.5 <= r["duration_ps"] / usual <= 1.5]
        for row in far if 4 * len(far) <= len(rows) else ():
            row["reason_incomplete"] = "much longer or shorter than the median step"

    def compile_ps(self, step):
        """Compilation on the host between the dispatch of the step before and a step's own."""
        since = self.windows[step - 1][1] if step else -(1 << 62)
        return covered(self.compiling, since, self.windows[step][1])


def returns(keys):
    """Number of the repetition of each item of a sequence; all 0 when it doesn't repeat.

    The rarest key that comes back at equal distances marks the repetitions.
    """
    places = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    by_count = defaultdict(list)
    for found in places.values():
        if len(found) > 1:
            by_count[len(found)].append(found)
    for count in sorted(by_count)[:64]:
        regular = []
        for found in by_count[count]:
            steps = [after - before for before, after in zip(found, found[1:])]
            usual = int(sum(sorted(steps)[i] for i in ((count - 2) // 2, (count - 1) // 2)) / 2)
            even = steps.count(usual) >= 0.75 * len(steps)
            if even and usual * (count + 1) >= len(keys):
                regular.append((found[0], found, usual))
        if regular:
            return cut_at(keys, *min(regular)[1:])
    return [0] * len(keys)


def cut_at(keys, marks, usual):
    """Repetition of each item, from the places of the marks and what always stands before them."""
    lead = marks[0]
    same = [keys[mark - lead : mark] == keys[:lead] for mark in marks[1:]]
    if len(keys) - (marks[-1] - lead) <= usual and 4 * sum(same) >= 3 * len(same):
        marks = [mark - lead for mark in marks]
    return [bisect_right(marks, place) - 1 for place in range(len(keys))]


def uneven(steps):
    """How far the numbers of launches per step are from their median, summed."""
    counts = sorted(Counter(step for step in steps if step >= 0).values())
    return sum(abs(count - counts[len(counts) // 2]) for count in counts)


# ---------------------------------------------------------------------------- figures per step


def step_figures(trace, launched, steps):
    """(device, figure) -> values over the complete steps of the device."""
    figures, works, known = defaultdict(list), {}, {}
    for step in steps.rows:
        if not step["complete"]:
            continue
        device, window = step["device"], steps.windows[step["index"]]
        begin, end = min(window[0], step["first_kernel_ps"]), step["end_ps"]
        end = max(trace.kernels.end[row] for row in step["members"])
        if device not in works:
            works[device] = host_work(trace, launched, device, known)
        sums = launched.sums(step["members"])
        values = {
            "step_ps": step["duration_ps"],
            "il_ps": end - begin,
            "step_less_kernel_time_ps": step["duration_ps"] - sums["kernel_time_ps"],
            "gpu_idle_paper_ps": end - begin - sums["kernel_time_ps"],
            "gpu_idle_ps": end - begin - covered(launched.layers[device]["busy"], begin, end),
            "host_idle_ps": end - begin - covered(works[device], begin, end),
        }
        per_step = ("kernel_time_ps", "n_kernels", "n_launches", "akd_ps", "tklqt_ps")
        per_step += ("tklqt_per_kernel_ps", "tklqt_call_ps", "tklqt_floor_ps", "tklqt_queue_ps")
        for name, value in (values | {name: sums[name] for name in per_step}).items():
            figures[device, name].append(value)
    return figures


def device_layers(trace, good, device):
    """Disjoint time of compute, collectives without compute, and copies alone; and all of it."""
    kernels = trace.kernels
    rows = kernels.rows_of("device", device)

    def of_kind(kinds):
        return union(
            (kernels.start[row], kernels.end[row])
            for row in rows
            if kernels.kind[row] in kinds and good[row]
        )

    compute, collective, copies = of_kind((0,)), of_kind((1,)), of_kind((2, 3))
    both = union(merge(compute, collective))
    return {
        "compute": compute,
        "collective": subtract(collective, compute),
        "copy": subtract(copies, both),
        "busy": union(merge(both, copies)),
    }


def host_work(trace, launched, device, known):
    """Time in which a thread that launches for a device has an event and doesn't wait.

    `known` keeps what was found for a set of threads.
    """
    homes, main, launches = launched.homes, launched.main, trace.launches
    rows = trace.kernels.rows_of("device", device)
    calls = {
        launches.thread[call] for call in launched.call_of[rows.start : rows.stop] if call >= 0
    }
    threads = frozenset({homes[thread] for thread in calls} | ({main} - {-1}))
    if threads not in known:
        mine = [
            homes[thread] in threads if thread in homes else False for thread in launches.thread
        ]
        called = zip(launches.start, launches.end, mine)
        streams = [thread_work(trace, thread) for thread in threads]
        streams.append((start, end) for start, end, own in called if own)
        known[threads] = union(merge(*streams))
    return known[threads]


def thread_work(trace, thread):
    """Time in which a thread has an event and doesn't wait."""
    events, waits = trace.events, [bool(WAIT.search(text)) for text in trace.texts]

    def of_kind(waiting):
        return union(
            (events.start[row], events.end[row])
            for row in events.rows_of("thread", thread)
            if events.step[row] < 0 and waits[events.name[row]] is waiting
        )

    return subtract(of_kind(False), of_kind(True))


# -------------------------------------------------------------------------------------- verdict

DECIDES = 0.25
SHORT_GAP_PS = 10_000_000
PARTS = ("compute", "collective", "peer_late", "peer_host_late", "copy")
PARTS += ("host_late", "launch_call_long", "gap", "unexplained")
BOUNDS = {
    "host-bound": ("host_late", "launch_call_long", "peer_host_late"),
    "communication-bound": ("collective",),
    "copy-bound": ("copy",),
}
RULE = (
    "over the complete steps of all GPUs the largest of host (late or long launch calls, also of"
    " a GPU that a collective waits for), exposed communication and exposed copies decides from"
    " 25 % of the time on; else the workload is GPU-bound. Waiting for a slower GPU is no"
    " communication. Unexplained idle time of 25 % or missing records withhold the verdict"
)


def parts_of_time(trace, launched, steps, idle):
    """Shares of PARTS in the complete steps of all devices, or in their spans."""
    of_steps, times, total = not steps.withheld(), Counter(), 0
    waits, idle_of = peer_waits(trace, launched, steps), {}
    for device, layers in launched.layers.items():
        for name in ("host_late", "launch_call_long", "gap", "host"):
            idle_of[device, name] = subtract(idle.parts(device, name), layers["busy"])
    for device in devices_compared(trace, launched):
        layers = launched.layers[device]
        windows = [(row["start_ps"], row["end_ps"]) for row in steps.complete(device)]
        if not of_steps:
            busy = layers["busy"]
            windows = [(busy.starts[0], busy.ends[-1])] if busy else []
        for start, end in windows:
            found = {n: covered(layers[n], start, end) for n in ("compute", "collective", "copy")}
            for name in ("host_late", "launch_call_long", "gap"):
                found[name] = covered(idle_of[device, name], start, end)
            found["unexplained"] = end - start - sum(found.values())
            waiting, by_host = waiting_in(waits, device, (start, end), layers, idle_of)
            found["collective"] -= waiting
            found |= {"peer_late": waiting - by_host, "peer_host_late": by_host}
            times.update(found)
            total += end - start
    return {name: times[name] / total if total else 0.0 for name in PARTS}


def peer_waits(trace, launched, steps):
    """(device, start, latest start, late device, since) of collectives that wait for a peer.

    Matched across GPUs by label or name and occurrence in the step; only where all run together
    at the end. `since` is the end of the collectives before on the same GPU.
    """
    kernels, seen, matched, before = trace.kernels, Counter(), defaultdict(list), {}
    for row in range(len(kernels)):
        if kernels.kind[row] != 1 or not launched.good[row]:
            continue
        device, label = kernels.device[row], kernels.label[row]
        key = steps.of_kernel[row], label if label >= 0 else -2 - kernels.name[row]
        matched[key, seen[device, key]].append((row, before.get(device, -(1 << 61))))
        seen[device, key] += 1
        before[device] = max(before.get(device, kernels.end[row]), kernels.end[row])
    waits = []
    for members in matched.values():
        late = max(members, key=lambda m: (kernels.start[m[0]], kernels.device[m[0]]))[0]
        latest = kernels.start[late]
        if min(kernels.end[row] for row, _ in members) >= latest:
            for row, since in members:
                if kernels.start[row] < latest:
                    device, start = kernels.device[row], kernels.start[row]
                    waits.append((device, start, latest, kernels.device[late], since))
    return waits


def waiting_in(waits, device, window, layers, idle_of):
    """Exposed waiting for peers in a window: all of it, and what the late GPU's host made."""
    exposed, every, by_host = layers["collective"], [], 0
    for owner, start, latest, late, since in waits:
        if owner != device or latest <= window[0] or start >= window[1]:
            continue
        every.append((start, latest))
        if window[0] < latest <= window[1]:
            lost = covered(idle_of[late, "host"], since, latest)
            lost -= covered(idle_of[device, "host"], since, latest)
            by_host += min(max(lost, 0), covered(exposed, start, latest))
    apart = subtract(exposed, union(every))
    waiting = covered(exposed, *window) - covered(apart, *window)
    return waiting, min(by_host, waiting)


def parts_of(cause, length):
    """The parts of the time that an idle gap belongs to."""
    if cause in ("host_late", "launch_call_long"):
        return cause, "host"
    long = length > SHORT_GAP_PS
    return () if cause == "unknown" or (cause == "queue" and long) else ("gap",)


def devices_compared(trace, launched):
    """Devices but those with less than half of the usual compute time."""
    kernels = trace.kernels
    times = Counter(dict.fromkeys(kernels.device, 0))
    for row in range(len(kernels)):
        if launched.good[row] and kernels.kind[row] == 0:
            times[kernels.device[row]] += kernels.length[row]
    busy = sorted(time for time in times.values() if time)
    if not busy:
        return sorted(times)
    usual = (busy[(len(busy) - 1) // 2] + busy[len(busy) // 2]) / 2
    return sorted(device for device, time in times.items() if time >= 0.5 * usual)


def problems(trace, launched, steps):
    """Why the trace can't carry a verdict; empty when it can."""
    return [
        text
        for text in (
            cap_problem(trace),
            launch_problem(trace, launched),
            execution_problem(trace, launched),
            dispatch_problem(trace, launched),
            graph_problem(trace, launched, steps),
            clock_problem(launched),
            moment_problem(trace, launched, steps),
        )
        if text
    ]


def cap_problem(trace):
    """The converter's limit."""
    if trace.n_events < XLA_EVENT_CAP:
        return ""
    return f"the JSON holds {trace.n_events:,} events: its end was probably cut off"


def makes_work(trace, launched):
    """Per launch call whether it can make device work or a kernel joins it; and its kernels."""
    joined = Counter(call for call in launched.call_of if call >= 0)
    names = trace.launches.name
    return [launched.can[name] or joined[call] > 0 for call, name in enumerate(names)], joined


def launch_problem(trace, launched):
    """Launches whose kernels are missing; an empty graph may be honest."""
    usable, joined = makes_work(trace, launched)
    names = trace.launches.name
    empty = [c for c, ok in enumerate(usable) if ok and not joined[c]]
    n_empty = sum(not launched.is_graph[names[call]] for call in empty)
    if n_empty <= 0.1 * sum(usable):
        return ""
    return f"launches seen, kernels not recorded: {n_empty:,} of {sum(usable):,} have no kernel"


def execution_problem(trace, launched):
    """Executions on the host that left no GPU work, of programs that leave some elsewhere."""
    names = trace.events.name
    for pattern, limit in zip(EXECUTE, (0.1, 0.5, 0.5)):
        wanted = [bool(pattern.search(text)) for text in trace.texts]
        rows = [row for row in range(len(names)) if wanted[names[row]]]
        if rows:
            seen = set(execute_events(trace, launched, wanted)) - {-1}
            working = {names[row] for row in seen}
            empty = [row for row in rows if row not in seen]
            if len(empty) > limit * len(rows) and any(names[row] in working for row in empty):
                return f"{len(empty):,} of {len(rows):,} executions on the host show no GPU work"
            return ""
    return ""


def dispatch_problem(trace, launched):
    """Work that the host gives to the GPUs after their records end."""
    kernels, events = trace.kernels, trace.events
    last = max(kernels.end[row] for row in range(len(kernels)) if launched.good[row])
    gives = [any(p.search(text) for p in EXECUTE) for text in trace.texts]
    usable, _ = makes_work(trace, launched)
    starts = [s for s, ok in zip(trace.launches.start, usable) if ok]
    starts += [s for s, n, m in zip(events.start, events.name, events.step) if gives[n] or m >= 0]
    n_after = sum(start > last + 1_000_000_000 for start in starts)
    if n_after <= 0.1 * len(starts):
        return ""
    return f"{n_after:,} of {len(starts):,} dispatches come after the last GPU event"


def graph_problem(trace, launched, steps):
    """Graph launches at one place of the step whose number of kernels changes."""
    whole = {(row["device"], row["index"]) for row in steps.rows if row["complete"]}
    whole = {index for _, index in whole}
    joined, lanes = Counter(call for call in launched.call_of if call >= 0), defaultdict(dict)
    for row, call in enumerate(launched.call_of):
        graph = call >= 0 and launched.is_graph[trace.launches.name[call]]
        if graph and steps.of_kernel[row] in whole:
            lanes[trace.kernels.device[row], steps.of_kernel[row]][call] = None
    counts = defaultdict(set)
    for (device, _), calls in lanes.items():
        for place, call in enumerate(sorted(calls, key=lambda c: trace.launches.start[c])):
            counts[device, place].add(joined[call])
    n_uneven = sum(len(found) > 1 for found in counts.values())
    if n_uneven <= 0.1 * len(counts):
        return ""
    return f"kernels inside graphs are missing: {n_uneven:,} of {len(counts):,} launches vary"


def clock_problem(launched):
    """Kernels that start before their launch call."""
    raw = sorted(raw for raw, first in zip(launched.raw, launched.first) if first)
    return "host and GPU clocks don't agree" if median(raw) < 0 else ""


def moment_problem(trace, launched, steps):
    """A window with hardly any GPU work and no step after another."""
    if any(row["complete"] and row["index"] > 0 for row in steps.rows):
        return ""
    kernels, tables = trace.kernels, (trace.events, trace.launches)
    begin = min((start for table in tables for start in table.start), default=0)
    end = max((table.end[row] for table in tables for row in range(len(table))), default=0)
    busy = sum(d for d, good in zip(kernels.length, launched.good) if good)
    if busy >= 0.01 * (end - begin):
        return ""
    return f"the window holds {busy / (end - begin):.2%} GPU work: probably the wrong moment"


def verdict(trace, launched, steps, idle):
    """The word, its reason and the shares."""
    shares = parts_of_time(trace, launched, steps, idle)
    found = problems(trace, launched, steps)
    if not found and shares["unexplained"] >= DECIDES:
        found = [f"the GPUs idle for {shares['unexplained']:.1%} without an explanation"]
    if found:
        return "withheld", "; ".join(found), shares
    bounds = {word: sum(shares[name] for name in names) for word, names in BOUNDS.items()}
    word = max(bounds, key=bounds.get)
    if bounds[word] < DECIDES:
        word = "GPU-bound"
    named = [f"{name} {share:.1%}" for name, share in shares.items() if share >= 0.05]
    return word, ", ".join(named), shares


# --------------------------------------------------------------------------------------- output


def kernel_rows(trace, launched, steps):
    """Rows of rows.csv, the header first: every kernel with its launch, by device and time."""
    kernels, launches, texts = trace.kernels, trace.launches, trace.texts
    siblings = Counter(kernels.correlation)
    threads = {thread: trace.thread_name(thread) for thread in set(launches.thread)}
    yield KERNEL_COLUMNS
    for row, call in enumerate(launched.call_of):
        known, correlation = launched.known[row], kernels.correlation[row]
        launch, parts = ("",) * 4, ("",) * 4
        if call >= 0:
            name, thread = texts[launches.name[call]], threads[launches.thread[call]]
            launch = (launches.start[call], launches.length[call], thread, name)
        if known:
            t_l, own, floor = launched.t_l[row], launched.call[row], launched.floor[row]
            parts = (t_l, own, floor, t_l - own - floor)
        yield (
            trace.host,
            kernels.device[row],
            kernels.stream[row],
            steps.shown(row),
            texts[kernels.name[row]],
            KINDS[kernels.kind[row]],
            kernels.start[row],
            kernels.length[row],
            correlation if correlation >= 0 else "",
            *launch,
            *parts,
            int(launched.first[row]),
            int(launched.in_graph(row, siblings)),
            int(launched.good[row]),
        )


KERNEL_COLUMNS = ["host", "device", "stream", "step", "kernel", "kind", "start_ps", "duration_ps"]
KERNEL_COLUMNS += ["correlation_id", "launch_start_ps", "launch_duration_ps", "launch_thread"]
KERNEL_COLUMNS += ["launch_name", "t_l_ps", "call_ps", "floor_ps", "queue_ps", "first_of_launch"]
KERNEL_COLUMNS += ["in_graph", "time_ok"]


def in_columns(rows):
    """Rows that are dicts as lists, the names first; nothing of nothing."""
    for number_, row in enumerate(rows):
        if not number_:
            yield list(row)
        yield list(row.values())


def write_csv(path, rows):
    """A CSV file (RFC 4180); a quote disarms what a spreadsheet would take for a formula."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows(map(disarmed, rows))


def disarmed(row):
    """A row whose texts no spreadsheet takes for formulas; numbers as they are."""
    return [
        "'" + value if value.__class__ is str and value[:1] in FORMULA else value for value in row
    ]


FORMULA = frozenset("=+-@\t\r")


def skip_rows(trace, launched, figures):
    """Rows of skip.json: figures of the capture and, per device, medians over complete steps."""
    kernels, rows = trace.kernels, []
    for device in (None, *sorted(set(kernels.device))):
        mine = [r for r in range(len(kernels)) if device is None or kernels.device[r] == device]
        for metric, value in launched.sums(mine).items():
            rows.append({"device": device, "metric": metric, "value": value, "scope": "capture"})
    for (device, metric), values in figures.items():
        ordered = sorted(values)
        row = {"device": device, "metric": metric, "value": median(ordered), "scope": "step"}
        rows.append(row | {"low": ordered[0], "high": ordered[-1], "n": len(ordered)})
    return rows


def summary(idle):
    """Idle time by device, cause and host event, the longest first."""
    times, counts = Counter(), Counter()
    for place in range(len(idle)):
        key = idle.device[place], idle.cause[place], idle.event_name(place)
        times[key] += idle.length[place]
        counts[key] += 1
    total = Counter()
    for (device, _, _), time in times.items():
        total[device] += time
    for key, time in sorted(times.items(), key=lambda item: (item[0][0], -item[1], item[0])):
        yield key, counts[key], time, time / total[key[0]] if total[key[0]] else 0.0


def show(text):
    """One line on standard output, without control characters."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    sys.stdout.write(clean.encode("utf-8", "replace").decode() + "\n")


def report(trace, result, streams, idle, skip):
    """The summary on standard output; times in microseconds."""
    word, reason, _ = result
    kernels = len(trace.kernels)
    show(f"{trace.host}: {kernels:,} GPU events, {len(trace.launches):,} launch calls")
    show(f"verdict: {word} ({reason})")
    if trace.n_python:
        show(f"{trace.n_python:,} Python tracer events: they slow the host down")
    show("budget per stream, us: device stream span | compute collective memcpy memset idle")
    for row in streams:
        times = " ".join(f"{row[kind + '_ps'] / 1e6:.3f}" for kind in (*KINDS, "idle"))
        show(f"  {row['device']} {row['stream']} {row['span_ps'] / 1e6:.3f} | {times}")
    show("idle time of the critical streams: device cause host-event count us share")
    for (device, cause, event), count, time, share in list(summary(idle))[:40]:
        show(f"  {device} {cause} {event[:60] or '-'} {count} {time / 1e6:.3f} {share:.1%}")
    show("SKIP figures (all devices together; per device and step in skip.json)")
    for row in skip:
        if row["device"] is None:
            show(f"  {row['metric']} {row['value']:,}")


def analyse(path, folder):
    """All of it; writes rows.csv, steps.csv, streams.csv, idle.csv and skip.json."""
    trace = Trace(path)
    if not len(trace.kernels):
        raise Unusable("no GPU events: a CPU or TPU capture, or device tracing failed")
    launched = Launched(trace)
    if not any(launched.good):
        raise Unusable("no GPU event has a possible time")
    steps = Steps(trace, launched)
    streams = budgets(trace, launched.good)
    idle = idle_gaps(trace, launched, streams, steps)
    skip = skip_rows(trace, launched, step_figures(trace, launched, steps))
    result = verdict(trace, launched, steps, idle)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "rows.csv", kernel_rows(trace, launched, steps))
    hidden = ("follows", "members")
    shown = ({k: v for k, v in row.items() if k not in hidden} for row in steps.rows)
    write_csv(folder / "steps.csv", in_columns(shown))
    write_csv(folder / "streams.csv", in_columns(streams))
    write_csv(folder / "idle.csv", in_columns(idle))
    word, reason, shares = result
    facts = {"verdict": word, "reason": reason, "rule": RULE, "shares": shares, "figures": skip}
    text = json.dumps(facts, indent=1, ensure_ascii=True)
    (folder / "skip.json").write_text(text + "\n", encoding="utf-8")
    report(trace, result, streams, idle, skip)


def main(arguments=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", type=Path, help="HOST.trace.json.gz or .trace.json")
    parser.add_argument("-o", "--output", type=Path, default=Path("skip-stats"), metavar="DIR")
    chosen = parser.parse_args(arguments)
    try:
        analyse(chosen.trace, chosen.output)
    except Unusable as error:
        sys.stderr.write(f"{chosen.trace}: {error}\n")
        return 1
    except (OSError, EOFError, RecursionError, zlib.error) as error:
        sys.stderr.write(f"{chosen.trace}: can't be read or written: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
