"""Which frames are the user's: paths as they occur in captures, and look-alikes."""

from __future__ import annotations

import re

import pytest

from explane.analysis.lines.user_frames import UserFrames, is_library_file
from explane.capture.program import Frame


@pytest.mark.parametrize(
    "file",
    [
        "/opt/venv/lib/python3.12/site-packages/optax/_src/update.py",
        "/usr/lib/python3/dist-packages/jax/numpy/linalg.py",
        "/usr/lib/python3.11/contextlib.py",
        "/home/me/.pyenv/versions/3.13.1/lib/python3.13t/functools.py",
        r"C:\Users\me\venv\Lib\site-packages\flax\linen\module.py",
        r"C:\Python311\Lib\runpy.py",
        "/opt/jax/jax/_src/api.py",
        "/src/jax-0.4.35/jax/numpy/linalg.py",
        "/opt/flax/flax/core/axes_scan.py",
        "/work/dm-haiku/haiku/_src/base.py",
        "/opt/praxis/praxis/layers/attentions.py",
        "/opt/transformer-engine/transformer_engine/jax/attention.py",
        "/x/absl/app.py",
        "<frozen runpy>",
        "<attrs generated init model>",
    ],
)
def test_library_files(file: str) -> None:
    assert is_library_file(file)


@pytest.mark.parametrize(
    "file",
    [
        "/home/me/train.py",
        "train.py",
        "/home/me/jax/train.py",
        "/home/me/my_jax/jax_utils/layers.py",
        "/home/jax/project/model.py",
        "/opt/maxtext/MaxText/layers/linears.py",
        "/home/me/optax_tricks/losses.py",
        "/home/me/flax.py",
        "/home/me/site-packages.py",
        "/tmp/ipykernel_1/12.py",
        "<stdin>",
        "<string>",
        "<ipython-input-3-0f1d>",
        r"C:\Users\me\train.py",
    ],
)
def test_the_users_files(file: str) -> None:
    assert not is_library_file(file)


LIBRARY = Frame("/v/lib/python3.12/site-packages/optax/_src/update.py", 7, "apply")
MODEL = Frame("/me/model.py", 40, "layer")
MAIN = Frame("/me/main.py", 90, "main")


def test_the_first_frame_towards_the_callers_that_is_the_users() -> None:
    assert UserFrames().choose([LIBRARY, MODEL, MAIN]) == (MODEL, True)


def test_a_rule_of_the_users_own_chooses() -> None:
    assert UserFrames(re.compile("main")).choose([LIBRARY, MODEL, MAIN]) == (MAIN, True)
    # libraries can be chosen as well
    assert UserFrames(re.compile("optax")).choose([LIBRARY, MODEL]) == (LIBRARY, True)


def test_when_the_rule_matches_nothing_the_default_line_is_shown_as_not_the_users() -> None:
    assert UserFrames(re.compile("nowhere")).choose([LIBRARY, MODEL, MAIN]) == (MODEL, False)


def test_only_library_frames_give_the_innermost() -> None:
    outer = Frame("<frozen runpy>", 88, "run")
    assert UserFrames().choose([LIBRARY, outer]) == (LIBRARY, False)


def test_frames_without_a_file_are_nobodys() -> None:
    assert UserFrames().choose([Frame("", 0, ""), MAIN]) == (MAIN, True)
    assert UserFrames().choose([Frame("", 3, "f")]) == (None, False)
    assert UserFrames().choose([]) == (None, False)
