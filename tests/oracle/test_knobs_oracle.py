"""Knobs exist: XLA takes every flag that advice names, jax has every function and option.

Needs jax, which the project does not; see `test_flops_oracle`.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from functools import reduce

import pytest

from explane.analysis.advice.texts import CAUSE_TEXTS

jax = pytest.importorskip("jax", reason="jax is not installed")
pytestmark = pytest.mark.oracle

LINES = re.compile(r'XLA_FLAGS="\$XLA_FLAGS ([^"]+)"')
NAMES = re.compile(r"\bjax(?:\.[A-Za-z_]\w*)+")
OPTIONS = re.compile(r"jax\.config\.update\('(\w+)', ('?)(\w+)\2\)")


@pytest.mark.parametrize("cause", sorted(CAUSE_TEXTS))
def test_xla_takes_every_flag(cause: str) -> None:
    for flags in LINES.findall(CAUSE_TEXTS[cause].knob):
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        code = "import jax; jax.devices()"
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr[-500:]


def test_xla_does_not_take_any_flag() -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_gpu_no_such_flag=1", "JAX_PLATFORMS": "cpu"}
    code = "import jax; jax.devices()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=False
    )
    assert done.returncode != 0


@pytest.mark.parametrize("cause", sorted(CAUSE_TEXTS))
def test_jax_has_every_name(cause: str) -> None:
    for module in ("experimental.custom_partitioning", "flatten_util"):
        importlib.import_module(f"jax.{module}")  # jax loads them on demand
    for name in NAMES.findall(CAUSE_TEXTS[cause].knob):
        reduce(getattr, name.split(".")[1:], jax)


@pytest.mark.parametrize("cause", sorted(CAUSE_TEXTS))
def test_jax_takes_every_option(cause: str) -> None:
    for name, quote, value in OPTIONS.findall(CAUSE_TEXTS[cause].knob):
        before = getattr(jax.config, name)
        jax.config.update(name, value if quote else before)
        jax.config.update(name, before)


def test_options_of_the_profiler_exist() -> None:
    assert hasattr(jax.profiler.ProfileOptions(), "python_tracer_level")
