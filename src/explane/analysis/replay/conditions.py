"""Predicates of loops and branches that are read back to the host.

XLA runs a `while` without a known trip count (and a `conditional`) from the host: the predicate
is copied back, the host waits for the copy, and only then launches what comes next:

    GPU    ├ cond ┤├D2H┤               ├ body … ├ cond ┤├D2H┤
    host                 ├wait┤├launch┤                       ├wait┤├launch┤
"""

from __future__ import annotations

import numpy as np

from explane.analysis.replay.facts import StepFacts
from explane.capture.model import I32, I64


def calls_that_wait(facts: StepFacts, launches: I32, kernels: I64) -> tuple[I64, I64]:
    """The next call of the same thread after the call of each copy of a predicate.

    Args:
        facts: The capture and what is known of it.
        launches: Rows in `Capture.launches`, by start.
        kernels: Rows in `Capture.kernels`; those that are no copies of predicates are left out.

    Returns:
        Indices in `kernels` and in `launches`, of equal length.
    """
    copies = np.flatnonzero(facts.condition_copies[kernels])
    thread = facts.capture.launches.thread[launches]
    order = np.argsort(thread, kind="stable")
    following = np.full(len(thread), -1, np.int64)
    same = thread[order[1:]] == thread[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    by_row = np.argsort(launches)
    asked = facts.join.kernel_launch[kernels[copies]]
    copies, asked = copies[asked >= 0], asked[asked >= 0]
    call = by_row[np.searchsorted(launches[by_row], asked)]
    waits = following[call]
    return copies[waits >= 0], waits[waits >= 0]
