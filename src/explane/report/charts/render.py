"""Chart descriptions to SVG and to Vega, offline and with the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import altair as alt
import vl_convert

_VERSION: Final = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


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


@cache
def vega_library() -> str:
    """Vega and its embedding as one script, from the converter's own copy: nothing is fetched.

    Bundling takes about two seconds, so it is done once for each process.
    """
    snippet = "window.vegaEmbed = vegaEmbed;"
    script: str = vl_convert.javascript_bundle(snippet, vl_version=_VERSION)
    return re.sub(r"</(?=script)", r"<\\/", script, flags=re.IGNORECASE)
