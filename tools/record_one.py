"""Records one capture in this process; `record_captures.py` starts one process per capture.

    python tools/record_one.py '{"program": "gpt", "n_steps": 8, …}'

XLA reads its flags when jax is imported, hence a process of its own for every set of flags. The
last line of standard output is JSON: versions, device and sizes of what was made.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
from recorded_programs import PROGRAMS, State, Workload

N_WARM_UP = 4  # compiles, tunes and (with command buffers) records the graphs before the capture


def main() -> int:
    """Records what the JSON in the first argument asks for."""
    wish = json.loads(sys.argv[1])
    if wish["cpu"]:
        jax.config.update("jax_platforms", "cpu")
    workload = PROGRAMS[wish["program"]](wish["cpu"])
    start_s = time.perf_counter()
    state = _run(workload, workload.state, N_WARM_UP)
    warm_s = time.perf_counter() - start_s
    folder = Path(wish["folder"])
    with tempfile.TemporaryDirectory() as log_dir:
        _record(workload, state, wish, log_dir)
        files = _move_files(Path(log_dir), folder)
    print(json.dumps(_facts() | {"warm_up_s": round(warm_s, 1), "files": files}))
    return 0


def _run(workload: Workload, state: State, n_steps: int) -> State:
    """Runs steps and waits for the last one."""
    for number in range(n_steps):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            state = workload.step(state)
    return jax.block_until_ready(state)


def _record(workload: Workload, state: State, wish: dict[str, Any], log_dir: str) -> None:
    options = _options(wish["python_tracer"])
    jax.profiler.start_trace(log_dir, **options)
    try:
        _run(workload, state, wish["n_steps"])
    finally:
        jax.profiler.stop_trace()


def _options(python_tracer: bool) -> dict[str, Any]:
    """Arguments of start_trace; jax before 0.5 has no options and always traces Python."""
    if not hasattr(jax.profiler, "ProfileOptions"):
        return {}
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = int(python_tracer)
    options.host_tracer_level = 2
    return {"profiler_options": options}


def _move_files(log_dir: Path, folder: Path) -> dict[str, int]:
    """Moves the capture's two files out of the log dir; their sizes in bytes by name."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for pattern in ("*.xplane.pb", "*.trace.json.gz"):
        for path in sorted(log_dir.glob(f"plugins/profile/*/{pattern}")):
            target = folder / path.name
            shutil.move(path, target)
            sizes[path.name] = target.stat().st_size
    return sizes


def _facts() -> dict[str, Any]:
    """Versions and device, as jax tells them."""
    devices = jax.devices()
    return {
        "jax": jax.__version__,
        "jaxlib": jax.lib.__version__,
        "platform": devices[0].platform,
        "platform_version": devices[0].client.platform_version.replace("\n", " "),
        "device": devices[0].device_kind,
        "n_devices": len(devices),
    }


if __name__ == "__main__":
    sys.exit(main())
