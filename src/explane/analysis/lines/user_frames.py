"""Which stack frame is the user's own code, and which belongs to a library.

JAX records the frames of a call without its own; libraries on top of it (flax, optax, transformer
engine, …) and the interpreter remain, so the innermost frame is often not the user's. Rules are
on path components, so that an editable install is recognised as well as site-packages, and a
user's project that merely has `jax` in its name is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from explane.capture.program import Frame

_INSTALLED: Final = re.compile(
    r"(^|/)(site-packages|dist-packages)/"
    r"|(^|/)lib(64)?/python3(\.\d+t?)?/"  # the interpreter: /usr/lib/python3.12/contextlib.py
    r"|(^|/)python3\d*(\.\d+)?/lib/"  # the same on Windows
    r"|(^|/)lib-dynload/",
    re.IGNORECASE,
)
_GENERATED: Final = re.compile(r"<(frozen |attrs |decorator-gen|__array_function__ |eqx)")
_PACKAGES: Final = (
    "absl|axlearn|blackjax|brax|chex|diffrax|distrax|einops|equinox|etils|flax|fvcore|haiku|jax|"
    "jaxlib|jaxopt|jaxtyping|keras|numpy|numpyro|optax|optimistix|orbax|paxml|penzai|praxis|qwix|"
    "scipy|seqio|tensorflow|torch|transformer_engine|transformers|treescope"
)
# An editable install lies in a clone that is named like its package (`/src/jax/jax/numpy/…`,
# also `/src/dm-haiku/haiku/…`), or shows inner folders that only that package has.
_EDITABLE: Final = re.compile(
    rf"(^|/)(?:dm-|google-)?({_PACKAGES})(?:-[\w.]+)?/(?:src/)?\2/"
    r"|(^|/)dm-haiku/haiku/"
    r"|(^|/)(jax|optax|chex|haiku|equinox|penzai)/_src/"
    r"|(^|/)jax/(experimental|interpreters|numpy|lax|nn|scipy)/"
    r"|(^|/)flax/(core|linen|nnx|training|struct\.py)"
    r"|(^|/)optax/(losses|transforms|tree_utils|contrib|schedules)/"
    r"|(^|/)transformer_engine/(jax|common)/"
    r"|(^|/)praxis/(base_layer\.py|layers/)"
    r"|(^|/)absl/(app|flags|logging)(\.py|/)"
)


@dataclass(frozen=True, slots=True)
class UserFrames:
    """The rule in force: a regular expression of the user's, or the default rules.

    Attributes:
        user_re: Searched in the file path; None for the default rules. Frames that it does not
            match are not the user's, whatever the default rules say.
    """

    user_re: re.Pattern[str] | None = None

    def is_user(self, frame: Frame) -> bool:
        """True for a frame of the user's own code; a frame without a file is nobody's."""
        if not frame.file:
            return False
        if self.user_re is not None:
            return self.user_re.search(frame.file) is not None
        return not is_library_file(frame.file)

    def choose(self, stack: Sequence[Frame]) -> tuple[Frame | None, bool]:
        """The frame to show for a stack (innermost first), and whether it is the user's.

        The first frame towards the callers that is the user's; else the first outside libraries;
        else the innermost that names a file; None when no frame does.
        """
        for frame in stack:
            if self.is_user(frame):
                return frame, True
        named = [frame for frame in stack if frame.file]
        for frame in named:
            if not is_library_file(frame.file):
                return frame, False
        return (named[0] if named else None), False


def is_library_file(file: str) -> bool:
    """True for files of installed packages, the interpreter, and code made by a library.

    `<stdin>`, `<string>` and notebook cells are the user's.
    """
    if file.startswith("<"):
        return _GENERATED.match(file) is not None
    path = file.replace("\\", "/")
    return _INSTALLED.search(path) is not None or _EDITABLE.search(path) is not None
