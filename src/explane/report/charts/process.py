"""The converter in a process of its own, for commands that will draw when they have read.

Its JavaScript engine takes half a second to start, and holds Python's lock while it works: a
thread would stop all others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from subprocess import DEVNULL, PIPE, Popen
from typing import Final

from explane.report.charts.render import Convert, Converted, Wanted, converted
from explane.report.drawable import why_not_drawable

_CODE: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from explane.report.charts.process import serve; serve()"
)
_ANY: Final = {"title": "text", "data": {"values": []}, "mark": "point", "encoding": {}}


@contextmanager
def converter_process() -> Iterator[Convert]:
    """`converted`, done once by a process that starts now and is ended with the block.

    Where none can be started, or it ends early, this process converts by itself.
    """
    process = _started()
    if process is None:
        yield converted
        return
    with process:
        try:
            yield partial(_converted_by, process)
        finally:
            process.kill()


def _started() -> Popen[bytes] | None:
    if why_not_drawable() or not sys.executable:
        return None
    try:
        command = [sys.executable, "-c", _CODE, *sys.path]
        # In a group of its own it doesn't get Ctrl-C: it ends with the block or the caller.
        return Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, process_group=0)
    except OSError:
        return None


def _converted_by(process: Popen[bytes], charts: Sequence[Wanted]) -> list[Converted]:
    """The answer of the process; without one, what this process makes of the charts."""
    if process.poll() is not None:
        return converted(charts)
    answer, _ = process.communicate(json.dumps(charts).encode())
    return converted(charts) if process.returncode else json.loads(answer)


def serve() -> None:
    """The life of the process: starts the engine, converts what it is sent, and ends."""
    converted([(_ANY, True)])
    if charts := sys.stdin.buffer.read():
        json.dump(converted(json.loads(charts)), sys.stdout)
