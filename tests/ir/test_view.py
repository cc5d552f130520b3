"""Views against NumPy: what `structure` finds is what `as_strided` shows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from infinitensor.ir.region import Box, box_size, boxes_of, cut_evenly, whole_box
from infinitensor.ir.view import Access, View, c_strides, structure, take, whole_view

from .budget import examples

Array = np.ndarray[Any, Any]


@st.composite
def walked(draw: st.DrawFn) -> tuple[Array, Array]:
    """A base and a view of it made by slices, indices, new axes, a transpose, a broadcast."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=0, max_size=3)))
    base = np.arange(prod(shape)).reshape(shape)
    index: list[Any] = []
    for size in shape:
        if draw(st.booleans()):
            index.append(None)
        kind = draw(st.sampled_from(["slice", "slice", "index"]))
        if kind == "index":
            index.append(draw(st.integers(-size, size - 1)))
        else:
            step = draw(st.sampled_from([1, 2, 3, -1, -2]))
            start = draw(st.none() | st.integers(-size, size))
            stop = draw(st.none() | st.integers(-size, size))
            index.append(slice(start, stop, step))
    view = np.asarray(base[tuple(index)])
    if not index or all(isinstance(i, int) for i in index):
        view = base[(*index, ...)]
    view = view.transpose(draw(st.permutations(range(view.ndim))))
    if view.ndim and draw(st.booleans()):
        wide = tuple(3 if n == 1 and draw(st.booleans()) else n for n in view.shape)
        view = np.broadcast_to(view, (*draw(st.sampled_from([(), (2,)])), *wide))
    return base, view


def view_of(base: Array, array: Array) -> View:
    """Offset and strides, in elements, as NumPy has them."""
    at = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    strides = tuple(s // base.itemsize for s in array.strides)
    offset = at // base.itemsize if array.size else 0
    return View(base.shape, array.shape, offset, strides)


def cut(array: Array, box: Box) -> Array:
    return array[tuple(slice(lo, hi) for lo, hi in box)] if box else array


def structured(base: Array, array: Array) -> tuple[View, Access]:
    view = view_of(base, array)
    access = structure(view)
    assert access is not None
    return view, access


@given(walked())
@examples(120)
def test_slices_transposes_and_broadcasts_are_structured(case: tuple[Array, Array]) -> None:
    base, wanted = case
    view, access = structured(base, wanted)
    found = take(base, access, whole_box(view.shape), whole_box(base.shape))
    np.testing.assert_array_equal(found, wanted)
    walks = any(axis is not None for axis in access.axes)
    assert not found.size or not walks or np.shares_memory(found, base)
    strided = np.lib.stride_tricks.as_strided(
        base.reshape(-1)[view.offset :], view.shape, [s * base.itemsize for s in view.strides]
    )
    np.testing.assert_array_equal(strided, wanted)
    assert view.is_broadcast == any(
        s == 0 and n > 1 for s, n in zip(wanted.strides, wanted.shape, strict=True)
    )


@given(walked())
@examples(80)
def test_torch_tiles_give_what_numpy_tiles_give(case: tuple[Array, Array]) -> None:
    base, wanted = case
    _, access = structured(base, wanted)
    tile = torch.from_numpy(base.copy())
    found = take(tile, access, whole_box(wanted.shape), whole_box(base.shape))
    np.testing.assert_array_equal(found.numpy(), wanted)


@given(walked(), st.data())
@examples(120)
def test_a_box_of_a_view_names_exactly_its_base_region(
    case: tuple[Array, Array], data: st.DataObject
) -> None:
    base, array = case
    _, access = structured(base, array)
    box = []
    for n in array.shape:
        lo = data.draw(st.integers(0, n))
        box.append((lo, data.draw(st.integers(lo, n))))
    part = cut(array, tuple(box))
    if not part.size:
        return
    region = access.base_region(tuple(box))
    named = base[tuple(slice(*span) for span in region)] if region else base
    assert set(named.reshape(-1).tolist()) == set(part.reshape(-1).tolist())
    assert all(lo < hi and step >= 1 for lo, hi, step in region)
    assert all((hi - 1 - lo) % step == 0 for lo, hi, step in region)
    hull = access.base_box(tuple(box))
    assert hull == tuple((lo, hi) for lo, hi, _ in region)
    found = take(cut(base, hull), access, tuple(box), hull)
    np.testing.assert_array_equal(found, part)


@given(walked(), st.integers(1, 4))
@examples(120)
def test_tiles_of_the_base_share_out_the_view(case: tuple[Array, Array], step: int) -> None:
    base, array = case
    if not array.size:
        return
    _, access = structured(base, array)
    cuts = tuple(cut_evenly(n, step) for n in base.shape)
    seen = 0
    for tile in boxes_of(cuts):
        if not all(
            at < 0 or lo <= at < hi for at, (lo, hi) in zip(access.fixed, tile, strict=True)
        ):
            continue
        box = access.view_box(tile, array.shape)
        seen += box_size(box)
        part = cut(array, box)
        assert set(part.reshape(-1).tolist()) <= set(cut(base, tile).reshape(-1).tolist())
        np.testing.assert_array_equal(take(cut(base, tile), access, box, tile), part)
    assert seen == array.size


OTHERS = {
    "diagonal": View((4, 4), (4,), 0, (5,)),
    "upper diagonal": View((4, 6), (4,), 1, (7,)),
    "backward diagonal": View((4, 4), (4,), 3, (3,)),
    "diagonal of three axes": View((3, 3, 3), (3, 3), 0, (3, 10)),
    "merged axes": View((4, 6), (24,), 0, (1,)),
    "axes merged in pairs": View((4, 6), (2, 12), 0, (12, 1)),
    "split axis": View((24,), (4, 6), 0, (6, 1)),
    "windows": View((9,), (7, 3), 0, (1, 1)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_views_have_no_structure(name: str) -> None:
    assert structure(OTHERS[name]) is None


def test_the_whole_view_is_its_base() -> None:
    view = whole_view((3, 4))
    assert view.is_whole
    assert view.strides == c_strides((3, 4)) == (4, 1)
    assert not View((3, 4), (4, 3), 0, (1, 4)).is_whole
    assert not View((3, 4), (3, 4), 0, (4, 1), "real").is_whole


@pytest.mark.parametrize("part", ["real", "imag"])
def test_parts_of_complex_tiles_are_taken(part: str) -> None:
    base = np.arange(6) * (1 + 2j)
    access = structure(View((6,), (3,), 5, (-2,), part))
    assert access is not None
    found = take(base, access, ((0, 3),), ((0, 6),))
    np.testing.assert_array_equal(found, getattr(base[::-2], part))
