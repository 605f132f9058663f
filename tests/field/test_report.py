"""What the report says, and says the same everywhere: words, hostile names, equal bytes."""

from __future__ import annotations

import csv
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from explane import app
from explane.options import Options
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate, write_capture
from tests.builders import Hlo, HloComputation, HloModule, Space
from tests.field.made import (
    Job,
    analysed,
    fusion,
    program,
    rows,
    steps_of,
    stored,
    verdict,
    written,
)

HOSTILE = (
    "void cutlass::Kernel2<a, b>(c)",
    'quote"comma,semi;',
    "line\nbreak\r\nhere",
    "<script>alert(1)</script>",
    "pipe|back`tick",
    "=HYPERLINK(1)",
    "+1+1",
    "\uff1d1+1",
    "\t=cmd|' /C calc'!A0",
    "\r=1+1",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "{{7*7}}${7*7}{% raw %}",
    "]]>-->",
    "# heading",
    "```",
    "http://evil.example/x",
    "a//b/",
    "\x1b[31mred",
    "\u2028\u200b",
    "12.5 ms",
    "NaN",
    "-2",
    "@SUM(A1)",
    "\u202egpj.exe",
    "x" * 4000,
    "../../etc/passwd",
    "nul\x00name",
    "_[link](javascript:alert(1))_",
    "\U0001d518\U0001d52b\U0001d526",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The names are those of kernels, instructions, scopes, source files and host events."""
    x = Hlo("x", "parameter", parameter_number=0)
    body = [
        fusion(name, op_name=f"jit(step)/{name}", source=(f"/home/{name}.py", 1 + i))
        for i, name in enumerate(HOSTILE)
    ]
    module = HloModule(HOSTILE[3], [HloComputation("main", [x, *body])], program_id=3)
    job = Job(modules=[stored(module)], errors=["<b>|two\nlines"], warnings=["=1+1"])
    job.thread.name = "<i>thread</i>|`"
    for step in range(4):
        job.step(step, 1000 + 2000 * step, 1990)
        for i, name in enumerate(HOSTILE):
            job.kernel(name, 1100 + 2000 * step + 50 * i, 30)
            job.event(name, 1100 + 2000 * step + 50 * i + 33, 6)
    return written(job.space(), tmp_path_factory.mktemp("hostile"))


def csv_rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, strict=True))


def test_hostile_names_leave_every_table_readable(hostile: tuple[Path, str]) -> None:
    out, _ = hostile
    tables = sorted(out.rglob("*.csv"))
    assert tables
    for path in tables:
        made = csv_rows(path)
        assert {len(one) for one in made} <= {len(made[0])}, path.name


def test_no_cell_is_a_formula(hostile: tuple[Path, str]) -> None:
    out, _ = hostile
    for path in out.rglob("*.csv"):
        for one in csv_rows(path):
            for cell in one:
                if cell[:1] in "=@+\t\r\uff1d\uff0b\uff0d\uff20" and len(cell) > 1:
                    pytest.fail(f"{path.name}: {cell[:40]}")
                assert not re.match(r"-(?!\d)", cell), path.name


def test_the_full_name_is_kept_and_the_shown_one_is_short(hostile: tuple[Path, str]) -> None:
    out, text = hostile
    kernels = (out / "attribution/kernels.csv").read_text(encoding="utf-8")
    assert "x" * 4000 in kernels
    assert max(map(len, text.splitlines())) < 4000
    assert "void cutlass::Kernel2<a, b>(c)" in kernels


def test_tables_in_the_text_keep_their_columns(hostile: tuple[Path, str]) -> None:
    _, text = hostile
    width = 0
    for line in text.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line))
        if not line.startswith("|"):
            width = 0
            continue
        width = width or cells
        assert cells == width, line[:200]


def test_the_page_runs_no_foreign_script(hostile: tuple[Path, str]) -> None:
    out, text = hostile
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert not re.search(r"(?<!\\)<(?:script|img)", re.sub(r"`[^`]*`", "", text))
    assert "Content-Security-Policy" in page
    assert "\u202e" not in re.sub(r"<[^>]*>", "", page)  # attributes keep the name as it is
    assert "\u202e" not in text


def test_a_hostile_name_passes_the_fact_check(hostile: tuple[Path, str]) -> None:
    assert app.check(hostile[0]).problems == ()


def test_files_are_only_written_inside_the_output(tmp_path: Path) -> None:
    job = Job()
    job.modules = [
        program(["f"], i + 1, name)
        for i, name in enumerate(("../../evil", "/abs/evil", "n" * 300, "a\x00b", "..", ""))
    ]
    for i in range(len(job.modules)):
        for j in range(3):
            start = 1000 + 1000 * i + 100 * j
            job.kernel("f", start, 50, program_id=i + 1, hlo_module=job.modules[i].name)
    run = job.space().write(tmp_path / "deep/er/run").parent
    app.attribute([str(run)], tmp_path / "deep/er/out", Options())
    outside = [
        p
        for p in tmp_path.rglob("*")
        if p.is_file() and not p.is_relative_to(tmp_path / "deep/er/out") and run not in p.parents
    ]
    assert outside == []
    assert len(list((tmp_path / "deep/er/out").glob("*.hlo.txt"))) == 6


@pytest.mark.parametrize("host", ["../../node", "/etc/node", "a|b`c", "n" * 200, "<b>x</b>", ""])
def test_any_host_name_is_a_label_and_no_path(tmp_path: Path, host: str) -> None:
    space = steps_of(Job()).space()
    Space(space.planes, hostnames=[host]).write(tmp_path / "run", host="node")
    app.attribute([str(tmp_path / "run")], tmp_path / "out", Options())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "run"]


def test_one_execution_has_no_spread_and_no_nan(tmp_path: Path) -> None:
    job = Job()
    for i in range(3):
        job.kernel(f"fusion_{i}", 1000 + 40 * i, 30)
    out, text = written(job.space(), tmp_path)
    for path in out.rglob("*.csv"):
        for one in csv_rows(path):
            assert not {"nan", "inf", "-inf", "NaN", "None"} & set(one), path.name
    assert not re.search(r"\bnan\b|\binf\b", text, re.IGNORECASE)
    assert "no collective kernels are in the capture" in text


def test_gpus_without_any_host_record_have_a_whole_report(tmp_path: Path) -> None:
    """Executions of a labelled program, and not one launch call to go with them."""
    job = Job()
    for step in range(12):
        for i, name in enumerate(("a_fusion", "b_fusion", "c_fusion")):
            job.kernel(name, 1000 + 100 * step + 30 * i, 25, launch=False)
    out, text = written(job.space(host=False), tmp_path)
    assert "tklqt_ps |" not in text
    assert app.check(out).problems == ()
    full = analysed(job.space(), tmp_path / "with_host")
    assert verdict(full)["verdict"] != "host-bound"


def test_every_empty_section_says_why(tmp_path: Path) -> None:
    """A GPU plane of stream lines alone: no host, no program, no steps, no labels."""
    job = Job()
    for i in range(3):
        job.kernel(f"k{i}", 1000 + 40 * i, 30, op="", launch=False)
    _, text = written(job.space(host=False), tmp_path)
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert len(sections) > 8
    for section in sections:
        assert len(section.strip().splitlines()) > 1, section
    assert "No steps were found" in text
    assert "tklqt_ps |" not in text  # nothing was launched in view: unknown, not zero
    assert "the file has no memory data" in text


def test_words_of_one_vendor_are_not_used_for_another(tmp_path: Path) -> None:
    out, text = written(steps_of(Job(vendor="AMD")).space(), tmp_path)
    page = (out / "report.html").read_text(encoding="utf-8")
    for word in ("TensorCore", "Tensor Core", "VMEM", "CUDA", "CUPTI", "NVIDIA", "TPU"):
        assert word not in text, word
        assert word not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL), word


# ------------------------------------------------------------------------------ equal bytes


def digest(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


ENVIRONMENTS = (
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C", "LC_ALL": "C", "JOBS": "1"},
    {"PYTHONHASHSEED": "4242", "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "JOBS": "2",
     "POLARS_MAX_THREADS": "1", "COLUMNS": "40"},
)  # fmt: skip


def test_reports_are_the_same_bytes_in_any_place_and_environment(tmp_path: Path) -> None:
    """Hash seed, time zone, language, working directory, terminal width, number of processes."""
    for i, name in enumerate(("node0", "node1")):
        made = simulate(bundled_program("mlp4_h100"), Scenario(seed=i, n_steps=3))
        path = write_capture(made, tmp_path / "logs/run", truth=False)
        for file in (path, path.with_name("simulated-node.trace.json.gz")):
            file.rename(file.with_name(file.name.replace("simulated-node", name)))
    running = []
    for i, extra in enumerate(ENVIRONMENTS):
        place = tmp_path / f"place{i}"
        place.mkdir()
        capture = tmp_path / "logs" if i else os.path.relpath(tmp_path / "logs", place)
        command = [sys.executable, "-m", "explane", "report", str(capture), "-o", "out", "-q"]
        command += ["--jobs", extra["JOBS"]]
        running.append(subprocess.Popen(command, cwd=place, env={**os.environ, **extra}))
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    first, second = (digest(tmp_path / f"place{i}/out") for i in range(2))
    assert len(first) > 20
    assert [name for name in first if first[name] != second.get(name)] == []
    assert first.keys() == second.keys()


def test_tables_do_not_depend_on_the_order_of_the_paths(tmp_path: Path) -> None:
    paths: list[Path] = []
    for name in ("b", "a", "c"):
        space = steps_of(Job(), n_steps=4 + len(paths)).space()
        space.hostnames = [name]
        paths.append(space.write(tmp_path / f"run_{name}", host=name))
    orders = [paths, paths[::-1], [*paths, paths[0]]]
    made = [app.investigate(order, Options(jobs=1)) for order in orders]
    for table, frame in made[0].tables.items():
        assert all(frame.equals(other.tables[table]) for other in made[1:]), table


def test_an_investigation_twice_in_one_process_is_the_same(tmp_path: Path) -> None:
    space = steps_of(Job(n_gpus=2)).space()
    first, second = analysed(space, tmp_path), analysed(space, tmp_path)
    assert all(frame.equals(second.tables[t]) for t, frame in first.tables.items())
    assert rows(first, "kernels")
