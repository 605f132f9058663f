"""The commands that are compared: explane's, and those of the tools that are installed.

A command is a list of words; `{capture}` stands for the xplane file, `{out}` for a folder that
doesn't exist yet. Both are new for every run, so that no tool finds the cache of the run before.
"""

from __future__ import annotations

import shlex
import sys
from compileall import compile_dir
from pathlib import Path

import explane

Commands = dict[str, list[str]]

_XPROF = """
import sys
from xprof.convert import raw_to_tool_data
for tool in sys.argv[2:]:
    data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], tool, {})
    if not data:
        raise SystemExit(f"no data for {tool}")
"""
_PROFILE_DATA = """
import sys
from jax.profiler import ProfileData
for plane in ProfileData.from_file(sys.argv[1]).planes:
    if plane.name.startswith("/device:GPU"):
        for line in plane.lines:
            for event in line.events:
                event.name, event.start_ns, event.duration_ns
                for stat in event.stats:
                    pass
"""
_XPROF_TABLES = {
    "xprof hlo_stats": ["hlo_stats"],
    "xprof overview": ["overview_page"],
    "xprof trace_viewer": ["trace_viewer@"],
    "xprof, five tables": [
        "hlo_stats",
        "overview_page",
        "kernel_stats",
        "framework_op_stats",
        "trace_viewer@",
    ],
}


def ours() -> Commands:
    """explane's commands, run by the Python that runs this.

    Its modules are compiled first, as pip does when it installs a package: a working copy whose
    Python was told not to keep what it compiles would do so in every run.
    """
    compile_dir(Path(explane.__file__).parent, quiet=1)
    program = [sys.executable, "-m", "explane"]
    return {
        "explane report": [*program, "report", "{capture}", "-o", "{out}"],
        "explane verdict": [*program, "verdict", "{capture}", "-o", "{out}"],
        "explane attribute": [*program, "attribute", "{capture}", "-o", "{out}"],
        "explane info --ops": [*program, "info", "--ops", "{capture}"],
    }


def rivals(
    xprof_python: str | None, jax_python: str | None, xprof_rs: Path | None, others: list[str]
) -> Commands:
    """Commands of the other tools.

    Args:
        xprof_python: A Python with xprof.
        jax_python: A Python with jax.
        xprof_rs: The program xprof-rs.
        others: `NAME=COMMAND` each, for any other tool.
    """
    found: Commands = {}
    if xprof_python:
        for name, tables in _XPROF_TABLES.items():
            found[name] = [xprof_python, "-c", _XPROF, "{capture}", *tables]
    if jax_python:
        found["jax ProfileData"] = [jax_python, "-c", _PROFILE_DATA, "{capture}"]
    if xprof_rs:
        found["xprof-rs get_top_hlo_ops"] = [str(xprof_rs), "get_top_hlo_ops", "{capture}"]
    for other in others:
        name, _, words = other.partition("=")
        found[name] = shlex.split(words)
    return found
