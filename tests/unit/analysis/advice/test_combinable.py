"""Small collectives that could be one: which, and how much of each transfer that leaves."""

from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.advice.combinable import combinable, later_parts
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.capture.program import Program
from explane.units import PS_PER_US
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.analysis.made import K, capture
from tests.unit.analysis.played import PROGRAM, facts_of

US = PS_PER_US


def program(*instructions: Hlo) -> Program:
    """Instructions after a parameter `p`, on two devices."""
    entry = HloComputation("main", [Hlo("p", "parameter", parameter_number=0), *instructions])
    sums = HloComputation(
        "sums",
        [
            Hlo("x", "parameter", "f32[]", parameter_number=0),
            Hlo("y", "parameter", "f32[]", parameter_number=1),
            Hlo("z", "add", "f32[]", operands=["x", "y"]),
        ],
    )
    module = HloModule("jit_f", [sums, entry], program_id=PROGRAM, num_partitions=2)
    return read_program(StoredProgram(PROGRAM, f"jit_f({PROGRAM})", module.to_bytes()))


def reduced(name: str, operand: str = "p", shape: str = "f32[8]", calls: str = "sums") -> Hlo:
    return Hlo(name, "all-reduce", shape, operands=[operand], calls=[calls])


def test_all_but_the_first_of_independent_collectives_could_go_with_it() -> None:
    made = program(reduced("a"), reduced("b"), reduced("c"))
    assert later_parts(made, frozenset("abc")) == ["b", "c"]
    assert later_parts(made, frozenset("bc")) == ["c"]


def test_one_that_needs_another_s_result_begins_a_new_set() -> None:
    made = program(
        reduced("a"),
        Hlo("twice", "add", operands=["a", "a"]),
        reduced("b", "twice"),
        reduced("c"),
        reduced("d", "twice"),
    )
    # b needs a, so b, c and d are a set of their own.
    assert later_parts(made, frozenset("abcd")) == ["c", "d"]


def test_other_kinds_and_types_don_t_mix() -> None:
    made = program(
        reduced("a"),
        Hlo("cast", "convert", "bf16[8]", operands=["p"]),
        reduced("b", "cast", "bf16[8]"),
        Hlo("c", "all-gather", "f32[16]", operands=["p"]),
        Hlo("d", "collective-permute", operands=["p"]),
        Hlo("e", "collective-permute", operands=["p"]),
    )
    assert later_parts(made, frozenset("abcde")) == []


def transfers(*times_us: float, large_us: float = 0) -> list[K]:
    """Collectives a, b, … on two GPUs that start together, then one called `large`."""
    kernels, at = [], 0.0
    names = [*"abcdef"[: len(times_us)], *(["large"] if large_us else [])]
    for name, lasts in zip(names, [*times_us, *([large_us] if large_us else [])], strict=True):
        for device in (0, 1):
            start, length = round(at * US), round(lasts * US)
            kernels.append(
                K(start, length, "ncclDevKernel_AllReduce", op=name, program=PROGRAM,
                  device=device)
            )  # fmt: skip
        at += lasts + 1
    return kernels


def shares_of(kernels: list[K], n_bytes: dict[str, float], made: Program) -> dict[str, float]:
    data = capture(kernels)
    facts = facts_of(data, {PROGRAM: made}, n_bytes)
    names = facts.attribution.instruction_names()
    return dict(zip(names, combinable(facts).tolist(), strict=True))


def test_a_later_small_collective_keeps_only_what_exceeds_the_latency() -> None:
    made = program(reduced("a"), reduced("b"), Hlo("large", "all-gather", operands=["p"]))
    kernels = transfers(20, 25, large_us=1000)
    # 300 MB in a millisecond: 300 GB/s. 64 KiB at that rate take 0.2 µs, a tenth of the latency.
    n_bytes = {"a": 65536.0, "b": 65536.0, "large": 3e8}
    assert shares_of(kernels, n_bytes, made) == pytest.approx(
        {"a": 1.0, "b": 5 / 25, "large": 1.0}
    )


def test_without_a_large_one_to_compare_with_a_rate_below_any_link_is_latency() -> None:
    made = program(reduced("a"), reduced("b"))
    n_bytes = {"a": 8192.0, "b": 8192.0}
    assert shares_of(transfers(20, 20), n_bytes, made) == {"a": 1.0, "b": 0.0}


def test_nothing_is_claimed_of_large_ones_of_unknown_size_or_of_a_lone_gpu() -> None:
    made = program(reduced("a"), reduced("b"))
    large = {"a": 3e8, "b": 3e8}
    assert set(shares_of(transfers(1000, 1000), large, made).values()) == {1.0}
    assert set(shares_of(transfers(20, 20), {}, made).values()) == {1.0}
    alone = [k for k in transfers(20, 20) if k.device == 0]
    assert set(shares_of(alone, {"a": 8192.0, "b": 8192.0}, made).values()) == {1.0}
    facts = facts_of(capture(transfers(20, 20)), {PROGRAM: made})
    assert np.all(combinable(facts) == 1.0)
