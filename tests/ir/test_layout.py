"""Layouts: who owns what, and which tiles a region meets."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from infinitensor.ir.layout import HOST, Layout, single
from infinitensor.ir.region import Box, box_size, boxes_of, grid_shape, overlap, whole_box

from .budget import examples
from .test_region import cuts_and_boxes


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Layout, Box]:
    cuts, box = draw(cuts_and_boxes())
    n = prod(grid_shape(cuts))
    owners = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    return Layout(cuts, tuple(owners)), box


@given(layouts())
@examples(150)
def test_a_region_overlaps_the_tiles_that_hold_its_elements(case: tuple[Layout, Box]) -> None:
    layout, region = case
    found = dict(layout.overlaps(region))
    parts = [overlap(box, region) for box in found.values()]
    assert None not in parts
    assert sum(box_size(p) for p in parts if p is not None) == box_size(region)
    assert all(layout.tile(index) == box for index, box in found.items())


@given(layouts())
@examples(150)
def test_a_devices_box_is_the_hull_of_its_tiles(case: tuple[Layout, Box]) -> None:
    layout, _ = case
    for device in range(3):
        tiles = [b for i, b in enumerate(boxes_of(layout.cuts)) if layout.owner(i) == device]
        hull = layout.box(device)
        assert (hull is None) == (not tiles)
        if hull is not None:
            for axis, (lo, hi) in enumerate(hull):
                assert lo == min(b[axis][0] for b in tiles)
                assert hi == max(b[axis][1] for b in tiles)
        assert layout.elements_on(device) == sum(map(box_size, tiles))
    assert layout.n_tiles == len(layout.owner_array)


def test_one_owner_stands_for_all() -> None:
    layout = Layout(((0, 2, 4),), (1,))
    assert [layout.owner(i) for i in range(2)] == [1, 1] == layout.owner_array.tolist()
    assert layout.box(1) == whole_box((4,))
    assert layout.box(0) is None
    assert Layout(((0, 2, 4),), (1, 1)) == layout
    assert hash(Layout(((0, 2, 4),), (1, 1))) == hash(layout)


def test_equal_layouts_are_equal_and_read_as_text() -> None:
    assert Layout(((0, 2, 4),), (0, 1)) == Layout(((0, 2, 4),), (0, 1))
    assert Layout(((0, 2, 4),), (0, 1)) != Layout(((0, 2, 4),), (1, 0))
    assert len({Layout(((0, 4),), (0,)), single((4,), 0)}) == 1
    assert str(Layout(((0, 2, 4), (0, 3)), (0, 1))) == "2×1 tiles on 0,1"
    assert str(single((3,), HOST)) == "1 tile on host"
