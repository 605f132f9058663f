"""`explane compare`: the same work is compared beyond its noise, different work is refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from explane import app
from explane.errors import CaptureError
from explane.options import Options
from explane.synth.program_files import bundled_program
from explane.synth.scenario import Causes, Scenario
from explane.synth.simulate import simulate, write_capture
from explane.units import PS_PER_MS


def made(folder: Path, title: str, **causes: int) -> str:
    scenario = Scenario(seed=1, n_steps=5, causes=Causes(readback=True, **causes))  # type: ignore[arg-type]
    write_capture(simulate(bundled_program(title), scenario), folder, json_cap=0, truth=False)
    return str(folder)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("slow")
    return made(folder, "mlp4_h100", host_gap_ps=2 * PS_PER_MS)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(tmp_path_factory.mktemp("quick"), "mlp4_h100")


def test_a_gap_that_is_gone_is_the_difference_of_the_steps(
    slow: str, quick: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    app.compare((slow, quick), out, Options())
    table = pl.read_csv(next(out.rglob("differences.csv")))
    step = table.filter(pl.col("measure") == "step").row(0, named=True)
    assert step["difference"] == pytest.approx(-2 * PS_PER_MS, rel=0.05)
    assert step["beyond_noise"] == 1
    assert app.check(out).problems == ()


def test_different_programs_are_refused(slow: str, tmp_path: Path) -> None:
    other = made(tmp_path / "other", "convnet1_h100")
    with pytest.raises(CaptureError) as caught:
        app.compare((slow, other), tmp_path / "out", Options())
    assert caught.value.slug == "not-comparable"
    assert not (tmp_path / "out").exists()
