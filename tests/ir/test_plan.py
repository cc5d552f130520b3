"""Plans: the pieces of a group and the tiles of what they make."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from infinitensor.ir.plan import GroupPlan, piece_to_tile
from infinitensor.ir.region import boxes_of, grid_shape, overlap

from .budget import examples
from .test_region import cuts_and_boxes, cuts_strategy

if TYPE_CHECKING:
    from infinitensor.ir.region import Box, Cuts


def plan_of(cuts: Cuts, part: Box | None = None) -> GroupPlan:
    space: Any = None
    return GroupPlan(space, cuts, np.zeros(prod(grid_shape(cuts)), np.int32), part=part)


@given(cuts_strategy, st.data())
@examples(100)
def test_piece_makes_the_tile_that_its_labels_name(cuts: Cuts, data: st.DataObject) -> None:
    kept = data.draw(st.permutations(range(len(cuts))))
    kept = kept[: data.draw(st.integers(0, len(cuts)))]
    labels: list[int | None] = list(kept)
    labels.insert(data.draw(st.integers(0, len(labels))), None)  # a new axis of size 1
    grid = grid_shape(cuts)
    of_tiles = tuple(1 if label is None else grid[label] for label in labels)
    wanted = [
        int(np.ravel_multi_index([0 if k is None else piece[k] for k in labels], of_tiles))
        for piece in product(*map(range, grid))
    ]
    assert piece_to_tile(plan_of(cuts), tuple(labels)).tolist() == wanted


@given(cuts_strategy)
@examples(60)
def test_longest_piece_of_each_label_is_among_all_of_them(cuts: Cuts) -> None:
    assert plan_of(cuts).longest() == [max(b - a for a, b in pairwise(one)) for one in cuts]


def test_pieces_around_the_part_that_is_needed_do_not_count() -> None:
    cuts = ((0, 5, 7, 10), (0, 1, 9))
    assert plan_of(cuts, ((5, 10), (0, 1))).longest() == [3, 1]
    assert plan_of(cuts, ((5, 7), (0, 9))).longest() == [2, 8]
    assert plan_of(cuts, ((5, 5), (0, 9))).longest() == [0, 8]


@given(cuts_and_boxes())
@examples(60)
def test_part_between_borders_has_the_longest_of_its_own_pieces(case: tuple[Cuts, Box]) -> None:
    cuts, box = case
    if not all(lo in axis and hi in axis for (lo, hi), axis in zip(box, cuts, strict=True)):
        box = tuple((axis[0], axis[-1]) for axis in cuts)
    own = [piece for piece in boxes_of(cuts) if overlap(piece, box) == piece]
    if own:
        wanted = [max(hi - lo for lo, hi in sides) for sides in zip(*own, strict=True)]
        assert plan_of(cuts, box).longest() == wanted
