"""Tile shapes: within their bound, and unions of smaller ones."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples

from infinitensor.ir.region import cut_evenly
from infinitensor.partition.tile_shape import bound_for, floor_power, halve_until, tile_shape

shapes = st.lists(st.integers(0, 300), max_size=4).map(tuple)
bounds = st.integers(1, 100_000) | st.integers(1, 40)


@given(shapes, bounds)
@examples(200)
def test_a_tile_is_within_its_bound_and_its_tensor(shape: tuple[int, ...], bound: int) -> None:
    tile = tile_shape(shape, bound)
    assert prod(tile) <= bound
    assert all(1 <= step <= max(n, 1) for step, n in zip(tile, shape, strict=True))


@given(shapes, bounds, bounds)
@examples(150)
def test_tiles_of_a_larger_bound_are_unions_of_smaller_ones(
    shape: tuple[int, ...], a: int, b: int
) -> None:
    small, large = tile_shape(shape, min(a, b)), tile_shape(shape, max(a, b))
    for n, short, long in zip(shape, small, large, strict=True):
        assert set(cut_evenly(n, long)) <= set(cut_evenly(n, short))


@given(shapes, bounds)
@examples(100)
def test_only_one_axis_is_cut_in_part(shape: tuple[int, ...], bound: int) -> None:
    tile = tile_shape(shape, bound)
    cut = [k for k, (n, step) in enumerate(zip(shape, tile, strict=True)) if 1 < step < n]
    assert len(cut) <= 1
    assert all(tile[k] == floor_power(tile[k]) for k in cut)


@given(st.integers(1, 1 << 40))
@examples(100)
def test_floor_power_is_the_largest_power_within(n: int) -> None:
    power = floor_power(n)
    assert power <= n < 2 * power
    assert power & (power - 1) == 0


@given(st.integers(0, 1 << 30), st.integers(0, 5000), st.integers(1, 64))
@examples(100)
def test_a_given_bound_is_kept_and_a_default_leaves_pieces_for_all(
    n: int, given_bound: int, parts: int
) -> None:
    bound = bound_for(n, 1 << 18, given_bound, parts, 1 << 12)
    if given_bound:
        assert bound == given_bound
    else:
        assert 1 << 12 <= bound <= 1 << 18
        assert bound == 1 << 12 or parts == 1 or bound * parts <= n


@given(st.lists(st.integers(1, 5000), min_size=3, max_size=3), st.integers(1, 1 << 20))
@examples(100)
def test_halving_ends_within_the_bound(sizes: list[int], bound: int) -> None:
    lengths = sizes.copy()
    volumes: list[tuple[int, ...]] = [(0, 2), (2, 1), (0, 1)]
    halve_until(lengths, volumes, bound, [0, 1], [0, 1, 2])
    assert all(prod(lengths[k] for k in v) <= bound for v in volumes)
    assert all(1 <= n <= size for n, size in zip(lengths, sizes, strict=True))


def test_a_label_that_may_not_be_cut_stays_whole() -> None:
    lengths = [1000, 1000]
    halve_until(lengths, [(0, 1)], 10, [0], [0])
    assert lengths == [1, 1000]
