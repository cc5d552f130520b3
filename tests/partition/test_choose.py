"""Cuts cover every label once; pieces are shared out in even blocks."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.ir.sessions import prepared, strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.ir.layout import HOST
from infinitensor.ir.mesh import preset
from infinitensor.ir.region import grid_shape
from infinitensor.partition import canonical_layout
from infinitensor.partition.choose import LEAST_SHARED, blocks, cut_around


@given(st.integers(0, 500), st.integers(1, 9))
@examples(100)
def test_blocks_are_contiguous_and_as_even_as_can_be(n: int, n_devices: int) -> None:
    devices = blocks(n, n_devices)
    assert len(devices) == n
    assert (np.diff(devices) >= 0).all()
    counts = np.bincount(devices, minlength=n_devices)
    assert len(counts) == n_devices
    assert counts.max() - counts.min() <= 1


@given(st.data(), st.integers(0, 60), st.integers(1, 20))
@examples(150)
def test_cuts_around_a_part_end_at_its_borders(data: Any, size: int, step: int) -> None:
    lo = data.draw(st.integers(0, size))
    hi = data.draw(st.integers(lo, size))
    cuts = cut_around(lo, hi, size, step)
    assert (cuts[0], cuts[-1]) == (0, size)
    if not size:
        return
    assert all(a < b for a, b in pairwise(cuts))
    assert hi in cuts
    if lo < hi:
        assert lo in cuts
        assert all(b - a <= step for a, b in pairwise(cuts) if lo <= a and b <= hi)
        assert sum(a < lo for a, _ in pairwise(cuts)) <= 1
        assert sum(b > hi for _, b in pairwise(cuts)) <= 1


@given(st.lists(st.integers(0, 40), max_size=3).map(tuple), st.integers(1, 50), st.integers(1, 4))
@examples(100)
def test_what_comes_from_outside_is_spread_over_all_devices(
    shape: tuple[int, ...], bound: int, n_devices: int
) -> None:
    layout = canonical_layout(shape, preset("cpu", n_devices, 1 << 30, 2), bound)
    assert [cuts[-1] for cuts in layout.cuts] == list(shape)
    counts = np.bincount(layout.owner_array, minlength=n_devices)
    assert counts.max() - counts.min() <= 1
    assert sum(layout.elements_on(d) for d in range(n_devices)) == prod(shape)


@given(st.integers(0, 1 << 30), st.sampled_from([1, 7, 50]))
@examples(40)
def test_every_cut_covers_its_label_once(seed: int, tile_elements: int) -> None:
    with strict("null*3", tile_elements) as session:
        found = prepared(session, *recorded(seed))
    for group in found.plan.groups:
        for label, cuts in enumerate(group.cuts):
            if group.tiles is None:
                assert cuts[-1] == group.space.sizes[label]
            assert cuts[0] == 0
            assert cuts == (0, 0) or all(a < b for a, b in pairwise(cuts))
        n_pieces = prod(grid_shape(group.cuts)) if group.tiles is None else len(group.tiles)
        assert len(group.devices) == n_pieces
        assert all(0 <= d < 3 for d in group.devices.tolist())
    graph = found.analysed.graph
    for value, layout in found.plan.layouts.items():
        assert tuple(cuts[-1] for cuts in layout.cuts) == graph.specs[value].shape
        assert len(layout.owner_array) == layout.n_tiles
        assert set(layout.owners) <= {HOST, 0, 1, 2}


def test_a_group_stays_where_its_largest_operand_is() -> None:
    with strict("cpu*3", 20) as session:
        x = it.asarray(np.ones((30, 10)))
        found = prepared(session, x * 2 + 1)
    (group,) = found.plan.groups
    (leaf,) = found.analysed.graph.leaves
    assert group.cuts == leaf.layout.cuts
    np.testing.assert_array_equal(group.devices, leaf.layout.owner_array)
    assert found.moves.moved == {}


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_operands_cut_across_each_other_cut_nothing_into_small_pieces(workers: int) -> None:
    values = np.random.default_rng(0).random((1500, 1400), np.float32)
    with strict("cpu", 0, workers=workers) as session:
        x, y = it.asarray(values), it.asarray(values.T.copy())
        it.compute(x, y)
        found = prepared(session, made := x.T + y)
        (group,) = found.plan.groups
        most = max(leaf.layout.n_tiles for leaf in found.analysed.graph.leaves)
        assert prod(grid_shape(group.cuts)) <= 2 * most
        np.testing.assert_array_equal(made.numpy(), values.T + values.T)


def test_only_the_needed_part_is_cut_small() -> None:
    with strict("null*2", 100) as session:
        found = prepared(session, (it.ones((1000, 100)) * 3)[500:502] + 1)
    assert found.program.graph.n_tasks <= 10


def test_what_is_searched_is_whole_and_makes_no_tile_smaller() -> None:
    with strict("null", 64) as session:
        found = prepared(session, it.searchsorted(it.zeros(1000), it.ones(640)))
    assert found.plan.groups[-1].cuts == (tuple(range(0, 641, 64)), (0, 1000))


def test_an_index_along_lines_makes_their_tiles_no_smaller() -> None:
    a = np.random.default_rng(5).integers(0, 9, (1037, 2, 57))
    for axis, memory in ((0, None), (0, "8MiB"), (2, None)):
        with it.init("cpu", memory=memory):
            x = it.asarray(a)
            order = it.argsort(x, axis=axis, kind="stable")
            before = it.stats()["tasks"]
            found = it.take_along_axis(x, order, axis).numpy()
            assert it.stats()["tasks"] - before <= 64
            np.testing.assert_array_equal(found, np.sort(a, axis))


@pytest.mark.parametrize("k", [1, 5, 50])
def test_the_best_of_lines_are_found_tile_by_tile(k: int) -> None:
    with strict("null", 400) as session:
        found = prepared(session, *it.topk(it.ones((600, 100)), k))
        few = prepared(session, *it.topk(it.ones((6, 10_000)), 2))
    best = found.plan.groups[-1]
    assert best.cuts[:2] == (tuple(range(0, 601, 4)), (0, 100))
    assert few.plan.groups[-1].cuts[0] == tuple(range(7))
    assert max(np.diff(few.plan.groups[-1].cuts[1])) == 256


def test_many_of_each_line_are_within_the_bound_too() -> None:
    with strict("null", 64) as session:
        found = prepared(session, *it.topk(it.ones((1000, 60)), 50))
    rows, columns, _ = found.plan.groups[-1].cuts
    assert max(np.diff(rows)) * 50 <= 64
    assert max(np.diff(rows)) * max(np.diff(columns)) <= 64


def test_one_of_many_elements_counts_as_many() -> None:
    with strict("null", 64) as session:
        found = prepared(session, it.cumsum(it.ones(640)))
    (totals,) = [g for g in found.plan.groups if g.space.last.op.name == "_scan_totals"]
    assert totals.cuts == (tuple(range(10)),)


def test_a_wide_product_is_cut_along_what_it_sums_so_that_both_operands_are_read_once() -> None:
    with it.init("cpu"):
        x, y = it.zeros((200, 20_000)), it.zeros((20_000, 40))
        it.compute(x, y)
        assert "1×1 tile" in (x @ y).explain()
        long = it.zeros((200_000, 20))
        it.compute(long)
        (*_, group) = prepared(long._session, long.T @ (long + 1)).plan.groups
    assert [len(cut) for cut in group.cuts[:2]] == [2, 2]
    assert len(group.cuts[2]) > 2


def test_a_product_whose_results_are_as_much_as_its_matrix_is_one_call_that_threads_share() -> None:
    with strict("cpu", 0):
        state, weights = it.zeros((64, 256)), it.zeros((256, 1024))
        it.compute(state, weights)
        session = state._session
        (group,) = prepared(session, state @ weights).plan.groups
    assert group.cuts == ((0, 64), (0, 1024), (0, 256))


def test_products_that_need_copies_are_cut_into_equal_pieces_for_every_worker() -> None:
    with strict("cpu", 0, workers=2):
        a, b, c = it.zeros((1300, 1400)), it.zeros((1400, 1200), "f4"), it.zeros((200, 75_000))
        thin, few, wide = (
            it.zeros((75_000, 40), "f4"),
            it.zeros((10_000, 32)),
            it.zeros((32, 256), "f4"),
        )
        it.compute(a, b, c, thin, few, wide)
        session = a._session
        for made in ((2.0 * a) @ b, c @ thin, few @ wide):
            cuts = prepared(session, made).plan.groups[-1].cuts
            lengths = [np.diff(borders) for borders in cuts]
            assert prod(map(len, lengths)) % 2 == 0
            assert prod(map(len, lengths)) >= 4
            assert all(each.max() - each.min() <= len(each) for each in lengths)


@pytest.mark.parametrize("n_rows", [2, 3, 64])
@pytest.mark.parametrize("name", ["max", "sum", "var"])
def test_few_rows_that_become_one_are_in_each_tile(n_rows: int, name: str) -> None:
    values = np.random.default_rng(n_rows).random((n_rows, 1000))
    with strict("cpu", 512) as session:
        made = getattr(it, name)(it.asarray(values) * 2, axis=0)
        groups = prepared(session, made).plan.groups
        (cuts,) = [group.cuts for group in groups if group.space.contracted]
        assert cuts[0] == (0, n_rows)
        assert max(np.diff(cuts[1])) * n_rows <= 2 * 512  # borders of operands are kept
        np.testing.assert_allclose(made.numpy(), getattr(np, name)(values * 2, axis=0), rtol=1e-7)


def test_many_rows_that_become_one_are_cut() -> None:
    with strict("cpu", 512) as session:
        groups = prepared(session, it.max(it.ones((65, 1000)), axis=0)).plan.groups
    (cuts,) = [group.cuts for group in groups if group.space.contracted]
    assert len(cuts[0]) > 2


@pytest.mark.parametrize("workers", [1, 2, 16])
@pytest.mark.parametrize("shape", [(1000, 100), (30, 2100), (131_072, 1), (1, 90_000), (40, 50)])
def test_rows_of_much_work_are_shared_by_workers_and_no_sum_is_cut_for_it(
    shape: tuple[int, int], workers: int
) -> None:
    def program(x: Any, xp: Any = it) -> Any:
        shifted = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return shifted / xp.sum(shifted, axis=-1, keepdims=True)

    values = np.random.default_rng(3).standard_normal(shape)
    made = []
    for n in (1, workers):
        with strict("cpu", 0, workers=n) as session:
            x = it.asarray(values)
            it.compute(x)
            result = program(x)
            (*_, group) = prepared(session, result).plan.groups
            made.append(result.numpy())
            n_pieces = prod(grid_shape(group.cuts))
            assert n_pieces <= 4 * n
            assert (n_pieces > 1) == (n > 1 and prod(shape) > LEAST_SHARED)
    np.testing.assert_array_equal(*made)
    np.testing.assert_allclose(made[0], program(values, np), 1e-12)


def test_a_sum_of_everything_is_cut_where_it_rounds_however_much_work_it_is() -> None:
    with strict("cpu", 0, workers=16) as session:
        x = it.asarray(np.ones(100_000))
        it.compute(x)
        (group,) = prepared(session, it.sum(it.exp(it.sin(x)))).plan.groups
        assert prod(grid_shape(group.cuts)) == 1
        (group,) = prepared(session, it.max(it.exp(it.sin(x)))).plan.groups
        assert prod(grid_shape(group.cuts)) > 4
