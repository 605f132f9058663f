"""Loop conditions that are read back to the host: found, and steps without (times in µs)."""

from __future__ import annotations

from explane.analysis.replay.conditions import calls_that_wait
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.capture.program import Program
from explane.units import PS_PER_US
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.analysis.made import K, L, capture
from tests.unit.analysis.played import PROGRAM, facts_of, path_times, play

US = PS_PER_US


def looping() -> dict[int, Program]:
    """A program with the loop `while.1` and the fusion `body`."""
    entry = HloComputation(
        "main",
        [
            Hlo("p", "parameter", parameter_number=0),
            Hlo("body", "fusion", operands=["p"]),
            Hlo("while.1", "while", operands=["p"]),
        ],
    )
    module = HloModule("jit_f", [entry], program_id=PROGRAM)
    stored = StoredProgram(PROGRAM, f"jit_f({PROGRAM})", module.to_bytes())
    return {PROGRAM: read_program(stored)}


def k(start: int, duration: int, call: int, op: str, name: str = "fusion") -> K:
    return K(start * US, duration * US, name, call=call, op=op, program=PROGRAM)


def iterations() -> tuple[list[K], list[L]]:
    """Body, copy of the condition, ten microseconds of the host, body, copy, …; from 10."""
    kernels, calls = [], []
    at = 10
    for i in range(3):
        body, copy = 2 * i + 1, 2 * i + 2
        kernels += [k(at, 20, body, "body"), k(at + 20, 2, copy, "while.1", "MemcpyD2H")]
        calls += [L((at - 5) * US, 2 * US, body), L((at - 2) * US, 2 * US, copy)]
        at += 37  # 22 on the GPU, 10 until the next call, 5 from the call to the kernel
    return kernels, calls


def test_copies_of_a_loop_s_condition_are_told_from_other_copies() -> None:
    kernels, calls = iterations()
    kernels.append(k(130, 5, 9, "body", "MemcpyD2H"))
    facts = facts_of(capture(kernels, calls), looping())
    assert facts.condition_copies.tolist() == [False, True] * 3 + [False]


def test_the_next_call_of_the_thread_waits_for_the_copy() -> None:
    kernels, calls = iterations()
    calls.append(L(35 * US, 1 * US, 99, thread=1))  # another thread does not wait
    data = capture(kernels, calls)
    facts = facts_of(data, looping())
    launches = facts.join.kernel_launch
    every = launches[launches >= 0]
    copies, waiting = calls_that_wait(facts, every, facts.join.kernel_launch * 0 + range(6))
    assert copies.tolist() == [1, 3]  # after the last copy nothing is called
    assert [int(data.launches.start_ps[every[w]]) // US for w in waiting] == [42, 79]


def test_the_path_goes_through_the_copy_and_the_host_to_the_next_iteration() -> None:
    data = capture(*iterations())
    facts = facts_of(data, looping())
    _, played, rows = play(data, 10 * US, 106 * US, facts=facts)
    times = path_times(played)
    assert times["compute"] == 60 * US
    assert times["memcpy"] == 6 * US
    assert times["host_late"] == 20 * US  # ten after each copy
    replay, left, on_path = rows["while_readback"]
    # Without six of copies, twenty of the host, and twice five from its call to the next body:
    # three bodies, one after the other.
    assert (left, on_path) == (60 * US, 36 * US)
    assert replay == 60 * US


def test_without_conditions_there_is_nothing_to_take_away() -> None:
    kernels, calls = iterations()
    data = capture([x for x in kernels if x.op == "body"], calls)
    _, _, rows = play(data, 10 * US, 104 * US, facts=facts_of(data, looping()))
    assert "while_readback" not in rows
