"""Files as people have them: cut, half written, re-encoded, of other versions.

Each case is from a public thread, told in docs/robustness.md.
"""

from __future__ import annotations

import base64
import gzip
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explane.capture.discover import discover
from explane.capture.load import load_host
from explane.capture.model import HostCapture, NoteKind
from explane.errors import CaptureError
from tests.builders import U64, Space, bytes_field, int_field, varint
from tests.field.made import Job, analysed, check, doubts, refusal, rows, steps_of, verdict


@pytest.fixture(scope="module")
def good() -> Space:
    return steps_of(Job()).space()


def read(run: Path) -> HostCapture:
    return load_host(discover([run]).hosts[0])


def n_kernels(record: HostCapture) -> int:
    return len(record.main.kernels)


# ------------------------------------------------------------------------- protobuf damage


def test_a_cut_xplane_is_partial_with_its_byte_or_one_line(good: Space, tmp_path: Path) -> None:
    data = good.to_bytes()
    path = tmp_path / "node.xplane.pb"
    for size in [*range(1, 40), *range(40, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:size])
        try:
            record = read(tmp_path)
        except CaptureError as error:
            assert any(c.isdigit() for c in error.reason), error.reason
            continue
        damage = [n.text for n in record.main.notes if n.kind is NoteKind.DAMAGE]
        assert record.main.partial
        assert "byte" in damage[0]


def test_a_cut_xplane_puts_the_damage_first_on_the_trust_list(good: Space, tmp_path: Path) -> None:
    (tmp_path / "node.xplane.pb").write_bytes(good.to_bytes()[:-3])
    found = analysed(tmp_path, tmp_path)
    assert found.partial
    assert "damaged" in doubts(found).splitlines()[0]
    assert verdict(found)["verdict"] == "withheld"


def test_the_json_takes_over_from_a_cut_xplane_and_it_is_said(good: Space, tmp_path: Path) -> None:
    good.write(tmp_path, with_json=True)
    (tmp_path / "node.xplane.pb").write_bytes(good.to_bytes()[:50])
    found = analysed(tmp_path, tmp_path)
    assert found.hosts[0].source == "json"
    assert found.partial
    assert len(rows(found, "kernels")) == 10
    assert "only the trace JSON was used" in doubts(found)


def test_an_xplane_alone_reconciles_as_not_available(good: Space, tmp_path: Path) -> None:
    found = analysed(good, tmp_path)
    made = check(found, "device events: JSON = xplane")
    assert (made["holds"], made["right"]) == ("not available", "")
    assert not found.partial
    assert len(rows(found, "kernels")) == 10


@pytest.mark.parametrize("length", [2**31 + 5, 2**32 + 1, 2**63, 2**64 - 1])
def test_lengths_beyond_the_file_are_told_and_never_allocated(
    good: Space, tmp_path: Path, length: int
) -> None:
    path = tmp_path / "node.xplane.pb"
    path.write_bytes(good.to_bytes() + b"\x0a" + varint(length) + b"abc")
    record = read(tmp_path)
    assert record.main.partial
    assert n_kernels(record) == 10


def test_a_file_above_two_gibibytes_is_read_without_its_size_in_memory(
    good: Space, tmp_path: Path
) -> None:
    """A hole of the size that 32-bit lengths can't hold, between a good capture and its end."""
    size = 2**31 + 1000
    path = tmp_path / "node.xplane.pb"
    with path.open("wb") as file:
        file.write(good.to_bytes() + varint(15 << 3 | 2) + varint(size))
        file.seek(size, 1)
        file.write(bytes_field(3, "a warning behind the hole"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = read(tmp_path)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert n_kernels(record) == 10
    assert record.main.warnings == ("a warning behind the hole",)
    assert grown_kib < 512 * 1024


def test_bytes_that_are_no_utf8_are_replaced_counted_and_written_as_utf8(tmp_path: Path) -> None:
    job = Job()
    for step in range(4):
        job.kernel("bad\udcff\udcfename", 1000 + 100 * step, 50, op="loop_fusion")
    found = analysed(job.space(), tmp_path)
    names = {r["kernel"] for r in rows(found, "kernels")}
    assert names == {"bad\ufffd\ufffdname"}
    assert names.pop().encode()
    record = read(tmp_path / "run")
    assert [n.slug for n in record.main.notes if n.count > 0] == ["invalid_utf8"]


@pytest.mark.parametrize("line_id", [2**63 - 1, -1, 0x7F3A_1234_5678_0000, 0])
def test_any_number_can_be_a_stream(tmp_path: Path, line_id: int) -> None:
    job = Job()
    for i in range(4):
        job.kernel("loop_fusion", 1000 + 100 * i, 50, stream=line_id)
    found = analysed(job.space(), tmp_path)
    assert {r["stream"] for r in rows(found, "streams")} == {line_id}
    assert rows(found, "streams")[0]["compute_ps"] == 4 * 50 * 10**6


DETAILS = (
    "regs:32 static_shared:0 dynamic_shared:0 grid:4,1,1 block:128,1,1 occ_pct:50",
    "block:128,1,1 grid:4,1,1 hip_extra:yes static_shared:0",
    "grid:512,1,1 block:128,1,1 unknown",
    "",
    ":::: grid: block:,,",
)


@pytest.mark.parametrize("details", DETAILS)
@pytest.mark.parametrize("vendor", ["Nvidia", "AMD"])
def test_launch_details_of_any_version_do_not_change_what_is_counted(
    tmp_path: Path, details: str, vendor: str
) -> None:
    job = Job(vendor=vendor)
    for i in range(4):
        job.kernel("loop_fusion", 1000 + 100 * i, 50, kernel_details=details)
    found = analysed(job.space(), tmp_path)
    made = rows(found, "kernels")
    assert [r["match"] for r in made] == ["exact"] * 4
    assert {r["details"] or "" for r in made} == {details}


def test_events_without_a_metadata_entry_keep_their_time(tmp_path: Path) -> None:
    job = Job()
    for i in range(4):
        job.kernel("loop_fusion", 1000 + 100 * i, 50)
    job.stream(0, 7).events[2].metadata_id = 4_000_000
    found = analysed(job.space(), tmp_path)
    assert len(rows(found, "kernels")) == 4
    assert sum(r["duration_ps"] for r in rows(found, "kernels")) == 200 * 10**6


def test_negative_and_giant_field_values_are_no_times(tmp_path: Path) -> None:
    job = steps_of(Job())
    job.stream(0, 7).event("k", 2**62, 2**62).event("k", -(2**62), 5)
    found = analysed(job.space(), tmp_path)
    assert rows(found, "streams")[0]["compute_ps"] == 300 * 10**6
    assert check(found, "device events have possible times")["left"] == "2"


def test_an_unknown_field_at_every_level_is_skipped(good: Space, tmp_path: Path) -> None:
    extra = int_field(500, 7) + bytes_field(501, "new in a later version")
    (tmp_path / "node.xplane.pb").write_bytes(extra + good.to_bytes() + extra)
    assert n_kernels(read(tmp_path)) == 10


# ------------------------------------------------------------------------------------- JSON

Change = Callable[[list[dict[str, Any]]], object]


def json_of(good: Space, folder: Path, change: Change | None = None, text: str = "") -> Path:
    """The JSON alone, changed as events or as text (`old -> new`)."""
    folder.mkdir(exist_ok=True)
    document = good.to_json()
    if change is not None:
        change(document["traceEvents"])
    raw = json.dumps(document)
    if text:
        old, new = text.split(" -> ")
        assert old in raw
        raw = raw.replace(old, new)
    path = folder / "node.trace.json"
    path.write_bytes(raw.encode("utf-8", "surrogatepass"))
    return path


@pytest.mark.parametrize(
    "odd", [{}, None, {"name": "x"}, {"ph": "X"}, {"ph": "X", "pid": 1}, 7, [], "text"]
)
def test_elements_that_are_no_events_are_not_counted(
    good: Space, tmp_path: Path, odd: Any
) -> None:
    json_of(good, tmp_path, lambda events: events.append(odd))
    record = read(tmp_path)
    assert n_kernels(record) == 10
    assert [n for n in record.main.notes if n.kind is not NoteKind.INFO] == []


@pytest.mark.parametrize(
    ("text", "n_left"),
    [
        ('"loop_add_fusion" -> "a\x01\x02b"', 10),
        ('"loop_add_fusion" -> "a\\ud800b"', 10),
        ('"device_id": "0" -> "device_id": NaN', 10),
        ('"train" -> "tra"in"', 10),
    ],
)
def test_json_that_is_not_strict_is_read_or_its_loss_is_counted(
    good: Space, tmp_path: Path, text: str, n_left: int
) -> None:
    json_of(good, tmp_path, text=text)
    record = read(tmp_path)
    assert n_kernels(record) == n_left
    if '"tra"in"' in text:
        assert any(n.kind is NoteKind.DAMAGE for n in record.main.notes)
    for name in record.main.strings:
        assert name.encode("utf-8")


def test_begin_end_pairs_and_children_past_their_parents_never_give_negative_times(
    good: Space, tmp_path: Path
) -> None:
    def change(events: list[dict[str, Any]]) -> None:
        thread = {"pid": 701, "tid": 1}
        events.append({"ph": "B", "name": "outer", "ts": 10.0, **thread})
        events.append({"ph": "X", "name": "child", "ts": 12.0, "dur": 50.0, **thread})
        events.append({"ph": "E", "ts": 20.0, **thread})
        events.append({"ph": "E", "ts": 30.0, **thread})
        events.append({"ph": "B", "name": "open", "ts": 40.0, **thread})

    json_of(good, tmp_path, change)
    record = read(tmp_path)
    host = record.main.host_events
    names = {record.main.text(code): i for i, code in enumerate(host.name)}
    assert host.duration_ps[names["outer"]] == 10 * 10**6
    assert host.duration_ps[names["child"]] == 50 * 10**6
    assert (host.duration_ps >= 0).all()
    found = analysed(tmp_path, tmp_path)
    assert all(r["host_ps"] >= 0 for r in rows(found, "idle") if r["host_ps"] is not None)


@pytest.mark.parametrize("first", [1, 2, 1001, 99_999])
def test_gpus_are_told_by_their_name_not_by_a_number(
    good: Space, tmp_path: Path, first: int
) -> None:
    def change(events: list[dict[str, Any]]) -> None:
        for event in events:
            if event and event["pid"] != 701:
                event["pid"] += first

    json_of(good, tmp_path, change)
    assert n_kernels(read(tmp_path)) == 10


def packed(good: Space) -> bytes:
    return gzip.compress(json.dumps(good.to_json()).encode(), mtime=0)


def test_a_cut_gzip_is_partial_and_a_good_xplane_beside_it_is_used(
    good: Space, tmp_path: Path
) -> None:
    data = packed(good)
    for folder, with_xplane in ((tmp_path / "alone", False), (tmp_path / "beside", True)):
        folder.mkdir()
        if with_xplane:
            good.write(folder)
        (folder / "node.trace.json.gz").write_bytes(data[: len(data) * 9 // 10])
    alone, beside = read(tmp_path / "alone"), read(tmp_path / "beside")
    assert alone.main.partial
    assert any("gzip" in n.text for n in alone.main.notes)
    assert n_kernels(beside) == 10
    assert not beside.main.partial


@pytest.mark.parametrize("kind", ["crc", "garbage", "plain .gz", "gzip .json", "two members"])
def test_json_in_any_wrapping_is_told_by_its_bytes(good: Space, tmp_path: Path, kind: str) -> None:
    data, raw = packed(good), json.dumps(good.to_json()).encode()
    made = {
        "crc": data[:-8] + bytes([data[-8] ^ 1]) + data[-7:],
        "garbage": data + b"trailing",
        "plain .gz": raw,
        "gzip .json": data,
        "two members": gzip.compress(raw[:500]) + gzip.compress(raw[500:]),
    }[kind]
    name = "node.trace.json" if kind == "gzip .json" else "node.trace.json.gz"
    (tmp_path / name).write_bytes(made)
    record = read(tmp_path)
    assert n_kernels(record) == 10
    assert bool(record.main.notes) == (kind in ("crc", "garbage"))


def test_labels_come_from_the_xplane_when_the_json_lost_them(tmp_path: Path) -> None:
    space = steps_of(Job()).space()
    path = space.write(tmp_path, with_json=True).with_name("node.trace.json.gz")
    document = json.loads(gzip.decompress(path.read_bytes()))
    for event in document["traceEvents"]:
        for name in ("hlo_op", "hlo_module", "correlation_id"):
            event.get("args", {}).pop(name, None)
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    found = analysed(tmp_path, tmp_path)
    assert {r["match"] for r in rows(found, "kernels")} == {"exact"}
    assert check(found, "device events: JSON = xplane")["holds"] == "yes"


def test_a_text_copy_of_a_binary_file_is_refused_in_one_line(good: Space, tmp_path: Path) -> None:
    """What a transfer as text makes of it: every byte above 127 becomes three."""
    broken = good.to_bytes().decode("utf-8", "replace").encode()
    (tmp_path / "node.xplane.pb").write_bytes(broken)
    try:
        assert read(tmp_path).main.partial
    except CaptureError as error:
        assert "byte" in str(error)


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"PK\x03\x04 zip", b"<html></html>"])
def test_files_of_other_kinds_are_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "node.xplane.pb").write_bytes(content)
    assert "node.xplane.pb" in refusal(tmp_path, tmp_path)


FORMATS = (
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n", "Git LFS"),
    (b"PK\x03\x04" + b"\x00" * 90, "zip"),
    (b"\x28\xb5\x2f\xfd" + b"\x00" * 90, "zstd"),
    (b"BZh91AY&SY" + b"\x00" * 90, "bzip2"),
    (b"<!DOCTYPE html><html>Sign in</html>", "HTML"),
)


@pytest.mark.parametrize(("content", "word"), FORMATS)
@pytest.mark.parametrize("name", ["node.xplane.pb", "node.trace.json.gz"])
def test_a_file_of_a_known_other_format_is_named(
    tmp_path: Path, name: str, content: bytes, word: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert word in refusal(tmp_path, tmp_path)


def test_text_instead_of_bytes_is_named(good: Space, tmp_path: Path) -> None:
    (tmp_path / "node.xplane.pb").write_bytes(base64.encodebytes(good.to_bytes()))
    assert "looks like text" in refusal(tmp_path, tmp_path)


def test_two_captures_joined_into_one_file_are_never_added_up(good: Space, tmp_path: Path) -> None:
    other = steps_of(Job(), ("other_fusion",), n_steps=7).space()
    (tmp_path / "node.xplane.pb").write_bytes(good.to_bytes() + other.to_bytes())
    found = analysed(tmp_path, tmp_path)
    assert found.partial
    assert len(rows(found, "kernels")) == 10
    assert "several planes /device:GPU:0" in doubts(found)
    assert verdict(found)["verdict"] == "withheld"


def test_correlation_ids_above_32_bits_join(tmp_path: Path) -> None:
    job = Job()
    for i in range(4):
        number = 2**40 + i
        job.kernel("loop_fusion", 1000 + 100 * i, 50, launch=False, correlation_id=U64(number))
        job.launch("cuLaunchKernel", 900 + 100 * i, number)
    found = analysed(job.space(), tmp_path)
    assert check(found, "every kernel joins one launch")["holds"] == "yes"
