"""Chart descriptions to SVG and to Vega, offline and with the same bytes every time."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

import vl_convert

_VERSION: Final[str] = vl_convert.get_vegalite_versions()[-1]
"""The newest Vega-Lite that the converter holds."""


def to_svg(description: Mapping[str, Any]) -> str:
    """The SVG of a Vega-Lite description."""
    svg: str = vl_convert.vegalite_to_svg(dict(description), vl_version=_VERSION)
    return _renumbered(svg.rstrip("\n")) + "\n"


def _renumbered(svg: str) -> str:
    """The SVG with its clip paths numbered from 0: the converter counts on over all pictures."""
    numbers: dict[str, str] = {}
    return re.sub(
        r"\bclip\d+\b", lambda m: numbers.setdefault(m.group(), f"clip{len(numbers)}"), svg
    )


def to_vega(description: Mapping[str, Any]) -> dict[str, Any]:
    """The compiled Vega of a Vega-Lite description, for the page: it needs no compiler there."""
    return dict(vl_convert.vegalite_to_vega(dict(description), vl_version=_VERSION))


def converter_version() -> dict[str, str]:
    """Versions that settle what `bundled_vega` gives."""
    return {"vl_convert": version("vl-convert-python"), "vega_lite": _VERSION}


@cache
def vega_library() -> str:
    """Vega and its embedding as one script; nothing is fetched.

    It is a file of this package where that was made by the installed version of the converter;
    for another version it is made anew, which takes about two seconds.
    """
    static = files("explane.report") / "static"
    if json.loads((static / "vega.json").read_text(encoding="utf-8")) != converter_version():
        return bundled_vega()
    return gzip.decompress((static / "vega.js.gz").read_bytes()).decode()


def bundled_vega() -> str:
    """Vega and its embedding as one script, made by the converter from its own copy."""
    snippet = "window.vegaEmbed = vegaEmbed;"
    script: str = vl_convert.javascript_bundle(snippet, vl_version=_VERSION)
    return re.sub(r"</(?=script)", r"<\\/", script, flags=re.IGNORECASE)
