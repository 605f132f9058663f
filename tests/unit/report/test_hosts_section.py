"""The report of several simulated processes: what is summed, what is left out and said so."""

from __future__ import annotations

import polars as pl
import pytest

from explane import investigate
from explane.analysis.hosts.table import host_figures, in_detail
from explane.analysis.investigation import Investigation
from explane.options import Options
from explane.report.build import build_report, report_tables
from explane.report.claims import ClaimBook
from explane.report.drawings import descriptions
from explane.report.markdown import to_markdown
from explane.report.tables import all_written
from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Causes, Scenario
from explane.synth.simulate import simulate_hosts, write_capture
from explane.units import PS_PER_MS, PS_PER_US

N_HOSTS = 7
LATE = 5
"""The GPU, and so the process, that computes longer."""


@pytest.fixture(scope="module")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Investigation:
    folder = tmp_path_factory.mktemp("seven")
    clocks = [HostClock(f"node-{i}", i * PS_PER_MS, 3 * i) for i in range(N_HOSTS)]
    causes = Causes(straggler_device=LATE, straggler_ps=300 * PS_PER_US)
    scenario = Scenario(n_steps=4, n_devices=N_HOSTS, causes=causes)
    for made in simulate_hosts(bundled_program("mlp4_h100"), scenario, clocks):
        write_capture(made, folder, json_cap=0, truth=False)
    return investigate(folder, Options(jobs=1))


@pytest.fixture(scope="module")
def tables(seven: Investigation) -> dict[str, pl.DataFrame]:
    return all_written(report_tables(seven, Options()))


@pytest.fixture(scope="module")
def text(tables: dict[str, pl.DataFrame]) -> str:
    return to_markdown(build_report(ClaimBook(tables), (), 1000)).text


def section(text: str, title: str) -> str:
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_verdict_is_one_line_for_all_that_share_it(text: str) -> None:
    head = text.split("## Findings")[0]
    assert head.count("Verdict for ") < N_HOSTS
    assert f"of {N_HOSTS} processes" in head


def test_the_late_process_leads_the_table_of_processes(text: str) -> None:
    rows = [line for line in section(text, "Processes").splitlines() if line.startswith("| `node")]
    assert len(rows) == N_HOSTS
    assert rows[0].startswith(f"| `node-{LATE}` |")


def test_operations_are_summed_over_processes(text: str, seven: Investigation) -> None:
    rows = [r for r in section(text, "Operations and Python lines").splitlines() if "proce" in r]
    ops = seven.tables["ops"]
    assert len(rows) >= 3
    assert all(f"| `{N_HOSTS} processes` |" in row for row in rows)
    first = ops.group_by("hlo_instruction").agg(pl.col("n_kernels", "duration_ps").sum())
    name, n_kernels, _ = first.sort("duration_ps", descending=True).row(0)
    assert f"`{name}`" in rows[0]
    assert f" {n_kernels} |" in rows[0].replace(",", "")


def test_four_are_shown_in_detail_and_the_others_counted(
    text: str, tables: dict[str, pl.DataFrame]
) -> None:
    shown = tables["hosts"].filter(pl.col("in_detail") == 1)["host"].to_list()
    assert len(shown) == 4
    assert f"node-{LATE}" in shown
    assert f"Left out of them: {N_HOSTS - 4};" in section(text, "Processes")
    gpus = section(text, "GPUs and streams")
    assert "Processes in detail only." in gpus
    assert all((f"`{host}`" in gpus) == (host in shown) for host in tables["hosts"]["host"])
    assert set(tables["swimlane"]["host"]) == set(shown)
    assert tables["streams"]["host"].n_unique() == N_HOSTS, "the file has all"
    drawn = str(descriptions(tables)["steps"])
    assert all((host in drawn) == (host in shown) for host in tables["hosts"]["host"])


def test_doubts_of_all_processes_are_one_row(text: str) -> None:
    rows = section(text, "What can't be trusted").splitlines()
    items = [row.split("|")[2] for row in rows if row.startswith("| ") and "---" not in row]
    assert len(items) == len(set(items))


def test_figures_of_a_process_come_from_its_own_rows(seven: Investigation) -> None:
    hosts = [host.host for host in seven.hosts]
    figures = host_figures(hosts, seven.tables)
    steps = seven.tables["steps"].filter(pl.col("complete"))
    for row in figures.iter_rows(named=True):
        mine = steps.filter(pl.col("host") == row["host"])
        lengths = sorted((mine["end_ps"] - mine["start_ps"]).to_list())
        assert row["step_ps"] == lengths[(len(lengths) - 1) // 2]
        assert row["n_steps"] == len(lengths)
        kernels = seven.tables["kernels"].filter(pl.col("host") == row["host"])
        assert row["n_kernels"] == kernels.height
        assert row["kernel_time_ps"] == kernels["duration_ps"].sum()


def test_without_tables_figures_are_missing() -> None:
    figures = host_figures(["a", "b"], {})
    assert figures.drop("host").null_count().row(0) == (2,) * (figures.width - 1)
    assert in_detail(figures) == ["a", "b"]


def test_of_many_those_that_differ_are_shown() -> None:
    hosts = [f"n{i}" for i in range(9)]
    figures = host_figures(hosts, {}).with_columns(
        pl.Series("caused_wait_ps", [0, 0, 0, 0, 0, 0, 0, 9, 0]),
        pl.Series("step_ps", [5, 5, 5, 9, 4, 3, 3, 3, None]),
        pl.Series("idle_ratio", [0.1, 0.2, 0.1, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1]),
    )
    assert in_detail(figures) == ["n7", "n3", "n4", "n5"]
