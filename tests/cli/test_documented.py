from __future__ import annotations

from importlib.metadata import version

import pytest

from explane.cli.application import COMMANDS
from tests.shared import ROOT
from tools.write_cli_docs import CLI_PAGE, page

NAMES = [command.__name__ for command in COMMANDS]


LOCKED = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")


@pytest.mark.skipif(
    f"\ntyper=={version('typer')} " not in LOCKED, reason="another typer words its help otherwise"
)
def test_page_is_what_help_says() -> None:
    assert CLI_PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_a_section(name: str) -> None:
    assert f"\n## explane {name}\n" in CLI_PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_says_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from explane.cli.main import main

    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: explane {name}" in shown
    assert len(shown.splitlines()[2].strip()) > 10


def test_first_sentences_fit_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from explane.cli.main import main

    monkeypatch.setenv("COLUMNS", "80")
    main(["--help"])
    assert "..." not in capsys.readouterr().out.replace("[ARGS]...", "")
