"""The trace read back with protobuf and played as Perfetto's trace processor plays it."""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from explane.analysis.investigation import Investigation
from explane.export import perfetto
from explane.export.perfetto import write_perfetto
from tests.unit.export.made import US, investigation, kernel
from tests.unit.export.schemas import trace

BEGIN, END = 1, 2
HOSTILE = "evil\x1b[2J\n\x00<script>\u202e\"'/../\U0001f600"


@dataclass
class Slice:
    track: str
    name: str
    category: str
    start_ns: int
    arguments: dict[str, str | int]
    flows: list[int]
    end_ns: int = -1


@dataclass
class Played:
    """What a viewer knows after the last packet."""

    tracks: dict[int, str] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    merge_keys: dict[int, str] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)

    def on(self, track: str) -> list[Slice]:
        return [s for s in self.slices if s.track == track]


def played(made: Investigation) -> Played:
    """Reads a trace by the rules of the format; breaking one fails.

    Packets are sorted by time, those of one moment stay in the order of the file. Ends close the
    latest open slice of their track. Everything is named before it is used.
    """
    stream = io.BytesIO()
    write_perfetto(made, stream)
    packets = trace(stream.getvalue()).packet
    assert packets[0].sequence_flags == 1, "state is cleared first"
    assert {p.trusted_packet_sequence_id for p in packets} == {1}
    assert all(p.sequence_flags == 2 for p in packets[1:])
    result, texts, events = Played(), defaultdict[str, dict[int, str]](dict), []
    for packet in packets:
        if packet.HasField("track_descriptor"):
            _learn_track(result, packet.track_descriptor)
        elif packet.HasField("interned_data"):
            for index, entries in packet.interned_data.ListFields():
                for entry in entries:
                    assert entry.iid not in texts[index.name], "named twice"
                    texts[index.name][entry.iid] = entry.name
        elif packet.HasField("track_event"):
            event = packet.track_event
            assert event.track_uuid in result.tracks, "a track before its descriptor"
            begun = _slice(event, packet.timestamp, result, texts) if event.type == BEGIN else None
            events.append((packet.timestamp, event.track_uuid, begun))
    _close(result, events)
    return result


def _learn_track(result: Played, descriptor: Any) -> None:
    parent = result.tracks[descriptor.parent_uuid] + "|" if descriptor.parent_uuid else ""
    assert descriptor.uuid not in result.tracks
    assert descriptor.child_ordering == 3
    assert descriptor.sibling_merge_behavior == 3
    result.tracks[descriptor.uuid] = parent + descriptor.name
    result.order[parent + descriptor.name] = descriptor.sibling_order_rank
    result.merge_keys[descriptor.uuid] = descriptor.sibling_merge_key


def _slice(event: Any, time_ns: int, known: Played, texts: dict[str, dict[int, str]]) -> Slice:
    arguments = {
        texts["debug_annotation_names"][a.name_iid]: a.int_value
        if a.HasField("int_value")
        else texts["debug_annotation_string_values"][a.string_value_iid]
        for a in event.debug_annotations
    }
    (category,) = event.category_iids
    return Slice(
        known.tracks[event.track_uuid],
        texts["event_names"][event.name_iid],
        texts["event_categories"][category],
        time_ns,
        arguments,
        list(event.flow_ids),
    )


def _close(result: Played, events: list[tuple[int, int, Slice | None]]) -> None:
    running: dict[int, Slice] = {}
    for time_ns, track, begun in sorted(events, key=lambda event: event[0]):
        if begun is not None:
            assert track not in running, "slices of a lane overlap"
            running[track] = begun
            result.slices.append(begun)
        else:
            running.pop(track).end_ns = time_ns
    assert not running


def test_kernels_with_what_is_known_of_them() -> None:
    found = played(investigation([kernel(10 * US + 999, 2 * US, "dot.1", launch_ps=US)]))
    (one,) = found.on("node|GPU 0|Stream #13(Compute)")
    assert (one.name, one.category) == ("kernel_of_dot.1", "compute")
    assert (one.start_ns, one.end_ns) == (10_000, 12_000)
    assert one.arguments == {
        "hlo_instruction": "dot.1",
        "opcode": "fusion",
        "op_name": "jit(step)/layer/dot",
        "source": "/me/model.py:12",
        "line_from": "own",
        "match": "exact",
        "program": "jit_step",
        "step": 3,
        "correlation_id": 5,
        "queue_ps": 7,
        "start_ps": 10 * US + 999,
        "duration_ps": 2 * US,
    }


def test_a_kernel_without_instruction_says_why() -> None:
    (one,) = played(investigation([kernel(0, US, None)])).slices
    assert one.arguments["match"] == "none"
    assert one.arguments["why_no_match"] == "no candidate"
    assert not {"hlo_instruction", "op_name", "source", "queue_ps"} & set(one.arguments)
    assert one.flows == []


def test_every_kernel_has_an_arrow_from_its_launch() -> None:
    graph = [kernel((20 + i) * US, US, "add.2", launch_ps=2 * US) for i in range(3)]
    single = kernel(9 * US, US, launch_ps=US, device=1)
    found = played(investigation([*graph, single, kernel(40 * US, US)]))
    calls = found.on("node|threads|python")
    assert [(c.start_ns, c.arguments["n_kernels"], len(c.flows)) for c in calls] == [
        (1_000, 1, 1),
        (2_000, 3, 3),
    ]
    ends = defaultdict(list)
    for one in found.slices:
        for flow in one.flows:
            ends[flow].append(one)
    assert len(ends) == 4
    for call, launched in ends.values():
        assert sorted([call.category, launched.category]) == ["compute", "launch"]
    of_graph = [k for k in found.slices if k.category == "compute" and k.flows[:1]]
    assert {k.flows[0] for k in of_graph if k.track.startswith("node|GPU 0")} == set(
        calls[1].flows
    )


def test_overlapping_kernels_of_a_stream_are_drawn_on_lanes_of_one_name() -> None:
    times = [(0, 10), (4, 6), (10, 3), (5, 2)]
    found = played(investigation([kernel(a * US, b * US) for a, b in times]))
    assert len(found.slices) == 4
    assert sorted((s.start_ns // 1000, s.end_ns // 1000) for s in found.slices) == [
        (0, 10), (4, 10), (5, 7), (10, 13),
    ]  # fmt: skip
    lanes = [uuid for uuid, name in found.tracks.items() if name.endswith("Stream #13(Compute)")]
    assert len(lanes) == 3
    assert len({found.merge_keys[uuid] for uuid in lanes}) == 1


def test_rounding_never_makes_neighbours_overlap() -> None:
    random = np.random.default_rng(3)
    ends = np.cumsum(random.integers(0, 3_000, 500))
    rows = [kernel(a, b - a) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
    found = played(investigation(rows))
    assert len(found.slices) == 499
    assert sum(s.end_ns - s.start_ns for s in found.slices) == ends[-1] // 1000 - ends[0] // 1000


def test_steps_idle_gaps_and_the_critical_path() -> None:
    steps = [
        ("node", 0, 3, 100 * US, 150 * US, True, "marker", 9, ""),
        ("node", 1, 3, 100 * US, 160 * US, True, "marker", 9, None),
    ]
    idle = [
        ("node", 0, 13, 3, 110 * US, 4 * US, "host_late", "np.asarray", "k", None, "main", False),
        ("node", 0, 13, 3, 120 * US, 4 * US, "queue", None, "k", None, None, True),
    ]
    path = [
        (3, 0, 0, 50 * US, "compute", 1, "dot.1", "/me/model.py", 12, "node", 0, 7, "dot.1"),
        (3, 1, 50 * US, 10 * US, "host_late", None, "", None, None, "node", None, None, None),
    ]
    found = played(investigation([kernel(100 * US, US)], steps, idle, path))
    assert [(s.name, s.start_ns, s.end_ns) for s in found.on("node|GPU 1|steps")] == [
        ("step 3", 100_000, 160_000)
    ]
    (gap,) = found.on("node|GPU 0|Stream #13(Compute) idle")
    assert (gap.name, gap.arguments["host_event"]) == ("host_late", "np.asarray")
    first, last = found.on("node|critical path of step 3")
    assert (first.name, first.start_ns, first.end_ns) == ("dot.1", 100_000, 150_000)
    assert (last.name, last.start_ns, last.end_ns) == ("host_late", 150_000, 160_000)
    ranks = found.order
    assert ranks["node|critical path of step 3"] < ranks["node|GPU 0"] < ranks["node|GPU 1"]
    assert ranks["node|GPU 0|steps"] < ranks["node|GPU 0|Stream #13(Compute)"]


def test_false_times_are_left_out_and_counted() -> None:
    made = investigation([kernel(-(2**62), 5, time_ok=False), kernel(0, US)])
    lines = write_perfetto(made, io.BytesIO())
    assert lines == ("1 kernels whose times can't be true are not in the trace",)
    assert len(played(made).slices) == 1


def test_times_before_the_session_begin_move_the_axis() -> None:
    found = played(investigation([kernel(-5 * US, US), kernel(0, US)]))
    assert [s.start_ns for s in found.slices] == [0, 5_000]
    assert found.slices[0].arguments["start_ps"] == -5 * US


def test_two_hosts_have_trees_of_their_own() -> None:
    made = investigation(
        [kernel(0, US), kernel(0, US, host="other", launch_ps=-US)], hosts=("node", "other")
    )
    assert "not aligned" in write_perfetto(made, io.BytesIO())[-1]
    assert {s.track.split("|")[0] for s in played(made).slices} == {"node", "other"}


def test_hostile_names_stay_text_without_control_characters() -> None:
    rows = [
        kernel(
            0,
            US,
            kernel=HOSTILE,
            op_name=HOSTILE,
            launch_ps=0,
            launch_thread=HOSTILE,
            host=HOSTILE,
        )
    ]
    found = played(investigation(rows, hosts=(HOSTILE,)))
    shown = [*found.tracks.values(), *(s.name for s in found.slices)]
    shown += [v for s in found.slices for v in s.arguments.values() if isinstance(v, str)]
    assert any("<script>" in text for text in shown)
    assert all(text.isprintable() for text in shown)


def test_pieces_do_not_change_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [kernel(i * US, US // 2, launch_ps=(i // 4) * US) for i in range(40)]
    whole = played(investigation(rows))
    monkeypatch.setattr(perfetto, "_ROWS_PER_PIECE", 7)
    assert played(investigation(rows)).slices == whole.slices


def test_the_same_results_give_the_same_bytes() -> None:
    made = investigation([kernel(i * US, US, launch_ps=0, device=i % 2) for i in range(20)])
    one, two = io.BytesIO(), io.BytesIO()
    write_perfetto(made, one)
    write_perfetto(made, two)
    assert one.getvalue() == two.getvalue()


def test_nothing_to_show_is_an_empty_trace() -> None:
    assert played(investigation([])).slices == []
