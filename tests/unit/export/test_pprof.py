"""The profile read back with protobuf."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from explane.analysis.investigation import Investigation
from explane.export.pprof import scope_parts, write_pprof
from explane.export.targets import By
from tests.unit.export.made import LIBRARY, US, investigation, kernel
from tests.unit.export.schemas import profile

KERNELS = [
    kernel(0, 5 * US + 400, "dot.1"),
    kernel(6 * US, 3 * US + 300, "dot.1"),
    kernel(0, 4 * US + 400, "dot.1", device=1),
    kernel(20 * US, 2 * US + 600, "mul.3"),
    kernel(30 * US, US + 900, None, kernel="Cijk_MT64"),
    kernel(40 * US, 7 * US, "add.2", time_ok=False),
]


def written(made: Investigation, by: By = By.STACK) -> Any:
    stream = io.BytesIO()
    write_pprof(made, stream, by)
    found = profile(gzip.decompress(stream.getvalue()))
    assert found.string_table[0] == ""
    assert len(set(found.string_table)) == len(found.string_table)
    for records in (found.location, found.function, found.mapping):
        assert [record.id for record in records] == list(range(1, len(records) + 1))
    return found


def stacks(found: Any) -> dict[tuple[str, ...], tuple[int, int]]:
    """Values by frames, outermost first, each as `function file:line`."""
    text = found.string_table
    result: dict[tuple[str, ...], tuple[int, int]] = {}
    functions = {f.id: f for f in found.function}
    places = {}
    for location in found.location:
        (line,) = location.line
        function = functions[line.function_id]
        name, file = text[function.name], text[function.filename]
        places[location.id] = f"{name} {file}:{line.line}" if file else name
    for sample in found.sample:
        frames = tuple(places[i] for i in reversed(sample.location_id))
        old = result.get(frames, (0, 0))
        result[frames] = (old[0] + sample.value[0], old[1] + sample.value[1])
    return result


def labels(found: Any) -> list[dict[str, str]]:
    text = found.string_table
    return [{text[label.key]: text[label.str] for label in s.label} for s in found.sample]


def test_the_whole_python_stack_outermost_first() -> None:
    assert {frames: n for frames, (n, _) in stacks(written(investigation(KERNELS))).items()} == {
        (
            "<module> /me/train.py:90",
            "step /me/train.py:41",
            "layer /me/model.py:12",
            f"dense {LIBRARY}:7",
        ): 3,
        ("<module> /me/train.py:90", "step /me/train.py:41", "head /me/model.py:30"): 1,
        ("(no Python stack)",): 1,
    }


def test_scopes_with_the_line_at_the_innermost() -> None:
    found = stacks(written(investigation([*KERNELS, kernel(50 * US, US, "add.2")]), By.SCOPE))
    assert {frames: n for frames, (n, _) in found.items()} == {
        ("jit(step)", "layer", "dot /me/model.py:12"): 3,
        ("jit(step)", "head", "mul /me/model.py:30"): 1,
        ("jit(step)", "(layer/add:head/add) /me/model.py:12"): 1,
        ("(no op name)",): 1,
    }


def test_time_adds_up_and_is_rounded_once() -> None:
    # 8_000_700 + 4_000_400 + 2_000_600 + 1_000_900 ps = 15_002_600 ps
    for by in By:
        found = written(investigation(KERNELS), by)
        assert sum(sample.value[1] for sample in found.sample) == 15_002
        assert sum(sample.value[0] for sample in found.sample) == 5
        assert [sample.value[1] for sample in found.sample] == [8_000, 4_001, 2_000, 1_001]


def test_one_sample_per_gpu_and_instruction_with_its_labels() -> None:
    found = labels(written(investigation(KERNELS)))
    assert [(one["device"], one.get("hlo_instruction"), one.get("kernel")) for one in found] == [
        ("0", "dot.1", None),
        ("1", "dot.1", None),
        ("0", "mul.3", None),
        ("0", None, "Cijk_MT64"),
    ]
    assert found[0] == {
        "host": "node",
        "device": "0",
        "program": "jit_step",
        "hlo_instruction": "dot.1",
        "op_name": "jit(step)/layer/dot",
        "kind": "compute",
        "match": "exact",
    }


def test_units_and_defaults() -> None:
    found = written(investigation(KERNELS))
    text = found.string_table
    assert [(text[t.type], text[t.unit]) for t in found.sample_type] == [
        ("kernels", "count"),
        ("time", "nanoseconds"),
    ]
    assert text[found.default_sample_type] == "time"
    assert found.duration_nanos == 31_000  # to the end of the last kernel with a true time
    (mapping,) = found.mapping
    assert mapping.has_functions and mapping.has_line_numbers and mapping.has_filenames


def test_hostile_names_lose_their_control_characters() -> None:
    evil = "a\x1b[31m\nb\u202e"
    made = investigation([kernel(0, US, None, kernel=evil), kernel(US, US, op_name=evil)])
    for by in By:
        assert all(text.isprintable() for text in written(made, by).string_table)


def test_the_same_results_give_the_same_bytes() -> None:
    one, two = io.BytesIO(), io.BytesIO()
    write_pprof(investigation(KERNELS), one)
    write_pprof(investigation(KERNELS), two)
    assert one.getvalue() == two.getvalue()


def test_no_kernels_is_an_empty_profile() -> None:
    assert len(written(investigation([])).sample) == 0


def test_scope_parts() -> None:
    assert scope_parts("jit(f)/a/dot") == ["jit(f)", "a", "dot"]
    assert scope_parts("jit(f)/transpose(jvp(a/b))/x[y=(1/2)]") == [
        "jit(f)", "transpose(jvp(a/b))", "x[y=(1/2)]",
    ]  # fmt: skip
    assert scope_parts("a)/b") == ["a)", "b"]


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_go_tool_pprof_opens_it(tmp_path: Path) -> None:
    path = tmp_path / "time.pb.gz"
    with path.open("wb") as stream:
        write_pprof(investigation(KERNELS), stream)
    command = ["go", "tool", "pprof", "-top", "-unit=ns", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    total_ns = sum(k["duration_ps"] for k in KERNELS if k["time_ok"]) // 1000
    assert f"Total samples = {total_ns}ns" in done.stdout
