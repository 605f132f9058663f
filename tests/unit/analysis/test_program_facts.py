"""Equal programs of several processes: worked out once, and the same as if each was alone."""

from __future__ import annotations

import filecmp
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from explane import app, hosts, investigate
from explane.analysis import program_facts as module
from explane.analysis.attribution.schedule_walk import expected_launches
from explane.analysis.host_facts import read_programs
from explane.analysis.hosts.across import compare_hosts
from explane.analysis.hosts.same_programs import text_structure
from explane.analysis.investigate import merge
from explane.analysis.program_facts import KnownPrograms
from explane.analysis.roofline.flops import ProgramCosts
from explane.capture._proto import hlo_pb2
from explane.capture.hlo import read_program
from explane.capture.hlo_text import program_parts
from explane.capture.model import StoredProgram
from explane.capture.program import Program
from explane.options import Options
from explane.synth.host_clock import HostClock
from explane.synth.program import CompiledProgram
from explane.synth.program_files import bundled_program, bundled_programs
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate_hosts, write_capture
from tests.other_process import other_process

TITLE = "mlp4_h100"
HOSTS = ("node-a", "node-b", "node-c")


def stored(data: bytes, program_id: int = 3) -> Program:
    return read_program(StoredProgram(program_id, "jit_f(3)", data))


@pytest.mark.parametrize("title", bundled_programs())
def test_what_is_shared_is_the_same_for_every_copy_of_a_program(title: str) -> None:
    data = bundled_program(title).hlo_proto
    one, other = stored(data), stored(other_process(data), 99)
    assert replace(expected_launches(one), program_id=99) == expected_launches(other)
    assert dict(ProgramCosts(one)) == dict(ProgramCosts(other))
    assert text_structure(program_parts(one)) == text_structure(program_parts(other))


def run_of(folder: Path, copies: list[bytes]) -> Path:
    """One run with a process for each copy of the program."""
    clocks = [HostClock(name, i * 10**9) for i, name in enumerate(HOSTS)]
    scenario = Scenario(seed=5, n_steps=3, n_devices=4 * len(HOSTS))
    for row, data in enumerate(copies):
        program: CompiledProgram = replace(bundled_program(TITLE), hlo_proto=data)
        made = [*simulate_hosts(program, scenario, clocks)][row]
        write_capture(made, folder, json_cap=0, truth=False)
    return folder


@pytest.fixture(scope="module")
def copies() -> list[bytes]:
    """The program as three processes store it."""
    data = bundled_program(TITLE).hlo_proto
    return [data, other_process(data, "/b"), other_process(data, "/c")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, copies: list[bytes]) -> Path:
    return run_of(tmp_path_factory.mktemp("run"), copies)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The work on programs that is done, in order."""
    done: list[str] = []

    def counted(name: str) -> None:
        inner: Callable[..., object] = getattr(module, name)

        def call(*args: object) -> object:
            done.append(name)
            return inner(*args)

        monkeypatch.setattr(module, name, call)

    for name in ("expected_launches", "text_structure"):
        counted(name)
    return done


def test_equal_programs_are_worked_out_once(run: Path, calls: list[str]) -> None:
    found = investigate(run, Options(jobs=1))
    assert calls == ["expected_launches", "text_structure"]
    assert len({len(program.text) for program in found.programs}) == 1
    assert found.tables["programs"].select("n_hosts", "n_versions").rows() == [(3, 3)]


def test_a_process_alone_asks_no_memory(run: Path, calls: list[str]) -> None:
    investigate(run / "node-b.xplane.pb", Options(jobs=1))
    assert calls == ["expected_launches"]


def test_a_module_under_several_ids_is_worked_out_once(calls: list[str]) -> None:
    data = bundled_program(TITLE).hlo_proto
    programs = {i: StoredProgram(i, f"jit_f({i})", bytes(bytearray(data))) for i in (5, 3)}
    read, broken = read_programs(programs)
    facts = module.program_facts(read)
    assert calls == ["expected_launches"]
    assert not broken
    for key in programs:
        alone = stored(data, key)
        assert facts.schedules[key] == expected_launches(alone)
        assert facts.programs[key].program_id == key
        assert dict(facts.costs[key]) == dict(ProgramCosts(alone))


def set_shape(proto: hlo_pb2.HloModuleProto) -> None:
    shapes = (i.shape for c in proto.computations for i in c.instructions)
    next(shape for shape in shapes if shape.dimensions).dimensions[0] += 1


def set_schedule(proto: hlo_pb2.HloModuleProto) -> None:
    ids = proto.schedule.sequences[proto.entry_computation_id].instruction_ids
    ids[-1], ids[-2] = ids[-2], ids[-1]


def set_name(proto: hlo_pb2.HloModuleProto) -> None:
    parameter = next(
        i for c in proto.computations for i in c.instructions if i.opcode == "parameter"
    )
    parameter.name = "another"


@pytest.mark.parametrize("change", [set_shape, set_schedule, set_name])
def test_programs_that_differ_are_not_shared(
    tmp_path: Path,
    copies: list[bytes],
    calls: list[str],
    change: Callable[[hlo_pb2.HloModuleProto], None],
) -> None:
    proto = hlo_pb2.HloProto.FromString(copies[1])
    change(proto.hlo_module)
    found = investigate(
        run_of(tmp_path, [copies[0], proto.SerializeToString(), copies[2]]), Options(jobs=1)
    )
    assert calls == ["expected_launches", "text_structure"] * 2
    text = {program.host: program.text for program in found.programs}
    assert text["node-a"] == text["node-c"] != text["node-b"]


UseCase = Callable[[list[str], Path, Options], object]


def written(use_case: UseCase, run: Path, out: Path, jobs: int) -> list[str]:
    use_case([str(run)], out, Options(jobs=jobs))
    return sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())


@pytest.mark.parametrize(("use_case", "jobs"), [(app.report, 1), (app.attribute, 2)])
def test_what_is_written_has_the_same_bytes_with_and_without_the_memory(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_case: UseCase, jobs: int
) -> None:
    names = written(use_case, run, tmp_path / "with", jobs)
    monkeypatch.setattr(hosts, "KnownPrograms", lambda: None)
    assert written(use_case, run, tmp_path / "without", 1) == names
    _, different, failed = filecmp.cmpfiles(
        tmp_path / "with", tmp_path / "without", names, shallow=False
    )
    assert (different, failed) == ([], [])


def test_lines_are_those_of_each_process(run: Path) -> None:
    lines = investigate(run, Options(jobs=1)).tables["ops"].drop_nulls("source_file")
    by_host = {host: set(part["source_file"]) for (host,), part in lines.group_by("host")}
    assert by_host["node-a"]
    for host, place in (("node-b", "/b"), ("node-c", "/c")):
        assert by_host[host] == {place + name for name in by_host["node-a"]}


@pytest.mark.parametrize("names", [("node-b",), ("node-b", "node-c")])
def test_a_text_is_made_where_it_is_written(run: Path, names: tuple[str, ...]) -> None:
    found = [investigate(run / f"{name}.xplane.pb", Options(jobs=1)) for name in names]
    sent = [pickle.loads(pickle.dumps(one)) for one in found]
    assert all(p.program is None for one in sent for p in one.programs)
    merged = compare_hosts(merge(sent))
    assert [p.text for p in merged.programs] == [found[0].programs[0].text] * len(names)


def test_a_memory_keeps_the_latest_programs_that_fit(calls: list[str]) -> None:
    programs = [stored(bundled_program(title).hlo_proto) for title in (TITLE, "minigpt1_h100")]
    sizes = [len(expected_launches(program)) for program in programs]
    assert 0 < sizes[0] < sizes[1]

    def ask(memory: KnownPrograms, order: str) -> int:
        calls.clear()
        for at in order:
            memory.find(at.encode(), programs[int(at)])
        return len(calls)

    assert ask(KnownPrograms(sum(sizes)), "010101") == 2
    assert ask(KnownPrograms(sum(sizes) - 1), "01100") == 3
    assert ask(KnownPrograms(1), "1110") == 2, "the latest is kept, however large"
