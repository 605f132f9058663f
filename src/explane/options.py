"""What a user may choose for a use case, in one frozen record, checked when it is made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from explane.errors import UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """Choices that use cases share; every use case takes those that concern it.

    Attributes:
        user_re: Regular expression searched in a frame's file path; the first frame that matches
            is the user's line. None: the first frame outside site-packages, jax and Python itself.
        programs: Program ids to attribute; empty means all.
        gpu: Name of the GPU to take spec-sheet peaks of; None: identified from the capture.
        peak_flops_per_s: Peak that replaces the spec sheet's, for all data types; None: no change.
        peak_bytes_per_s: Memory bandwidth that replaces the spec sheet's; None: no change.
        show_source: Whether pages may quote lines of source files.
        source_dir: Folder that holds the program's sources, for captures made elsewhere.
        show_ops: Whether `info` lists the time by labelled op.
        jobs: Processes to use at most; None: as many as there are CPUs.
        dask: Address of a dask scheduler whose workers analyse the hosts; None: this machine.
        force: Whether an output that explane wrote before may be replaced.

    Raises:
        UsageError: When a value can't be meant.
    """

    user_re: str | None = None
    programs: tuple[int, ...] = ()
    gpu: str | None = None
    peak_flops_per_s: float | None = None
    peak_bytes_per_s: float | None = None
    show_source: bool = True
    source_dir: Path | None = None
    show_ops: bool = False
    jobs: int | None = None
    dask: str | None = None
    force: bool = False

    def __post_init__(self) -> None:
        _check_pattern("--user-re", self.user_re)
        _check_positive("--peak-flops", self.peak_flops_per_s)
        _check_positive("--peak-bandwidth", self.peak_bytes_per_s)
        _check_positive("--jobs", self.jobs)
        if self.source_dir is not None and not self.source_dir.is_dir():
            raise UsageError(
                self.source_dir, "no such folder", "give --source a folder", "no-source-folder"
            )


def _check_pattern(option: str, pattern: str | None) -> None:
    if pattern is None:
        return
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(
            option,
            f"not a regular expression: {error}",
            "see the syntax of Python's re",
            "bad-pattern",
        ) from None


def _check_positive(option: str, value: float | None) -> None:
    """Refuses zero, negative, infinite and not-a-number values."""
    if value is not None and not 0 < value < float("inf"):
        raise UsageError(option, f"{value} is out of range", "give a number above 0", "bad-number")
