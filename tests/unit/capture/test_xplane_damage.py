"""Cut and flipped files: complete planes are kept, and nothing but our own error ever escapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explane.capture.model import Capture, NoteKind
from explane.capture.xplane import read_xplane
from explane.errors import CaptureError, ExplaneError
from tests.builders import (
    U64,
    Module,
    Plane,
    Space,
    Str,
    bytes_field,
    gpu_plane,
    host_plane,
    int_field,
    metadata_plane,
    task_environment,
)


def _gpu(ordinal: int, n_kernels: int) -> Plane:
    plane = gpu_plane(ordinal)
    line = plane.line("Stream #7(Compute)", 7, timestamp_ns=3)
    for i in range(n_kernels):
        line.event(
            f"kernel_{i % 3}",
            5_000 + 100 * i,
            50 + i,
            correlation_id=U64(i + 1),
            hlo_op=f"fusion.{i % 3}",
            context_id=Str("$$2"),
            program_id=12,
        )
    return plane


def _planes() -> list[Plane]:
    host = host_plane()
    thread = host.line("python", 5)
    for i in range(60):
        thread.event("cuLaunchKernel", 4_000 + 100 * i, 20, correlation_id=U64(i + 1))
        thread.event("$train.py:3 step", 3_000 + 100 * i, 900)
    modules = metadata_plane(Module(12, "jit_f(12)", b"\x0a\x04\x0a\x02ab"))
    return [_gpu(0, 60), modules, _gpu(1, 7), host, task_environment()]


PLANES = [plane.to_bytes() for plane in _planes()]
GOOD = Space(_planes()).to_bytes()
ENDS = [sum(len(bytes_field(1, p)) for p in PLANES[: n + 1]) for n in range(len(PLANES))]


def _read(folder: Path, content: bytes) -> Capture:
    path = folder / "node.xplane.pb"
    path.write_bytes(content)
    return read_xplane(path)


def _names(capture: Capture) -> set[str]:
    return {d.plane_name for d in capture.devices}


def test_the_undamaged_file(tmp_path: Path) -> None:
    capture = _read(tmp_path, GOOD)
    assert (len(capture.kernels), len(capture.launches)) == (67, 60)
    assert not capture.partial
    assert [n for n in capture.notes if n.kind is NoteKind.DAMAGE] == []


CUTS = [*range(1, len(GOOD), 211), *ENDS, ENDS[0] - 1, ENDS[0] + 1, len(GOOD) - 1]


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_file_keeps_its_complete_planes(tmp_path: Path, cut: int) -> None:
    complete = [n for n, end in enumerate(ENDS) if end <= cut]
    if not complete:
        with pytest.raises(CaptureError, match=f"in {cut} bytes: .* at byte 0"):
            _read(tmp_path, GOOD[:cut])
        return
    capture = _read(tmp_path, GOOD[:cut])
    at_boundary = cut in ENDS or cut == len(GOOD)
    assert capture.partial is not at_boundary
    kernels = 60 * (0 in complete) + 7 * (2 in complete)
    assert len(capture.kernels) == kernels
    assert len(capture.launches) == 60 * (3 in complete)
    assert len(capture.programs) == (1 in complete)
    if not at_boundary:
        (note,) = [n for n in capture.notes if n.kind is NoteKind.DAMAGE]
        start = max((end for end in ENDS if end <= cut), default=0)
        assert f"at byte {start}" in note.text


def test_planes_around_a_damaged_one_are_kept(tmp_path: Path) -> None:
    event = b"\x22\x20\x08\x01"  # says 32 bytes where 2 are
    broken = bytes_field(2, "/device:GPU:5") + bytes_field(3, int_field(1, 7) + event)
    content = bytes_field(1, PLANES[0]) + bytes_field(1, broken) + bytes_field(1, PLANES[2])
    capture = _read(tmp_path, content)
    assert _names(capture) == {"/device:GPU:0", "/device:GPU:1"}
    assert capture.partial
    (note,) = [n for n in capture.notes if n.kind is NoteKind.DAMAGE]
    assert "/device:GPU:5" in note.text
    assert f"at byte {content.index(event)}" in note.text


@pytest.mark.parametrize("n_good", [0, 40])
def test_damage_inside_an_event_is_found_at_its_byte(tmp_path: Path, n_good: int) -> None:
    good = bytes_field(4, int_field(1, 1) + int_field(2, 5) + int_field(3, 5))
    inside = int_field(1, 1) + int_field(2, 5) + b"\x1f\x05"  # wire type 7 does not exist
    line = int_field(1, 7) + bytes_field(2, "Stream #7") + good * n_good + bytes_field(4, inside)
    content = bytes_field(1, bytes_field(2, "/device:GPU:0") + bytes_field(3, line))
    with pytest.raises(CaptureError, match=f"at byte {content.index(bytes([0x1F, 5]))}"):
        _read(tmp_path, content)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_flipped_bytes_raise_nothing_but_our_error(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    try:
        capture = _read(tmp_path, bytes(content))
    except ExplaneError as error:
        assert "\n" not in str(error)
        return
    assert len(capture.kernels.start_ps) == len(capture.kernels.time_ok)
    assert all(isinstance(capture.text(c), str) for c in capture.kernels.name)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=300), wrap=st.integers(0, 3))
def test_any_bytes_raise_nothing_but_our_error(tmp_path: Path, content: bytes, wrap: int) -> None:
    """As a whole file, as a plane, as a line, and as each event of a line."""
    name = bytes_field(2, "/device:GPU:0")
    line = int_field(1, 7) + bytes_field(4, content) * 30
    bodies = (
        content,
        bytes_field(1, name + content),
        bytes_field(1, name + bytes_field(3, content)),
        bytes_field(1, name + bytes_field(3, line)),
    )
    try:
        _read(tmp_path, bodies[wrap])
    except ExplaneError as error:
        assert "\n" not in str(error)
