"""The library's public names, and the example of its page, run as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import explane

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def test_every_public_name_can_be_had() -> None:
    assert [name for name in explane.__all__ if getattr(explane, name) is None] == []
    assert explane.__all__ == sorted(explane.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = explane.nothing


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import explane, sys; print([m for m in ('numpy', 'polars') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    names: dict[str, object] = {"folder": tmp_path}
    exec(code, names)
    assert names["verdict"] in ("host-bound", "GPU-bound", "communication-bound", "copy-bound")
    assert isinstance(names["slowest"], dict)
    assert names["slowest"]["duration_ps"] > 0
    classes = set(names["by_class"]["match"].to_list())  # type: ignore[index]
    assert {"name", "order"} <= classes
    svg = names["swimlanes"]._repr_svg_()  # type: ignore[attr-defined]
    assert ElementTree.fromstring(svg).tag.endswith("svg")
