from __future__ import annotations

import gzip

import pytest

from tests.cli.captures import small_capture
from tools.mutants import join_fields, mutant, split_fields, varint

WHOLE = small_capture().to_bytes()


def test_same_seed_same_mutant() -> None:
    assert [mutant(WHOLE, seed) for seed in range(50)] == [
        mutant(WHOLE, seed) for seed in range(50)
    ]


def test_mutants_differ_from_the_original_and_each_other() -> None:
    made = {mutant(WHOLE, seed) for seed in range(400)}
    assert len(made) > 300
    assert sum(mutant(WHOLE, seed) == WHOLE for seed in range(400)) < 20


def test_splitting_and_joining_gives_the_same_bytes() -> None:
    fields = split_fields(WHOLE)
    assert len(fields) > 4
    assert join_fields(fields) == WHOLE


def test_most_structural_mutants_still_parse_at_the_top() -> None:
    made = [mutant(WHOLE, seed) for seed in range(1, 400, 2)]
    assert sum(bool(split_fields(m)) for m in made) > 0.8 * len(made)


def test_json_stays_gzip_or_is_cut() -> None:
    text = gzip.compress(b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2}]}', mtime=0)
    made = [mutant(text, seed) for seed in range(50)]
    assert len(set(made)) > 25


@pytest.mark.parametrize(("number", "text"), [(0, b"\0"), (300, b"\xac\x02"), (127, b"\x7f")])
def test_varint(number: int, text: bytes) -> None:
    assert varint(number) == text


def test_varint_of_64_bits_has_10_bytes() -> None:
    assert len(varint(2**64 - 1)) == 10
