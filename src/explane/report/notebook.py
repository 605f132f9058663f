"""The pictures of a report for a notebook, where they display themselves."""

from __future__ import annotations

from dataclasses import dataclass

from explane.analysis.investigation import Investigation
from explane.options import Options
from explane.report.build import report_tables
from explane.report.charts.render import to_svg
from explane.report.drawings import descriptions
from explane.report.tables import all_written


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as SVG; Jupyter shows it when it is the result of a cell.

    Attributes:
        name: What it shows, the stem of its file in a report.
        svg: The picture; it loads nothing and runs nothing.
    """

    name: str
    svg: str

    def _repr_svg_(self) -> str:
        """What IPython asks for."""
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture {self.name}>"


def pictures(investigation: Investigation) -> dict[str, Picture]:
    """The pictures that a report would hold, by name: those for which there are results.

    `swimlanes` (the median step), `budget` (streams), `steps` (where a step goes), `lines` and
    `scopes` (GPU time by Python line and by named scope), `roofline`.

    Args:
        investigation: All results.
    """
    described = descriptions(all_written(report_tables(investigation, Options())))
    return {name: Picture(name, to_svg(chart)) for name, chart in described.items()}
