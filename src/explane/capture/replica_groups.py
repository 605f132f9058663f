"""Which devices take part in a collective: all four ways in which HLO stores replica groups.

In order of age: `replica_groups` (field 49), `collective_device_list` (87), an iota list (92) and
mesh axes (93). What the numbers mean (replicas, partitions or flattened ids) depends on
`channel_id` and `use_global_device_ids`; in SPMD programs they are partition numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from explane.capture.program import Instruction

if TYPE_CHECKING:
    from explane.capture._proto import hlo_pb2

Groups = tuple[tuple[int, ...], ...]


def replica_groups(instruction: Instruction) -> Groups:
    """The groups of a collective, in their order; empty when all devices form one group.

    Also empty for what is no collective, and for a list that contradicts itself (its sizes do
    not multiply to the number of its devices).
    """
    proto = instruction.proto
    if proto.HasField("mesh_axes_replica_group_list"):
        return _mesh_groups(proto.mesh_axes_replica_group_list)
    if proto.HasField("iota_collective_device_list"):
        return _iota_groups(proto.iota_collective_device_list)
    if proto.HasField("collective_device_list"):
        return _explicit(proto.collective_device_list.replica_groups)
    return _explicit(proto.replica_groups)


def source_target_pairs(instruction: Instruction) -> Groups:
    """(source, target) of a collective-permute or send; empty for others."""
    return tuple((pair.source, pair.target) for pair in instruction.proto.source_target_pairs)


def _explicit(groups: Iterable[hlo_pb2.ReplicaGroup]) -> Groups:
    return tuple(tuple(group.replica_ids) for group in groups)


def _iota_groups(proto: hlo_pb2.IotaReplicaGroupListProto) -> Groups:
    """`[groups,size]<=[dims]T(perm)`: iota, reshaped, transposed, cut into groups."""
    shape = (proto.num_replica_groups, proto.num_devices_per_group)
    ids = _iota(proto.iota_reshape_dims or shape, proto.iota_transpose_perm)
    return _cut(ids, shape) if ids is not None and ids.size == shape[0] * shape[1] else ()


def _iota(dims: Sequence[int], perm: Sequence[int]) -> np.ndarray | None:
    """0, 1, 2, … in the shape `dims`, its axes in the order `perm`; None when they don't fit."""
    sizes = tuple(dims)
    order = tuple(perm) or tuple(range(len(sizes)))
    if sorted(order) != list(range(len(sizes))) or not _fits(sizes):
        return None
    count = int(np.prod(sizes, dtype=np.int64))
    return np.arange(count, dtype=np.int64).reshape(sizes).transpose(order)


def _fits(sizes: Sequence[int], limit: int = 1 << 24) -> bool:
    """Guards against sizes in a damaged file that no machine has (2^24 devices)."""
    count = 1
    for size in sizes:
        count *= size
        if not 0 < count <= limit:
            return False
    return True


def _mesh_groups(proto: hlo_pb2.MeshAxesReplicaGroupListProto) -> Groups:
    """Groups along the named mesh axes: devices that differ only in those axes are one group."""
    sizes = [axis.size for axis in proto.mesh.axes]
    ids = _mesh_ids(proto.mesh, sizes)
    used = [(ref.mesh_axis_index, *_sub_axis(ref, sizes)) for ref in proto.axes]
    if ids is None or any(size <= 0 for _, _, size in used):
        return ()
    parts = [_split(size, [u for u in used if u[0] == axis]) for axis, size in enumerate(sizes)]
    if any(not part for part in parts):
        return ()
    split_sizes = [end // start for part in parts for start, end in pairwise(part)]
    keys = [
        (a, start, end // start) for a, part in enumerate(parts) for start, end in pairwise(part)
    ]
    chosen = [keys.index(u) for u in used if u in keys]
    if len(chosen) != len(used):
        return ()
    rest = [i for i in range(len(keys)) if i not in chosen]
    n_members = int(np.prod([split_sizes[i] for i in chosen], dtype=np.int64))
    members = ids.reshape(split_sizes).transpose(rest + chosen)
    return _cut(members, (-1, n_members))


def _mesh_ids(mesh: hlo_pb2.MeshProto, sizes: Sequence[int]) -> np.ndarray | None:
    """Device ids in mesh order: listed, or an iota transform, or simply counted from 0."""
    if not _fits(sizes):
        return None
    transform = mesh.iota_transform
    ids: np.ndarray | None
    if mesh.device_ids:
        ids = np.array(mesh.device_ids, dtype=np.int64)
    elif transform.reshape_dims:
        ids = _iota(transform.reshape_dims, transform.transpose_perm)
    else:
        ids = _iota(sizes, ())
    return ids if ids is not None and ids.size == np.prod(sizes, dtype=np.int64) else None


def _sub_axis(ref: hlo_pb2.AxisRefProto, sizes: Sequence[int]) -> tuple[int, int]:
    """(pre_size, size) of an axis reference; the whole axis is (1, its size), unknown is 0."""
    if not 0 <= ref.mesh_axis_index < len(sizes):
        return (1, 0)
    if ref.HasField("sub_axis_info"):
        return (ref.sub_axis_info.pre_size, ref.sub_axis_info.size)
    return (1, sizes[ref.mesh_axis_index])


def _split(size: int, used: Sequence[tuple[int, int, int]]) -> list[int]:
    """Cut points of one axis, as products from its major end; empty when they don't divide it.

    An axis of 8 with a sub-axis (pre_size 2, size 2) becomes [1, 2, 4, 8]: sizes 2, 2, 2.
    """
    points = sorted({1, size, *(p for _, pre, n in used for p in (pre, pre * n))})
    if size == 1:
        return [1, 1]
    return points if all(b % a == 0 for a, b in pairwise(points)) and points[-1] == size else []


def _cut(ids: np.ndarray, shape: tuple[int, int]) -> Groups:
    return tuple(tuple(group) for group in ids.reshape(shape).tolist())
