"""Votes: what is known to be the same must get the same answer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explane.analysis.attribution.windows import ProgramKernels
from explane.analysis.distinct import Ints, distinct


def agree_on_nodes(
    kernels: ProgramKernels, graph: Ints, position: Ints
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Gives each graph node (`cuda_graph_node_id`) the place most of its launches found.

    Returns:
        The places, and True where the vote changed one.
    """
    rows = np.flatnonzero((kernels.node >= 0) & (kernels.fixed < 0) & kernels.in_graph)
    if not len(rows):
        return position, np.zeros(len(position), dtype=np.bool_)
    code = distinct(kernels.device[rows], graph[rows], kernels.node[rows]).code
    result = position.copy()
    result[rows] = _majority(code, position[rows])
    return result, result != position


def agree_on_labels(label: Ints, position: Ints) -> Ints:
    """Gives all kernels of one label (an alias of a collective) the place most of them found.

    Args:
        label: Code of each kernel's label, or -1.
        position: Place of each kernel, or -1.
    """
    rows = np.flatnonzero(label >= 0)
    if not len(rows):
        return position
    result = position.copy()
    result[rows] = _majority(label[rows], position[rows])
    return result


def _majority(key: Ints, position: Ints) -> Ints:
    """Most frequent place of each key (the earlier one on a tie); -1 only if none has a place."""
    found = position >= 0
    best = np.full(int(key.max()) + 1, -1, dtype=np.int64)
    if found.any():
        pairs = distinct(key[found], position[found])
        keys, places = pairs.columns
        order = np.lexsort((-places, pairs.counts))
        best[keys[order]] = places[order]
    return best[key]
