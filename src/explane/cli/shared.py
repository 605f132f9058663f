"""Options that several commands share, each defined once, and what a command does with them.

`@command(SOURCES, …)` adds the options of the named groups to a function and hands it one `Call`
instead of a dozen arguments:

    @command(ATTRIBUTION)
    def info(captures: Captures, call: Call) -> None:
        \"\"\"Text of --help.\"\"\"
        from explane import app
        call.finish(call.run(lambda progress: app.info(captures, call.options(), progress)))
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from explane.cli.output import show_lines, show_wrote
from explane.cli.progress import open_progress
from explane.errors import EXIT_OK, EXIT_PARTIAL
from explane.options import Options
from explane.outcome import Outcome
from explane.progress import Progress

Result = TypeVar("Result")

Captures = Annotated[
    list[str],
    typer.Argument(
        metavar="CAPTURE",
        help="A file, a run folder, plugins/profile, a log dir, or several; also a URL.",
        show_default=False,
    ),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write, whole or not.")
]
MaybeOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Folder to write; else nothing is."),
]


@dataclass(frozen=True, slots=True)
class Shared:
    """One shared option: the `Options` field or switch it sets, its type and its default."""

    name: str
    annotation: Any
    default: Any = None


FORCE = (
    Shared(
        "force",
        Annotated[
            bool,
            typer.Option("--force", help="Replace an output that explane wrote before."),
        ],
        False,
    ),
)
REPLACE = (
    Shared(
        "force",
        Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")],
        False,
    ),
)
ATTRIBUTION = (
    Shared(
        "user_re",
        Annotated[
            str | None,
            typer.Option(
                metavar="REGEX",
                help="Files that count as yours when a Python line is chosen "
                "[default: all but site-packages, jax and Python itself].",
            ),
        ],
    ),
    Shared(
        "program",
        Annotated[
            list[int] | None,
            typer.Option(metavar="ID", help="Attribute this program only; may be repeated."),
        ],
    ),
)
PEAKS = (
    Shared(
        "gpu",
        Annotated[
            str | None,
            typer.Option(metavar="NAME", help="GPU whose spec-sheet peaks to use."),
        ],
    ),
    Shared(
        "peak_flops",
        Annotated[
            float | None,
            typer.Option(metavar="FLOP/S", help="Peak to use for all data types."),
        ],
    ),
    Shared(
        "peak_bandwidth",
        Annotated[
            float | None,
            typer.Option(metavar="BYTE/S", help="Memory bandwidth to use."),
        ],
    ),
)
SOURCES = (
    Shared(
        "no_source",
        Annotated[bool, typer.Option("--no-source", help="Quote no source lines.")],
        False,
    ),
    Shared(
        "source",
        Annotated[
            Path | None,
            typer.Option(metavar="DIR", help="Where the program's source files lie."),
        ],
    ),
)
OPS = (
    Shared("ops", Annotated[bool, typer.Option("--ops", help="Show time by labelled op.")], False),
)
JOBS = (
    Shared(
        "jobs",
        Annotated[
            int | None,
            typer.Option(metavar="N", help="Processes at most [default: one per CPU]."),
        ],
    ),
    Shared(
        "dask",
        Annotated[
            str | None,
            typer.Option(
                metavar="ADDRESS",
                help="Analyse the hosts on the dask cluster with this scheduler, such as "
                "tcp://10.0.0.5:8786 (needs explane[cluster]).",
            ),
        ],
    ),
)
_ALWAYS = (
    Shared(
        "timings",
        Annotated[bool, typer.Option("--timings", help="Show what took how long.")],
        False,
    ),
    Shared(
        "quiet",
        Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no 'Wrote'.")],
        False,
    ),
    Shared(
        "debug",
        Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")],
        False,
    ),
)


class Call:
    """One run of a command: its shared options, its progress, its end."""

    def __init__(self, values: dict[str, Any]):
        self._values = values

    def options(self) -> Options:
        """The choices for the use case.

        Raises:
            UsageError: When a value can't be meant.
        """
        value = self._values.get
        return Options(
            user_re=value("user_re"),
            programs=tuple(value("program") or ()),
            gpu=value("gpu"),
            peak_flops_per_s=value("peak_flops"),
            peak_bytes_per_s=value("peak_bandwidth"),
            show_source=not value("no_source", False),
            source_dir=value("source"),
            show_ops=value("ops", False),
            jobs=value("jobs"),
            dask=value("dask"),
            force=value("force", False),
        )

    def run(self, use_case: Callable[[Progress], Result]) -> Result:
        """Runs a use case with progress on a terminal, and with timings when asked for."""
        with open_progress(self._values["quiet"], self._values["timings"]) as progress:
            return use_case(progress)

    def finish(self, outcome: Outcome) -> int:
        """Prints the outcome; the exit code: 0, or 3 when parts were withheld."""
        show_lines(outcome.lines)
        if outcome.folder is not None and not self._values["quiet"]:
            show_wrote(outcome.folder)
        return EXIT_PARTIAL if outcome.partial else EXIT_OK


def command(*groups: tuple[Shared, ...]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Gives a function that takes a `call` the options of the groups, for typer to read."""
    shared = [option for group in (*groups, _ALWAYS) for option in group]

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(**values: Any) -> int:
            own = {name: values.pop(name) for name in list(values) if name in own_names}
            return function(**own, call=Call(values))

        signature = inspect.signature(function, eval_str=True)
        parameters = [p for p in signature.parameters.values() if p.name != "call"]
        own_names = {p.name for p in parameters}
        parameters += [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=option.annotation,
            )
            for option in shared
        ]
        vars(wrapper)["__signature__"] = signature.replace(parameters=parameters)
        wrapper.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
        return wrapper

    return decorate
