"""The readers under coverage-guided fuzzing: xplane, HLO and trace JSON, fed with bytes.

    pip install atheris
    python tools/fuzz_readers.py xplane|hlo|json CORPUS_FOLDER -max_total_time=600

What follows the reader's name goes to libFuzzer. A reader may return or raise CaptureError;
anything else, more than 2 GiB or 20 s for one input ends the run and leaves the input behind.
`tools/fuzz.py` needs no such library and runs whole commands.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["explane.capture"]):
    from explane.capture.hlo import read_program
    from explane.capture.hlo_text import program_text
    from explane.capture.model import StoredProgram
    from explane.capture.trace_json import read_trace_json
    from explane.capture.xplane import read_xplane
    from explane.errors import CaptureError

_FOLDER = Path(tempfile.mkdtemp(prefix="explane-fuzz-"))


def _xplane(data: bytes) -> None:
    path = _FOLDER / "node.xplane.pb"
    path.write_bytes(data)
    read_xplane(path)


def _json(data: bytes) -> None:
    path = _FOLDER / "node.trace.json"
    path.write_bytes(data)
    read_trace_json(path)


def _hlo(data: bytes) -> None:
    program = read_program(StoredProgram(1, "jit_f(1)", data))
    program_text(program)


READERS: dict[str, Callable[[bytes], None]] = {"xplane": _xplane, "json": _json, "hlo": _hlo}


def main() -> None:
    """Hands the chosen reader to libFuzzer, which never returns."""
    reader = READERS[sys.argv.pop(1)]

    def one_input(data: bytes) -> None:
        try:
            reader(data)
        except CaptureError as error:
            assert "\n" not in str(error)

    atheris.Setup([sys.argv[0], "-timeout=20", "-rss_limit_mb=2048", *sys.argv[1:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
