"""Replica groups in the four forms; expected values worked out by hand."""

from __future__ import annotations

import pytest

from explane.capture.hlo import read_program
from explane.capture.model import StoredProgram
from explane.capture.replica_groups import Groups, replica_groups, source_target_pairs
from tests.builders_hlo import Hlo, HloComputation, HloModule
from tests.wire_writer import bytes_field, int_field, packed_field


def groups_of(extra: bytes) -> Groups:
    made = HloModule("m", [HloComputation("main", [Hlo("c", "all-reduce", extra=extra)])])
    program = read_program(StoredProgram(1, "m(1)", made.to_bytes()))
    return replica_groups(program.by_name["c"])


def group(*ids: int) -> bytes:
    return packed_field(1, ids)


def mesh(
    axes: list[tuple[str, int]],
    used: list[tuple[int, ...]],
    device_ids: tuple[int, ...] = (),
    iota: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
) -> bytes:
    """Field 93; `used` holds (axis,) or (axis, pre_size, size)."""
    body = b"".join(bytes_field(1, bytes_field(1, n) + int_field(2, size)) for n, size in axes)
    body += packed_field(2, device_ids)
    if iota is not None:
        body += bytes_field(3, packed_field(1, iota[0]) + packed_field(2, iota[1]))
    out = bytes_field(1, body)
    for axis, *sub in used:
        reference = int_field(1, axis)
        if sub:
            reference += bytes_field(2, int_field(1, sub[0]) + int_field(2, sub[1]))
        out += bytes_field(2, reference)
    return bytes_field(93, out)


def iota(n_groups: int, size: int, dims: tuple[int, ...], perm: tuple[int, ...] = ()) -> bytes:
    body = int_field(1, n_groups) + int_field(2, size)
    return bytes_field(92, body + packed_field(3, dims) + packed_field(4, perm))


AB = [("a", 2), ("b", 4)]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (b"", ()),
        (bytes_field(49, group(0, 2)) + bytes_field(49, group(1, 3)), ((0, 2), (1, 3))),
        (bytes_field(87, bytes_field(1, group(0, 1))), ((0, 1),)),
        (iota(2, 4, (8,)), ((0, 1, 2, 3), (4, 5, 6, 7))),
        # [4,2]<=[2,4]T(1,0): the 2x4 table of ids, read by columns
        (iota(4, 2, (2, 4), (1, 0)), ((0, 4), (1, 5), (2, 6), (3, 7))),
        (iota(3, 2, (8,)), ()),
        (iota(2, 4, (8,), (1,)), ()),
        (mesh(AB, [(0,)]), ((0, 4), (1, 5), (2, 6), (3, 7))),
        (mesh(AB, [(1,)]), ((0, 1, 2, 3), (4, 5, 6, 7))),
        (mesh(AB, [(0,), (1,)]), ((0, 1, 2, 3, 4, 5, 6, 7),)),
        # order of the axes is the order inside a group
        (mesh(AB, [(1,), (0,)]), ((0, 4, 1, 5, 2, 6, 3, 7),)),
        # b = 2 * major + minor: groups along the major, then along the minor half
        (mesh(AB, [(1, 1, 2)]), ((0, 2), (1, 3), (4, 6), (5, 7))),
        (mesh(AB, [(1, 2, 2)]), ((0, 1), (2, 3), (4, 5), (6, 7))),
        (mesh([("a", 4), ("b", 1)], [(0,)], (3, 2, 1, 0)), ((3, 2, 1, 0),)),
        (mesh([("a", 2), ("b", 2)], [(1,)], (), ((2, 2), (1, 0))), ((0, 2), (1, 3))),
        (mesh(AB, [(7,)]), ()),
        (mesh(AB, [(1, 3, 2)]), ()),
        (mesh([("a", 1 << 40)], [(0,)]), ()),
    ],
)
def test_groups(extra: bytes, expected: Groups) -> None:
    assert groups_of(extra) == expected


def test_source_target_pairs() -> None:
    pairs = bytes_field(52, int_field(2, 1)) + bytes_field(52, int_field(1, 1) + int_field(2, 2))
    made = HloModule(
        "m", [HloComputation("main", [Hlo("c", "collective-permute", extra=pairs)])]
    ).to_bytes()
    program = read_program(StoredProgram(1, "m(1)", made))
    assert source_target_pairs(program.by_name["c"]) == ((0, 1), (1, 2))
