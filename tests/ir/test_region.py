"""Boxes and cuts against sets of elements."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from infinitensor.ir.region import (
    Box,
    Cuts,
    box_shape,
    box_size,
    boxes_of,
    cut_evenly,
    grid_shape,
    overlap,
    piece_boxes,
    relative,
    tile_box,
    tiles_over,
    whole_box,
)

from .budget import examples


@st.composite
def borders(draw: st.DrawFn) -> tuple[int, ...]:
    steps = draw(st.lists(st.integers(1, 4), max_size=4))
    return tuple(np.cumsum([0, *steps]).tolist()) if steps else (0, 0)


cuts_strategy = st.lists(borders(), max_size=3).map(tuple)


@st.composite
def cuts_and_boxes(draw: st.DrawFn) -> tuple[Cuts, Box]:
    cuts = draw(cuts_strategy)
    box = []
    for axis in cuts:
        lo = draw(st.integers(0, axis[-1]))
        box.append((lo, draw(st.integers(lo, axis[-1]))))
    return cuts, tuple(box)


def elements(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(lo, hi) for lo, hi in box)))


@given(cuts_strategy)
@examples(100)
def test_tiles_cover_every_element_once(cuts: Cuts) -> None:
    boxes = list(boxes_of(cuts))
    assert len(boxes) == prod(grid_shape(cuts))
    assert boxes == [tile_box(cuts, index) for index in range(len(boxes))]
    whole = whole_box([axis[-1] for axis in cuts])
    assert sum(box_size(box) for box in boxes) == box_size(whole)
    assert set().union(*(elements(box) for box in boxes)) == elements(whole)


@given(cuts_and_boxes())
@examples(200)
def test_tiles_over_a_box_are_those_that_share_elements_in_order(case: tuple[Cuts, Box]) -> None:
    cuts, box = case
    wanted = [i for i, tile in enumerate(boxes_of(cuts)) if elements(tile) & elements(box)]
    assert tiles_over(cuts, box) == wanted


@given(cuts_and_boxes(), st.data())
@examples(150)
def test_overlap_is_the_intersection_and_relative_takes_it(
    case: tuple[Cuts, Box], data: st.DataObject
) -> None:
    cuts, box = case
    tile = tile_box(cuts, data.draw(st.integers(0, prod(grid_shape(cuts)) - 1)))
    common = overlap(tile, box)
    shared = elements(tile) & elements(box)
    assert (elements(common) if common is not None else set()) == shared
    if common is not None:
        shape = [axis[-1] for axis in cuts]
        array = np.arange(prod(shape)).reshape(shape)
        here = array[tuple(slice(lo, hi) for lo, hi in box)]
        wanted = array[tuple(slice(lo, hi) for lo, hi in common)]
        np.testing.assert_array_equal(here[relative(common, box)], wanted)
        assert box_shape(common) == wanted.shape


@given(st.integers(0, 200), st.integers(1, 60))
@examples(100)
def test_even_cuts_have_pieces_of_the_step_but_the_last(size: int, step: int) -> None:
    cut = cut_evenly(size, step)
    lengths = [b - a for a, b in pairwise(cut)]
    assert sum(lengths) == size
    assert all(n == step for n in lengths[:-1])
    assert 0 <= lengths[-1] <= step


@given(cuts_strategy, st.data())
@examples(60)
def test_piece_boxes_follow_the_grid(cuts: Cuts, data: st.DataObject) -> None:
    labels = data.draw(st.permutations(range(len(cuts))))
    found = piece_boxes(cuts, labels, (3,))
    for piece, box in enumerate(boxes_of(cuts)):
        wanted = [*(box[label] for label in labels), (0, 3)]
        assert found[piece].tolist() == [list(span) for span in wanted]
