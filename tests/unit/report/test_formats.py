from __future__ import annotations

import random

import pytest

from explane.report.factcheck.readback import plain, says
from explane.report.formats import NOTHING, NUMBER_FORMATS, printed
from explane.report.markdown import code_span, escaped


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (24816, "count", "24,816"),
        (24816, "id", "24816"),
        (12_345_000_000, "ps", "12.345 ms"),
        (-3_000_000, "ps", "-3.000 µs"),
        (0.8667, "ratio", "86.7 %"),
        (0.99999, "ratio", "> 99.9 %"),
        (0.00001, "ratio", "< 0.1 %"),
        (-0.00001, "ratio", "> -0.1 %"),
        (-0.2, "ratio", "-20.0 %"),
        (0, "flop", "0 FLOP"),
        (1.0, "ratio", "100 %"),
        (1536, "bytes", "1.50 KiB"),
        (9.894e14, "flop_per_s", "989.4 TFLOP/s"),
        (3.35e12, "byte_per_s", "3.4 TB/s"),
        (2e9, "flop", "2.0 GFLOP"),
        (None, "ps", NOTHING),
        (float("nan"), "ratio", NOTHING),
        ("", "name", NOTHING),
        ("a\nb", "name", "a b"),
    ],
)
def test_printed(value: float | str | None, unit: str, text: str) -> None:
    assert printed(value, unit) == text
    assert says(text, value, unit)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("12.346 ms", 12_345_000_000, "ps"),
        ("12.345 µs", 12_345_000_000, "ps"),
        ("12,345 ms", 12_345_000_000, "ps"),
        ("24,817", 24816, "count"),
        ("24816", 24816, "count"),
        ("86.8 %", 0.8667, "ratio"),
        ("100 %", 0.99999, "ratio"),
        ("0", None, "ps"),
        ("fusion.12", "fusion.13", "name"),
        ("fus…13", "fusion.12", "name"),
        ("fusion.1…3", "fusion.13", "name"),
    ],
)
def test_a_text_that_says_something_else_is_not_accepted(
    text: str, value: float | str | None, unit: str
) -> None:
    assert not says(text, value, unit)


@pytest.mark.parametrize("unit", sorted(NUMBER_FORMATS))
def test_whatever_is_printed_is_read_back_as_said(unit: str) -> None:
    generator = random.Random(unit)
    for _ in range(500):
        value = generator.choice([1, -1]) * 10 ** generator.uniform(0, 17)
        if unit in ("ps", "count", "id"):
            value = round(value)
        elif unit == "ratio":
            value = generator.uniform(0, 1.5)
        assert says(printed(value, unit), value, unit), value


@pytest.mark.parametrize("name", ["a`b", "``", "a|b", "`a|b`", "x*y_z", "<script>", "1. x", "# x"])
def test_markdown_escapes_can_be_taken_off(name: str) -> None:
    assert plain(code_span(name)) == name
    assert plain(code_span(name, in_table=True)) == name
    assert plain(escaped(name)) == name
