"""What a timeline shows, as columns: slices with their track, name, arguments and flows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from explane.capture.model import I64
from explane.export.tracks import Path

Places = dict[tuple[object, ...], Path]
"""Path of each track by the values that tell it."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices of some tracks; columns have one entry per slice.

    Attributes:
        places: The distinct tracks.
        place: Index into `places`.
        start_ps, duration_ps: Since the start of the host's session.
        name: What is written on the slice.
        category: What kind of thing it is.
        arguments: Text and integer columns, shown under their names; null is not shown.
        flows: Numbers of the arrows that touch the slices: those of slice 0, then of slice 1, …
        n_flows: How many arrows touch each slice.
    """

    places: tuple[Path, ...]
    place: I64
    start_ps: I64
    duration_ps: I64
    name: pl.Series
    category: pl.Series
    arguments: pl.DataFrame
    flows: I64
    n_flows: I64

    def __len__(self) -> int:
        return len(self.place)

    @property
    def end_ps(self) -> I64:
        """Exclusive end of each slice."""
        return self.start_ps + self.duration_ps

    def at(self, rows: I64) -> Slices:
        """The slices of some rows, in that order."""
        first = np.cumsum(self.n_flows) - self.n_flows
        counts = self.n_flows[rows]
        before = np.repeat(first[rows] - (np.cumsum(counts) - counts), counts)
        return replace(
            self,
            place=self.place[rows],
            start_ps=self.start_ps[rows],
            duration_ps=self.duration_ps[rows],
            name=self.name.gather(rows),
            category=self.category.gather(rows),
            arguments=self.arguments[rows],
            flows=self.flows[before + np.arange(len(before))],
            n_flows=counts,
        )


def slices(frame: pl.DataFrame, place_by: list[str], places: Places) -> Slices:
    """Slices from a table, without flows.

    Args:
        frame: Has `start_ps`, `duration_ps`, `name`, `category` and the columns of `place_by`;
            all other columns are arguments, and so are the times: viewers round to nanoseconds.
        place_by: Columns that tell the track of a row.
        places: Path of each track by the values of these columns.
    """
    keys = pl.DataFrame(
        [(*key, index) for index, key in enumerate(places)],
        schema={**{name: frame.schema[name] for name in place_by}, "place": pl.Int64},
        orient="row",
    )
    placed = frame.join(keys, on=place_by, how="inner", maintain_order="left", nulls_equal=True)
    own = {"start_ps", "duration_ps", "name", "category", "place", *place_by}
    return Slices(
        places=tuple(places.values()),
        place=placed["place"].to_numpy(),
        start_ps=placed["start_ps"].to_numpy().astype(np.int64, copy=False),
        duration_ps=placed["duration_ps"].to_numpy().astype(np.int64, copy=False),
        name=placed["name"].fill_null("(no name)"),
        category=placed["category"],
        arguments=placed.select(pl.exclude(own), pl.col("start_ps", "duration_ps")),
        flows=np.zeros(0, np.int64),
        n_flows=np.zeros(placed.height, np.int64),
    )
