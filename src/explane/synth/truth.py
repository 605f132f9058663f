"""The truth of a simulated capture: the instruction of every recorded kernel."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from explane.capture.model import I32, I64, Bools
from explane.synth.plan import Plan

COLUMNS = (
    "device",
    "correlation_id",
    "start_ps",
    "duration_ps",
    "kernel",
    "hlo_op",
    "in_graph",
    "iteration",
)


class TruthEntry(NamedTuple):
    """What is true of a kernel wherever it runs; `hlo_op` is empty for work outside XLA."""

    kernel: str
    hlo_op: str
    in_graph: bool
    iteration: str


@dataclass(frozen=True, slots=True)
class TruthBlock:
    """Recorded kernels of one device, in the order of its plane's events."""

    device: int
    correlation_id: I64
    start_ps: I64
    duration_ps: I64
    code: I32


@dataclass
class Truth:
    """All recorded kernels with what is true of them; `n_lost` were not recorded."""

    entries: list[TruthEntry] = field(default_factory=list)
    blocks: list[TruthBlock] = field(default_factory=list)
    n_lost: int = 0
    _numbers: dict[TruthEntry, int] = field(default_factory=dict)
    _plans: dict[int, I32] = field(default_factory=dict)

    def code(self, entry: TruthEntry) -> int:
        """Number of an entry; a new one for a new entry."""
        known = self._numbers.get(entry)
        if known is None:
            known = self._numbers[entry] = len(self.entries)
            self.entries.append(entry)
        return known

    def codes(self, plan: Plan) -> I32:
        """Entry of every kernel of a plan."""
        if id(plan) not in self._plans:
            codes = [
                self.code(TruthEntry(k.work.name, k.instruction, k.graph > 0, k.iteration))
                for k in plan.kernels
            ]
            self._plans[id(plan)] = np.array(codes, dtype=np.int32)
        return self._plans[id(plan)]

    def in_graph(self) -> Bools:
        """Per entry: launched by a graph."""
        return np.array([entry.in_graph for entry in self.entries], dtype=np.bool_)

    def table(self) -> pl.DataFrame:
        """One row per recorded kernel, columns as in `COLUMNS`."""
        lookup = pl.DataFrame(
            {
                "code": np.arange(len(self.entries), dtype=np.int32),
                "kernel": [entry.kernel for entry in self.entries],
                "hlo_op": [entry.hlo_op for entry in self.entries],
                "in_graph": [int(entry.in_graph) for entry in self.entries],
                "iteration": [entry.iteration for entry in self.entries],
            },
            schema_overrides={"kernel": pl.String, "hlo_op": pl.String, "iteration": pl.String},
        )
        blocks = [
            pl.DataFrame(
                {
                    "device": np.full(len(block.code), block.device, dtype=np.int32),
                    "correlation_id": block.correlation_id,
                    "start_ps": block.start_ps,
                    "duration_ps": block.duration_ps,
                    "code": block.code,
                }
            )
            for block in self.blocks
        ]
        rows = pl.concat(blocks).join(lookup, on="code", how="left", maintain_order="left")
        return rows.select(COLUMNS)


def write_truth(truth: Truth, path: Path) -> None:
    """Write `truth.csv.gz`; equal truths give equal bytes."""
    text = truth.table().write_csv().encode()
    path.write_bytes(gzip.compress(text, compresslevel=6, mtime=0))
