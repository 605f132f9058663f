"""Boundaries of long runs, against a walk one by one over the bytes that were written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explane.capture.blocks import Block
from explane.capture.walk import walk_run
from tests.builders import bytes_field, int_field, varint

TAG = 4 << 3 | 2


def _event(rng: np.random.Generator, style: str) -> bytes:
    body = int_field(1, int(rng.integers(1, 3000)))
    if style != "no offsets":
        body += int_field(2, int(rng.integers(0, 2**40)))
    body += int_field(3, int(rng.integers(0, 2**20)))
    if style == "stats":
        for _ in range(int(rng.integers(0, 9))):
            stat = int_field(1, int(rng.integers(1, 40))) + int_field(7, int(rng.integers(1, 300)))
            body += bytes_field(4, stat)
    elif style == "decoys":
        # Text that looks like a run of events itself.
        decoy = bytes_field(4, int_field(1, 5) + int_field(2, 77)) * int(rng.integers(1, 60))
        body += bytes_field(4, int_field(1, 3) + bytes_field(5, decoy))
    elif style == "wide":
        size = int(rng.choice([100, 127, 128, 16_383, 16_384, 20_000]))
        body += bytes_field(4, int_field(1, 3) + bytes_field(5, bytes(size)))
    return body


def _run(style: str, n_bytes: int, seed: int) -> tuple[bytes, list[tuple[int, int]]]:
    rng = np.random.default_rng(seed)
    content, spans = bytearray(), []
    while len(content) < n_bytes:
        body = _event(rng, style)
        head = varint(TAG) + varint(len(body))
        spans.append((len(content) + len(head), len(content) + len(head) + len(body)))
        content += head + body
    return bytes(content), spans


@pytest.mark.parametrize("style", ["plain", "stats", "decoys", "wide", "no offsets"])
@pytest.mark.parametrize("n_bytes", [100, 150_000])
def test_a_run_is_walked_whole(style: str, n_bytes: int) -> None:
    content, spans = _run(style, n_bytes, seed=1)
    before, after = int_field(1, 7), bytes_field(11, "a name") + int_field(9, 5)
    block = Block(before + content + after, 0, len(before + content + after))
    run = walk_run(block, len(before), TAG)
    assert list(zip(run.starts - len(before), run.ends - len(before), strict=True)) == spans
    assert run.stop == len(before) + len(content)


@pytest.mark.parametrize("style", ["plain", "stats", "decoys", "wide"])
@pytest.mark.parametrize("n_bytes", [300, 150_000])
def test_an_event_that_is_cut_ends_the_run(style: str, n_bytes: int) -> None:
    content, spans = _run(style, n_bytes, seed=2)
    for cut in (len(content) - 1, spans[-1][0] - 1, spans[-1][0], spans[-2][1] + 1):
        run = walk_run(Block(content, 0, cut), 0, TAG)
        whole = [span for span in spans if span[1] <= cut]
        assert list(zip(run.starts, run.ends, strict=True)) == whole
        assert run.stop == whole[-1][1]


def test_a_damaged_byte_ends_the_run_where_it_is() -> None:
    content, spans = _run("stats", 150_000, seed=3)
    victim = len(spans) // 2
    at = spans[victim - 1][1]
    damaged = content[:at] + b"\x7f" + content[at + 1 :]
    run = walk_run(Block(damaged, 0, len(damaged)), 0, TAG)
    assert list(zip(run.starts, run.ends, strict=True)) == spans[:victim]
    assert run.stop == at


def test_lengths_of_four_bytes_and_nothing_at_all() -> None:
    body = int_field(1, 1) + bytes_field(9, bytes(1 << 21))
    small = bytes_field(4, int_field(1, 1) + int_field(2, 3)) * 20_000
    content = small + bytes_field(4, body) + small
    run = walk_run(Block(content, 0, len(content)), 0, TAG)
    assert len(run.starts) == 40_001
    assert run.stop == len(content)
    assert len(walk_run(Block(int_field(1, 2), 0, 2), 0, TAG).starts) == 0


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), flips=st.integers(0, 3), data=st.data())
def test_lanes_equal_a_walk_one_by_one(seed: int, flips: int, data: st.DataObject) -> None:
    style = data.draw(st.sampled_from(["plain", "stats", "decoys"]))
    content = bytearray(_run(style, 140_000, seed)[0])
    for _ in range(flips):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    run = walk_run(Block(bytes(content), 0, len(content)), 0, TAG)
    assert list(zip(run.starts, run.ends, strict=True)) == _one_by_one(bytes(content))


def _one_by_one(content: bytes) -> list[tuple[int, int]]:
    spans, at = [], 0
    while at < len(content) and content[at] == TAG:
        length = shift = 0
        head = at + 1
        while head < len(content):
            length |= (content[head] & 0x7F) << shift
            shift += 7
            head += 1
            if content[head - 1] < 0x80 or shift > 63:
                break
        if head > len(content) or content[head - 1] >= 0x80 or length > len(content) - head:
            break
        spans.append((head, head + length))
        at = head + length
    return spans
