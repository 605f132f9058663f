"""Plain and gzip text in blocks: every damage is named, and what was readable is kept."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import pytest

from explane.capture import text_blocks
from explane.capture.text_blocks import BlockReader
from explane.errors import CaptureError

TEXT = b"".join(b"line %d\n" % number for number in range(60_000))


def read(path: Path, content: bytes, block_bytes: int = 10_000) -> tuple[bytes, BlockReader]:
    path.write_bytes(content)
    reader = BlockReader(path, block_bytes)
    blocks = list(reader)
    assert all(0 < len(block) <= block_bytes for block in blocks)
    assert reader.n_text_bytes == sum(map(len, blocks))
    return b"".join(blocks), reader


def slugs(reader: BlockReader) -> list[str]:
    return [problem.slug for problem in reader.problems]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_text_comes_back_whatever_the_suffix(tmp_path: Path, pack: type[bytes]) -> None:
    for name in ("a.gz", "a.json"):
        text, reader = read(tmp_path / name, pack(TEXT))
        assert text == TEXT
        assert not reader.problems


def test_members_follow_each_other(tmp_path: Path) -> None:
    members = b"".join(gzip.compress(TEXT[at : at + 9_999]) for at in range(0, len(TEXT), 9_999))
    text, reader = read(tmp_path / "a.gz", members + b"\0" * 512)
    assert text == TEXT
    assert not reader.problems


def test_header_with_every_optional_field(tmp_path: Path) -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(TEXT) + deflate.flush()
    flags = 2 | 4 | 8 | 16
    head = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\xff"
    head += struct.pack("<H", 5) + b"extra" + b"name\0" + b"comment\0" + b"\x12\x34"
    tail = struct.pack("<II", zlib.crc32(TEXT), len(TEXT))
    text, reader = read(tmp_path / "a.gz", head + body + tail)
    assert text == TEXT
    assert not reader.problems
    for n_bytes in (5, 11, 14, 18, 24, len(head) - 1):
        _, cut = read(tmp_path / "cut.gz", head[:n_bytes])
        assert slugs(cut) == ["truncated_gzip"]


@pytest.mark.parametrize("share", [0.05, 0.7, 0.999])
def test_truncated_gzip_keeps_what_came_before(tmp_path: Path, share: float) -> None:
    packed = gzip.compress(TEXT)
    text, reader = read(tmp_path / "a.gz", packed[: int(len(packed) * share)])
    assert TEXT.startswith(text)
    assert len(text) > 0.5 * share * len(TEXT)
    assert slugs(reader) == ["truncated_gzip"]
    assert reader.problems[0].loses_text
    assert f"{int(len(packed) * share):,} bytes" in reader.problems[0].text


def test_wrong_checksum_loses_no_text(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-5] ^= 1
    text, reader = read(tmp_path / "a.gz", bytes(packed))
    assert text == TEXT
    assert slugs(reader) == ["wrong_checksum"]
    assert not reader.problems[0].loses_text


def test_damaged_middle_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[len(packed) // 2 : len(packed) // 2 + 400] = b"\xff" * 400
    text, reader = read(tmp_path / "a.gz", bytes(packed))
    assert TEXT.startswith(text[: len(TEXT) // 4])
    assert slugs(reader)[0] in ("damaged_gzip", "wrong_checksum", "truncated_gzip")


def test_trailing_garbage_is_named_and_loses_nothing(tmp_path: Path) -> None:
    text, reader = read(tmp_path / "a.gz", gzip.compress(TEXT) + b"garbage")
    assert text == TEXT
    assert slugs(reader) == ["trailing_garbage"]
    assert not reader.problems[0].loses_text


def test_expansion_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "MIN_BOUND_BYTES", 1 << 20)
    packed = gzip.compress(bytes(20 << 20))
    text, reader = read(tmp_path / "a.gz", packed, block_bytes=1 << 16)
    assert slugs(reader) == ["expansion_bound"]
    assert len(text) <= text_blocks.MAX_EXPANSION * len(packed) + (1 << 16)


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="can't be read"):
        list(BlockReader(tmp_path / "none"))
