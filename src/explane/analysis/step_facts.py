"""What the dependency graph of a step is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explane.analysis.attribution import Attribution
from explane.analysis.collective_match import MatchedCollectives
from explane.analysis.launches import LaunchJoin
from explane.capture.model import Capture
from explane.capture.program import Program


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Everything that the graph of a step is made from.

    Attributes:
        capture: The capture.
        join: Kernels and their launches.
        attribution: Kernels and their instructions.
        programs: Parsed programs by id.
        collectives: Collective kernels matched across GPUs.
    """

    capture: Capture
    join: LaunchJoin
    attribution: Attribution
    programs: Mapping[int, Program]
    collectives: MatchedCollectives
