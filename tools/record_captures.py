"""Records captures of small jax programs, for testing explane on a machine with a GPU.

    python tools/record_captures.py OUT             # NVIDIA or AMD GPU
    python tools/record_captures.py OUT --cpu       # CPU backend: only shows that this works

Needs jax and nothing else; explane itself is not used. Each capture is made in a process of its
own, after warm-up, and stays below 12 MB; the whole takes less than 5 minutes. `gpt-off` has
command buffers off, so that every kernel carries its own label: it is the truth for `gpt-on`, the
same program with command buffers as they are by default (`compare_captures.py` compares them).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MAX_CAPTURE_BYTES = 12_000_000
MAX_TOTAL_S = 300
N_TRIES = 4  # steps are halved when a capture is too large
OFF = "--xla_gpu_enable_command_buffer="


@dataclass(frozen=True)
class Recording:
    """One capture to make: its name, program, XLA flags, steps, and whether Python is traced."""

    name: str
    program: str
    flags: str = ""
    n_steps: int = 8
    python_tracer: bool = False


RECORDINGS = (
    Recording("gpt-off", "gpt", OFF),
    Recording("gpt-on", "gpt"),
    Recording("gpt-on-python", "gpt", n_steps=4, python_tracer=True),
    Recording("host-bound", "host_bound"),
    Recording("convolution", "convolution"),
)


def main() -> int:
    """Makes every capture that the time allows; exit code 1 if one is missing."""
    arguments = _arguments()
    out = arguments.out.resolve()
    if out.exists() and any(out.iterdir()):
        print(f"{out}: not empty; give a new folder", file=sys.stderr)
        return 2
    deadline_s = time.monotonic() + MAX_TOTAL_S
    made = {}
    for recording in RECORDINGS:
        if not arguments.only or recording.name in arguments.only:
            made[recording.name] = _make(recording, out, arguments.cpu, deadline_s)
            print(_line(recording.name, made[recording.name]), flush=True)
    (out / "made.json").write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    failed = [name for name, facts in made.items() if "problem" in facts]
    print(f"Wrote {out}: {len(made) - len(failed)} captures, {len(failed)} failed")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="new folder, one subfolder per capture")
    parser.add_argument("--cpu", action="store_true", help="small sizes on the CPU backend")
    names = [recording.name for recording in RECORDINGS]
    parser.add_argument("--only", nargs="*", choices=names, help="make these only")
    return parser.parse_args()


def _make(recording: Recording, out: Path, cpu: bool, deadline_s: float) -> dict[str, Any]:
    """Makes one capture, with fewer steps when it comes out too large."""
    n_steps = recording.n_steps
    facts: dict[str, Any] = {"problem": "not tried"}
    for _ in range(N_TRIES):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return {"problem": f"no time left of {MAX_TOTAL_S} s"}
        facts = _run_child(recording, out, {"cpu": cpu, "n_steps": n_steps}, left_s)
        if "problem" in facts or sum(facts["files"].values()) <= MAX_CAPTURE_BYTES:
            return facts
        shutil.rmtree(out / recording.name)
        n_steps = max(n_steps // 2, 1)
    return {"problem": f"above {MAX_CAPTURE_BYTES} bytes with {n_steps} steps", **facts}


def _run_child(
    recording: Recording, out: Path, wish: dict[str, Any], timeout_s: float
) -> dict[str, Any]:
    """Runs `record_one.py` with the recording's XLA flags; its facts, or the problem."""
    wish |= {
        "program": recording.program,
        "python_tracer": recording.python_tracer,
        "folder": str(out / recording.name),
    }
    facts: dict[str, Any] = {}
    for tuning in (_tuning_flag(recording, out), ""):  # a jaxlib may not know the tuning flag
        flags = " ".join(filter(None, (os.environ.get("XLA_FLAGS"), recording.flags, tuning)))
        facts = _try_child(wish, flags, timeout_s) | {"flags": flags, "n_steps": wish["n_steps"]}
        if "Unknown flag" not in facts.get("problem", ""):
            break
    return facts


def _try_child(wish: dict[str, Any], flags: str, timeout_s: float) -> dict[str, Any]:
    environment = {**os.environ, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "1"}
    command = [sys.executable, str(HERE / "record_one.py"), json.dumps(wish)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"took more than the {timeout_s:.0f} s left"}
    if done.returncode != 0:
        return {"problem": _last_lines(done.stderr)}
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def _tuning_flag(recording: Recording, out: Path) -> str:
    """One tuning for all recordings of a program.

    Autotuning chooses by measured time, so two processes may choose other kernels for the same
    GEMM. The first recording of a program stores its choices and the later ones load them.
    """
    tuned = out / f"{recording.program}.autotune.pb"
    out.mkdir(parents=True, exist_ok=True)
    word = "load_autotune_results_from" if tuned.exists() else "dump_autotune_results_to"
    return f"--xla_gpu_{word}={tuned}"


def _last_lines(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-3:])


def _line(name: str, facts: dict[str, Any]) -> str:
    if "problem" in facts:
        return f"{name}: FAILED: {facts['problem']}"
    size_mb = sum(facts["files"].values()) / 1e6
    return (
        f"{name}: {facts['n_steps']} steps, {size_mb:.2f} MB on {facts['n_devices']} x "
        f"{facts['device']} ({facts['platform']}), jax {facts['jax']}, jaxlib {facts['jaxlib']}"
    )


if __name__ == "__main__":
    sys.exit(main())
