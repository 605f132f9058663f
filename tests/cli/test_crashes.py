"""A short run of crash trials; `tools/crash_trials.py` makes hundreds."""

from __future__ import annotations

import sys

import pytest

from tests.cli.captures import small_capture
from tests.field.made import Job, steps_of
from tools.crash_trials import (
    Setting,
    Trial,
    full,
    killed,
    no_reader,
    prepare,
    read_only,
    two,
    vanished,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the trials need Linux")


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    place = tmp_path_factory.mktemp("crashes")
    old = small_capture().write(place / "a").parent
    new = steps_of(Job()).space().write(place / "b").parent
    return prepare(place, "verdict", (old, new), 7)


@pytest.mark.parametrize("trial", [killed, full, vanished, two, no_reader, read_only])
def test_whatever_ends_a_run_leaves_one_whole_output(setting: Setting, trial: Trial) -> None:
    setting.reset()
    word, right = trial(setting)
    assert setting.state() in ("old", "new"), word
    assert right, (word, setting.left())
