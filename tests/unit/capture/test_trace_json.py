"""trace.json in all the forms that writers and accidents give it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from explane.capture import json_events, trace_json
from explane.capture.model import Capture, Kind, NoteKind
from explane.capture.options import ReadOptions
from explane.capture.text_blocks import BlockReader
from explane.capture.trace_json import read_trace_json
from explane.errors import CaptureError

Event = dict[str, Any]


def named(kind: str, pid: int, name: str, tid: int | None = None) -> Event:
    made: Event = {"ph": "M", "pid": pid, "name": kind, "args": {"name": name}}
    return made if tid is None else made | {"tid": tid}


def event(name: str, pid: int, tid: int, ts: float, dur: float, **args: str) -> Event:
    made: Event = {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name}
    return made | {"args": args} if args else made


HEAD = [
    named("process_name", 1001, "/device:GPU:0"),
    named("thread_name", 1001, "Stream #22(Compute)", 22),
    named("process_name", 701, "/host:CPU"),
    named("thread_name", 701, "python", 7),
]


def kernels(count: int, first: int = 0) -> list[Event]:
    return [
        event(f"k_{n}", 1001, 22, 10.0 * n, 2.5, correlation_id=str(n), hlo_op=f"k.{n}")
        for n in range(first, first + count)
    ]


def launches(count: int) -> list[Event]:
    return [
        event("cuLaunchKernel", 701, 7, 10.0 * n - 4, 1.0, correlation_id=str(n), device_id="0")
        for n in range(count)
    ]


def text_of(events: list[Any], **dumps: Any) -> str:
    document = {"displayTimeUnit": "ns", "traceEvents": events}
    return json.dumps(document, **dumps)


def read(
    path: Path, events: list[Any] | str | bytes, options: ReadOptions | None = None
) -> Capture:
    made = text_of(HEAD + events) if isinstance(events, list) else events
    path.write_bytes(made.encode("utf-8", "surrogatepass") if isinstance(made, str) else made)
    return read_trace_json(path, options)


def names(capture: Capture) -> list[str]:
    return [capture.text(code) for code in capture.kernels.name.tolist()]


def slugs(capture: Capture) -> dict[str, int]:
    return {note.slug: note.count for note in capture.notes}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.trace.json"


@pytest.fixture(params=[64, 1000, 1 << 20])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks that end inside events, names and numbers."""
    size: int = request.param
    monkeypatch.setattr(trace_json, "BlockReader", lambda path: BlockReader(path, size))
    return size


def test_columns_of_a_small_trace(path: Path, small_blocks: int) -> None:
    capture = read(path, launches(3) + kernels(3))
    assert (capture.host, capture.source) == ("node", "json")
    assert names(capture) == ["k_0", "k_1", "k_2"]
    assert capture.kernels.start_ps.tolist() == [0, 10_000_000, 20_000_000]
    assert capture.kernels.duration_ps.tolist() == [2_500_000] * 3
    assert capture.kernels.correlation_id.tolist() == [0, 1, 2]
    assert capture.kernels.stream.tolist() == [22] * 3
    assert capture.launches.start_ps.tolist() == [-4_000_000, 6_000_000, 16_000_000]
    assert capture.devices[0].streams == {22: "Stream #22(Compute)"}
    assert [(t.line_id, t.name) for t in capture.threads] == [(7, "python")]
    assert not capture.notes and not capture.partial


@pytest.mark.parametrize("layout", [{}, {"indent": 2}, {"separators": (",", ":")}])
def test_spacing_does_not_matter(path: Path, layout: dict[str, Any], small_blocks: int) -> None:
    capture = read(path, text_of(HEAD + kernels(40), **layout))
    assert len(capture.kernels) == 40
    assert not capture.notes


def test_gzip_is_told_by_its_bytes(path: Path) -> None:
    text = text_of(HEAD + kernels(5)).encode()
    assert len(read(path, gzip.compress(text)).kernels) == 5
    halves = gzip.compress(text[:200]) + gzip.compress(text[200:])
    assert len(read(path, halves).kernels) == 5
    assert len(read(path.with_suffix(".json.gz"), text).kernels) == 5


def test_devices_are_told_by_process_name_not_by_number(path: Path) -> None:
    head = [named("process_name", pid, f"/device:GPU:{pid - 1001}") for pid in (1003, 1001)]
    events = [event("k", pid, 5, 1, 1, correlation_id="1") for pid in (1001, 1003)]
    capture = read(path, text_of(events + head + [named("process_name", 9, "/device:TPU:0")]))
    assert [device.ordinal for device in capture.devices] == [2, 0]
    assert capture.kernels.device.tolist() == [0, 2]
    assert capture.other_planes == ("/device:TPU:0",)


def test_two_processes_with_one_device_name_are_not_overlaid(path: Path) -> None:
    head = [named("process_name", pid, "/device:GPU:0") for pid in (1, 2)]
    capture = read(path, text_of([*head, event("a", 1, 5, 1, 1), event("b", 2, 5, 1, 1)]))
    assert names(capture) == ["a"]
    assert capture.other_planes == ("/device:GPU:0",)


def test_elements_that_are_no_events_are_skipped_silently(path: Path, small_blocks: int) -> None:
    no_time = {"ph": "X", "pid": 1001, "tid": 22, "name": "no time"}
    odd: list[Any] = [{}, None, {"ph": "X"}, no_time, 7, "x", []]
    capture = read(path, [*odd, *kernels(2), *odd])
    assert names(capture) == ["k_0", "k_1"]
    assert not capture.notes


def test_threads_follow_their_sort_index(path: Path) -> None:
    order: list[Event] = []
    for tid, index in ((4, 3), (9, 1), (8, 2)):
        order.append(named("thread_name", 701, f"t{tid}", tid))
        order.append(
            {"ph": "M", "pid": 701, "tid": tid, "name": "thread_sort_index"}
            | {"args": {"sort_index": index}}
        )
    events = [event("e", 701, tid, tid, 1) for tid in (4, 9, 8, 55)]
    capture = read(path, text_of([HEAD[2], *order, *events]))
    assert [thread.name for thread in capture.threads] == ["t9", "t8", "t4", ""]
    assert capture.host_events.thread.tolist() == [0, 1, 2, 3]


def test_picoseconds_come_back_exactly(path: Path) -> None:
    starts = [1, 999, 64_559_813_999, 123_456_789_012_345, 4_000_000_000_000_001]
    events = [
        {**event("k", 1001, 22, 0, 0), "ts": f"%{start}", "dur": f"%{start}"} for start in starts
    ]
    text = text_of(HEAD + events)
    for start in starts:
        text = text.replace(f'"%{start}"', f"{start / 1e6:.17g}")
    capture = read(path, text)
    assert capture.kernels.start_ps.tolist() == starts
    assert capture.kernels.duration_ps.tolist() == [0, *starts[1:]]  # XLA writes 0 as 1 ps


def test_huge_times_say_that_they_are_rounded(path: Path) -> None:
    epoch_us = 1_700_000_000_000_000.25
    capture = read(path, [event(f"k{n}", 1001, 22, epoch_us + n, 0.5) for n in range(3)])
    assert capture.kernels.start_ps.tolist() == [250_000, 1_250_000, 2_250_000]
    assert "rounded_json_times" in slugs(capture)


def test_begin_and_end_pairs_are_joined(path: Path, small_blocks: int) -> None:
    def half(phase: str, ts: float, tid: int = 7, name: str = "") -> Event:
        return {"ph": phase, "pid": 701, "tid": tid, "ts": ts, "name": name}

    pairs = [half("B", 1, name="out"), half("B", 2, name="in"), half("E", 3), half("E", 9)]
    lonely = [half("E", 4, tid=8), half("B", 5, tid=8, name="open")]
    capture = read(path, pairs + lonely + kernels(1))
    found = capture.host_events
    assert [capture.text(code) for code in found.name] == ["out", "in"]
    assert found.start_ps.tolist() == [1_000_000, 2_000_000]
    assert found.duration_ps.tolist() == [8_000_000, 1_000_000]
    assert slugs(capture) == {"unmatched_pairs": 2}


def test_a_child_past_its_parent_keeps_both_times(path: Path) -> None:
    capture = read(path, [event("parent", 701, 7, 0, 5), event("child", 701, 7, 3, 9)])
    assert capture.host_events.duration_ps.tolist() == [5_000_000, 9_000_000]


def test_numbers_as_texts_and_texts_as_numbers(path: Path) -> None:
    odd = {"ph": "X", "pid": "1001", "tid": "22", "ts": "1.5", "dur": 2, "name": 77}
    args = {"correlation_id": 12, "cuda_graph_node_id": 2**64 - 2, "hlo_op": 5}
    capture = read(path, [odd | {"args": args}, *kernels(1, first=1)])
    assert names(capture) == ["77", "k_1"]
    assert capture.kernels.start_ps.tolist() == [1_500_000, 10_000_000]
    assert capture.kernels.correlation_id.tolist() == [12, 1]
    assert capture.kernels.graph_node_id.tolist() == [-2, -1]
    assert capture.text(int(capture.kernels.hlo_op[0])) == "5"


@pytest.mark.parametrize("bad", ["$$2", "", "1.5e400", None, [1], {"a": 1}])
def test_an_id_that_is_no_number_is_missing(path: Path, bad: object) -> None:
    events = kernels(2)
    events[0]["args"]["correlation_id"] = bad
    assert read(path, events).kernels.correlation_id.tolist() == [-1, 1]


def test_missing_fields_of_kernels(path: Path) -> None:
    (whole,) = kernels(1, first=1)
    stripped = whole | {"args": {}}
    no_args = {key: value for key, value in whole.items() if key != "args"}
    no_length = {key: value for key, value in whole.items() if key != "dur"}
    capture = read(path, [stripped, no_args, no_length])
    assert len(capture.kernels) == 3
    assert capture.kernels.duration_ps.tolist() == [2_500_000, 2_500_000, 0]
    assert capture.kernels.hlo_op[0] == -1
    assert slugs(capture) == {"no_duration": 1}


@pytest.mark.parametrize("bad", ["text", 5, [1, 2], True])
def test_arguments_that_are_no_object_are_ignored(path: Path, bad: object) -> None:
    events = kernels(2)
    events[0]["args"] = bad
    assert read(path, events).kernels.correlation_id.tolist() == [-1, 1]


@pytest.mark.parametrize("bad", [None, 5, [1], {"a": 1}, ""])
def test_names_and_phases_of_any_type(path: Path, bad: object) -> None:
    odd: list[Any] = [event("k", 1001, 22, 1, 1) | {"name": bad}, {"ph": bad}, kernels(1)[0]]
    odd += [{"ph": "B", "pid": bad, "tid": bad, "ts": bad, "name": bad}, {"ph": "E", "pid": bad}]
    odd += [{"ph": "M", "name": "process_name", "pid": 5, "args": {"name": bad}}]
    odd += [{"ph": "M", "name": bad, "pid": bad, "args": bad}]
    assert len(read(path, odd).kernels) == 2


def test_copies_fills_and_memory_events_by_their_details(path: Path) -> None:
    events = [
        event("a", 1001, 22, 1, 1, memcpy_details="kind_src:host kind_dst:device size:8"),
        event("b", 1001, 22, 2, 1, memset_details="kind:x num_bytes:8"),
        event("c", 1001, 22, 3, 1, memalloc_details="num_bytes:8"),
    ]
    capture = read(path, events)
    assert capture.kernels.kind.tolist() == [Kind.MEMCPY, Kind.MEMSET]
    assert capture.text(int(capture.kernels.details[0])).startswith("kind_src:host")
    assert capture.markers == {"c": 1}


def test_derived_lines_are_not_streams(path: Path) -> None:
    head = [named("thread_name", 1001, "XLA Ops", 3), named("thread_name", 1001, "Steps", 4)]
    derived = [event("fusion", 1001, 3, 1, 1), event("1", 1001, 4, 1, 1)]
    capture = read(path, [*head, *derived, *kernels(2)])
    assert names(capture) == ["k_0", "k_1"]
    assert list(capture.devices[0].streams) == [22]


def test_python_events_are_counted_whether_kept_or_not(path: Path) -> None:
    events = [event(f"$f.py:{n} g", 701, 7, n, 1) for n in range(5)] + kernels(1) + launches(1)
    kept = read(path, events)
    assert (len(kept.host_events), kept.n_python_events) == (5, 5)
    lean = read(path, events, ReadOptions(python_events=False))
    assert (len(lean.host_events), lean.n_python_events, len(lean.launches)) == (0, 5, 1)


def test_other_phases_are_counted(path: Path) -> None:
    flow = {"ph": "s", "pid": 701, "tid": 7, "ts": 1, "id": 5, "name": "flow"}
    assert slugs(read(path, [flow, flow, *kernels(1)])) == {"other_phases": 2}


# ------------------------------------------------------------------------------- damaged text


def corrupted(replace: str, by: str) -> str:
    events = kernels(30)
    events[11]["name"] = replace
    return text_of(HEAD + events, ensure_ascii=False).replace(replace, by)


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("a\nb\x01c", "a\nb\x01c"),
        ("tail\\ud800", "tail\ufffd"),
        ("\\ud800 and \\udc00", "\ufffd and \ufffd"),
        ("Größe 日本", "Größe 日本"),
    ],
)
def test_text_that_is_not_strict_json_is_read_tolerantly(
    path: Path, small_blocks: int, by: str, name: str
) -> None:
    capture = read(path, corrupted("MARK", by))
    assert len(capture.kernels) == 30
    assert names(capture)[11] == name
    assert not capture.partial
    strict = by == name and by.isprintable()
    assert ("tolerated_json" in slugs(capture)) is not strict


def test_bad_utf8_is_replaced_and_noted(path: Path, small_blocks: int) -> None:
    capture = read(path, corrupted("MARK", "MARK").encode().replace(b"MARK", b"a\xff\xfeb"))
    assert len(capture.kernels) == 30
    assert names(capture)[11] == "a\ufffd\ufffdb"
    assert "tolerated_json" in slugs(capture)


def test_not_a_number_in_times_and_arguments(path: Path) -> None:
    text = text_of(HEAD + kernels(4)).replace('"ts": 10.0', '"ts": NaN')
    capture = read(path, text.replace('"correlation_id": "2"', '"correlation_id": NaN'))
    assert len(capture.kernels) == 4
    assert capture.kernels.time_ok.tolist().count(False) == 1
    assert capture.kernels.start_ps[capture.kernels.time_ok].tolist() == [
        0,
        20_000_000,
        30_000_000,
    ]
    assert sorted(capture.kernels.correlation_id.tolist()) == [-1, 0, 1, 3]
    assert slugs(capture)["bad_json_times"] == 1


def test_an_unescaped_quote_costs_one_event_and_says_where(path: Path, small_blocks: int) -> None:
    text = corrupted("MARK", 'say "hi" ')
    capture = read(path, text)
    assert names(capture) == [f"k_{n}" for n in range(30) if n != 11]
    assert capture.partial
    note = next(note for note in capture.notes if note.slug == "broken_json")
    assert (note.count, note.kind) == (1, NoteKind.DAMAGE)
    place = text.encode().rindex(b'{"ph"', 0, text.encode().index(b"say"))
    assert f"byte {place:,} " in note.text


def test_a_malformed_last_event_is_told_from_an_early_end(path: Path, small_blocks: int) -> None:
    text = text_of(HEAD + kernels(3)).replace('"k_2"', '"k "2" "')
    capture = read(path, text)
    assert names(capture) == ["k_0", "k_1"]
    assert (list(slugs(capture)), capture.partial) == (["broken_json"], True)


def test_names_that_look_like_event_borders(path: Path, small_blocks: int) -> None:
    evil = ['},{"ph":"X"', "}, {", '"}]}', "]", "\\", '\\"},{', '{"traceEvents":[', "a\\u0022},{"]
    events = [event(name, 1001, 22, n, 1) for n, name in enumerate(evil * 4)]
    capture = read(path, [*events, event("nested", 1001, 22, 99, 1, x='[{"a":1},{"b":2}]')])
    assert names(capture) == [*evil * 4, "nested"]
    assert not capture.notes


def test_nested_values_in_arguments(path: Path, small_blocks: int) -> None:
    events = kernels(20)
    for made in events:
        made["args"]["shapes"] = [{"a": 1}, {"b": [{"c": 2}, {"d": 3}]}]
    assert len(read(path, events).kernels) == 20


@pytest.mark.parametrize("cut", [1, 2, 30, 150, 700])
def test_text_that_ends_early_is_partial(path: Path, cut: int, small_blocks: int) -> None:
    capture = read(path, text_of(HEAD + kernels(30))[:-cut])
    assert capture.partial is (cut > 1)
    assert len(capture.kernels) >= 30 - cut // 80 - 1
    assert ("truncated_json" in slugs(capture)) is (cut > 1)


def test_truncated_gzip_is_partial_and_says_so(path: Path) -> None:
    packed = gzip.compress(text_of(HEAD + kernels(20_000)).encode())
    capture = read(path, packed[: int(0.7 * len(packed))])
    assert capture.partial
    assert 8_000 < len(capture.kernels) < 20_000
    assert list(slugs(capture)) == ["truncated_gzip"]


@pytest.mark.parametrize("n_bytes", [2, 12, 25])
def test_gzip_cut_before_the_first_event_is_one_line(path: Path, n_bytes: int) -> None:
    packed = gzip.compress(text_of(HEAD + kernels(100)).encode())
    with pytest.raises(CaptureError, match=f"gzip ends too early, after {n_bytes} bytes"):
        read(path, packed[:n_bytes])


def test_checksum_and_garbage_are_noted_but_lose_nothing(path: Path) -> None:
    packed = bytearray(gzip.compress(text_of(HEAD + kernels(9)).encode()))
    capture = read(path, bytes(packed) + b"xx")
    assert (len(capture.kernels), capture.partial) == (9, False)
    assert list(slugs(capture)) == ["trailing_garbage"]
    packed[-6] ^= 1
    assert list(slugs(read(path, bytes(packed)))) == ["wrong_checksum"]


def test_what_follows_the_events_is_ignored(path: Path, small_blocks: int) -> None:
    document = {"traceEvents": HEAD + kernels(10), "samples": [{"a": 1}, {"b": 2}] * 50}
    capture = read(path, json.dumps(document))
    assert len(capture.kernels) == 10
    assert not capture.notes


def test_a_bare_array_and_a_byte_order_mark(path: Path) -> None:
    assert len(read(path, json.dumps(HEAD + kernels(3))).kernels) == 3
    with_mark = b"\xef\xbb\xbf" + text_of(HEAD + kernels(3)).encode()
    assert len(read(path, with_mark).kernels) == 3


def test_deep_nesting_does_not_overflow(path: Path) -> None:
    deep = '{"ph":"X","args":' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "},"
    capture = read(path, text_of(HEAD + kernels(3)).replace('{"ph": "X"', deep + '{"ph": "X"', 1))
    assert len(capture.kernels) == 3
    assert "broken_json" in slugs(capture)


def test_an_endless_event_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_events, "MAX_EVENT_BYTES", 3 << 20)
    text = text_of(HEAD + kernels(3))[:-2] + ', {"ph": "' + "x" * (9 << 20)
    capture = read(path, text)
    assert len(capture.kernels) == 3
    assert capture.partial
    assert slugs(capture)["broken_json"] == 1


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"\x0a\x85\x01\x08", "not a trace JSON"),
        (b"PK\x03\x04zip", "zip"),
        (b"\x28\xb5\x2f\xfdzstd", "zstd"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b"<html>", "HTML"),
        (b'{"planes": []}', "traceEvents"),
        (gzip.compress(b"{}", mtime=0), "traceEvents"),
        (gzip.compress(b"", mtime=0), "empty"),
        (b'{"traceEvents": null}', "traceEvents"),
    ],
)
def test_files_that_are_no_trace_are_one_line(path: Path, content: bytes, word: str) -> None:
    with pytest.raises(CaptureError) as caught:
        read(path, content)
    assert word in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_events_at_all_is_an_empty_capture(path: Path) -> None:
    capture = read(path, '{"traceEvents": []}')
    assert (len(capture.kernels), capture.devices, capture.partial) == (0, (), False)
