"""When the command began: imported before everything that takes time to import."""

from __future__ import annotations

import time
from typing import Final

BEGAN_S: Final = time.perf_counter()
"""A moment of `time.perf_counter`; Python itself had started by then."""
