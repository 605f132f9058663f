"""Python lines and work on real programs, against figures read from them by hand."""

from __future__ import annotations

import numpy as np
import pytest

from explane.analysis.lines.provenance import provenance
from explane.analysis.roofline.flops import ProgramCosts
from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.capture.program import Program
from explane.capture.xplane import read_xplane
from tests.shared import SHARED, require_shared, xplane_file

pytestmark = require_shared
GPT = ("gpt1_h100", "gpt1_h100_cublas", "gpt_dp4_mi300", "gpt_fsdp4_mi300", "gpt_fsdp4c_h100")
LAUNCHED = {"fusion", "custom-call", "copy", "async-start", "all-reduce-start", "all-gather-start"}


def stored_program(name: str) -> Program:
    assert SHARED is not None
    data = (SHARED / "programs" / name / "p.gpu_after_optimizations.hlo.pb").read_bytes()
    return read_program(StoredProgram(1, name, data))


def test_kernels_of_mi355x_te_attention_have_the_users_line() -> None:
    capture = read_xplane(xplane_file("real", "mi355x-te-attention"))
    kernels = capture.kernels
    programs = {key: read_program(stored) for key, stored in capture.programs.items()}
    found = {key: provenance(program) for key, program in programs.items()}
    lines = [
        found[int(p)][capture.text(int(op))]
        for p, op in zip(kernels.program_id, kernels.hlo_op, strict=True)
    ]
    own = np.array([line.line_from == "own" for line in lines])
    assert len(lines) == 150
    # 130 of 150 is what XProf's hlo_stats shows; the fallbacks find the other 20.
    assert own.sum() == 130
    assert all(line.source_line for line in lines)
    assert {line.source_file for line in lines} == {"/workspace/12_te_fused_attn.py"}


@pytest.mark.parametrize("name", GPT)
def test_every_launched_instruction_has_a_line_of_the_training_script(name: str) -> None:
    program = stored_program(name)
    found = provenance(program)
    launched = [
        found[program.instructions[i].name]
        for sequence in program.schedule.values()
        for i in sequence
        if program.instructions[i].opcode in LAUNCHED
    ]
    assert len(launched) > 100
    assert all(line.source_file.endswith("/train.py") for line in launched)
    # innermost frames often lie in optax: the user's line is found behind them
    assert any(line.via is not None and "optax" in line.via.file for line in launched)


def test_the_head_of_the_gpt_is_three_products_of_8192_x_768_x_32000() -> None:
    # B * T = 8 * 1024 tokens, D = 768, V = 32000: logits, their two gradients
    program = stored_program("gpt1_h100_cublas")
    costs = ProgramCosts(program)
    largest = sorted((c.matrix.flops for c in costs.values() if c.matrix), reverse=True)
    assert largest[:4].count(2 * 8192 * 768 * 32000) == 3


def test_gemm_calls_and_triton_fusions_of_one_model_do_the_same_products() -> None:
    def per_step(name: str) -> int:
        """Products of one training step; both loops run their four layers."""
        program = stored_program(name)
        costs = ProgramCosts(program)
        bodies = {
            c.id
            for i in program.instructions.values()
            if i.opcode == "while"
            for c in program.called_by(i)
        }
        total = 0
        for computation_id, sequence in program.schedule.items():
            for i in sequence:
                matrix = costs[program.instructions[i].name].matrix
                if matrix is not None:
                    total += matrix.flops * (4 if computation_id in bodies else 1)
        return total

    assert per_step("gpt1_h100_cublas") == per_step("gpt1_h100")


def test_transformer_engine_attention_of_the_real_capture() -> None:
    capture = read_xplane(xplane_file("real", "mi355x-te-attention"))
    stored = next(s for s in capture.programs.values() if s.name.startswith("jit_loss_fn"))
    costs = ProgramCosts(read_program(stored))
    # batch 2, 16 heads, 2048 x 2048 causal, head size 128
    pairs = 2048 * 2049 // 2
    assert costs["te_fused_attn_forward_ffi.10"].flops == 2 * 2 * 2 * 16 * pairs * 128
    assert costs["te_fused_attn_backward_ffi.12"].flops == 5 * 2 * 2 * 16 * pairs * 128
    # 2 x [4096 x 1024] x [1024 x 6144], split over two halves of K
    assert costs["gemm_fusion_dot"].flops == 2 * 4096 * 2048 * 6144
