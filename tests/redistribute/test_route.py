"""Routes: what is there already is read in place, what is not is fetched once to each device."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.ir.budget import examples
from tests.ir.sessions import prepared, strict
from tests.tasking.programs import recorded

import infinitensor as it
from infinitensor.ir.layout import HOST
from infinitensor.ir.region import box_size, overlap, tiles_over


@given(st.integers(0, 1 << 30), st.sampled_from([3, 7, 20]))
@examples(40)
def test_a_fetch_takes_every_tile_that_holds_its_box(seed: int, tile_elements: int) -> None:
    with strict("cpu*3", tile_elements) as session:
        tensors = recorded(seed)
        if not tensors:
            return
        found = prepared(session, *tensors)
    roots = found.analysed.roots
    n_bytes = 0
    for fetch in found.moves.fetches:
        layout = found.plan.layouts[roots[fetch.value]]
        assert list(fetch.tiles) == tiles_over(layout.cuts, fetch.box)
        assert len(fetch.tiles) > 1 or layout.owner(fetch.tiles[0]) not in (fetch.device, HOST)
        width = found.analysed.graph.specs[roots[fetch.value]].dtype.itemsize
        for tile in fetch.tiles:
            common = overlap(layout.tile(tile), fetch.box)
            assert common is not None
            if layout.owner(tile) != fetch.device:
                n_bytes += box_size(common) * width
    assert n_bytes <= sum(found.moves.moved.values())
    wanted = Counter((fetch.value, fetch.box, fetch.device) for fetch in found.moves.fetches)
    assert not wanted or max(wanted.values()) == 1, "fetched twice"


@given(st.integers(0, 1 << 30), st.sampled_from([3, 7, 20]))
@examples(30)
def test_a_task_reads_tiles_on_its_own_device(seed: int, tile_elements: int) -> None:
    with strict("cpu*3", tile_elements) as session:
        tensors = recorded(seed)
        if not tensors:
            return
        found = prepared(session, *tensors)
    for group, routes in zip(found.plan.groups, found.moves.routes, strict=True):
        for read, way in zip(group.space.reads, routes, strict=True):
            layout = found.plan.layouts[found.analysed.roots[read.operand.value]]
            assert len(way.tiles) == len(way.fetches) == len(group.devices)
            assert not ((way.tiles >= 0) & (way.fetches >= 0)).any()
            for tile, device, box in zip(
                way.tiles.tolist(),
                group.devices.tolist(),
                [None] * len(way.tiles) if way.boxes is None else way.boxes,
                strict=True,
            ):
                nothing = box is not None and bool((box[:, 1] <= box[:, 0]).any())
                if tile >= 0 and not nothing:
                    assert layout.owner(tile) in (device, HOST)
            for number, device in zip(way.fetches.tolist(), group.devices.tolist(), strict=True):
                assert number < 0 or found.moves.fetches[number].device == device


def moved_bytes(devices: str, tile_elements: int, record: object) -> int:
    with strict(devices, tile_elements) as session:
        x = it.asarray(np.ones((12, 8)))
        assert callable(record)
        return sum(prepared(session, record(x)).moves.moved.values())


def test_elementwise_work_on_one_layout_moves_nothing() -> None:
    assert moved_bytes("cpu*3", 8, lambda x: (x * 2 + 1) / x) == 0
    assert moved_bytes("cpu*3", 8, lambda x: x.T + 1) == 0


def test_one_device_moves_nothing() -> None:
    assert moved_bytes("cpu", 8, lambda x: x[::-1] + x @ x.T @ x) == 0


def test_a_row_read_everywhere_goes_once_to_each_other_device() -> None:
    assert moved_bytes("cpu*3", 8, lambda x: x + x[0]) == 2 * 8 * 8


def test_transposed_rows_move_once() -> None:
    # devices hold rows 0-3, 4-7 and 8-11: the outer two exchange theirs, the middle keeps its own
    assert moved_bytes("cpu*3", 8, lambda x: x - x[::-1]) == 8 * 8 * 8


@given(st.integers(0, 1 << 30), st.sampled_from([3, 7, 20]))
@examples(30)
def test_in_one_memory_nothing_is_fetched_and_spans_are_the_tiles_over_a_box(
    seed: int, tile_elements: int
) -> None:
    with strict("cpu", tile_elements) as session:
        tensors = recorded(seed)
        if not tensors:
            return
        found = prepared(session, *tensors)
    assert not found.moves.fetches
    for group, routes in zip(found.plan.groups, found.moves.routes, strict=True):
        for read, way in zip(group.space.reads if routes else (), routes, strict=True):
            if way.span is None:
                continue
            layout = found.plan.layouts[found.analysed.roots[read.operand.value]]
            borders, tiles = way.span
            assert way.boxes is not None
            for i, box in enumerate(way.boxes.tolist()):
                mine = tiles[borders[i] : borders[i + 1]].tolist()
                seen = tuple(map(tuple, box))
                base = seen if read.operand.access is None else read.operand.access.base_box(seen)
                if len(mine) > 1:
                    assert mine == tiles_over(layout.cuts, base)
