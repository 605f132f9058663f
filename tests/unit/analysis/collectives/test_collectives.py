"""Collectives across GPUs: wait, transfer, exposure, bandwidth and who was late, by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from explane.analysis.collectives.collectives import (
    Collectives,
    find_collectives,
    straggler_table,
    volume_of,
)
from explane.capture.hlo import read_program
from explane.capture.model import Capture, StoredProgram
from explane.capture.program import Program
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.unit.analysis.made import K, capture
from tests.unit.analysis.played import PROGRAM, labelled
from tests.wire_writer import bytes_field, packed_field

NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def groups(*members: tuple[int, ...]) -> bytes:
    """HloInstructionProto.replica_groups (49)."""
    return b"".join(bytes_field(49, packed_field(1, part)) for part in members)


def program_with(collective: Hlo, n_partitions: int = 4) -> Program:
    parameter = Hlo("p", "parameter", "f32[256]", parameter_number=0)
    entry = HloComputation("main", [parameter, collective])
    module = HloModule("jit_f", [entry], program_id=PROGRAM, num_partitions=n_partitions)
    return read_program(StoredProgram(PROGRAM, "jit_f(17)", module.to_bytes()))


def found(data: Capture, program: Program | None = None) -> Collectives:
    programs = {PROGRAM: program} if program else {}
    step = np.zeros(len(data.kernels), np.int64)
    return find_collectives("node", data, programs, labelled(data), step)


def row(result: Collectives, device: int, occurrence: int = 0) -> dict[str, object]:
    where = (pl.col("device") == device) & (pl.col("occurrence") == occurrence)
    return result.table.filter(where).row(0, named=True)


def four_gpus() -> Capture:
    """Starts staggered by ten, common end at 100; GPU 3 is last; GPU 0 computes beside it."""
    kernels = [
        K(10 * d, 100 - 10 * d, NAME, device=d, op="all-reduce.1", program=PROGRAM)
        for d in range(4)
    ]
    kernels.append(K(40, 20, "gemm", device=0, stream=8, op="dot.2", program=PROGRAM))
    kernels.append(K(5, 24, "slow", device=3, stream=8, op="dot.3", program=PROGRAM))
    return capture(kernels)


def test_wait_is_until_the_last_gpu_joins_and_the_rest_is_transfer() -> None:
    result = found(four_gpus())
    assert [row(result, d)["wait_ps"] for d in range(4)] == [30, 20, 10, 0]
    assert [row(result, d)["transfer_ps"] for d in range(4)] == [70, 70, 70, 70]
    assert {row(result, d)["late_device"] for d in range(4)} == {3}


def test_only_time_without_compute_on_the_same_gpu_is_exposed() -> None:
    result = found(four_gpus())
    assert row(result, 0)["exposed_ps"] == 80
    assert row(result, 1)["exposed_ps"] == 90


def test_the_straggler_is_named_with_what_it_did_meanwhile() -> None:
    data = four_gpus()
    table = straggler_table("node", data, labelled(data), found(data))
    only = table.row(0, named=True)
    assert (only["device"], only["n_operations"]) == (3, 1)
    assert only["caused_wait_ps"] == 30 + 20 + 10
    assert only["wait_each_ps"] == 30
    assert (only["doing"], only["doing_ps"]) == ("dot.3", 24)


def test_occurrences_are_matched_in_order() -> None:
    kernels = [
        K(1000 * i + 5 * d, 100 - 5 * d, NAME, device=d, op="all-reduce.1", program=PROGRAM)
        for i in range(3)
        for d in range(2)
    ]
    result = found(capture(kernels))
    assert [row(result, 0, i)["wait_ps"] for i in range(3)] == [5, 5, 5]


def test_a_lost_record_does_not_shift_the_others() -> None:
    kernels = [
        K(1000 * i + 5 * d, 100 - 5 * d, NAME, device=d, op="all-reduce.1", program=PROGRAM)
        for i in range(3)
        for d in range(2)
        if (i, d) != (0, 1)
    ]
    result = found(capture(kernels))
    alone = row(result, 0, 0)
    assert (alone["n_devices"], alone["wait_ps"], alone["late_device"]) == (1, 0, None)
    assert row(result, 0, 2)["wait_ps"] == 5


def test_gpus_of_other_groups_are_not_waited_for() -> None:
    collective = Hlo("all-reduce.1", "all-reduce", "f32[256]", ["p"], extra=groups((0, 1), (2, 3)))
    result = found(four_gpus(), program_with(collective))
    assert [row(result, d)["wait_ps"] for d in range(4)] == [10, 0, 10, 0]


@pytest.mark.parametrize(
    ("opcode", "size", "bus"),
    [
        ("all-reduce", 1024, 2 * 3 / 4),
        ("all-gather", 4096, 3 / 4),
        ("reduce-scatter", 1024, 3 / 4),
        ("collective-permute", 1024, 1.0),
    ],
)
def test_bus_bytes_follow_the_rules_of_nccl_tests(opcode: str, size: int, bus: float) -> None:
    collective = Hlo("c", opcode, "f32[256]", ["p"], extra=groups((0, 1, 2, 3)))
    program = program_with(collective)
    volume = volume_of(program, program.by_name["c"])
    assert volume is not None
    assert (volume.size_bytes, volume.bus_factor, volume.n_group) == (size, bus, 4)


def test_bandwidth_is_over_the_transfer_part_only() -> None:
    collective = Hlo("all-reduce.1", "all-reduce", "f32[256]", ["p"], extra=groups((0, 1, 2, 3)))
    result = found(four_gpus(), program_with(collective))
    # 1024 bytes * 1.5 in 70 ps
    assert row(result, 0)["bus_bytes_per_s"] == pytest.approx(1536 / 70e-12)


def test_a_collective_on_one_gpu_has_no_bandwidth_and_no_late_gpu() -> None:
    data = capture([K(0, 50, NAME, op="all-reduce.1", program=PROGRAM)])
    only = row(found(data), 0)
    assert only["bus_bytes_per_s"] is None
    assert only["late_device"] is None
    assert only["wait_ps"] == 0


def test_no_collectives_give_empty_tables_with_their_columns() -> None:
    data = capture([K(0, 50, "gemm", op="dot", program=PROGRAM)])
    result = found(data)
    assert result.table.height == result.summary.height == 0
    assert result.table.columns[:5] == [
        "program_id", "hlo_instruction", "occurrence", "host", "device",
    ]  # fmt: skip
    assert straggler_table("node", data, labelled(data), result).height == 0
