"""Kernels to instructions to lines, where other tools name the wrong op or none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from explane import app
from explane.analysis.investigation import Investigation
from explane.analysis.lines.line_times import line_times
from explane.options import Options
from tests.builders import Hlo, HloComputation, HloModule, Module
from tests.field.made import (
    US,
    Job,
    analysed,
    check,
    fusion,
    program,
    row,
    rows,
    steps_of,
    stored,
    total_ps,
    written,
)
from tests.shared import capture_dir, require_shared

X = Hlo("x", "parameter", parameter_number=0)


def module(*body: Hlo, called: list[HloComputation] | None = None, **more: object) -> Module:
    """A program whose entry is these instructions."""
    main = HloComputation("main", [X, *body])
    given: dict[str, object] = {"program_id": 3, **more}
    return stored(HloModule("jit_step", [*(called or []), main], **given))  # type: ignore[arg-type]


def instructions(found: Investigation) -> list[str | None]:
    made = sorted(rows(found, "kernels"), key=lambda r: r["start_ps"])
    return [r["hlo_instruction"] for r in made]


def lines(found: Investigation) -> set[tuple[str | None, int | None]]:
    return {(r["source_file"], r["source_line"]) for r in rows(found, "kernels")}


# ------------------------------------------------------------------------------ identities


@pytest.mark.parametrize("first_id", [1, 2**31 - 2, (7 << 32) | 12, 2**62])
def test_instruction_ids_of_any_size_join(tmp_path: Path, first_id: int) -> None:
    body = HloComputation(
        "fused", [Hlo("p", "parameter", parameter_number=0), Hlo("n", "negate", operands=("p",))]
    )
    made = module(fusion("loop_fusion", calls=("fused",)), called=[body], first_id=first_id)
    found = analysed(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    assert {r["match"] for r in rows(found, "kernels")} == {"exact"}
    assert row(found, "roofline")["flops"] == 8
    assert lines(found) == {("/home/me/train.py", 10)}


def test_equal_names_in_two_programs_keep_their_own_lines(tmp_path: Path) -> None:
    modules = [
        program(["loop_add_fusion"], 3, "jit_random", 5),
        program(["loop_add_fusion"], 4, "jit_step", 70),
    ]
    job = Job(modules=modules)
    for i in range(6):
        number = 3 if i % 3 == 0 else 4
        module_name = "jit_random" if number == 3 else "jit_step"
        job.kernel(
            "loop_add_fusion",
            1000 + 100 * i,
            50,
            program_id=number,
            hlo_module=module_name,
        )
    found = analysed(job.space(), tmp_path)
    made = rows(found, "kernels")
    assert [r["source_line"] for r in made] == [5, 70, 70, 5, 70, 70]
    assert len(rows(found, "ops")) == 2


def test_a_label_without_a_program_id_is_not_taken_from_any_program(tmp_path: Path) -> None:
    modules = [program(["f"], 3, "jit_a", 5), program(["f"], 4, "jit_b", 70)]
    job = Job(modules=modules)
    for i in range(4):
        job.kernel("f", 1000 + 100 * i, 50, op="", hlo_op="f")
    found = analysed(job.space(), tmp_path)
    for one in rows(found, "kernels"):
        assert one["match"] != "exact"


def test_a_label_as_hlo_text_writes_it_is_the_same_label(tmp_path: Path) -> None:
    job = Job(modules=[program(["loop_fusion"])])
    for i in range(4):
        job.kernel("k", 1000 + 100 * i, 50, op="%loop_fusion")
    found = analysed(job.space(), tmp_path)
    assert {(r["match"], r["source_line"]) for r in rows(found, "kernels")} == {("exact", 10)}


def test_two_modules_of_one_name_and_id_from_two_hosts_may_differ_in_bytes(
    tmp_path: Path,
) -> None:
    for i in range(2):
        body = fusion("loop_fusion", op_name=f"jit(step)/rank{i}")
        space = steps_of(Job(modules=[module(body)]), ("loop_fusion",), n_steps=5 + i).space()
        space.hostnames = [f"node{i}"]
        space.write(tmp_path / "run", host=f"node{i}")
    found = analysed(tmp_path / "run", tmp_path)
    assert {(r["host"], r["op_name"]) for r in rows(found, "ops")} == {
        ("node0", "jit(step)/rank0"),
        ("node1", "jit(step)/rank1"),
    }


# ---------------------------------------------------------------------------------- graphs

NAMES = tuple(f"loop_fusion_{i}" for i in range(6))


@pytest.mark.parametrize("label", ["command_buffer", "call", "", "module"])
def test_kernels_of_graphs_are_attributed_and_totals_are_kernel_time(
    tmp_path: Path, label: str
) -> None:
    inner = HloComputation(
        "command_buffer_0",
        [Hlo("p", "parameter", parameter_number=0), *(fusion_p(n, 10 + i) for i, n in NUMBERED)],
    )
    call = Hlo("command_buffer", "call", operands=("x",), calls=("command_buffer_0",))
    made = module(fusion("first_fusion", 1), call, fusion("last_fusion", 2), called=[inner])
    stats = {
        "command_buffer": {
            "hlo_op": "command_buffer",
            "hlo_module": "jit_step",
            "program_id": 3,
        },
        "call": {"hlo_op": "call.3", "hlo_module": "jit_step", "program_id": 3},
        "module": {"hlo_module": "jit_step", "program_id": 3},
        "": {},
    }[label]
    job = Job(modules=[made])
    for step in range(4):
        start = 1000 + 500 * step
        job.step(step, start - 50, 490)
        job.kernel("first_fusion", start, 20)
        job.graph(NAMES, start + 50, 20, **stats)  # type: ignore[arg-type]
        job.kernel("last_fusion", start + 300, 20)
    found = analysed(job.space(), tmp_path)
    assert instructions(found) == ["first_fusion", *NAMES, "last_fusion"] * 4
    assert {r["match"] for r in rows(found, "kernels", in_graph=True)} <= {"name", "order"}
    assert check(found, "attributed + unattributed")["holds"] == "yes"
    assert sum(r["duration_ps"] for r in rows(found, "ops")) == total_ps(found)


NUMBERED = tuple(enumerate(NAMES))


def fusion_p(name: str, line: int) -> Hlo:
    return fusion(name, line, operands=("p",))


def test_a_graph_without_any_program_is_one_honest_remainder(tmp_path: Path) -> None:
    job = Job()
    for step in range(4):
        job.graph(["mystery_kernel"] * 5, 1000 + 200 * step, 20)
    job.modules = [program(["unrelated_fusion"])]
    found = analysed(job.space(), tmp_path)
    assert {r["match"] for r in rows(found, "kernels")} == {"none"}
    assert all(r["reason"] for r in rows(found, "kernels"))
    assert sum(r["duration_ps"] for r in rows(found, "how")) == 4 * 5 * 20 * US


# --------------------------------------------------------------------------------- fusions


def fused_module(*inner: Hlo, root: str = "", **more: Any) -> Module:
    body = HloComputation(
        "fused", [Hlo("p", "parameter", parameter_number=0), *inner], is_fusion=True, root=root
    )
    return module(fusion("loop_fusion", calls=("fused",), **more), called=[body])


def test_a_fusion_has_its_time_once_and_no_invented_split(tmp_path: Path) -> None:
    inner = [
        Hlo(f"add.{i}", "add", operands=("p", "p"), source=("/home/me/m.py", 30 + i))
        for i in range(5)
    ]
    made = fused_module(*inner)
    found = analysed(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    one = row(found, "ops")
    assert one["duration_ps"] == 5 * 30 * US
    assert sum(r["duration_ps"] for r in rows(found, "lines")) == 5 * 30 * US


def test_all_lines_inside_a_fusion_are_listed(tmp_path: Path) -> None:
    inner = [
        Hlo("add.1", "add", operands=("p", "p"), source=("/home/me/a.py", 3)),
        Hlo("mul.1", "multiply", operands=("add.1", "p"), source=("/home/me/b.py", 8)),
    ]
    made = fused_module(*inner, source=("/home/me/b.py", 8))
    found = analysed(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    text = found.programs[0].text
    assert "a.py" in text
    assert "b.py" in text
    listed = set(line_times(found).times.select("source_file", "source_line").iter_rows())
    assert {("/home/me/a.py", 3), ("/home/me/b.py", 8)} <= listed


def test_a_line_is_found_inside_when_the_fusion_has_none(tmp_path: Path) -> None:
    inner = [Hlo("add.1", "add", operands=("p", "p"), source=("/home/me/a.py", 3))]
    made = fused_module(*inner, source=None, op_name="")
    found = analysed(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    assert lines(found) == {("/home/me/a.py", 3)}
    assert {r["line_from"] for r in rows(found, "kernels")} == {"fused_root"}


# ----------------------------------------------------------------------------- Python lines

FRAMES = (
    ("/home/me/train.py", "train_step", 41, 0),
    ("/usr/lib/python3.12/site-packages/flax/linen/module.py", "__call__", 700, 1),
    ("/usr/lib/python3.12/site-packages/optax/_src/update.py", "apply", 44, 2),
    ("/opt/venv/lib/python3.11/site-packages/jax/_src/lax/lax.py", "add", 99, 3),
)


def test_the_users_line_is_chosen_not_the_frameworks(tmp_path: Path) -> None:
    made = module(fusion("loop_fusion", frame=4, source=(FRAMES[3][0], 99)), frames=FRAMES)
    found = analysed(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    assert lines(found) == {("/home/me/train.py", 41)}
    assert {r["function"] for r in rows(found, "kernels")} == {"train_step"}


def test_the_choice_can_be_made_with_a_pattern(tmp_path: Path) -> None:
    made = module(fusion("loop_fusion", frame=4, source=(FRAMES[3][0], 99)), frames=FRAMES)
    space = steps_of(Job(modules=[made]), ("loop_fusion",)).space()
    found = analysed(space, tmp_path, user_re="flax/")
    assert lines(found) == {(FRAMES[1][0], 700)}


def test_only_library_frames_are_said_to_be_a_library(tmp_path: Path) -> None:
    made = module(
        fusion("loop_fusion", frame=2, source=(FRAMES[3][0], 99)),
        frames=((*FRAMES[1][:3], 0), (*FRAMES[3][:3], 1)),
    )
    found = analysed(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    assert all(r["line_from"].endswith("_library") for r in rows(found, "kernels"))
    assert any("inside libraries" in r["item"] for r in rows(found, "trust"))


FILES = ("<stdin>", "<string>", "/tmp/ipykernel_1/12.py", "", "train.py", "C:\\me\\t.py")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("line", [0, 7])
def test_code_without_a_file_is_printed_as_it_is(tmp_path: Path, file: str, line: int) -> None:
    made = module(fusion("loop_fusion", source=(file, line)))
    found = analysed(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    assert {r["source_file"] or "" for r in rows(found, "kernels")} == {file}
    assert {r["match"] for r in rows(found, "kernels")} == {"exact"}


@pytest.mark.parametrize("file", FILES)
def test_code_without_a_file_costs_no_page_and_makes_no_link(tmp_path: Path, file: str) -> None:
    made = module(fusion("loop_fusion", source=(file, 7)))
    out, _ = written(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r'href="([^#"][^"]*)"', page)) == set()
    run = str(tmp_path / "run")
    options = Options(jobs=1, source_dir=tmp_path)
    assert not app.annotate([run], tmp_path / "a.html", options).partial


def test_a_host_annotation_does_not_reach_the_gpu_and_the_page_says_so(tmp_path: Path) -> None:
    job = steps_of(Job())
    job.event("my_annotation", 1000, 100)
    _, text = written(job.space(), tmp_path)
    assert "jit(step)" in text
    assert "come from `jax.named_scope`" in text


def test_the_named_scope_is_shown(tmp_path: Path) -> None:
    scope = "jit(step)/encoder/layer_3/attention/dot_general"
    made = module(fusion("loop_fusion", op_name=scope))
    found = analysed(steps_of(Job(modules=[made]), ("loop_fusion",)).space(), tmp_path)
    assert {r["op_name"] for r in rows(found, "ops")} == {scope}


# --------------------------------------------------------------- collectives, calls, copies


def test_communication_before_a_custom_call_is_not_the_calls_time(tmp_path: Path) -> None:
    scope = "jit(step)/attention/ffi_call"
    made = module(
        Hlo("all-gather.1", "all-gather", operands=("x",), op_name=scope),
        Hlo("custom-call.2", "custom-call", operands=("all-gather.1",), op_name=scope,
            target="te_fused_attn"),
    )  # fmt: skip
    job = Job(n_gpus=2, modules=[made])
    for step in range(4):
        for gpu in range(2):
            start = 1000 + 100 * step
            nccl = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            job.kernel(nccl, start, 30, gpu, op="all-gather.1")
            job.kernel("flash_fwd", start + 30, 60, gpu, op="custom-call.2")
    found = analysed(job.space(), tmp_path)
    times = {r["hlo_instruction"]: (r["kind"], r["duration_ps"]) for r in rows(found, "ops")}
    assert times == {
        "all-gather.1": ("collective", 240 * US),
        "custom-call.2": ("compute", 480 * US),
    }
    assert {r["op_name"] for r in rows(found, "ops")} == {scope}


def test_labels_of_asynchronous_collectives_find_their_start(tmp_path: Path) -> None:
    made = module(
        fusion("loop_fusion"),
        Hlo("all-reduce-start.12", "all-reduce-start", operands=("loop_fusion",),
            op_name="jit(step)/psum", source=("/home/me/train.py", 50)),
        Hlo("all-reduce-done.12", "all-reduce-done", operands=("all-reduce-start.12",)),
    )  # fmt: skip
    job = Job(n_gpus=2, modules=[made])
    for step in range(4):
        for gpu in range(2):
            start = 1000 + 100 * step
            job.kernel("loop_fusion", start, 30, gpu)
            nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
            job.kernel(nccl, start + 30, 60, gpu, 9, op="all-reduce.12")
    found = analysed(job.space(), tmp_path)
    made_rows = rows(found, "kernels", kind="collective")
    assert {r["hlo_op"] for r in made_rows} == {"all-reduce.12"}
    assert {r["hlo_instruction"] for r in made_rows} == {"all-reduce-start.12"}
    assert {r["source_line"] for r in made_rows} == {50}
    assert check(found, "launches of jit_step(3)")["holds"] == "yes"


def test_kernels_that_share_one_name_are_told_by_their_ops(tmp_path: Path) -> None:
    calls = [
        Hlo(f"custom-call.{i}", "custom-call", operands=("x",), target="mosaic_gpu",
            op_name=f"jit(step)/kernel_{i}", source=("/home/me/k.py", i))
        for i in range(3)
    ]  # fmt: skip
    job = Job(modules=[module(*calls)])
    for step in range(4):
        for i in range(3):
            job.kernel("main_kernel", 1000 + 100 * step + 30 * i, 20, op=f"custom-call.{i}")
    found = analysed(job.space(), tmp_path)
    assert {r["op_name"] for r in rows(found, "ops")} == {
        f"jit(step)/kernel_{i}" for i in range(3)
    }


def test_a_fill_inside_a_library_call_keeps_its_owner_and_its_kind(tmp_path: Path) -> None:
    call = Hlo("custom-call.1", "custom-call", operands=("x",), target="te_fused_attn_ffi")
    job = Job(vendor="AMD", modules=[module(call)])
    for step in range(4):
        start = 1000 + 100 * step
        job.kernel("__amd_rocclr_fillBufferAligned.kd", start, 5, op="custom-call.1")
        job.kernel("fmha_bwd_kernel", start + 5, 60, op="custom-call.1")
    found = analysed(job.space(), tmp_path)
    assert row(found, "streams")["memset_ps"] == 4 * 5 * US
    fills = rows(found, "kernels", kind="memset")
    assert {r["hlo_instruction"] for r in fills} == {"custom-call.1"}


def test_gaps_between_the_kernels_of_an_op_are_not_its_time(tmp_path: Path) -> None:
    job = Job(modules=[module(Hlo("custom-call.1", "custom-call", operands=("x",), target="t"))])
    for step in range(4):
        start = 1000 + 1000 * step
        job.kernel("first_kernel", start, 50, op="custom-call.1")
        job.kernel("second_kernel", start + 350, 50, op="custom-call.1")
    found = analysed(job.space(), tmp_path)
    one = row(found, "ops")
    assert one["duration_ps"] == 4 * 100 * US
    assert (one["n_kernels"], one["n_executions"]) == (8, 4)
    assert row(found, "roofline")["duration_ps"] == 100 * US


def test_instructions_that_never_ran_are_no_error(tmp_path: Path) -> None:
    taken = HloComputation(
        "taken", [Hlo("p", "parameter", parameter_number=0), fusion_p("yes", 4)]
    )
    other = HloComputation("other", [Hlo("q", "parameter", parameter_number=0),
                                     fusion("no", 5, operands=("q",))])  # fmt: skip
    branch = Hlo("cond", "conditional", operands=("x", "x", "x"), calls=("taken", "other"))
    job = Job(modules=[module(fusion("pre_fusion"), branch, called=[taken, other])])
    for step in range(5):
        job.kernel("pre_fusion", 1000 + 100 * step, 30)
        job.kernel("yes", 1030 + 100 * step, 30)
    found = analysed(job.space(), tmp_path)
    assert {r["match"] for r in rows(found, "kernels")} == {"exact"}
    assert check(found, "launches of jit_step(3)")["holds"] != "no"


def test_a_program_that_can_not_be_parsed_costs_only_its_instructions(tmp_path: Path) -> None:
    job = steps_of(Job(modules=[Module(3, "jit_step(3)", b"\x0a\x05garbage")]))
    found = analysed(job.space(), tmp_path)
    assert len(rows(found, "kernels")) == 10
    assert {r["hlo_op"] for r in rows(found, "kernels")} == {
        "loop_add_fusion",
        "input_reduce_fusion",
    }
    assert {r["match"] for r in rows(found, "kernels")} == {"none"}
    assert any("3" in n.reason for n in found.not_analysed)


def loops_of(trips: int, depth: int) -> Module:
    """A fusion inside loops inside loops."""
    inner = [Hlo("p", "parameter", parameter_number=0), fusion_p("loop_fusion", 4)]
    test = [Hlo("q", "parameter", parameter_number=0), Hlo("lt", "compare", operands=("q", "q"))]
    made = [HloComputation("body", inner), HloComputation("test", test)]
    config = f'{{"known_trip_count":{{"n":"{trips}"}}}}'
    for i in range(depth):
        called = ("body" if not i else f"body{i}", "test")
        operand = Hlo(f"p{i}", "parameter", parameter_number=0)
        loop = Hlo(f"w{i}", "while", operands=(f"p{i}",), calls=called, backend_config=config)
        made.append(HloComputation(f"body{i + 1}", [operand, loop]))
    last = Hlo("call", "call", operands=("x",), calls=(f"body{depth}",))
    return module(last, called=made)


@pytest.mark.parametrize(("trips", "depth"), [(2**63, 1), (10**6, 8), (2**64 - 1, 3), (0, 2)])
def test_loops_without_measure_cost_neither_time_nor_memory(
    tmp_path: Path, trips: int, depth: int
) -> None:
    job = Job(modules=[loops_of(trips, depth)])
    for step in range(4):
        job.graph(["loop_fusion"] * 3, 1000 + 200 * step, 20)
    found = analysed(job.space(), tmp_path)
    assert check(found, "attributed + unattributed")["holds"] == "yes"


@pytest.mark.parametrize("opcode", ["call", "fusion"])
def test_calls_that_double_at_every_level_are_refused_before_they_are_walked(
    tmp_path: Path, opcode: str
) -> None:
    """Forty computations that call the next one twice: 2^40 instructions written out."""
    made = [HloComputation("c0", [Hlo("p0", "parameter", parameter_number=0)])]
    for i in range(1, 40):
        body = [Hlo(f"p{i}", "parameter", parameter_number=0)]
        body += [
            Hlo(f"{side}{i}", opcode, operands=(f"p{i}",), calls=(f"c{i - 1}",)) for side in "ab"
        ]
        made.append(HloComputation(f"c{i}", body))
    top = Hlo("top", opcode, operands=("x",), calls=("c39",))
    job = steps_of(Job(modules=[module(top, called=made)]))
    found = analysed(job.space(), tmp_path)
    assert len(rows(found, "kernels")) == 10
    assert any("too many times over" in n.reason for n in found.not_analysed)


def test_a_label_that_the_program_does_not_hold_stays_a_label(tmp_path: Path) -> None:
    job = Job(modules=[program(["known_fusion"])])
    for i in range(4):
        job.kernel("known_fusion", 1000 + 100 * i, 30)
        job.kernel("later_fusion", 1040 + 100 * i, 30)
    found = analysed(job.space(), tmp_path)
    strays = rows(found, "kernels", kernel="later_fusion")
    assert {(r["hlo_op"], r["hlo_instruction"], r["match"]) for r in strays} == {
        ("later_fusion", None, "none")
    }


@require_shared
@pytest.mark.parametrize("name", ["gpt1-h100", "gpt-dp4-mi300", "conv1-mi300"])
def test_command_buffers_of_real_programs_are_never_an_empty_table(
    tmp_path: Path, name: str
) -> None:
    app.attribute([str(capture_dir("simulated", name))], tmp_path / "out", Options(jobs=1))
    how = pl.read_csv(tmp_path / "out/how.csv")
    kernels = pl.read_csv(tmp_path / "out/kernels.csv", infer_schema_length=None)
    assert how["duration_ps"].sum() == kernels["duration_ps"].sum()
    found = kernels.filter(pl.col("hlo_instruction").is_not_null())["duration_ps"].sum()
    assert int(found) > 0.95 * int(kernels["duration_ps"].sum())


@require_shared
def test_a_program_of_one_library_call_is_counted_by_its_executions(tmp_path: Path) -> None:
    """Six GEMM shapes, each run three times: the work of one execution against its own time."""
    found = analysed(capture_dir("real", "mi300x-gemm"), tmp_path)
    calls = rows(found, "roofline", hlo_instruction="custom-call.1")
    assert {r["n_executions"] for r in calls} == {3}
    for one in calls:
        assert 3 * one["duration_ps"] == pytest.approx(one["total_ps"], rel=0.2)
