"""The four captures of the comparison: lean150, k150, lean1500 and k1500.

The number is thousands of kernels. "lean" holds kernels and their launches, "k" all other host
events too, some fifteen per kernel. They repeat the events of a small capture: explane's simulated
one (four GPUs, CUDA graphs), or any other.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

NAMES = ("lean150", "k150", "lean1500", "k1500")
_HOST_EVENTS_PER_STEP = 30_000
_REPEAT = Path(__file__).with_name("repeat_capture.py")


def large_captures(folder: Path, names: list[str], source: Path | None) -> list[Path]:
    """Run folders below `folder`, one per name; those that are there already are kept."""
    small = source or _simulated(folder / "source")
    runs = [folder / name for name in names]
    for run in runs:
        target = run / "node.xplane.pb"
        if not target.exists():
            run.mkdir(parents=True, exist_ok=True)
            _repeat(small, target, 1000 * int(run.name.lstrip("leank")), run.name.startswith("k"))
    return runs


def repeated(source: Path, target: Path, n_kernels: int) -> None:
    """A lean capture of the simulated program, which is kept in the folder `source`."""
    _repeat(_simulated(source), target, n_kernels, host_events=False)


def _repeat(small: Path, target: Path, n_kernels: int, host_events: bool) -> None:
    """Repeats in a process of its own, whose memory must not count as that of the measured."""
    words = [sys.executable, str(_REPEAT), str(small), str(target), "--kernels", str(n_kernels)]
    option = ["--host-events"] if host_events else []
    subprocess.run([*words, *option], check=True, stdout=sys.stderr)


def _simulated(run: Path) -> Path:
    """Simulated in a process of its own too: what is measured inherits the peak of its parent."""
    if not any(run.glob("*.xplane.pb")):
        subprocess.run([sys.executable, __file__, str(run)], check=True)
    return next(run.glob("*.xplane.pb"))


def _simulate(run: Path) -> None:
    from explane.synth.demo import DEMO
    from explane.synth.program_files import bundled_program
    from explane.synth.simulate import simulate, write_capture

    tracer = replace(DEMO.tracer, python_events=_HOST_EVENTS_PER_STEP)
    scenario = replace(DEMO, n_steps=2, tracer=tracer)
    write_capture(simulate(bundled_program("minigpt_fsdp4_h100"), scenario), run)


if __name__ == "__main__":
    _simulate(Path(sys.argv[1]))
