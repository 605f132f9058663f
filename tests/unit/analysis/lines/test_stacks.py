from __future__ import annotations

import polars as pl
import pytest

from explane.analysis.lines.stacks import instruction_stacks, programs_of, without_repeats
from explane.capture.program import Frame
from tests.unit.export.made import program


def frames(text: str) -> tuple[Frame, ...]:
    return tuple(Frame("f.py", 1, name) for name in text.split())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", ""),
        ("a b c", "a b c"),
        ("a a a", "a"),
        ("f g f g f g h", "f g h"),
        ("x f g h f g h y", "x f g h y"),
        ("a b a", "a b a"),
        ("a a b a a b c", "a b c"),
    ],
)
def test_frames_that_follow_themselves_are_said_once(given: str, expected: str) -> None:
    assert without_repeats(frames(given)) == frames(expected)


def test_a_module_that_two_hosts_store_is_read_once() -> None:
    wanted = pl.DataFrame({"host": ["a", "b"], "program_id": [7, 7]})
    found = programs_of([program("a"), program("b")], wanted)
    assert found["a", 7] is found["b", 7]
    assert programs_of([program("a")], wanted.filter(pl.col("host") == "b")) == {}


def test_stacks_of_known_instructions() -> None:
    ops = pl.DataFrame(
        [("node", 7, "mul.3"), ("node", 7, "gone.9"), ("node", 8, "mul.3"), ("node", 7, None)],
        schema={"host": pl.String, "program_id": pl.Int64, "hlo_instruction": pl.String},
        orient="row",
    )
    found = instruction_stacks([program()], ops)
    assert {key: [f"{f.function}:{f.line}" for f in stack] for key, stack in found.items()} == {
        ("node", 7, "mul.3"): ["head:30", "step:41", "<module>:90"]
    }
