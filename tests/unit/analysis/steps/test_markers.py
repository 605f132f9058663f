"""Work launched between two step markers, and which series of markers makes the steps."""

from __future__ import annotations

from explane.analysis.steps.rows import Steps
from explane.analysis.steps.steps import find_steps
from explane.units import PS_PER_MS
from tests.unit.analysis.made import E, K, L, capture

MS = PS_PER_MS


class Loop:
    """A training loop: markers of 6 ms with two kernels of 2 ms, then what stands behind them."""

    def __init__(self) -> None:
        self.kernels: list[K] = []
        self.calls: list[L] = []
        self.events: list[E] = []
        self.now = 0

    def train(self, step: int, lost: int = 0) -> None:
        """One marked step; `lost` more kernels of 9 ps than two."""
        self.events.append(E(self.now, 6 * MS, "train", step=step))
        self.launch(self.now + MS, self.now + 2 * MS, 2 * MS, "a", 1)
        self.launch(self.now + 2 * MS, self.now + 4 * MS, 2 * MS, "b", 1)
        for i in range(lost):
            self.launch(self.now + 3 * MS + i, self.now + 2 * MS + 9 * i, 9, "c", 1)
        self.now += 6 * MS

    def launch(self, at: int, start: int, length: int, name: str, program: int) -> None:
        """A kernel and its call."""
        number = len(self.calls)
        self.calls.append(L(at, 9, number))
        self.kernels.append(K(start, length, name, number, program=program))

    def between(self, n: int, each: int = MS, name: str = "eval", program: int = 2) -> None:
        """Kernels one after the other, the first launched when the marker closes."""
        for i in range(n):
            at = self.now + i * each
            self.launch(at, at + each // 2, each // 2, name, program)
        self.now += n * each

    def steps(self) -> Steps:
        """What is found."""
        return find_steps(capture(self.kernels, self.calls, self.events))


def test_a_copy_launched_when_the_marker_closes_belongs_to_its_step() -> None:
    loop = Loop()
    for step in range(5):
        loop.train(step)
        loop.between(1, 4 * MS, "MemcpyH2D", -1)
    steps = loop.steps()
    assert steps.kernel_step.tolist() == [i for i in range(5) for _ in range(3)]
    # The copy ends at 10 ms of each period of 10 ms.
    windows = list(zip(steps.start_ps.tolist(), steps.end_ps.tolist(), strict=True))
    assert windows == [
        (2 * MS, 10 * MS),
        *((10 * i * MS, (10 * i + 10) * MS) for i in (1, 2, 3, 4)),
    ]
    assert steps.complete.tolist() == [False, True, True, True, True]
    assert steps.notes == ()


def test_after_the_last_marker_work_counts_as_far_as_the_shortest_pause_reaches() -> None:
    loop = Loop()
    for step in range(5):
        loop.train(step)
        loop.between(2 + step % 2, name="metrics")
    steps = loop.steps()
    # The last marker's pause is open: two launches in 2 ms count, more of them would not.
    assert steps.n_kernels.tolist() == [4, 5, 4, 5, 4]
    loop.between(4, name="save")
    assert loop.steps().kernel_step.tolist() == [*steps.kernel_step.tolist(), *[-1] * 4]


def test_a_step_with_an_evaluation_behind_it_is_odd_and_the_next_one_is_not() -> None:
    loop = Loop()
    for step in range(12):
        loop.train(step)
        if step % 5 == 3:
            loop.between(3)
    steps = loop.steps()
    assert steps.n_kernels.tolist() == [2, 2, 2, 5, 2, 2, 2, 2, 5, 2, 2, 2]
    left_out = [step for step, whole in enumerate(steps.complete.tolist()) if not whole]
    assert left_out == [0, 3, 8]
    assert steps.reason[3] == "5 kernels where 2 are usual"
    # The evaluation of 3 ms is no part of the step behind it.
    assert set(steps.duration_ps[steps.complete].tolist()) == {6 * MS}
    assert steps.withheld == ""


def test_an_evaluation_is_found_where_records_of_kernels_are_lost() -> None:
    loop = Loop()
    for step, lost in enumerate((7, 8, 6, 8, 7, 9, 6, 7)):
        loop.train(step, lost)
        if step == 4:
            loop.between(3)
    steps = loop.steps()
    # A third more than the median of nine is odd, one more or less is not.
    assert steps.n_kernels.tolist() == [9, 10, 8, 10, 12, 11, 8, 9]
    assert [bool(reason) for reason in steps.reason] == [True, *[False] * 3, True, *[False] * 3]
    assert set(steps.duration_ps[steps.complete].tolist()) == {6 * MS}


def test_work_outside_all_markers_belongs_to_no_step() -> None:
    loop = Loop()
    loop.between(2)
    for step in range(3):
        loop.train(step)
    loop.between(2)
    assert loop.steps().kernel_step.tolist() == [-1, -1, 0, 0, 1, 1, 2, 2, -1, -1]


def test_a_loader_with_markers_of_its_own_does_not_make_the_steps() -> None:
    # Its markers begin before those of the training loop, so more work comes after one of them.
    loop = Loop()
    loop.between(1)
    for step in range(4):
        loop.events.append(E(loop.now - MS, MS // 2, "load", thread=1, step=100 + step))
        loop.train(step)
    assert loop.steps().step.tolist() == [0, 1, 2, 3]
