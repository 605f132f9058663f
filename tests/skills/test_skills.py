"""Every SKILL.md: its front matter, and its commands run as they stand there."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from explane.synth.program_files import bundled_program
from explane.synth.scenario import Scenario
from explane.synth.simulate import simulate, write_capture
from tests.shared import ROOT

SKILLS = sorted((ROOT / "skills").iterdir())
PAGE = ROOT / "skills" / "writing-trace-report-pages" / "scripts"


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small simulated capture with both files."""
    folder = tmp_path_factory.mktemp("capture") / "with space"
    write_capture(simulate(bundled_program("solver1_h100"), Scenario(n_steps=4)), folder)
    return folder


def commands(skill: Path) -> list[str]:
    """Contents of all fenced shell blocks, in order."""
    text = (skill / "SKILL.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^( *)```bash\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [
        "\n".join(line[len(indent) :] for line in body.splitlines()) for indent, body in blocks
    ]


def shell(
    command: str, skill: Path, capture: Path, folder: Path
) -> subprocess.CompletedProcess[str]:
    (trace,) = capture.glob("*.trace.json.gz")
    named = {"SKILL": str(skill), "CAPTURE_DIR": str(capture), "TRACE": str(trace)}
    environment = {**os.environ, **named, "PYTHON": sys.executable}
    return subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.name)
def test_front_matter_names_and_describes_the_skill(skill: Path) -> None:
    text = (skill / "SKILL.md").read_text(encoding="utf-8")
    found = re.match(r"---\nname: (\S+)\ndescription: ([^\n]{80,1024})\n---\n\n# ", text)
    assert found, "front matter is not as it should be"
    assert found[1] == skill.name
    scripts = {path.name for path in (skill / "scripts").glob("*.py")}
    assert scripts
    assert scripts == set(re.findall(r"scripts/(\w+\.py)", text))


def follow(skill: Path, capture: Path, folder: Path) -> Path:
    """Runs all commands of a skill in a folder."""
    (folder / "page.md").write_text("# Findings\n\nNothing to report.\n")
    assert commands(skill)
    for command in commands(skill):
        done = shell(command, skill, capture, folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert done.stdout.strip(), command
    return folder


@pytest.mark.parametrize("name", ["analyzing-jax-launch-overhead", "investigating-jax-traces"])
def test_commands_run_as_they_stand(name: str, capture: Path, tmp_path: Path) -> None:
    follow(ROOT / "skills" / name, capture, tmp_path)


def test_attribution_is_written_beside_and_replaced(capture: Path, tmp_path: Path) -> None:
    skill = ROOT / "skills" / "investigating-jax-traces"
    script = '"$PYTHON" "$SKILL/scripts/attribute_kernels.py" "$CAPTURE_DIR"'
    for options in ("", " --user-re 'model' --program 17"):
        done = shell(script + options, skill, capture, tmp_path)
        assert done.returncode == 0, done.stderr
    with (tmp_path / "attribution" / "kernels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"match", "hlo_instruction", "source_line"} <= set(rows[0])
    assert any(row["hlo_instruction"] for row in rows)
    assert shell(script + " --program x", skill, capture, tmp_path).returncode == 2


def test_attribution_never_replaces_a_foreign_folder(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "attribution").mkdir()
    (tmp_path / "attribution" / "mine.txt").write_text("keep")
    skill = ROOT / "skills" / "investigating-jax-traces"
    script = '"$PYTHON" "$SKILL/scripts/attribute_kernels.py" "$CAPTURE_DIR"'
    assert shell(script, skill, capture, tmp_path).returncode != 0
    assert (tmp_path / "attribution" / "mine.txt").read_text() == "keep"


# ------------------------------------------------------------------------- pages with figures


@pytest.fixture(scope="session")
def report(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report that following the skill leaves behind."""
    return follow(PAGE.parent, capture, tmp_path_factory.mktemp("page")) / "explane-report"


def check(report: Path, page: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(PAGE / "check_page.py"), str(report), str(page)]
    return subprocess.run(command, text=True, capture_output=True, check=False)


def listed(report: Path, *words: str) -> list[str]:
    command = [sys.executable, "-I", str(PAGE / "list_figures.py"), str(report), *words]
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    return done.stdout.splitlines()


def test_figures_are_listed_and_can_be_quoted(report: Path, tmp_path: Path) -> None:
    times = [line for line in listed(report) if re.match(r"\d+\.\d+ [mµ]s \[measured", line)]
    assert times
    assert 0 < len(listed(report, "measured", "ps")) < len(listed(report))
    figure = times[0].split(" [")[0]
    page = tmp_path / "page.md"
    page.write_text(f"A step takes {figure}.\n\n1. First point\n\n> note: I guess 12345.6 ms\n")
    assert check(report, page).returncode == 0
    number = figure.split()[0]
    unit = figure.split()[1]
    for wrong in (f"{number}1 {unit}", f"{number} s", f"1{number} {unit}", "98765"):
        page.write_text(f"A step takes {wrong}.\n")
        done = check(report, page)
        assert (done.returncode, wrong in done.stdout) == (1, True), done.stdout


def test_the_report_itself_passes_the_page_check(report: Path) -> None:
    done = check(report, report / "report.md")
    assert done.returncode == 0, done.stdout


def test_folders_without_claims_are_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing\n")
    assert check(tmp_path, tmp_path / "page.md").returncode == 2
