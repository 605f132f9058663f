"""The use cases, and with the package root the library's public face.

Every use case reads captures, never writes into their folders, and hands back what it did as
data; what it writes appears whole or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from explane.analysis.investigation import Investigation
from explane.analysis.lines.line_times import line_times
from explane.capture.discover import Discovery, discover
from explane.errors import CaptureError
from explane.export.perfetto import write_perfetto
from explane.export.pprof import write_pprof
from explane.export.targets import By, Target
from explane.hosts import HostAnalysis, attribution_only, full, investigated, verdict_only
from explane.options import Options
from explane.outcome import CheckOutcome, Outcome
from explane.progress import NULL, Progress
from explane.report.annotate_text import to_text
from explane.report.annotated import annotated
from explane.report.charts.render import Convert, converted
from explane.report.factcheck.check import check_report
from explane.report.output import OutputFolder, refuse_unsafe
from explane.report.single_file import new_file, refuse_file
from explane.report.table_files import TableWriter
from explane.report.write import (
    begin_table,
    verdict_summary,
    write_attribution,
    write_report,
    write_verdict,
)

SIMULATED_NOTE: Final = (
    "This capture is simulated: a real compiled program with invented times. It shows what a "
    "report looks like; it says nothing about any GPU."
)


def investigate(
    captures: str | Path | Sequence[str | Path],
    options: Options | None = None,
    progress: Progress = NULL,
    executor: Executor | None = None,
) -> Investigation:
    """All results on one run: every host in it, merged.

    Args:
        captures: A file, run folder, `plugins/profile` or log dir, or several of these.
        options: Choices; None for the defaults.
        progress: Told what is being done.
        executor: Analyses the hosts, one task each, in place of processes of this machine; any
            `concurrent.futures.Executor` whose workers can read the files. It stays open.

    Raises:
        CaptureError: No host's capture can be used.
        UsageError: An option or path can't be meant.
    """
    chosen = options or Options()
    paths = [captures] if isinstance(captures, str | Path) else captures
    found = _discovered(paths, progress)
    return investigated(found, full, chosen, progress, executor)


def report(
    captures: Sequence[str],
    output: Path,
    options: Options,
    progress: Progress = NULL,
    convert: Convert = converted,
) -> Outcome:
    """The main job: a report of all steps, written to a folder.

    Args:
        captures: As for `investigate`.
        output: The folder.
        options: Choices.
        progress: Told what is being done.
        convert: Makes Vega and SVG of the charts' descriptions.

    Raises:
        CaptureError: No host's capture can be used.
        UsageError: The output can't be written, or an option can't be meant.
    """
    found = _discovered(captures, progress)
    inputs = [host.run for host in found.hosts]
    with (
        OutputFolder(output, inputs, options.force) as folder,
        TableWriter(folder, progress=progress) as writer,
    ):
        # Those of several processes are merged first.
        alone = len(found.hosts) == 1 and options.dask is None
        analysis = partial(full, told=partial(begin_table, writer)) if alone else full
        investigation = investigated(found, analysis, options, progress)
        with progress.stage("write: report"):
            lines = write_report(investigation, folder, options, convert, writer, progress)
    return Outcome(lines, investigation.partial, output)


def attribute(
    captures: Sequence[str], output: Path, options: Options, progress: Progress = NULL
) -> Outcome:
    """Kernels to HLO instructions and Python lines, written to a folder.

    Raises:
        CaptureError: No host's capture can be used.
        UsageError: The output can't be written, or an option can't be meant.
    """
    return _written(captures, output, options, progress, attribution_only, write_attribution)


def verdict(
    captures: Sequence[str], output: Path | None, options: Options, progress: Progress = NULL
) -> Outcome:
    """Verdict and host-side cause; its tables are written when a folder is given.

    Raises:
        CaptureError: No host's capture can be used.
        UsageError: The output can't be written.
    """
    if output is not None:
        return _written(captures, output, options, progress, verdict_only, write_verdict)
    found = _discovered(captures, progress)
    investigation = investigated(found, partial(verdict_only, rows=False), options, progress)
    return Outcome(verdict_summary(investigation), investigation.partial)


def compare(
    captures: tuple[str, str],
    output: Path,
    options: Options,
    progress: Progress = NULL,
    convert: Convert = converted,
) -> Outcome:
    """Two captures of the same work side by side, written to a folder.

    Args:
        captures: The capture before a change and the one after it.
        output: The folder.
        options: Choices, the same for both.
        progress: Told what is being done.
        convert: Makes Vega and SVG of the charts' descriptions.

    Raises:
        CaptureError: A capture can't be used, or they are not of the same work.
        UsageError: The output can't be written, or an option can't be meant.
    """
    from explane.analysis.compare.compare import compare as compare_results  # only here: they draw
    from explane.report.compare import write_comparison

    with progress.stage("discover: captures"):
        found = [discover([path]) for path in captures]
    inputs = [host.run for one in found for host in one.hosts]
    refuse_unsafe(output, inputs, options.force)
    a, b = (investigated(one, full, options, progress) for one in found)
    with progress.stage("analyse: comparing"):
        comparison = compare_results(a, b, captures)
    if comparison.refusal:
        remedy = "compare captures of the same program"
        raise CaptureError(captures[1], comparison.refusal, remedy, "not-comparable")
    with progress.stage("write: report"), OutputFolder(output, inputs, options.force) as folder:
        lines = write_comparison(comparison, folder, convert, progress)
    return Outcome(lines, comparison.partial, output)


def export(
    captures: Sequence[str],
    output: Path,
    target: tuple[Target, By],
    options: Options,
    progress: Progress = NULL,
) -> Outcome:
    """Results in another tool's format, written to a file.

    Args:
        captures: As for `investigate`.
        output: The file.
        target: The format, and what the frames of a pprof profile are.
        options: Choices.
        progress: Told what is being done.

    Raises:
        CaptureError: No host's capture can be used.
        UsageError: The output can't be written, or an option can't be meant.
    """
    found = _discovered(captures, progress)
    inputs = [host.run for host in found.hosts]
    refuse_file(output, inputs, options.force)
    form, by = target
    analysis = full if form is Target.PERFETTO else attribution_only
    investigation = investigated(found, analysis, options, progress)
    lines: tuple[str, ...] = ()
    with progress.stage("write: file"), new_file(output, inputs, options.force) as stream:
        if form is Target.PERFETTO:
            lines = write_perfetto(investigation, stream)
        else:
            write_pprof(investigation, stream, by, options.user_re)
    return Outcome(lines, investigation.partial, output)


def annotate(
    captures: Sequence[str], output: Path | None, options: Options, progress: Progress = NULL
) -> Outcome:
    """The program's source with GPU time beside each line, as text or as a page.

    Args:
        captures: As for `investigate`.
        output: File to write, as text when it ends in `.txt`, else as HTML; None for lines only.
        options: Choices; `source_dir` says where the source lies.
        progress: Told what is being done.

    Raises:
        CaptureError: No host's capture can be used.
        UsageError: The output can't be written, or an option can't be meant.
    """
    from explane.report.annotate_html import to_page  # only here: Jinja takes time to load

    found = _discovered(captures, progress)
    inputs = [host.run for host in found.hosts]
    if output is not None:
        refuse_file(output, inputs, options.force)
    investigation = investigated(found, attribution_only, options, progress)
    with progress.stage("analyse: lines"):
        folder = options.source_dir if options.show_source else None
        source = annotated(line_times(investigation, options.user_re), folder)
    lines = to_text(source)
    if output is None:
        return Outcome(lines, investigation.partial)
    text = "\n".join(lines) + "\n" if output.suffix == ".txt" else to_page(source)
    with new_file(output, inputs, options.force) as stream:
        stream.write(text.encode("utf-8", "replace"))
    return Outcome((), investigation.partial, output)


def check(folder: Path) -> CheckOutcome:
    """The fact check of a written report.

    Raises:
        CaptureError: The folder holds no report.
    """
    return check_report(folder)


def demo(
    output: Path, options: Options, progress: Progress = NULL, convert: Convert = converted
) -> Outcome:
    """The report of a simulated 4-GPU training step with command buffers.

    Args:
        output: The folder.
        options: Choices.
        progress: Told what is being done.
        convert: Makes Vega and SVG of the charts' descriptions.

    Raises:
        UsageError: The output can't be written.
    """
    from explane.synth.demo import demo_capture  # only the demo needs the simulator

    refuse_unsafe(output, force=options.force)
    with tempfile.TemporaryDirectory(prefix="explane-demo-") as folder:
        with progress.stage("simulate: a capture"):
            run = demo_capture(Path(folder))
        sources = Path(folder) / "source"
        chosen = replace(options, source_dir=sources) if sources.is_dir() else options
        outcome = report([str(run)], output, chosen, progress, convert)
    return replace(outcome, lines=(SIMULATED_NOTE, *outcome.lines))


def _discovered(captures: Sequence[str | Path], progress: Progress) -> Discovery:
    """The run to analyse, with a stage of its own."""
    with progress.stage("discover: captures"):
        return discover(captures)


def _written(
    captures: Sequence[str],
    output: Path,
    options: Options,
    progress: Progress,
    analysis: HostAnalysis,
    write: Callable[[Investigation, OutputFolder, Options, Progress], tuple[str, ...]],
) -> Outcome:
    """Analyse, then write whole or not at all."""
    found = _discovered(captures, progress)
    inputs = [host.run for host in found.hosts]
    refuse_unsafe(output, inputs, options.force)
    investigation = investigated(found, analysis, options, progress)
    with progress.stage("write: tables"), OutputFolder(output, inputs, options.force) as folder:
        lines = write(investigation, folder, options, progress)
    return Outcome(lines, investigation.partial, output)
