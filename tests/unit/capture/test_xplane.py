"""What the reader makes of files built by hand, one fact of the format at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explane.capture.classify import refine_kinds
from explane.capture.model import Kind, Note, NoteKind
from explane.capture.options import ReadOptions
from explane.capture.xplane import read_xplane
from explane.errors import CaptureError
from tests.builders import (
    I64,
    U64,
    Event,
    Module,
    Packed,
    Plane,
    Space,
    StatValue,
    Str,
    bytes_field,
    entry,
    gpu_plane,
    host_plane,
    int_field,
    metadata_plane,
    task_environment,
    varint,
)


def _gpu_with(*events: Event) -> Plane:
    plane = gpu_plane()
    plane.line("Stream #7(Compute)", 7).events += events
    return plane


def _event(name: str = "k", start_ps: int | None = 10, **stats: StatValue) -> Event:
    return Event(name, start_ps, 5, stats)


def _note(notes: tuple[Note, ...], slug: str) -> Note:
    (found,) = [n for n in notes if n.slug == slug]
    return found


# ------------------------------------------------------------------------------- stat values


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (U64(7), 7),
        (I64(7), 7),
        (Str("7"), 7),
        ("7", 7),
        (7.0, 7),
        (b"7", 7),
        (Packed("7"), 7),
        (I64(-5), -5),
        (U64(2**63 + 3), 2**63 + 3 - 2**64),
        (Str(str(2**63 + 3)), 2**63 + 3 - 2**64),
        (Str("$$2"), -1),
        (7.5, -1),
        (float("nan"), -1),
        (Str("9" * 30), -1),
    ],
)
def test_a_number_is_read_from_any_type(tmp_path: Path, value: StatValue, number: int) -> None:
    space = Space([_gpu_with(_event(correlation_id=value))])
    assert read_xplane(space.write(tmp_path)).kernels.correlation_id.tolist() == [number]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("fusion.1", "fusion.1"),
        (Str("fusion.1"), "fusion.1"),
        (b"fusion.1", "fusion.1"),
        (Packed("fusion.1"), "fusion.1"),
        (I64(12345), "12345"),
        (I64(-12345), "-12345"),
        (U64(2**64 - 1), "18446744073709551615"),
        (0.5, "0.5"),
        (Str(""), ""),
    ],
)
def test_a_text_is_read_from_any_type(tmp_path: Path, value: StatValue, text: str) -> None:
    space = Space([_gpu_with(_event(hlo_op=value))])
    capture = read_xplane(space.write(tmp_path))
    assert [capture.text(c) for c in capture.kernels.hlo_op] == [text]


@pytest.mark.parametrize("n_events", [1, 200])
def test_stats_of_all_types_side_by_side(tmp_path: Path, n_events: int) -> None:
    """Few events go field by field, many alike go by layout: both must agree."""
    events = [
        Event(
            f"kernel {i % 3}",
            1000 * i + 17,
            i % 5 + 1,
            {
                "context_id": Str("$$2"),
                "correlation_id": U64(i + 1),
                "theoretical_occupancy_pct": 50.0,
                "kernel_details": "regs:12 grid:3,1,1",
                "hlo_op": Str(f"fusion.{i % 4}"),
                "program_id": I64(-(i % 2) - 1 - 2**40),
                "name": I64(i % 6),
                "cuda_graph_node_id": U64(2**63 + i),
            },
        )
        for i in range(n_events)
    ]
    capture = read_xplane(Space([_gpu_with(*events)]).write(tmp_path))
    kernels = capture.kernels
    rows = range(n_events)
    assert kernels.start_ps.tolist() == [1000 * i + 17 for i in rows]
    assert kernels.duration_ps.tolist() == [i % 5 + 1 for i in rows]
    assert [capture.text(c) for c in kernels.name] == [f"kernel {i % 3}" for i in rows]
    assert kernels.correlation_id.tolist() == [i + 1 for i in rows]
    assert [capture.text(c) for c in kernels.hlo_op] == [f"fusion.{i % 4}" for i in rows]
    assert kernels.program_id.tolist() == [-(i % 2) - 1 - 2**40 for i in rows]
    assert [capture.text(c) for c in kernels.scope_name] == [str(i % 6) for i in rows]
    assert kernels.graph_node_id.tolist() == [-(2**63) + i for i in rows]
    assert {capture.text(c) for c in kernels.details} == {"regs:12 grid:3,1,1"}
    assert kernels.graph_id.tolist() == [-1] * n_events


def test_a_compressed_text_that_expands_without_end_is_left_out(tmp_path: Path) -> None:
    bomb = Packed("x" * ((64 << 20) + 1))
    capture = read_xplane(Space([_gpu_with(_event(hlo_op=bomb))]).write(tmp_path))
    assert capture.kernels.hlo_op.tolist() == [-1]
    assert _note(capture.notes, "bad_compressed_text").count == 1


def test_bad_utf8_is_replaced_and_counted(tmp_path: Path) -> None:
    bad = b"\xff\xfek".decode("utf-8", "surrogateescape")
    capture = read_xplane(Space([_gpu_with(_event(name=bad))]).write(tmp_path))
    assert capture.text(int(capture.kernels.name[0])) == "��k"
    assert _note(capture.notes, "invalid_utf8").count == 1


def test_an_event_without_metadata_is_named_by_its_id_and_counted(tmp_path: Path) -> None:
    lost = Event("", 10, 5, {}, metadata_id=77)
    capture = read_xplane(Space([_gpu_with(_event(), lost)]).write(tmp_path))
    names = sorted(capture.text(c) for c in capture.kernels.name)
    assert names == ["<metadata 77 missing>", "k"]
    assert _note(capture.notes, "missing_metadata").count == 1


def test_the_map_key_beats_the_inner_id(tmp_path: Path) -> None:
    event = int_field(1, 3) + int_field(2, 10) + int_field(3, 5)
    line = int_field(1, 7) + bytes_field(2, "Stream #7") + bytes_field(4, event)
    metadata = entry(3, int_field(1, 999) + bytes_field(2, "by key"))
    plane = bytes_field(2, "/device:GPU:0") + bytes_field(3, line) + bytes_field(4, metadata)
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(bytes_field(1, plane))
    capture = read_xplane(path)
    assert [capture.text(c) for c in capture.kernels.name] == ["by key"]


def test_fields_in_any_order_and_unknown_fields(tmp_path: Path) -> None:
    unknown = (
        varint(200 << 3 | 5) + b"abcd" + varint(201 << 3 | 1) + b"abcdefgh" + int_field(31, 9)
    )
    stat = unknown + int_field(3, 42) + int_field(1, 1)
    event = bytes_field(4, stat) + unknown + int_field(3, 5) + int_field(1, 3) + int_field(2, 10)
    line = bytes_field(4, event) * 2 + unknown + int_field(3, 1) + bytes_field(2, "Stream #7")
    line += bytes_field(4, event) + int_field(1, 7)
    plane = bytes_field(5, entry(1, bytes_field(2, "correlation_id"))) + bytes_field(3, line)
    plane += (
        unknown + bytes_field(4, entry(3, bytes_field(2, "k"))) + bytes_field(2, "/device:GPU:4")
    )
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(unknown + bytes_field(1, plane) + bytes_field(4, "elsewhere"))
    capture = read_xplane(path)
    kernels = capture.kernels
    assert kernels.start_ps.tolist() == [1010] * 3
    assert kernels.correlation_id.tolist() == [42] * 3
    assert (kernels.device.tolist(), kernels.stream.tolist()) == ([4] * 3, [7] * 3)
    assert capture.host == "elsewhere"
    assert not capture.partial


def test_the_last_of_equal_fields_wins_as_in_protobuf(tmp_path: Path) -> None:
    stat = int_field(1, 1) + int_field(3, 1) + int_field(4, 2)
    event = int_field(1, 3) + int_field(2, 10) + int_field(2, 11) + int_field(3, 5)
    event += bytes_field(4, int_field(1, 1) + int_field(3, 9)) + bytes_field(4, stat)
    for n_events in (1, 100):
        line = int_field(1, 7) + bytes_field(2, "Stream #7") + bytes_field(4, event) * n_events
        plane = bytes_field(5, entry(1, bytes_field(2, "correlation_id"))) + bytes_field(3, line)
        path = tmp_path / f"{n_events}.xplane.pb"
        path.write_bytes(bytes_field(1, bytes_field(2, "/device:GPU:0") + plane))
        kernels = read_xplane(path).kernels
        assert kernels.start_ps.tolist() == [11] * n_events
        assert kernels.correlation_id.tolist() == [2] * n_events


# ------------------------------------------------------------------------------------- times


@pytest.mark.parametrize("n_events", [1, 100])
def test_aggregated_events_have_no_start_and_are_left_out(tmp_path: Path, n_events: int) -> None:
    counted = [Event("often", None, 5, {}, num_occurrences=9)] * n_events
    capture = read_xplane(Space([_gpu_with(_event(), *counted)]).write(tmp_path))
    assert len(capture.kernels) == 1
    assert _note(capture.notes, "aggregated_events").count == n_events


def test_starts_are_relative_to_their_line(tmp_path: Path) -> None:
    plane = gpu_plane()
    plane.line("Stream #1", 1, timestamp_ns=1000).event("a", 1_000_007, 5)
    plane.line("Stream #2", 2, timestamp_ns=500).event("b", 499_999, 5)
    capture = read_xplane(Space([plane]).write(tmp_path))
    assert capture.kernels.start_ps.tolist() == [499_999, 1_000_007]
    assert capture.kernels.stream.tolist() == [2, 1]


EPOCH_NS = 1_790_000_000_000_000_000


@pytest.mark.parametrize("session", [EPOCH_NS - 3, None])
def test_lines_that_count_from_the_epoch(tmp_path: Path, session: int | None) -> None:
    """Picoseconds since the epoch do not fit into 64 bits."""
    gpu, host = gpu_plane(), host_plane()
    gpu.line("Stream #1", 1, timestamp_ns=EPOCH_NS + 7).event("k", 1000 * EPOCH_NS + 9_000, 5)
    gpu.line("Stream #2", 2, timestamp_ns=0)
    host.line("python", 5, timestamp_ns=EPOCH_NS).event("h", 1000 * EPOCH_NS + 1_000, 5)
    planes = [gpu, host, *([task_environment(session, session + 9)] if session else [])]
    capture = read_xplane(Space(planes).write(tmp_path))
    first = 3_000 if session else 0
    assert capture.kernels.start_ps.tolist() == [first + 9_000]
    assert capture.host_events.start_ps.tolist() == [first + 1_000]
    assert capture.kernels.time_ok.all()
    assert _note(capture.notes, "epoch_times").kind is NoteKind.INFO


def test_broken_times_keep_their_row_and_are_named(tmp_path: Path) -> None:
    events = [Event("k", 10 + i, 5, {}) for i in range(50)]
    events += [Event("negative", 20, -1, {}), Event("unset", 0, 0, {})]
    events += [Event("zero", 30, 0, {}), Event("beyond", 2**63 - 1, 5, {})]
    plane = gpu_plane()
    plane.line("Stream #7", 7, timestamp_ns=0).events += events
    late = Event("late", 2**63 - 1 + 9_000, 5, {})
    plane.line("Stream #8", 8, timestamp_ns=9).events.append(late)
    capture = read_xplane(Space([plane]).write(tmp_path))
    bad = {capture.text(c) for c in capture.kernels.name[~capture.kernels.time_ok]}
    assert bad == {"negative", "unset", "beyond", "late"}
    assert len(capture.kernels) == 55
    assert _note(capture.notes, "negative_duration").count == 1
    assert _note(capture.notes, "unset_time").count == 1
    assert _note(capture.notes, "time_overflow").count == 2


# ------------------------------------------------------------------------------ planes, lines


def test_ids_of_streams_and_threads_are_any_64_bit_value(tmp_path: Path) -> None:
    gpu, host = gpu_plane(), host_plane()
    for line_id in (2**64 - 1, 2**63, 5):
        gpu.line(f"Stream #{line_id}", line_id).event("k", 10, 5)
        host.line(f"thread {line_id}", line_id).event("h", 10, 5)
    capture = read_xplane(Space([gpu, host]).write(tmp_path))
    assert capture.kernels.stream.tolist() == [-(2**63), -1, 5]
    assert [t.line_id for t in capture.threads] == [-1, -(2**63), 5]
    assert capture.host_events.thread.tolist() == [0, 1, 2]


def test_short_and_long_lines_side_by_side(tmp_path: Path) -> None:
    """Short lines share a block, long ones have their own; each keeps its base and its id."""
    gpu, host, expected = gpu_plane(), host_plane(), []
    for number, count in enumerate([3, 0, 5000, 1, 2, 0, 4000, 7, 1]):
        stream = gpu.line(f"Stream #{number}", 1000 + number, timestamp_ns=number)
        thread = host.line(f"thread {number}", 2000 + number, timestamp_ns=10 * number)
        for i in range(count):
            start = 20_000 + 100 * i + number
            stream.event("k", start, 5, correlation_id=U64(i + 1), hlo_op="x" * (i % 9))
            thread.event("call", start - 50, 5, correlation_id=U64(i + 1))
            thread.event("other", start - 60, 5)
            expected.append((1000 + number, start))
    capture = read_xplane(Space([gpu, host]).write(tmp_path))
    kernels, launches, events = capture.kernels, capture.launches, capture.host_events
    rows = zip(kernels.stream.tolist(), kernels.start_ps.tolist(), strict=True)
    assert sorted(rows) == sorted(expected)
    for table, shift in ((launches, 50), (events, 60)):
        ids = [capture.threads[t].line_id for t in table.thread]
        rows = zip(ids, table.start_ps.tolist(), strict=True)
        assert sorted(rows) == sorted((stream + 1000, start - shift) for stream, start in expected)
    assert len(capture.devices[0].streams) == len(capture.threads) == 9


@pytest.mark.parametrize("n_events", [2, 3000])
def test_a_head_that_stands_behind_the_events(tmp_path: Path, n_events: int) -> None:
    event = bytes_field(4, int_field(1, 3) + int_field(2, 10) + int_field(3, 5)) * n_events
    heads = [int_field(1, number) + int_field(3, number) for number in (7, 8)]
    lines = b"".join(bytes_field(3, event + head) for head in heads)
    name = bytes_field(2, "/device:GPU:0")
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(bytes_field(1, name + lines))
    kernels = read_xplane(path).kernels
    assert kernels.stream.tolist() == [7] * n_events + [8] * n_events
    assert kernels.start_ps.tolist() == [7010] * n_events + [8010] * n_events


def test_lines_that_hold_no_work_are_named_and_not_read(tmp_path: Path) -> None:
    gpu = gpu_plane()
    gpu.line("Stream #7(Compute)", 7).event("k", 10, 5)
    for name in ("Steps", "XLA Ops", "XLA Modules - from #7", "CUPTI overhead", "_counters_"):
        gpu.line(name, 100).event("derived", 10, 5)
    gpu.line("anything", 0xDEADBEEF + 5).event("derived", 10, 5)
    gpu.line("Stream #0(MemoryResidency)", 0).event("memory", 10, 5)
    capture = read_xplane(Space([gpu]).write(tmp_path))
    assert [capture.text(c) for c in capture.kernels.name] == ["k"]
    assert capture.devices[0].streams == {7: "Stream #7(Compute)"}
    assert _note(capture.notes, "lines_without_work").count == 7


def test_markers_are_counted_and_no_kernels(tmp_path: Path) -> None:
    events = [_event("Marker"), _event("Marker"), _event("hsa_barrier_packet"), _event("k")]
    events.append(_event("cuMemAlloc", memalloc_details="num_bytes:4"))
    capture = read_xplane(Space([_gpu_with(*events)]).write(tmp_path))
    assert [capture.text(c) for c in capture.kernels.name] == ["k"]
    assert capture.markers == {"Marker": 2, "cuMemAlloc": 1, "hsa_barrier_packet": 1}


def test_details_prove_the_kind_where_the_name_says_nothing(tmp_path: Path) -> None:
    events = [
        _event("x1", memcpy_details="kind_src:device kind_dst:device size:4"),
        _event("x2", memset_details="kind:device num_bytes:4"),
        _event("x3", kernel_details="regs:4"),
        _event("MemcpyP2P", memcpy_details="size:4"),
    ]
    capture = read_xplane(Space([_gpu_with(*events)]).write(tmp_path))
    kinds = dict(zip(capture.kernels.name.tolist(), capture.kernels.kind.tolist(), strict=True))
    found = {capture.text(code): Kind(kind) for code, kind in kinds.items()}
    assert found == {
        "x1": Kind.MEMCPY,
        "x2": Kind.MEMSET,
        "x3": Kind.COMPUTE,
        "MemcpyP2P": Kind.COLLECTIVE,
    }
    assert capture.text(int(capture.kernels.details[0])).startswith("kind_src")


def test_kinds_are_refined_by_opcodes_where_they_are_known(tmp_path: Path) -> None:
    names = ["all_gather_1", "triton", "triton", "MemcpyD2D", "Memset 0", "all_gather_1"]
    events = [Event(name, 10 * i, 5, {}) for i, name in enumerate(names)]
    capture = read_xplane(Space([_gpu_with(*events)]).write(tmp_path))
    opcode = np.array([0, 1, -1, 1, 1, -1], dtype=np.int32)
    kinds = refine_kinds(capture.kernels, capture.strings, opcode, ["fusion", "all-reduce-start"])
    assert [Kind(k).word for k in kinds] == [
        "compute",
        "collective",
        "compute",
        "collective",
        "memset",
        "collective",
    ]
    empty = read_xplane(Space([gpu_plane()]).write(tmp_path, "empty"))
    assert len(refine_kinds(empty.kernels, empty.strings, opcode[:0], [])) == 0


def test_labels_are_left_out_when_nobody_asks_for_them(tmp_path: Path) -> None:
    host, device = host_plane(), Plane("/device:GPU:0")
    host.line("python", 5).event(
        "hipLaunchKernel", 20, 2, correlation_id=U64(3), hlo_op="dot.1", program_id=I64(9)
    )
    stream = device.line("Stream #1(Kernel)", 1)
    stream.event(
        "gemm", 30, 2, correlation_id=U64(3), hlo_op="dot.1", program_id=I64(9), kernel_details="g"
    )
    path = Space([device, host]).write(tmp_path)
    whole, bare = read_xplane(path), read_xplane(path, ReadOptions(labels=False))
    for capture in (whole, bare):  # what finds steps stays
        assert capture.text(capture.kernels.hlo_op[0]) == "dot.1"
        assert capture.kernels.program_id.tolist() == [9]
    assert whole.text(whole.kernels.details[0]) == "g"
    assert whole.launches.program_id.tolist() == [9]
    for column in (bare.kernels.details, bare.launches.hlo_op, bare.launches.program_id):
        assert column.tolist() == [-1]


def test_host_events_are_launches_when_they_have_a_correlation_id(tmp_path: Path) -> None:
    host = host_plane()
    thread = host.line("python", 5)
    thread.event("hipGraphLaunch", 30, 2, correlation_id=U64(4), device_id=I64(768))
    thread.event(
        "hipLaunchKernel", 20, 2, correlation_id=U64(3), hlo_op="dot.1", program_id=I64(9)
    )
    thread.event("train", 10, 50, step_num=I64(12))
    thread.event("inner", 10, 60)
    capture = read_xplane(Space([host]).write(tmp_path))
    launches, events = capture.launches, capture.host_events
    assert launches.correlation_id.tolist() == [3, 4]
    assert launches.is_graph.tolist() == [False, True]
    assert launches.program_id.tolist() == [9, -1]
    assert [capture.text(c) for c in launches.hlo_op] == ["dot.1", ""]
    assert [capture.text(c) for c in events.name] == ["inner", "train"]
    assert events.step_num.tolist() == [-1, 12]


@pytest.mark.parametrize("n_events", [3, 300])
def test_python_events_are_counted_whether_kept_or_not(tmp_path: Path, n_events: int) -> None:
    host = host_plane()
    thread = host.line("python", 5)
    for i in range(n_events):
        thread.event("$train.py:12 step", 100 * i, 50)
        thread.event("Execute", 100 * i + 1, 5)
        thread.event("cuLaunchKernel", 100 * i + 2, 1, correlation_id=U64(i + 1))
    path = Space([host]).write(tmp_path)
    kept = read_xplane(path)
    dropped = read_xplane(path, ReadOptions(python_events=False))
    none = read_xplane(path, ReadOptions(host_events=False))
    assert [c.n_python_events for c in (kept, dropped, none)] == [n_events] * 3
    assert [c.n_host_events for c in (kept, dropped)] == [2 * n_events] * 2
    assert [len(c.host_events) for c in (kept, dropped, none)] == [2 * n_events, n_events, 0]
    assert [len(c.launches) for c in (kept, dropped, none)] == [n_events] * 3


@pytest.mark.parametrize("n_events", [3, 30_000])
def test_short_events_are_counted_and_gone_from_short_and_long_lines(
    tmp_path: Path, n_events: int
) -> None:
    host = host_plane()
    thread = host.line("python", 5)
    for i in range(n_events):
        thread.event("train", 10_000_000 * i, 9_000_000)
        thread.event("$train.py:12 step", 10_000_000 * i + 1, 499_999)
        thread.event("free", 10_000_000 * i + 600_000, 1)
        thread.event("free", 10_000_000 * i + 700_000, 500_000)
        thread.event("free", 10_000_000 * i + 9_000_000, 1)
    capture = read_xplane(Space([host]).write(tmp_path), ReadOptions(short_events=False))
    events = capture.host_events
    names = [capture.text(code) for code in events.name[:4].tolist()]
    assert names == ["train", "free", "free", "train"]
    assert events.duration_ps[:3].tolist() == [9_000_000, 500_000, 1]
    assert len(events) == 3 * n_events
    assert (capture.n_host_events, capture.n_python_events) == (5 * n_events, n_events)


def test_host_planes_that_were_never_merged_share_threads_by_id(tmp_path: Path) -> None:
    host, calls = host_plane(), Plane("/host:CUPTI")
    host.line("python", 5).event("Execute", 10, 50)
    calls.line("Host Threads/5", 5).event("cuLaunchKernel", 20, 5, correlation_id=U64(1))
    capture = read_xplane(Space([host, calls]).write(tmp_path))
    assert [t.name for t in capture.threads] == ["python"]
    assert capture.launches.thread.tolist() == capture.host_events.thread.tolist() == [0]


def test_kernels_are_sorted_by_device_start_and_stream(tmp_path: Path) -> None:
    planes = []
    for ordinal in (1, 0):
        plane = gpu_plane(ordinal)
        for stream in (9, 8):
            line = plane.line(f"Stream #{stream}", stream)
            for start in (30, 20, 20):
                line.event("k", start, 5, correlation_id=U64(len(line.events)))
        planes.append(plane)
    kernels = read_xplane(Space(planes).write(tmp_path)).kernels
    rows = zip(
        kernels.device, kernels.start_ps, kernels.stream, kernels.correlation_id, strict=True
    )
    once = [(20, 8, 1), (20, 8, 2), (20, 9, 1), (20, 9, 2), (30, 8, 0), (30, 9, 0)]
    assert [tuple(map(int, r)) for r in rows] == [(d, *r) for d in (0, 1) for r in once]


# -------------------------------------------------------------------- metadata of the capture


def test_device_stats_session_and_host(tmp_path: Path) -> None:
    space = Space([gpu_plane(3), task_environment(5, 9)], hostnames=["node7", "other"])
    capture = read_xplane(space.write(tmp_path, "file"))
    assert capture.devices[0].ordinal == 3
    assert capture.devices[0].stats["gpu_device_name"] == "NVIDIA H100 80GB HBM3"
    assert capture.devices[0].stats["memory_size"] == 85_031_714_816
    assert capture.session == {"profile_start_time": 5, "profile_stop_time": 9}
    assert capture.host == "node7"
    assert read_xplane(Space([gpu_plane()], hostnames=[]).write(tmp_path, "x")).host == "x"


@pytest.mark.parametrize(
    ("key", "name", "program_id"),
    [(15, "jit_f(15)", 15), (2, "jit_f(30)", 30), (4, "jit_f", 4), (4, "a(b)(7)", 7)],
)
def test_stored_programs_by_id(tmp_path: Path, key: int, name: str, program_id: int) -> None:
    for stat_name in ("Hlo Proto", "HLO Proto"):
        plane = metadata_plane(Module(key, name, b"\x0a\x03hlo", stat_name))
        capture = read_xplane(Space([plane]).write(tmp_path))
        stored = capture.programs[program_id]
        assert (stored.name, stored.hlo_proto) == (name, b"\x0a\x03hlo")
    path = Space([plane]).write(tmp_path)
    assert read_xplane(path, ReadOptions(programs=False)).programs == {}


def test_other_planes_are_named(tmp_path: Path) -> None:
    names = ["/device:TPU:0", "/device:CUSTOM:x", "/host:__ScopeRangeCallStack__", "/device:GPU:x"]
    space = Space([gpu_plane(), *map(Plane, names)])
    assert read_xplane(space.write(tmp_path)).other_planes == tuple(names)


DROPPED = (
    "Detected GPU events dropped on node01: Profiler has collected 2097152 driver events and "
    "2097152 device events."
)
FULL = "total device(GPU) events reached maximum; 7 events dropped because out of memory."


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"{DROPPED} 1,500 events dropped because {FULL}", 1507),
        (DROPPED, -1),
    ],
)
def test_drop_messages_become_losses(tmp_path: Path, text: str, count: int) -> None:
    space = Space([gpu_plane()], warnings=[text, "harmless"], errors=["CUPTI failed"])
    capture = read_xplane(space.write(tmp_path))
    note = _note(capture.notes, "dropped_events")
    assert (note.kind, note.count, note.text) == (NoteKind.LOSS, count, text)
    assert capture.warnings == (text, "harmless")
    assert capture.errors == ("CUPTI failed",)


def test_whole_graph_events_are_a_loss(tmp_path: Path) -> None:
    capture = read_xplane(Space([_gpu_with(_event("CudaGraphExec:12"))]).write(tmp_path))
    assert _note(capture.notes, "whole_graph_events").count == 1


# ---------------------------------------------------------------------------- unusable files


@pytest.mark.parametrize(
    ("content", "slug", "word"),
    [
        (b"", "empty-file", "empty"),
        (b"\x1f\x8b" + b"x" * 40, "corrupt", "gzip"),
        (b'{"traceEvents": []}', "corrupt", "JSON"),
        (b"\xef\xbf\xbd" * 100, "corrupt", "re-encoded"),
        (int_field(17, 4), "not-xspace", "no plane"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 40, "corrupt", "at byte 0"),
    ],
)
def test_files_without_a_plane_are_refused_in_one_line(
    tmp_path: Path, content: bytes, slug: str, word: str
) -> None:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=word) as refused:
        read_xplane(path)
    assert refused.value.slug == slug
    assert "\n" not in str(refused.value)


def test_a_file_that_is_absent_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.xplane.pb", tmp_path):
        with pytest.raises(CaptureError, match="can't be read"):
            read_xplane(path)


def test_numbers_are_columns_of_the_promised_types(tmp_path: Path) -> None:
    capture = read_xplane(Space([_gpu_with(_event())]).write(tmp_path))
    kernels = capture.kernels
    assert {kernels.start_ps.dtype, kernels.program_id.dtype} == {np.dtype(np.int64)}
    assert {kernels.name.dtype, kernels.device.dtype} == {np.dtype(np.int32)}
    assert (kernels.kind.dtype, kernels.time_ok.dtype) == (np.dtype(np.uint8), np.dtype(bool))


def test_a_file_over_two_gibibytes_is_read_by_its_length_fields(tmp_path: Path) -> None:
    """A sparse file: a plane with an unknown field of 2.5 GiB, then a GPU plane."""
    hole = 5 << 29
    kernels = Space([_gpu_with(_event(correlation_id=U64(9)))]).to_bytes()
    head = bytes_field(2, "/host:unknown") + varint(77 << 3 | 2) + varint(hole)
    path = tmp_path / "large.xplane.pb"
    with path.open("wb") as file:
        file.write(varint(1 << 3 | 2) + varint(len(head) + hole) + head)
        file.seek(hole, 1)
        file.write(kernels)
    capture = read_xplane(path)
    assert path.stat().st_size > 2**31
    assert capture.kernels.correlation_id.tolist() == [9]
    assert not capture.partial
