"""Which file is the main record, and what a user is told of captures that can't be analysed."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from explane.capture.discover import HostFiles, discover
from explane.capture.hosts import HostIdentity, copies, host_notes, identify
from explane.capture.load import load_host
from explane.capture.model import HostCapture, NoteKind
from explane.capture.options import ReadOptions
from explane.errors import CaptureError
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate, write_capture
from tests.builders import (
    U64,
    Module,
    Plane,
    Space,
    gpu_plane,
    host_plane,
    metadata_plane,
    task_environment,
)
from tests.shared import capture_dir, require_shared

US = 1_000_000  # picoseconds


def load(path: Path, options: ReadOptions | None = None) -> HostCapture:
    (files,) = discover([path]).hosts
    return load_host(files, options)


def refused(path: Path, options: ReadOptions | None = None) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        load(path, options)
    assert "\n" not in str(caught.value)
    assert "device_tracer_level" not in str(caught.value)
    return caught.value


def gpu_with(count: int, ordinal: int = 0, *, label: str = "k") -> Plane:
    plane = gpu_plane(ordinal)
    line = plane.line("Stream #7(Compute)", 7)
    for n in range(count):
        labels = {"hlo_op": f"{label}.{n}", "hlo_module": "jit_f"} if label else {}
        line.event(f"k_{n}", (10 * n + 5) * US, 2 * US, correlation_id=U64(n + 1), **labels)
    return plane


def host_with(*names: str, thread: str = "python", launches: int = 0) -> Plane:
    plane = host_plane()
    line = plane.line(thread, 11)
    for n, name in enumerate(names):
        line.event(name, 10 * n * US, 5 * US)
    for n in range(launches):
        line.event("cuLaunchKernel", (10 * n + 1) * US, US, correlation_id=U64(n + 1))
    return plane


def good(n_kernels: int = 30) -> Space:
    return Space([gpu_with(n_kernels), host_with("PjitFunction(f)", launches=n_kernels)])


# ------------------------------------------------------------------------------- which record


def test_xplane_is_the_main_record_and_the_json_stands_beside(tmp_path: Path) -> None:
    good().write(tmp_path, with_json=True)
    host = load(tmp_path)
    assert host.json is not None
    assert (host.main.source, host.json.source) == ("xplane", "json")
    assert len(host.main.kernels) == len(host.json.kernels) == 30
    assert (host.json_problem, host.xplane_problem) == ("", "")
    assert not host.main.notes and not host.json.notes


def test_an_xplane_alone_has_no_json_and_no_problem(tmp_path: Path) -> None:
    good().write(tmp_path)
    host = load(tmp_path)
    assert host.json is None
    assert host.json_problem == ""


def test_a_json_alone_is_the_main_record(tmp_path: Path) -> None:
    good().write_json(tmp_path / "node.trace.json.gz")
    host = load(tmp_path)
    assert (host.main.source, host.main.host, host.json) == ("json", "node", None)


def test_a_broken_json_beside_a_good_xplane_is_only_named(tmp_path: Path) -> None:
    good().write(tmp_path)
    (tmp_path / "node.trace.json.gz").write_bytes(b"PK\x03\x04")
    host = load(tmp_path)
    assert host.main.source == "xplane"
    assert "zip" in host.json_problem
    (tmp_path / "node.trace.json.gz").write_bytes(gzip.compress(b"{")[:12])
    assert load(tmp_path).json_problem


@pytest.mark.parametrize("content", [b"", b"\x0a", b"\xef\xbf\xbd" * 900, b"not a proto at all"])
def test_the_json_takes_over_from_an_unreadable_xplane(tmp_path: Path, content: bytes) -> None:
    path = good().write(tmp_path, with_json=True)
    path.write_bytes(content)
    host = load(tmp_path)
    assert (host.main.source, host.json) == ("json", None)
    assert host.xplane_problem
    assert len(host.main.kernels) == 30


def test_the_json_takes_over_from_a_cut_xplane_but_programs_are_kept(tmp_path: Path) -> None:
    module = metadata_plane(Module(15, "jit_f(15)", b"proto"))
    space = Space([module, task_environment(), gpu_with(30, 0), gpu_with(30, 1)])
    path = space.write(tmp_path, with_json=True)
    path.write_bytes(path.read_bytes()[:-500])  # within GPU 1
    host = load(tmp_path)
    assert host.main.source == "json"
    assert len(host.main.kernels) == 60
    assert host.main.programs[15].hlo_proto == b"proto"
    assert "profile_start_time" in host.main.session
    assert host.main.partial
    assert "damaged" in host.xplane_problem


def test_a_cut_xplane_that_holds_all_gpu_events_stays(tmp_path: Path) -> None:
    space = Space([gpu_with(30), host_with("PjitFunction(f)", launches=30), task_environment()])
    path = space.write(tmp_path, with_json=True)
    path.write_bytes(path.read_bytes()[:-9])
    host = load(tmp_path)
    assert (host.main.source, host.main.partial) == ("xplane", True)
    assert host.json is not None


def test_label_is_the_file_and_the_stored_name_is_kept(tmp_path: Path) -> None:
    good().write(tmp_path, host="copy")
    main = load(tmp_path).main
    assert main.host == "copy"
    assert main.session["hostname"] == "node"


def test_both_files_unusable_names_both(tmp_path: Path) -> None:
    (tmp_path / "node.xplane.pb").write_bytes(b"")
    (tmp_path / "node.trace.json.gz").write_bytes(b"PK\x03\x04")
    text = str(refused(tmp_path))
    assert "empty" in text
    assert "zip" in text


# ----------------------------------------------------------------------------- notes of both


def test_a_cut_json_is_explained_not_counted_as_error(tmp_path: Path) -> None:
    space = good(30)
    space.write(tmp_path)
    space.write_json(tmp_path / "node.trace.json.gz", cap=21)
    host = load(tmp_path)
    assert host.json is not None
    # 61 events by start: in every ten microseconds one launch and one kernel, and a host event.
    n_kernels = len(host.json.kernels)
    note = next(note for note in host.json.notes if note.slug == "json_cut")
    assert note.count == 30 - n_kernels > 10
    assert note.kind is NoteKind.INFO
    assert f"{note.count} of the xplane's 30" in note.text
    assert not host.main.notes


def test_a_json_alone_at_the_cap_says_totals_are_lower_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(30).write_json(tmp_path / "node.trace.json.gz")
    assert not load(tmp_path).main.notes
    monkeypatch.setattr("explane.capture.load.XLA_EVENT_CAP", 61)
    for options in (ReadOptions(), ReadOptions(python_events=False, host_events=False)):
        (note,) = load(tmp_path, options).main.notes
        assert (note.slug, note.kind, note.count) == ("json_capped", NoteKind.LOSS, 61)


def test_launches_without_kernels_are_a_loss_not_an_idle_gpu(tmp_path: Path) -> None:
    gpu = gpu_plane()
    line = gpu.line("Stream #7(MemcpyH2D)", 7)
    for n in range(6):
        line.event("MemcpyH2D", n * US, US, correlation_id=U64(n + 1), memcpy_details="size:8")
    Space([gpu, host_with(launches=5000)]).write(tmp_path)
    (note,) = load(tmp_path).main.notes
    assert (note.slug, note.kind, note.count) == ("kernels_not_recorded", NoteKind.LOSS, 4994)


# ------------------------------------------------------------------------- what can't be used

TPU = Plane("/device:TPU:0", 2)
PYTHON_ONLY = host_with("$server.py:10 poll", "$threading.py:300 wait")
EXECUTE = "PjRtStreamExecutorLoadedExecutable::Execute"


@pytest.mark.parametrize(
    ("planes", "slug", "words"),
    [
        ([TPU, host_with(EXECUTE)], "tpu-capture", ["TPU capture", "/device:TPU:0", "XProf"]),
        ([TPU, gpu_with(5), host_with(EXECUTE)], "tpu-capture", ["TPU"]),
        ([host_with(EXECUTE)], "no-device-events", ["device tracing failed", "raise_error_on"]),
        ([host_with(launches=7)], "no-device-events", ["7 launch calls"]),
        ([gpu_plane(), host_with("jit_f:XLA GPU module")], "no-device-events", ["no GPU event"]),
        ([host_with("TfrtCpuExecutable::Execute")], "cpu-capture", ["CPU", "JAX_PLATFORMS"]),
        (
            [host_with("PjitFunction(f)", thread="tf_XLAPjRtCpuClient/42")],
            "cpu-capture",
            ["CPU-backend"],
        ),
        ([PYTHON_ONLY], "no-gpu-work", ["launched no GPU work", "capture the worker"]),
        ([gpu_plane(), PYTHON_ONLY], "no-gpu-work", ["1 GPUs without events"]),
        ([gpu_plane()], "no-gpu-work", ["no GPU work"]),
        ([task_environment()], "empty-capture", ["no GPU and no host events"]),
        (
            [gpu_with(9, label=""), host_with("ExecutorState::Process", launches=9)],
            "not-xla",
            ["not an XLA capture", "9 GPU events"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_captures_that_cannot_be_analysed_say_which_kind(
    tmp_path: Path, planes: list[Plane], slug: str, words: list[str]
) -> None:
    Space(planes).write(tmp_path)
    for options in (ReadOptions(), ReadOptions(python_events=False, host_events=False)):
        error = refused(tmp_path, options)
        assert error.slug == slug
        for word in words:
            assert word in str(error)
        assert str(tmp_path) in str(error)
        assert error.remedy


def test_messages_of_the_profiler_come_first(tmp_path: Path) -> None:
    space = Space([host_with(EXECUTE)], errors=["CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"])
    space.write(tmp_path)
    error = refused(tmp_path)
    assert error.reason.startswith("profiler error: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")
    Space([PYTHON_ONLY], warnings=["no GPU found"], errors=["another subscriber"]).write(tmp_path)
    assert "another subscriber" in refused(tmp_path).reason
    Space([host_with(EXECUTE)], warnings=["roctracer unsupported"]).write(tmp_path)
    assert refused(tmp_path).reason.startswith("profiler warning: roctracer unsupported")


def test_bare_gpu_planes_are_analysed(tmp_path: Path) -> None:
    Space([gpu_with(5, label="")]).write(tmp_path)
    assert len(load(tmp_path).main.kernels) == 5


def test_foreign_json_files_are_told_too(tmp_path: Path) -> None:
    path = tmp_path / "node.trace.json.gz"
    Space([host_with("TfrtCpuExecutable::Execute")]).write_json(path)
    assert refused(tmp_path).slug == "cpu-capture"
    other = '{"traceEvents": [{"ph":"M","pid":1,"name":"process_name","args":{"name":"python"}}]}'
    path.write_bytes(other.encode())
    error = refused(tmp_path)
    assert (error.slug, "python" in error.reason) == ("empty-capture", True)


def test_a_foreign_json_in_place_of_a_broken_xplane_names_both(tmp_path: Path) -> None:
    Space([host_with("TfrtCpuExecutable::Execute")]).write_json(tmp_path / "node.trace.json")
    (tmp_path / "node.xplane.pb").write_bytes(b"")
    text = str(refused(tmp_path))
    assert "CPU" in text
    assert "empty" in text


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda raw: b"", "empty"),
        (lambda raw: raw[:1], "byte"),
        (lambda raw: raw[:50], "byte"),
        (lambda raw: raw.decode("utf-8", "replace").encode(), "re-encoded"),
        (lambda raw: gzip.compress(raw), "gzip"),
        (lambda raw: b"<html>" + raw, "HTML"),
    ],
)
def test_files_that_are_no_xplane_say_why(
    tmp_path: Path, make: Callable[[bytes], bytes], word: str
) -> None:
    module = metadata_plane(Module(15, "jit_f(15)", bytes(range(256)) * 40))
    path = Space([module, gpu_with(200)]).write(tmp_path)
    path.write_bytes(make(path.read_bytes()))
    error = refused(tmp_path)
    assert word in str(error)
    assert str(path) in str(error)


def test_a_cut_before_the_gpu_planes_says_that_nothing_is_left(tmp_path: Path) -> None:
    path = Space([host_with(EXECUTE), gpu_with(30)]).write(tmp_path)
    path.write_bytes(path.read_bytes()[:-500])
    error = refused(tmp_path)
    assert error.slug == "damaged-capture"
    assert "byte" in error.reason
    assert "device tracing failed" not in error.reason


@require_shared
@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("tpu-v6e", "tpu-capture"),
        ("cpu-jax0102", "cpu-capture"),
        ("tf2020-v100", "not-xla"),
        ("corrupt-utf8", "corrupt"),
    ],
)
def test_foreign_captures_of_the_shared_folder(name: str, slug: str) -> None:
    assert refused(capture_dir("other", name)).slug == slug


# -------------------------------------------------------------------------- several processes


def test_processes_of_one_machine_with_equal_ordinals_are_named(tmp_path: Path) -> None:
    for label in ("a", "b"):
        Space([gpu_with(3), task_environment(100, 200)], hostnames=["vm"]).write(tmp_path, label)
    Space([gpu_with(3), task_environment(120, 220)], hostnames=["other"]).write(tmp_path, "c")
    (note,) = host_notes(loaded(tmp_path))
    assert (note.slug, note.count) == ("ordinals_collide", 1)
    assert "2 processes of vm (a, b)" in note.text


def test_a_file_of_an_earlier_session_is_named(tmp_path: Path) -> None:
    times = {"old": (100, 200), "new": (5_000_000_200, 5_000_000_300)}
    for label, window in times.items():
        gpu = [gpu_with(3), task_environment(*window)]
        Space(gpu, hostnames=[label]).write(tmp_path, label)
    (note,) = host_notes(loaded(tmp_path))
    assert note.slug == "older_session"
    assert "old was captured 5.000 s before" in note.text


def loaded(folder: Path) -> list[HostIdentity]:
    return [identify(load_host(files)) for files in discover([folder]).hosts]


def test_a_copy_or_extract_of_a_trace_is_told_from_another_process(tmp_path: Path) -> None:
    good(30).write_json(tmp_path / "raw.trace.json.gz")
    good(12).write_json(tmp_path / "raw_small.trace.json.gz")
    other = Space([gpu_with(12, 1), host_with("PjitFunction(f)", launches=12)])
    other.write_json(tmp_path / "worker.trace.json.gz")
    assert copies(loaded(tmp_path)) == {"raw_small": "raw"}


def test_xplanes_of_two_hosts_that_look_alike_are_no_copies(tmp_path: Path) -> None:
    for label, name in (("a", "vm"), ("b", "vm"), ("c", "other")):
        space = good()
        space.hostnames = [name]
        space.write(tmp_path, label)
    assert copies(loaded(tmp_path)) == {"b": "a"}


def test_bytes_that_were_read_are_told(tmp_path: Path) -> None:
    """Bars go by these: every byte of a JSON, and of an xplane what its events take."""
    made = simulate(bundled_program("mlp4_h100"), Scenario(n_steps=40))
    xplane = write_capture(made, tmp_path, truth=False)
    json = tmp_path / f"{made.host}.trace.json.gz"
    for path, least in ((xplane, 0.5), (json, 1.0)):
        told: list[int] = []
        own = (path, None) if path is xplane else (None, path)
        load_host(HostFiles("node", tmp_path, *own), ReadOptions(advance=told.append))
        size = path.stat().st_size
        assert least * size <= sum(told) <= 1.05 * size
        assert min(told) >= 0
