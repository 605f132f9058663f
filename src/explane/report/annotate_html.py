"""Annotated source as one page: no script, no network, hostile names shown and not obeyed."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from explane.report.annotated import Annotated


def to_page(annotated: Annotated) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("explane.report"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (files("explane.report") / "static" / "annotate.css").read_text(encoding="utf-8")
    template = environment.get_template("annotate.html.j2")
    return template.render(annotated=annotated, style=Markup(style), heat=heat)


def heat(ratio: float) -> int:
    """How warm a line is shown, 0 to 9: each step is about half as much time."""
    level = 0
    for step, bound in enumerate((0.0, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256), 1):
        if ratio > bound:
            level = step
    return level
