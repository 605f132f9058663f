from __future__ import annotations

import pytest

from explane.report.text import has_digit, shortened, shortened_path, visible


def test_line_breaks_become_blanks_and_controls_are_shown_as_replaced() -> None:
    assert visible("a\nb\tc\r\nd") == "a b c d"
    assert visible("a\x00b\x1b[31m") == "a\ufffdb\ufffd[31m"


def test_characters_that_turn_the_direction_of_writing_are_replaced() -> None:
    assert visible("safe\u202egnp.exe") == "safe\ufffdgnp.exe"
    assert visible("a\u200bb\u2028c") == "a\ufffdb\ufffdc"


def test_letters_of_any_script_stay() -> None:
    assert visible("Größe µs 核") == "Größe µs 核"


@pytest.mark.parametrize("length", [5, 20, 56, 57, 4000])
def test_shortened_keeps_both_ends_and_the_limit(length: int) -> None:
    name = "h" * (length - 1) + "t"
    short = shortened(name, 56)
    assert len(short) == min(length, 56)
    assert short[0] == "h"
    assert short[-1] == "t"
    assert ("…" in short) == (length > 56)


def test_shortened_path_keeps_the_end_and_cuts_at_a_folder() -> None:
    path = "/home/someone/project/src/model/attention.py:120"
    assert shortened_path(path, 60) == path
    assert shortened_path(path, 30) == "…/src/model/attention.py:120"
    assert shortened_path("x" * 80, 10) == "…" + "x" * 9


def test_digits_of_any_script_count() -> None:
    assert has_digit("a1")
    assert has_digit("٣")
    assert not has_digit("IL, TKLQT")
