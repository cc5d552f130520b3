"""Regions that a task reads and that are not in one tile beside it: brought together first.

A region that several groups want is brought once. What crosses from another memory is a move of its
own, on a lane beside the kernels; what comes from a lower tier can be read again and stands apart.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.devices import copy_into
from infinitensor.ir.region import overlap, relative
from infinitensor.ir.tasks import COMPUTE, LOAD, PEER

if TYPE_CHECKING:
    from infinitensor.ir.graph import Node
    from infinitensor.ir.tasks import TileSet
    from infinitensor.tasking.graph.lowering import Lowering


def bring_fetches(
    lowering: Lowering, g: int, node: Node, inside: frozenset[int] = frozenset()
) -> None:
    """A fetch family for the regions that a group is the first to want; not of values `inside` a
    family of several groups."""
    fresh: dict[int, None] = {}
    for read, route in lowering.routes(g).items():
        if read.operand.value not in inside and route.fetches.size and route.fetches.max() >= 0:
            for number in np.unique(route.fetches):
                if number >= 0 and int(number) not in lowering.fetched:
                    fresh[int(number)] = None
    alike: dict[tuple[int, Any, str], list[int]] = {}
    for number in fresh:
        fetch = lowering.moves.fetches[number]
        root = lowering.roots[fetch.value]
        owners = lowering.device_of(np.asarray(fetch.tiles, np.int32) + lowering.first_of[root])
        # tiles from elsewhere are counted, and moved beside kernels; those from a lower tier
        # can be read again: each is apart from the rest
        source = "here"
        if (owners != fetch.device).any():
            source = "lower tier" if (owners < 0).any() else "beside"
        key = (len(fetch.box), lowering.graph.specs[root].dtype, source)
        alike.setdefault(key, []).append(number)
    for (ndim, dtype, _), numbers in alike.items():
        fetches = [lowering.moves.fetches[number] for number in numbers]
        boxes = np.asarray([f.box for f in fetches], np.int64).reshape(len(fetches), ndim, 2)
        devices = np.asarray([f.device for f in fetches], np.int16)
        target = lowering.add_tiles(boxes, devices, dtype, -1)
        borders = np.cumsum([0, *(len(f.tiles) for f in fetches)]).astype(np.int64)
        firsts = [lowering.first_of[lowering.roots[f.value]] for f in fetches]
        sources = np.concatenate(
            [
                np.asarray(f.tiles, np.int32) + first
                for f, first in zip(fetches, firsts, strict=True)
            ]
        )
        gather_family(lowering, target, borders, sources, node)
        for k, number in enumerate(numbers):
            lowering.fetched[number] = target.first + k


def gather_family(
    lowering: Lowering, target: TileSet, borders: np.ndarray, sources: np.ndarray, node: Node
) -> None:
    """Tasks that bring regions together from tiles."""
    box_of = lowering.box_of
    targets = target.boxes
    parts = [
        [box_of(int(t)) for t in sources[borders[i] : borders[i + 1]]] for i in range(target.n)
    ]

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        box = tuple(map(tuple, targets[i].tolist()))
        out = outs[0]
        for tile, where in zip(ins, parts[i], strict=True):
            common = overlap(where, box)
            if common is None:
                continue
            piece = tile[relative(common, where)]
            spot = out[relative(common, box)] if common else out
            copy_into(spot, piece)

    owners = lowering.device_of(sources)
    crosses = bool((owners != np.repeat(target.devices, np.diff(borders))).any())
    lane = COMPUTE if not crosses else (LOAD if (owners < 0).any() else PEER)
    family = lowering.add_family(
        op="move",
        site=node.site,
        lane=lane,
        devices=target.devices,
        run=run,
        reads=(),
        writes=(np.arange(target.first, target.first + target.n, dtype=np.int32),),
        many=(borders, sources),
    )
    lowering.edges.of_many(family, targets)


def bring(lowering: Lowering, tiles: np.ndarray, device: int, node: Node) -> np.ndarray:
    """The same tiles, those on other devices as copies on this one."""
    owners = lowering.device_of(tiles)
    away = np.flatnonzero(owners != device)
    if not len(away):
        return tiles
    local = tiles.copy()
    for k in away:
        tile = int(tiles[k])
        source = lowering.set_with(tile)
        box = source.boxes[tile - source.first : tile - source.first + 1]
        target = lowering.add_tiles(box, np.asarray([device], np.int16), source.dtype, -1)
        gather_family(lowering, target, np.asarray([0, 1]), np.asarray([tile], np.int32), node)
        way = (int(owners[k]), device)
        size = prod(int(hi - lo) for lo, hi in box[0]) * source.dtype.itemsize
        lowering.moves.moved[way] = lowering.moves.moved.get(way, 0) + size
        local[k] = target.first
    return local
