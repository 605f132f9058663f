"""The `explane` command with its sub-commands, and how it is run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from explane.cli import annotate, attribute, check, compare, demo, export, info, report, verdict
from explane.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE

#: Every command, in the order of the help; the function's name is the command's.
COMMANDS = (
    report.report,
    verdict.verdict,
    attribute.attribute,
    annotate.annotate,
    info.info,
    compare.compare,
    export.export,
    check.check,
    demo.demo,
)

# typer carries a private copy of click; its public BadParameter leads to the base of all wrong
# calls: BadParameter < UsageError < ClickException.
_WRONG_CALL: type[Exception] = typer.BadParameter.__mro__[2]


def application() -> typer.Typer:
    """The command line with every command registered."""
    app = typer.Typer(
        name="explane",
        help="Explains an XPlane: from one JAX GPU profile to what to change, and where the "
        "trace can't tell.",
        epilog="Exit codes: 0 done, 1 the data can't be used, 2 wrong call, 3 partial result.",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for command in COMMANDS:
        app.command()(command)
    return app


def run(app: typer.Typer, words: list[str]) -> int:
    """Runs the command line and returns its exit code.

    Without any word the help is shown, as a wrong call.

    Raises:
        Exception: Whatever ends a command early, wrong calls included (see `usage_text`).
    """
    try:
        result: Any = app(words or ["--help"], prog_name="explane", standalone_mode=False)
    except typer.Abort:
        return EXIT_INTERRUPTED
    if not words:
        return EXIT_USAGE
    return result if isinstance(result, int) else EXIT_OK


def usage_text(error: Exception) -> str:
    """One line on a wrong call; empty when the error is something else."""
    if not isinstance(error, _WRONG_CALL):
        return ""
    told: Any = error
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "explane"
    return f"{told.format_message().rstrip('.')}; see {path} --help"


def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=lambda v: _tell(v)),
    ] = False,
) -> None:
    """Holds the options that come before a command."""


def _tell(wanted: bool) -> None:
    if wanted:
        from explane._version import __version__

        print(f"explane {__version__}")
        raise typer.Exit
