"""`explane export` from a capture's files to a file that other tools read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from explane.cli.main import main
from tests.cli.captures import N_KERNELS, write_small_capture
from tests.unit.export.schemas import profile, trace


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_capture(tmp_path_factory.mktemp("logdir"))


def test_perfetto_by_the_ending(capture: Path, tmp_path: Path) -> None:
    output = tmp_path / "trace.pftrace"
    assert main(["export", str(capture), "-o", str(output)]) == 0
    packets = trace(output.read_bytes()).packet
    begun = [
        p.track_event for p in packets if p.HasField("track_event") and p.track_event.type == 1
    ]
    # Each of the kernels has an arrow from its launch, and each launch one to its kernel.
    assert sum(len(event.flow_ids) for event in begun) == 2 * N_KERNELS
    tracks = [p.track_descriptor.name for p in packets if p.HasField("track_descriptor")]
    assert any(name.startswith("critical path of step") for name in tracks)
    assert "steps" in tracks


@pytest.mark.parametrize("by", ["stack", "scope"])
def test_pprof(capture: Path, tmp_path: Path, by: str) -> None:
    output = tmp_path / "time.pb.gz"
    assert main(["export", str(capture), "--to", "pprof", "--by", by, "-o", str(output)]) == 0
    found = profile(gzip.decompress(output.read_bytes()))
    assert sum(sample.value[0] for sample in found.sample) == N_KERNELS
    assert sum(sample.value[1] for sample in found.sample) == N_KERNELS * 20_000  # 20 µs each
    files = {found.string_table[function.filename] for function in found.function}
    assert "/home/user/train.py" in files


def test_a_name_without_a_known_ending_needs_a_format(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(capture), "-o", str(tmp_path / "trace")]) == 2
    assert "[export-format]" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_stays(capture: Path, tmp_path: Path) -> None:
    output = tmp_path / "trace.pftrace"
    output.write_text("mine")
    assert main(["export", str(capture), "-o", str(output)]) == 2
    assert output.read_text() == "mine"
    assert main(["export", str(capture), "-o", str(output), "--force", "-q"]) == 0
    assert output.read_bytes()[:1] == b"\x0a"
