"""Attribution against the truth, by capture and class, as a Markdown table.

    python tools/accuracy.py FOLDER [FOLDER ...]

Every folder below FOLDER that holds an xplane and has its truth beside it (`<name>.truth.csv.gz`,
or `truth.csv.gz` inside) is attributed and compared: a kernel is right when its instruction is
the true one. `tools/make_eval_captures.py OUT` makes such folders.

Columns: share of graph kernels that are right by time and by count; of class `name` and `order`
how many and which share is right; graph kernels without an instruction; other kernels right (with
a label always, library kernels may have none); what the self-check says of its own hidden kernels
(right by count), which knows no truth.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from explane.analysis.attribution.attribute import attribute
from explane.analysis.attribution.selfcheck import selfcheck
from explane.analysis.host_facts import read_programs
from explane.capture.xplane import read_xplane

KEYS = ["device", "start_ps", "duration_ps", "kernel"]
HEAD = (
    "| capture | graph kernels | right by time | by count | `name`: n | right | `order`: n "
    "| right | `none` | others right | self-check |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def pairs(folder: Path) -> Iterator[tuple[Path, Path]]:
    """(xplane, truth) of every capture below a folder."""
    for xplane in sorted(folder.rglob("*.xplane.pb")):
        run = xplane.parent
        beside = (run.with_name(f"{run.name}.truth.csv.gz"), run / "truth.csv.gz")
        truth = next((path for path in beside if path.exists()), None)
        if truth is not None:
            yield xplane, truth


def scored(xplane: Path, truth: Path) -> tuple[pl.DataFrame, str]:
    """Kernels that the truth knows, with `match`, `graph` and `right`; and the self-check."""
    capture = read_xplane(xplane)
    programs, _ = read_programs(capture.programs)
    found = attribute(capture, programs)
    checked = selfcheck(capture, programs, found)
    kernels = pl.DataFrame(
        {
            "device": capture.kernels.device.astype("int64"),
            "start_ps": capture.kernels.start_ps,
            "duration_ps": capture.kernels.duration_ps,
            "kernel": [capture.text(int(code)) for code in capture.kernels.name],
            "found": found.instruction_names(),
            "match": found.match,
        }
    )
    known = pl.read_csv(truth, infer_schema_length=None).select(
        *KEYS, pl.col("hlo_op").fill_null(""), pl.col("in_graph").cast(pl.Boolean).alias("graph")
    )
    joined = kernels.join(known, on=KEYS, how="inner")
    frame = joined.with_columns((pl.col("found") == pl.col("hlo_op")).alias("right"))
    told = "too few"
    if checked.table.height:
        tested, right = checked.table["tested"].sum(), checked.table["right"].sum()
        told = f"{right / tested:.2%} of {tested}"
    return frame, told


def share(frame: pl.DataFrame, by_time: bool = False) -> str:
    """Share of right kernels; empty without kernels."""
    if not frame.height:
        return ""
    if not by_time:
        return f"{frame['right'].mean():.2%}"
    right = frame.filter("right")["duration_ps"].sum()
    return f"{right / max(frame['duration_ps'].sum(), 1):.2%}"


def line(name: str, frame: pl.DataFrame, told: str) -> str:
    """One row of the table."""
    graph, direct = frame.filter("graph"), frame.filter(~pl.col("graph"))
    classes = {word: graph.filter(pl.col("match") == rank) for rank, word in WORDS.items()}
    return (
        f"| {name} | {graph.height} | {share(graph, by_time=True)} | {share(graph)} "
        f"| {classes['name'].height} | {share(classes['name'])} "
        f"| {classes['order'].height} | {share(classes['order'])} "
        f"| {classes['none'].height} | {share(direct)} | {told} |"
    )


WORDS = {0: "none", 1: "order", 2: "name", 3: "exact"}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    print(HEAD)
    for folder in parser.parse_args().folders:
        for xplane, truth in pairs(folder):
            print(line(xplane.parent.name, *scored(xplane, truth)), flush=True)


if __name__ == "__main__":
    main()
