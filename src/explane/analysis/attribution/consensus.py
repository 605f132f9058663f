"""One order for all launches of the same kernels.

Graph branches run side by side, so two launches of one graph may start their kernels in different
orders. Launches with equal kernels (as a multiset of types) are put into one order: each kernel's
median rank over all of them. What is then solved for one of them holds for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explane.analysis.distinct import Ints


@dataclass(frozen=True, slots=True)
class Signature:
    """Launches of one multiset of kernel types.

    Attributes:
        types: Shape (k,): kernel types in the agreed order.
        members: Shape (n, k): index of each launch's kernels in that order.
        groups: Shape (n,): the launches.
    """

    types: Ints
    members: Ints
    groups: Ints


def agree_on_order(types: Ints, groups: Ints, ties: Ints, streams: Ints) -> list[Signature]:
    """Signatures of launches and the order of kernels inside them.

    A launch on one stream keeps its own order, since a stream is serial.

    Args:
        types: Kernel type of each kernel, by launch and start.
        groups: Launch of each kernel; equal values are adjacent.
        ties: Key that tells kernels of one type apart in the same way in every launch (the graph
            node), or equal values where there is none; then their start order decides.
        streams: Stream of each kernel.
    """
    if not len(types):
        return []
    new = np.ones(len(groups), dtype=np.bool_)
    new[1:] = groups[1:] != groups[:-1]
    first = np.flatnonzero(new)
    size = np.diff(np.append(first, len(groups)))
    spread = np.maximum.reduceat(streams, first) != np.minimum.reduceat(streams, first)
    signatures = []
    for k in np.unique(size):
        for several in (False, True):
            starts = first[(size == k) & (spread == several)]
            members = starts[:, None] + np.arange(k)
            rank = np.broadcast_to(np.arange(k), members.shape)
            if several:
                rank = np.lexsort((members, ties[members], types[members]), axis=1)
            signatures += _by_types(types, groups, members, rank)
    return signatures


def _by_types(types: Ints, groups: Ints, members: Ints, rank: Ints) -> list[Signature]:
    """Signatures of launches of one size, whose kernels are ranked for comparison."""
    table = np.take_along_axis(types[members], rank, axis=1)
    distinct, which = np.unique(table, axis=0, return_inverse=True)
    of_launch = np.asarray(which).reshape(-1)
    return [
        _signature(row, members[mine], rank[mine], groups[members[mine, 0]])
        for row, mine in ((distinct[s], of_launch == s) for s in range(len(distinct)))
    ]


def _signature(types: Ints, members: Ints, rank: Ints, groups: Ints) -> Signature:
    """Orders one signature by median rank, then mean rank."""
    order = np.lexsort((rank.mean(axis=0), np.median(rank, axis=0)))
    placed = np.take_along_axis(members, rank[:, order], axis=1)
    return Signature(types[order], placed, groups)
