"""Parts of the attribution against plain computations of the same thing."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from explane.analysis.attribution import windows as attribute_windows
from explane.analysis.attribution.labels import LabelKind, graph_number, meaning
from explane.analysis.attribution.names import KernelClass, class_of_kernel
from explane.analysis.attribution.profile import assign_in_order, learn_durations
from explane.analysis.attribution.schedule_walk import expected_launches
from explane.analysis.attribution.swaps import _deltas
from explane.analysis.distinct import distinct, order_by
from explane.capture.model import Kind
from tests.unit.analysis.programs_made import Built

# -------------------------------------------------------------------------- distinct rows

COLUMN = arrays.arrays(
    np.int64,
    st.shared(st.integers(1, 30), key="n"),
    elements=st.one_of(st.integers(-3, 3), st.sampled_from([-(2**62), 2**62, 10**12])),
)


@settings(deadline=None)
@given(st.lists(COLUMN, min_size=1, max_size=4))
def test_distinct_rows_are_those_of_numpy(columns: list[np.ndarray]) -> None:
    found = distinct(*columns)
    table, inverse, counts = np.unique(
        np.stack(columns), axis=1, return_inverse=True, return_counts=True
    )
    assert found.rows() == [tuple(row) for row in table.T.tolist()]
    assert found.code.tolist() == np.asarray(inverse).reshape(-1).tolist()
    assert found.counts.tolist() == counts.tolist()


@settings(deadline=None)
@given(st.lists(COLUMN, min_size=1, max_size=3))
def test_order_is_stable_and_lexicographic(columns: list[np.ndarray]) -> None:
    assert order_by(*columns).tolist() == np.lexsort(columns[::-1]).tolist()


def test_no_rows() -> None:
    empty = np.empty(0, dtype=np.int64)
    assert len(distinct(empty, empty)) == 0
    assert len(order_by(empty)) == 0


# ------------------------------------------------------------------------- swaps and order


def whole_cost(cost: np.ndarray, pair: np.ndarray, held: np.ndarray) -> float:
    """Cost of one launch's assignment, term by term."""
    n = cost.shape[0]
    index = [n if k < 0 else int(k) for k in held]
    total = sum(cost[k, s] for s, k in enumerate(index) if k < n)
    return float(
        total + sum(pair[index[a], index[b]] for a, b in combinations(range(len(held)), 2))
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_change_of_a_swap_is_that_of_the_whole_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, g = 4, 6
    cost, pair = rng.random((3, n, g)), rng.random((3, n + 1, n + 1))
    pair[:, n, :] = pair[:, :, n] = 0
    held = np.stack([rng.permutation([0, 1, 2, 3, -1, -1]) for _ in range(3)])
    deltas = _deltas(cost, pair, held)
    for u in range(3):
        before = whole_cost(cost[u], pair[u], held[u])
        for a, b in combinations(range(g), 2):
            swapped = held[u].copy()
            swapped[[a, b]] = swapped[[b, a]]
            if held[u, a] < 0 and held[u, b] < 0:
                assert deltas[u, a, b] == np.inf
                continue
            change = whole_cost(cost[u], pair[u], swapped) - before
            assert deltas[u, a, b] == pytest.approx(change)


@pytest.mark.parametrize("seed", range(8))
def test_the_cheapest_assignment_in_order_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.random((5, 3, 6))
    present = np.arange(3) < rng.integers(1, 4, 5)[:, None]
    held = assign_in_order(cost, present)
    for u in range(5):
        n = int(present[u].sum())
        best = min(
            sum(cost[u, i, s] for i, s in enumerate(slots)) for slots in combinations(range(6), n)
        )
        slots = [int(np.flatnonzero(held[u] == i)[0]) for i in range(n)]
        assert slots == sorted(slots)
        assert sum(cost[u, i, s] for i, s in enumerate(slots)) == pytest.approx(best)


def test_durations_of_slots_are_learned_though_no_launch_is_complete() -> None:
    rng = np.random.default_rng(3)
    true = np.log([5.0, 20.0, 3.0, 50.0, 11.0])
    values, present = np.zeros((60, 5)), np.zeros((60, 5), dtype=np.bool_)
    for u in range(60):
        kept = np.sort(rng.choice(5, 3 + u % 2, replace=False))
        values[u, : len(kept)] = true[kept] + rng.normal(0, 0.02, len(kept))
        present[u, : len(kept)] = True
    learned = learn_durations(values, present, np.zeros((60, 5, 5)))
    assert learned == pytest.approx(true, abs=0.02)


# ------------------------------------------------------------------------ names and labels


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("loop_add_fusion_3.kd", KernelClass.XLA),
        ("wrapped_convert", KernelClass.XLA),
        ("Cijk_Alik_Bljk_BBS_BH_MT256x256x64_MI16x16x16x1", KernelClass.GEMM),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN", KernelClass.GEMM),
        ("void cublasLt::splitKreduce_kernel<32, 16>(x)", KernelClass.GEMM_TAIL),
        ("Cijk_S_PostGSU8_modK", KernelClass.GEMM_TAIL),
        ("Im3d2Col.kd", KernelClass.CONVOLUTION_HEAD),
        ("sm90_xmma_fprop_implicit_gemm_bf16", KernelClass.CONVOLUTION),
        ("void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<> >()", KernelClass.ATTENTION),
        ("void vector_fft<512u, 8u, 8u>(kernel_parameters_t)", KernelClass.FFT),
        ("main_kernel", KernelClass.OTHER),
    ],
)
def test_families_of_kernels(name: str, family: KernelClass) -> None:
    assert class_of_kernel(name, Kind.COMPUTE) is family


def test_copies_to_and_from_the_host_are_their_own_family() -> None:
    assert class_of_kernel("MemcpyD2D", Kind.MEMCPY) is KernelClass.COPY
    assert class_of_kernel("MemcpyH2D", Kind.MEMCPY) is KernelClass.HOST_COPY
    blit = "__amd_rocclr_copyBuffer.kd"
    assert class_of_kernel(blit, Kind.MEMCPY, "hipMemcpyHtoDAsync") is KernelClass.HOST_COPY
    assert class_of_kernel(blit, Kind.MEMCPY, "hipMemcpyDtoDAsync") is KernelClass.COPY


@pytest.mark.parametrize(
    ("label", "kind", "name"),
    [
        ("a", LabelKind.INSTRUCTION, "a"),
        ("XlaModule::a", LabelKind.INSTRUCTION, "a"),
        ("a (disabled for profiling)", LabelKind.INSTRUCTION, "a"),
        ("command_buffer_12", LabelKind.GRAPH, "command_buffer_12"),
        ("command_buffer", LabelKind.GRAPH, "command_buffer"),
        ("call.7", LabelKind.GRAPH, "call.7"),
        ("all-gather.3", LabelKind.ALIAS, "all-gather.3"),
        ("reduce-scatter.12.1", LabelKind.ALIAS, "reduce-scatter.12.1"),
        ("fusion.99", LabelKind.UNKNOWN, "fusion.99"),
        ("::", LabelKind.NONE, ""),
    ],
)
def test_meanings_of_labels(label: str, kind: LabelKind, name: str) -> None:
    built = Built()
    built.fusion("a")
    program = built.program()
    assert meaning(label, program, expected_launches(program)) == (kind, name)


def test_numbers_of_graphs() -> None:
    assert graph_number("command_buffer_24") == 24
    assert graph_number("command_buffer") == -1
    assert graph_number("call.3") == -1


# ------------------------------------------------------------------------- edges of windows


def test_a_launch_that_no_default_graph_holds_ends_where_its_kernels_do() -> None:
    """Also with a kernel that has no place and would fit behind them, and behind everything."""
    launch: Any = SimpleNamespace(
        position=np.array([2, 3, -1]),
        kernels=SimpleNamespace(group=np.array([7, 7, 7]), types=np.array([0, 0, 0])),
        schedule=SimpleNamespace(graphs=()),
        scores=SimpleNamespace(first=np.full((1, 4), 100)),
    )
    edge = attribute_windows._Solver._edge_of_launch
    assert edge(launch, np.array([2, 0, 1]), 2, -1) == 3
    assert edge(launch, np.array([0, 1, 2]), 0, 1) == 2
