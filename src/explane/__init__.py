"""explane explains an XPlane: what to change to make a JAX step faster, and what can't be told.

The library in a few names, loaded when they are first asked for:

    investigate    captures to an `Investigation`: all results, as polars tables by name
    pictures       an `Investigation` to its charts, which display themselves in Jupyter
    Options        choices that an investigation takes
    ExplaneError   base of every error meant for the user
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explane.analysis.investigation import Investigation
    from explane.app import investigate
    from explane.errors import ExplaneError
    from explane.options import Options
    from explane.report.notebook import pictures

__all__ = ["ExplaneError", "Investigation", "Options", "investigate", "pictures"]

_PLACES = {
    "ExplaneError": "explane.errors",
    "Investigation": "explane.analysis.investigation",
    "Options": "explane.options",
    "investigate": "explane.app",
    "pictures": "explane.report.notebook",
}


def __getattr__(name: str) -> object:
    """A public name, imported when it is first used: numpy and polars take time to load."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
