"""Chart descriptions to SVG and to Vega, offline and with the same bytes every time."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

Wanted = tuple[Mapping[str, Any], bool]
"""A Vega-Lite description, and whether its picture is wanted."""

Converted = tuple[dict[str, Any], str]
"""The compiled Vega of a description, which needs no compiler on the page, and its SVG or ""."""

Convert = Callable[[Sequence[Wanted]], Sequence[Converted]]


def converted(charts: Sequence[Wanted]) -> list[Converted]:
    """Vega and SVG of each chart."""
    return [_converted(description, pictured) for description, pictured in charts]


def _converted(description: Mapping[str, Any], pictured: bool) -> Converted:
    import vl_convert  # here and below: only for commands that draw

    vega = vl_convert.vegalite_to_vega(dict(description), vl_version=_vega_lite())
    if not pictured:
        return vega, ""
    svg: str = vl_convert.vega_to_svg(vega)
    return vega, _renumbered(svg.rstrip("\n")) + "\n"


def to_svg(description: Mapping[str, Any]) -> str:
    """The SVG of a Vega-Lite description."""
    return converted([(description, True)])[0][1]


def _renumbered(svg: str) -> str:
    """The SVG with its clip paths numbered from 0: the converter counts on over all pictures."""
    numbers: dict[str, str] = {}
    return re.sub(
        r"\bclip\d+\b", lambda m: numbers.setdefault(m.group(), f"clip{len(numbers)}"), svg
    )


def _vega_lite() -> str:
    """The newest version of Vega-Lite that the converter holds."""
    import vl_convert

    newest: str = vl_convert.get_vegalite_versions()[-1]
    return newest


def converter_version() -> dict[str, str]:
    """Versions that settle what `bundled_vega` gives."""
    from importlib.metadata import version  # only here: a thirtieth of a second

    return {"vl_convert": version("vl-convert-python"), "vega_lite": _vega_lite()}


@cache
def vega_library() -> str:
    """Vega and its embedding as one script; nothing is fetched.

    It is a file of this package where that was made by the installed version of the converter;
    for another version it is made anew, which takes about two seconds.
    """
    from importlib.resources import files

    static = files("explane.report") / "static"
    if json.loads((static / "vega.json").read_text(encoding="utf-8")) != converter_version():
        return bundled_vega()
    return gzip.decompress((static / "vega.js.gz").read_bytes()).decode()


def bundled_vega() -> str:
    """Vega and its embedding as one script, made by the converter from its own copy."""
    import vl_convert

    snippet = "window.vegaEmbed = vegaEmbed;"
    script: str = vl_convert.javascript_bundle(snippet, vl_version=_vega_lite())
    return re.sub(r"</(?=script)", r"<\\/", script, flags=re.IGNORECASE)
