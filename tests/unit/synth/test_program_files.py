"""Program files, raw dumps, and the programs that are shipped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explane.errors import CaptureError
from explane.synth.dumps import parse_thunk_metadata, parse_thunk_sequence
from explane.synth.program import Thunk
from explane.synth.program_files import (
    bundled_program,
    bundled_programs,
    read_compiled,
    write_compiled,
)
from tests.shared import ROOT, SHARED, require_shared
from tests.unit.synth.programs import chain

SEQUENCE = """\
001: kCustomKernel  [source        | next=002 (1)] wrapped_add grid: [6, 2, 1] threads: [128, 1, 1]  shared_memory: 96 bytes
002: kWhile         [prev=001 (1)  | next=008 (1)]
condition:
    003: kCustomKernel [source | sink] loop_and_fusion grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0 bytes
  body:
    000: kCommandBuffer [source | sink]
        004: kCopy         [source       | sink        ] kCopy
    006: kAsyncStart [prev=000 (1) | next=007 (1)] stream=communication_stream[0], async_id=6
        005: kAllGather [source | sink] kAllGather
    007: kAsyncDone  [source | sink] async_id=6
008: kConditional   [prev=002 (1)  | sink        ]
  false_branch:
    009: kGemm [source | sink] kGemm
  true_branch:
    010: kWhile [source | sink]
    condition:
        011: kCopy [source | sink] kCopy
      body:
        012: kCopy [source | sink] kCopy
013: kFft           [prev=008 (3)  | sink        ] (no description)
"""  # noqa: E501  (as XLA writes it)

METADATA = """
thunk_metadata {
  thunk_info {
    profile_annotation: "command_buffer_4"
  }
  thunk_kind: "kCommandBuffer"
}
thunk_metadata {
  thunk_info {
    profile_annotation: "wrapped_add.2"
    thunk_id: 1
  }
  thunk_kind: "kCustomKernel"
}
"""


def test_sequence_keeps_nesting_and_launch_shapes() -> None:
    thunks = parse_thunk_sequence(SEQUENCE.splitlines(), {1: "wrapped_add.2"})

    assert [t.kind for t in thunks] == ["kCustomKernel", "kWhile", "kConditional", "kFft"]
    first = thunks[0]
    assert (first.instruction, first.kernel) == ("wrapped_add.2", "wrapped_add")
    assert (first.grid, first.block, first.shared_bytes) == ((6, 2, 1), (128, 1, 1), 96)
    loop = thunks[1].parts
    assert [t.thunk_id for t in loop["condition"]] == [3]
    assert [t.kind for t in loop["body"]] == ["kCommandBuffer", "kAsyncStart", "kAsyncDone"]
    start, done = loop["body"][1:]
    assert (start.stream, start.async_id, done.async_id) == ("communication_stream[0]", 6, 6)
    assert start.children[0].thunk_id == 5
    branches = thunks[2].parts
    assert sorted(branches) == ["false_branch", "true_branch"]
    inner = branches["true_branch"][0]
    assert [t.thunk_id for t in inner.parts["condition"]] == [11]
    assert [t.thunk_id for t in inner.parts["body"]] == [12]
    assert thunks[3].distance == 3
    assert [t.thunk_id for t in (x for top in thunks for x in top.walk())] == [
        *(1, 2, 3, 0, 4, 6, 5, 7, 8, 9, 10, 11, 12, 13)
    ]


def test_metadata_leaves_out_thunks_without_id() -> None:
    assert parse_thunk_metadata(METADATA) == {1: "wrapped_add.2"}


def test_program_file_keeps_everything_and_is_stable(tmp_path: Path) -> None:
    program = chain()
    write_compiled(program, tmp_path / "hand.program.zip")
    write_compiled(program, tmp_path / "again.program.zip")

    assert read_compiled(tmp_path / "hand.program.zip") == program
    first, second = ((tmp_path / f"{n}.program.zip").read_bytes() for n in ("hand", "again"))
    assert first == second


@pytest.mark.parametrize("content", [b"", b"PK\3\4nonsense"])
def test_what_is_no_program_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.program.zip"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match="no compiled program"):
        read_compiled(path)
    with pytest.raises(CaptureError, match="dumps of 0 modules"):
        read_compiled(tmp_path)


def test_shipped_programs_cover_what_the_simulator_needs() -> None:
    kinds: set[str] = set()
    platforms: dict[str, int] = {}
    for title in bundled_programs():
        program = bundled_program(title)
        platforms[program.platform] = platforms.get(program.platform, 0) + 1
        kinds |= {thunk.kind for thunk in program.walk()}
        names = program.hlo.by_name
        thunks = [t for t in program.walk() if t.kind != "kCommandBuffer"]
        assert all(thunk.instruction in names for thunk in thunks), title
    assert platforms == {"CUDA": 11, "ROCM": 9}
    assert kinds >= {
        *("kCommandBuffer", "kWhile", "kConditional", "kAsyncStart", "kCublasLtMatmul"),
        *("kConvolution", "kAllGather", "kAllReduce", "kReduceScatter", "kCollectivePermute"),
    }


def test_shipped_programs_are_small_and_name_no_machine() -> None:
    folder = ROOT / "src" / "explane" / "data" / "programs"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_500_000
    for title in bundled_programs():
        files = {frame.file for frame, _ in bundled_program(title).hlo.frames}
        assert all(re.match(r"/home/user/(models|venv/lib)/", file) for file in files), title


def test_sources_are_those_of_the_repository() -> None:
    """The HLO's line numbers point into `tools/models`, as it is."""
    models = ROOT / "tools" / "models"
    for title in bundled_programs():
        sources = bundled_program(title).sources
        assert sources, title
        for name, text in sources.items():
            assert text == (models / name).read_text(encoding="utf-8"), f"{title}: {name} changed"


@require_shared
def test_raw_dumps_are_read() -> None:
    assert SHARED is not None
    program = read_compiled(SHARED / "programs" / "gpt1_h100")
    graphs = [t for t in program.walk() if t.kind == "kCommandBuffer"]

    assert program.name == "jit_train_step"
    assert len(graphs) == 5
    assert all(isinstance(t, Thunk) and len(t.children) >= 5 for t in graphs)
