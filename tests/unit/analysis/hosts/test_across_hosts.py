"""Several simulated processes with clocks of their own: what comes back of the truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from explane import investigate
from explane.analysis.hosts.same_programs import program_table, shared, structures
from explane.analysis.investigation import Investigation, ProgramFile
from explane.capture._proto import hlo_pb2
from explane.options import Options
from explane.synth.host_clock import HostClock
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Causes, Scenario
from explane.synth.simulate import simulate_hosts, write_capture
from explane.units import PS_PER_MS, PS_PER_S

CLOCKS = (
    HostClock("node-a", offset_ps=PS_PER_S),
    HostClock("node-b", offset_ps=PS_PER_S + 3_100 * PS_PER_MS, drift_ppm=20),
    HostClock("node-c", offset_ps=400 * PS_PER_MS, drift_ppm=-35),
)
LATE = 3
"""GPU of the job that computes longer: the second one of node-b."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosts")
    scenario = Scenario(
        n_steps=5,
        n_devices=6,
        causes=Causes(straggler_device=LATE, straggler_ps=PS_PER_MS, readback=True),
    )
    for made in simulate_hosts(bundled_program("minigpt_fsdp4_h100"), scenario, CLOCKS):
        write_capture(made, folder, json_cap=0, truth=False)
    return folder


@pytest.fixture(scope="module")
def together(run: Path) -> Investigation:
    return investigate(run, Options(jobs=1))


def test_offset_and_drift_of_each_clock_come_back(together: Investigation) -> None:
    clocks = together.tables["clocks"]
    assert clocks["host"].to_list() == [c.host for c in CLOCKS]
    assert clocks["aligned"].all()
    by_host = {clock.host: clock for clock in CLOCKS}
    for row in clocks.filter(pl.col("n_marks").is_not_null()).iter_rows(named=True):
        own, theirs = by_host[row["host"]], by_host[row["reference"]]
        true = (row["at_ps"] - theirs.offset_ps) / (1 + theirs.drift_ppm / 1e6)
        there = true + own.offset_ps + true * own.drift_ppm / 1e6
        assert row["offset_ps"] == pytest.approx(there - row["at_ps"], abs=row["residual_ps"] + 2)
        ratio = (1 + own.drift_ppm / 1e6) / (1 + theirs.drift_ppm / 1e6)
        assert row["drift_ppm"] == pytest.approx(1e6 * (ratio - 1), abs=0.001)
        assert row["n_marks"] > 3 * 22, "22 collectives in most of the five steps"


def test_the_straggler_is_found_across_processes(together: Investigation) -> None:
    first = together.tables["host_stragglers"].row(0, named=True)
    assert (first["host"], first["device"]) == ("node-b", LATE % 2)
    assert first["n_operations"] > 0.7 * first["n_all"]
    others = together.tables["host_stragglers"]["caused_wait_ps"][1:].sum()
    assert first["caused_wait_ps"] > 5 * others


def test_one_attribution_for_the_program_of_all(together: Investigation) -> None:
    table = together.tables["programs"]
    assert table.select("name", "n_hosts", "host").rows() == [("jit_train_step", 3, "node-a")]
    assert len({id(program.hlo_proto) for program in together.programs}) == 1


def test_what_comparisons_rest_on_is_on_the_trust_list(together: Investigation) -> None:
    items = together.tables["trust"]["item"].to_list()
    assert "clocks of processes were aligned on collectives" in items
    assert "clocks of processes can't be aligned" not in items


def test_one_process_has_no_clocks(run: Path) -> None:
    alone = investigate(run / "node-a.xplane.pb", Options(jobs=1))
    assert not {"clocks", "programs", "host_collectives"} & set(alone.tables)


def _programs() -> list[ProgramFile]:
    """One module of three processes: b's with other metadata, c's with another root."""
    module = hlo_pb2.HloProto.FromString(bundled_program("mlp4_h100").hlo_proto)
    made = []
    for host in ("a", "b", "c"):
        data = module.SerializeToString()
        made.append(ProgramFile(host, 7, "jit_f", data, True))
        for computation in module.hlo_module.computations:
            for instruction in computation.instructions:
                instruction.metadata.op_name += "/again"
        if host == "b":
            module.hlo_module.computations[-1].instructions[-1].opcode = "copy"
    return made


def test_programs_are_compared_by_structure_not_by_bytes() -> None:
    programs = _programs()
    found = structures(programs)
    assert programs[0].hlo_proto != programs[1].hlo_proto
    assert found[0] == found[1] != found[2]
    table = program_table(programs, found)
    assert table.select("n_hosts", "n_versions", "host", "others").rows() == [
        (2, 2, "a", "b"),
        (1, 1, "c", None),
    ]
    kept = shared(programs, found)
    assert [p.host for p in kept] == ["a", "b", "c"]
    assert kept[1].hlo_proto is kept[0].hlo_proto
    assert kept[2] == programs[2]


def test_a_program_that_cannot_be_parsed_is_compared_by_its_bytes() -> None:
    broken = [ProgramFile(h, 1, "x", b, False) for h, b in (("a", b"1"), ("b", b"1"), ("c", b"2"))]
    one, two, three = structures([replace(p, name="y") for p in broken])
    assert one == two != three
