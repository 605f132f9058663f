"""The readable form of a module."""

from __future__ import annotations

import pytest

from explane.capture.hlo import read_program
from explane.capture.hlo_text import program_text
from explane.capture.model import StoredProgram
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.shared import SHARED, require_shared
from tests.wire_writer import bytes_field, packed_field


def text_of(module: HloModule) -> str:
    return program_text(read_program(StoredProgram(3, "m(3)", module.to_bytes())))


def test_a_small_module() -> None:
    body = HloComputation(
        "fused",
        [Hlo("p", "parameter", "f32[2]", parameter_number=0), Hlo("n", "negate", "f32[2]", ["p"])],
        is_fusion=True,
    )
    entry = HloComputation(
        "main",
        [
            Hlo("x", "parameter", "f32[2]", parameter_number=0, op_name="args[0]"),
            Hlo(
                "loop_fusion", "fusion", "f32[2]", ["x"], ["fused"],
                op_name="jit(f)/neg", frame=1, fusion_kind="kLoop", dedup="d",
            ),
            Hlo(
                "dot.1", "custom-call", "f32[2]", ["loop_fusion", "x"],
                target="__cublas$gemm", backend_config='{"a":1}',
            ),
            Hlo(
                "ar", "all-reduce", "f32[2]", ["dot.1"], channel_id=4,
                extra=bytes_field(49, packed_field(1, [0, 1])),
            ),
        ],
    )  # fmt: skip
    module = HloModule("jit_f", [body, entry], frames=(("t.py", "f", 9, 0),))
    assert text_of(module) == (
        "HloModule jit_f, program_id=3, is_scheduled=true, replica_count=1, num_partitions=1\n"
        "\n"
        "%fused {\n"
        "  %p = f32[2]{0} parameter(0)\n"
        "  ROOT %n = f32[2]{0} negate(%p)\n"
        "}\n"
        "\n"
        "ENTRY %main {\n"
        '  %x = f32[2]{0} parameter(0), metadata={op_name="args[0]"}\n'
        "  %loop_fusion = f32[2]{0} fusion(%x), kind=kLoop, calls=%fused, "
        'metadata={op_name="jit(f)/neg" source_file="t.py" source_line=9 deduplicated_name="d"}\n'
        "  %dot.1 = f32[2]{0} custom-call(%loop_fusion, %x), "
        'custom_call_target="__cublas$gemm", backend_config={"a":1}\n'
        "  ROOT %ar = f32[2]{0} all-reduce(%dot.1), channel_id=4, replica_groups={{0,1}}\n"
        "}\n"
    )


def test_foreign_names_stay_on_one_line() -> None:
    entry = HloComputation("main", [Hlo("a\nb", "add", op_name='x"\n}')])
    lines = text_of(HloModule("m", [entry])).splitlines()
    assert lines[3] == '  ROOT %"a\\nb" = f32[8]{0} add(), metadata={op_name="x\\"\\n}"}'


@require_shared
@pytest.mark.parametrize("name", ["conv1_mi300", "gpt_fsdp4c_h100"])
def test_every_instruction_of_a_real_program_is_one_line(name: str) -> None:
    assert SHARED is not None
    data = (SHARED / "programs" / name / "p.gpu_after_optimizations.hlo.pb").read_bytes()
    program = read_program(StoredProgram(1, name, data))
    text = program_text(program)
    assert sum(line.startswith("  ") for line in text.splitlines()) == len(program.instructions)
