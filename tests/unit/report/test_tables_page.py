"""docs/tables.md names every table and every column that a report writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explane.app import investigate
from explane.options import Options
from explane.report.build import report_tables
from explane.report.tables import all_written
from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate_hosts, write_capture

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("capture")
    clocks = [HostClock("a"), HostClock("b")]
    for made in simulate_hosts(bundled_program("mlp4_h100"), Scenario(n_steps=4), clocks):
        write_capture(made, folder)
    tables = all_written(report_tables(investigate([folder], Options(jobs=1)), Options()))
    assert "host_collectives" in tables
    return {stem: frame.columns for stem, frame in tables.items()}


def test_every_table_and_column_is_documented(columns: dict[str, list[str]]) -> None:
    named = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    missing = {stem for stem in columns if stem not in named}
    missing |= {f"{stem}.{c}" for stem, names in columns.items() for c in names if c not in named}
    assert missing == set()
