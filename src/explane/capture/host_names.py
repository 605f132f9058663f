"""What host events say, told by their names: compilation, execution, waiting.

Names are matched once per distinct name, never per event. TraceMe names are free text of XLA, JAX
and the user, so each rule names the form that it expects:

- *compile*: XLA and PjRt mark compilation with `…Compile…`, JAX with `backend_compile` and
  `compile_or_get_cached`. Events of the Python tracer (`$file.py:line function`) count only when
  they come from JAX's compiler modules, since `re.compile` and the like mean nothing here.
- *execute*: the call that runs one program on one device (innermost form first).
- *wait*: the host does nothing but wait for the device or another thread.
"""

from __future__ import annotations

import re
from typing import Final

_JAX_FILES: Final = r"(?:compiler|pxla|dispatch|compilation_cache|pjit|stages)\.py:\d+"
COMPILE: Final = re.compile(
    rf"^(?!\$).*(?<!pre)(?<!de)compil(?!ed)|^\${_JAX_FILES} \w*compile\w*$", re.IGNORECASE
)
WAIT: Final = re.compile(
    r"Await|Block(?:Host)?Until|block_until_ready|Synchronize|WaitFor|Wait for|^Wait\b|\bwait\b"
    r"|ToLiteral|SemaphoreAcquire|\bsleep\b|\bacquire\b|Barrier",
    re.IGNORECASE,
)

#: Events that run one program on one device, the most exact form first.
EXECUTE: Final = (
    re.compile(r":XLA GPU module"),
    re.compile(r"GpuExecutable::ExecuteThunks"),
    re.compile(r"::EnqueueExecution$|LoadedExecutable::ExecuteHelper$"),
    re.compile(r"LoadedExecutable::Execute\w*$|^PJRT_LoadedExecutable_Execute$"),
    re.compile(r"^(?:Pjit|Pmap|Jit|Xla)\w*Function\(|^PjitFunction"),
)
#: Any of the above: the process gave work to a device.
DISPATCH: Final = re.compile("|".join(p.pattern for p in EXECUTE))


_GRAPHS_OFF: Final = ("commandbuffer disabled when profiling", "(disabled for profiling)")


def says_graphs_off(name: str) -> bool:
    """True for XLA's message that it runs graphs op by op because a profiler is active."""
    return any(sign in name.lower() for sign in _GRAPHS_OFF)


def is_looked_for(name: str) -> bool:
    """True for events that are found or counted by their name, however short they are."""
    rules = (COMPILE, WAIT, DISPATCH)
    return any(rule.search(name) for rule in rules) or says_graphs_off(name)
