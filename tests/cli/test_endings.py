"""Every way a command can end: one line on standard error and the exit code of the contract."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explane.cli.main import main
from explane.errors import CaptureError, UsageError
from explane.outcome import CheckOutcome, Outcome

Captured = pytest.CaptureFixture[str]
Fake = Callable[[str, Any], None]


@pytest.fixture
def use_case(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a function, or one that raises the given error, in a use case's place."""

    def put(name: str, does: Any) -> None:
        def stand_in(*_arguments: Any) -> Any:
            if isinstance(does, BaseException):
                raise does
            return does

        call = does if callable(does) and not isinstance(does, BaseException) else stand_in
        place = "contents" if name == "info" else "app"
        monkeypatch.setattr(f"explane.{place}.{name}", call, raising=False)

    return put


def one_error_line(capsys: Captured) -> str:
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert len(lines) == 1, shown.err
    assert "Traceback" not in shown.out + shown.err
    return lines[0]


def test_result_on_stdout_and_place_on_stderr(use_case: Fake, capsys: Captured) -> None:
    use_case("report", Outcome(("first", "second"), folder=Path("there")))
    assert main(["report", "x"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "first\nsecond\n"
    assert shown.err == "Wrote there\n"


def test_quiet_says_no_wrote(use_case: Fake, capsys: Captured) -> None:
    use_case("report", Outcome(("first",), folder=Path("there")))
    assert main(["report", "x", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_partial_result_is_3(use_case: Fake) -> None:
    use_case("verdict", Outcome((), partial=True))
    assert main(["verdict", "x"]) == 3


def test_unusable_data_is_1(use_case: Fake, capsys: Captured) -> None:
    use_case("info", CaptureError("a.pb", "corrupt at byte 7", "capture again", "a_slug"))
    assert main(["info", "a.pb"]) == 1
    assert one_error_line(capsys) == "explane: a.pb: corrupt at byte 7; capture again [a-slug]"


def test_call_that_cannot_be_carried_out_is_2(use_case: Fake, capsys: Captured) -> None:
    use_case("report", UsageError("out", "not ours", "choose another", "busy"))
    assert main(["report", "x", "-o", "out"]) == 2
    assert one_error_line(capsys) == "explane: out: not ours; choose another [busy]"


def test_problems_of_a_check_are_1(use_case: Fake, capsys: Captured) -> None:
    use_case("check", CheckOutcome(("12.5 ms: no claim",), n_claims=3))
    assert main(["check", "folder"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "12.5 ms: no claim",
        "3 claims recomputed, 1 problem",
    ]


def test_check_without_problems_is_0(use_case: Fake, capsys: Captured) -> None:
    use_case("check", CheckOutcome((), n_claims=3))
    assert main(["check", "folder"]) == 0
    assert capsys.readouterr().out == "3 claims recomputed, 0 problems\n"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["repor", "x"], "repor"),
        (["report"], "CAPTURE"),
        (["report", "x", "--no-such"], "--no-such"),
        (["report", "x", "--jobs", "many"], "--jobs"),
        (["report", "x", "--jobs", "0"], "--jobs"),
        (["report", "x", "--user-re", "("], "--user-re"),
        (["report", "x", "--peak-flops", "-1"], "--peak-flops"),
        (["report", "x", "--peak-bandwidth", "nan"], "--peak-bandwidth"),
        (["report", "x", "--source", "/no/such/folder"], "/no/such/folder"),
        (["attribute", "x", "--program", "one"], "--program"),
    ],
)
def test_wrong_call_is_2_and_names_the_word(
    words: list[str], part: str, use_case: Fake, capsys: Captured
) -> None:
    for name in ("report", "attribute"):
        use_case(name, Outcome(()))
    assert main(words) == 2
    assert part in one_error_line(capsys)


def test_no_words_show_the_help(capsys: Captured) -> None:
    assert main([]) == 2
    assert "Usage: explane" in capsys.readouterr().out


def test_bug_is_one_line(use_case: Fake, capsys: Captured) -> None:
    use_case("report", KeyError("odd\nname"))
    assert main(["report", "x"]) == 1
    line = one_error_line(capsys)
    assert "internal error" in line
    assert "--debug" in line


def test_debug_shows_where(use_case: Fake, capsys: Captured) -> None:
    use_case("report", KeyError("odd"))
    assert main(["report", "x", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_missing_file_is_no_bug(use_case: Fake, capsys: Captured) -> None:
    use_case("report", FileNotFoundError(2, "No such file or directory", "gone.pb"))
    assert main(["report", "x"]) == 1
    assert one_error_line(capsys) == "explane: gone.pb: No such file or directory"


def test_interruption_is_130(use_case: Fake, capsys: Captured) -> None:
    use_case("report", KeyboardInterrupt())
    assert main(["report", "x"]) == 130
    assert one_error_line(capsys) == "explane: interrupted"


def test_control_characters_of_names_stay_off_the_terminal(
    use_case: Fake, capsys: Captured
) -> None:
    use_case("info", Outcome(("kernel \x1b[2J\u202e evil",)))
    assert main(["info", "x"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_options_reach_the_use_case(use_case: Fake, tmp_path: Path) -> None:
    seen: list[Any] = []

    def report(*arguments: Any) -> Outcome:
        seen.extend(arguments)
        return Outcome(())

    use_case("report", report)
    words = "report a b -o out --user-re mine --program 7 --program -3 --gpu H200 --jobs 2"
    words += f" --peak-flops 1e15 --peak-bandwidth 2e12 --no-source --source {tmp_path} --force"
    assert main(words.split()) == 0
    captures, output, options, _progress, _convert = seen
    assert captures == ["a", "b"]
    assert output == Path("out")
    assert options.user_re == "mine"
    assert options.programs == (7, -3)
    assert (options.gpu, options.jobs, options.force) == ("H200", 2, True)
    assert (options.peak_flops_per_s, options.peak_bytes_per_s) == (1e15, 2e12)
    assert (options.show_source, options.source_dir) == (False, tmp_path)


_SLOW = """
import pathlib, sys, time
import explane.app as app
def slow(*_):
    try:
        print("ready", flush=True)
        time.sleep(30)
    finally:
        pathlib.Path(sys.argv[1]).touch()
app.report = slow
from explane.cli.main import main
sys.exit(main(["report", "x"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_unwind_so_that_temporary_output_goes(
    number: int, code: int, tmp_path: Path
) -> None:
    mark = tmp_path / "cleaned"
    command = [sys.executable, "-c", _SLOW, str(mark)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, error = process.communicate(timeout=20)
    assert process.returncode == code
    assert mark.exists()
    assert "Traceback" not in error


_TURNED = """
import os, signal, sys
import explane.contents as contents
def info(*_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("half initialised")
contents.info = info
from explane.cli.main import main
sys.exit(main(["info", "x"]))
"""


def test_an_interrupt_that_a_library_turns_into_an_error_is_an_interrupt() -> None:
    command = [sys.executable, "-c", _TURNED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "explane: interrupted\n")


_MANY_LINES = """
import sys
import explane.contents as contents
from explane.outcome import Outcome
contents.info = lambda *_: Outcome(tuple("line" for _ in range(100_000)))
from explane.cli.main import main
sys.exit(main(["info", "x"]))
"""


def test_reader_that_goes_away_is_no_failure() -> None:
    command = [sys.executable, "-c", _MANY_LINES]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        error = process.stderr.read()
    assert process.returncode == 141
    assert error == ""


_LIGHT = """
import sys
from explane.cli.main import main
assert main(["--help"]) == 0
heavy = {"numpy", "polars", "jinja2", "google.protobuf", "rich", "orjson", "isal"}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", _LIGHT], capture_output=True, text=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_text_prints_in_any_encoding(encoding: str) -> None:
    code = _MANY_LINES.replace('"line" for _ in range(100_000)', 'x for x in ("µs → \\udcff",)')
    environment = {"PYTHONIOENCODING": encoding, "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")


def test_start_loads_nothing_heavy() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "explane", "--help"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "typer" in loaded
    assert loaded & {"numpy", "polars", "vl_convert", "jinja2", "google.protobuf"} == set()
