"""Compares explane's attribution of a capture with graphs against one of the same program without.

    explane attribute off-capture -o off && explane attribute on-capture -o on
    python tools/compare_captures.py off/kernels.csv on/kernels.csv

Without command buffers every kernel carries the tracer's own label, so that capture is the truth
for the one with them, if both hold the same program. The two are set side by side per device,
program and step: the n-th start of a kernel name in one is the n-th in the other. Where branches
of a graph run side by side, equal kernels may start in another order than the schedule's, so the
agreement is also given without regard to order. Standard library only. Exit code 1 when the two
don't hold the same kernels, or nothing could be compared.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

Row = dict[str, str]
Group = dict[str, list[Row]]  # kernels of one execution by name, in order of start


@dataclass
class Agreement:
    """Counts of kernels by match class: compared, equal in order, equal as a multiset.

    `no_truth` counts kernels whose partner isn't labelled by the tracer either.
    """

    compared: Counter[str] = field(default_factory=Counter)
    in_order: Counter[str] = field(default_factory=Counter)
    in_any_order: Counter[str] = field(default_factory=Counter)
    compared_ps: Counter[str] = field(default_factory=Counter)
    right_ps: Counter[str] = field(default_factory=Counter)
    no_truth: int = 0

    def add(self, truth: list[Row], claimed: list[Row]) -> None:
        """Counts one name of one execution."""
        unmatched = Counter(row["hlo_instruction"] for row in truth if row["match"] == "exact")
        for true_row, row in zip(truth, claimed, strict=True):
            if true_row["match"] != "exact":
                self.no_truth += 1
                continue
            kind = ("graph/" if row["in_graph"] == "1" else "direct/") + row["match"]
            claim = row["hlo_instruction"]
            self._count(kind, int(row["duration_ps"]), claim == true_row["hlo_instruction"])
            if unmatched[claim] > 0:
                unmatched[claim] -= 1
                self.in_any_order[kind] += 1

    def _count(self, kind: str, duration_ps: int, right: bool) -> None:
        self.compared[kind] += 1
        self.in_order[kind] += right
        self.compared_ps[kind] += duration_ps
        self.right_ps[kind] += right * duration_ps

    def lines(self) -> Iterator[str]:
        """A table by match class."""
        yield f"{'class':<16}{'kernels':>9}{'in order':>10}{'any order':>11}{'by time':>9}"
        for kind, n in sorted(self.compared.items()):
            shares = (self.in_order[kind] / n, self.in_any_order[kind] / n)
            by_time = self.right_ps[kind] / max(self.compared_ps[kind], 1)
            yield f"{kind:<16}{n:>9}{shares[0]:>10.4f}{shares[1]:>11.4f}{by_time:>9.4f}"


def main() -> int:
    """Compares the two tables named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("off", type=Path, help="kernels.csv of the capture without graphs")
    parser.add_argument("on", type=Path, help="kernels.csv of the capture with graphs")
    arguments = parser.parse_args()
    truth, claimed = _executions(arguments.off), _executions(arguments.on)
    agreement, n_different = _compare(truth, claimed)
    for line in agreement.lines():
        print(line)
    print(f"{agreement.no_truth} kernels are not labelled in the capture without graphs either")
    print(f"{n_different} steps hold other kernels in one capture than in the other")
    return 1 if n_different or not agreement.compared else 0


def _executions(path: Path) -> list[Group]:
    """Kernels of each (device, program, step), in the order of device, program and time."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["program_id"] and row["step"]]
    groups: dict[tuple[int, int, int], list[Row]] = defaultdict(list)
    for row in rows:
        groups[int(row["device"]), int(row["program_id"]), int(row["step"])].append(row)
    return [_by_name(groups[key]) for key in sorted(groups)]


def _by_name(rows: Iterable[Row]) -> Group:
    names: Group = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row["start_ps"])):
        names[row["kernel"]].append(row)
    return dict(names)


def _compare(truth: list[Group], claimed: list[Group]) -> tuple[Agreement, int]:
    """The agreement, and how many executions have no partner with the same kernels."""
    agreement = Agreement()
    n_different = abs(len(truth) - len(claimed))
    for true_group, group in zip(truth, claimed, strict=False):
        if _shape(true_group) != _shape(group):
            n_different += 1
            continue
        for name, rows in group.items():
            agreement.add(true_group[name], rows)
    return agreement, n_different


def _shape(group: Group) -> dict[str, int]:
    return {name: len(rows) for name, rows in group.items()}


if __name__ == "__main__":
    sys.exit(main())
