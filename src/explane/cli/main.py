"""Entry point: runs a command and turns every way it can end into one line and an exit code.

    0  done                         3    a result was written, parts were withheld
    1  the data can't be used       130  interrupted (Ctrl-C); 143 ended by SIGTERM
    2  wrong call                   141  the reader of standard output went away

A traceback is shown with `--debug` only.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from explane.cli.clock import BEGAN_S  # noqa: F401 - the clock starts when it is imported
from explane.cli.output import ReaderGoneError
from explane.errors import EXIT_DATA, EXIT_INTERRUPTED, EXIT_USAGE, ExplaneError, one_line

_EXIT_PIPE_CLOSED = 128 + signal.SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `explane ARGUMENTS` and returns its exit code.

    Args:
        arguments: Words after the program's name; None takes those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _tolerate_any_text()
    with _signals_unwind() as interrupts:
        try:
            code = _run(words)
            sys.stdout.flush()
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        except (ReaderGoneError, BrokenPipeError):
            _discard_standard_output()
            return _EXIT_PIPE_CLOSED
        except Exception as error:  # noqa: BLE001 - the last line of defence: no bare traceback
            if "--debug" in words:
                traceback.print_exc()
            if not interrupts:
                return _explain(error)
            code = EXIT_INTERRUPTED  # which a library made an error of its own
    return _say("interrupted", code) if code == EXIT_INTERRUPTED else code


def _run(words: list[str]) -> int:
    from explane.cli.application import application, run

    return run(application(), words)


def _explain(error: Exception) -> int:
    """Prints the one line for an error and returns the exit code that it stands for."""
    from explane.cli.application import usage_text

    if isinstance(error, ExplaneError):
        return _say(f"{error} [{error.slug}]", error.exit_code)
    wrong_call = usage_text(error)
    if wrong_call:
        return _say(wrong_call, EXIT_USAGE)
    if isinstance(error, OSError) and error.strerror:
        subject = error.filename if error.filename is not None else "system"
        return _say(f"{subject}: {error.strerror}", EXIT_DATA)
    if isinstance(error, MemoryError):
        return _say("out of memory; try fewer --jobs or one host at a time", EXIT_DATA)
    return _say(
        f"internal error ({type(error).__name__}: {error}); this is a bug in explane: "
        "please report it, with what --debug shows",
        EXIT_DATA,
    )


def _say(text: str, code: int) -> int:
    print(f"explane: {one_line(text)}", file=sys.stderr)
    return code


def _tolerate_any_text() -> None:
    """Makes the streams print any name, also where the terminal's encoding lacks a letter."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextmanager
def _signals_unwind() -> Iterator[Sequence[int]]:
    """While active, SIGTERM, SIGHUP and Ctrl-C unwind the stack, so that nothing temporary stays.

    Yields:
        The interrupts by Ctrl-C so far.
    """
    interrupts: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def interrupt(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    handlers = {signal.SIGTERM: _exit_by, signal.SIGHUP: _exit_by}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handlers[signal.SIGINT] = interrupt
    previous = {number: signal.signal(number, does) for number, does in handlers.items()}
    try:
        yield interrupts
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit_by(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _discard_standard_output() -> None:
    """Points standard output at nothing, so that Python's exit doesn't fail on flushing it."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
