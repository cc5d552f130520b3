"""Evictions, loads and repeated tasks: collected while an order is walked, then families beside
those of the graph."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.devices import copy_into
from infinitensor.ir.tasks import EVICT, LOAD, Column, Family, TaskGraph, TileSet

if TYPE_CHECKING:
    from infinitensor.memory.uses import Uses


class Extra(NamedTuple):
    """A task that the memory stage adds: `evict` and `load` copy a tile from one tier to another,
    `again` is a task of the graph that runs once more."""

    kind: str
    source: int
    """The tile that is copied, or the task that runs again."""
    target: int
    device: int
    op: str
    site: Any


class Additions:
    """The additions of a walk to a graph: tasks, the tiles they make, edges, and who reads what
    instead.

    Tasks and tiles are numbered on from the graph's own; `graph` gives tasks their last numbers.
    """

    def __init__(self, uses: Uses) -> None:
        self._uses = uses
        self._graph = uses.graph
        self._extras: list[Extra] = []
        self._tiles: list[TileSet] = []
        self._sources: list[int] = []
        self._targets: list[int] = []
        self._patches: dict[int, dict[int, int]] = {}
        self.devices: list[int] = uses.devices.tolist()
        """The device or tier of every tile."""
        self.origins: dict[int, int] = {}
        """Tile that came back -> the tile of the graph whose values it has."""
        self.serial: list[int] = []
        """All tasks in the order in which they were walked."""

    def new_task(self, extra: Extra) -> int:
        """The number of one more task."""
        self._extras.append(extra)
        return self._graph.n_tasks + len(self._extras) - 1

    def new_tile(self, tile: int, device: int) -> int:
        """The number of a tile with the values of another one, elsewhere."""
        tiles = self._uses.graph.set_with(tile)
        number = len(self.devices)
        box = tiles.boxes[tile - tiles.first : tile - tiles.first + 1]
        where = np.asarray([device], np.int16)
        self._tiles.append(TileSet(number, tiles.dtype, box, where, tiles.value))
        self.devices.append(device)
        return number

    def read_instead(self, task: int, tile: int, other: int) -> None:
        """A task of the graph reads (or updates) another tile in place of one."""
        self._patches.setdefault(task, {})[tile] = other

    def edge(self, source: int, target: int) -> None:
        """One task waits for another."""
        if source != target:
            self._sources.append(source)
            self._targets.append(target)

    def wait_for(self, users: list[int], task: int) -> None:
        """A task waits for several."""
        for user in users:
            self.edge(user, task)

    def lower(self) -> tuple[TaskGraph, np.ndarray, np.ndarray, np.ndarray]:
        """The graph with all of this; the number each task has there, which tasks are needed, and
        the task that makes each tile."""
        uses, graph = self._uses, self._graph
        extras = {graph.n_tasks + k: extra for k, extra in enumerate(self._extras)}
        families, renamed, n_tasks = families_with(graph, self._patches, extras, graph.n_tasks)
        names = np.arange(n_tasks, dtype=np.int64)
        for before, after in renamed.items():
            names[before] = after
        needed = np.ones(n_tasks, np.bool_)
        needed[: len(uses.needed)] = uses.needed
        sources = np.concatenate([graph.sources, names[np.asarray(self._sources, np.int64)]])
        targets = np.concatenate([graph.targets, names[np.asarray(self._targets, np.int64)]])
        real = needed[sources] & needed[targets]
        n_tiles = len(self.devices)
        producers = np.full(n_tiles, -1, np.int64)
        producers[: graph.n_tiles] = uses.producers
        for family in families[len(graph.families) :]:
            producers[family.writes[0]] = np.arange(family.first, family.first + family.n)
        made = TaskGraph(
            families,
            (*graph.tiles, *self._tiles),
            sources[real],
            targets[real],
            n_tasks,
            n_tiles,
            graph.held,
        )
        return made, names, needed, producers


def families_with(
    graph: TaskGraph, patches: dict[int, dict[int, int]], extras: dict[int, Extra], n_tasks: int
) -> tuple[tuple[Family, ...], dict[int, int], int]:
    """The families of a graph with the extra tasks, the numbers these got, and how many tasks
    there are.

    `patches[task]` says which tiles a task reads in place of others; `extras` come by the numbers
    they had so far.
    """
    firsts = [family.first for family in graph.families]
    families = list(graph.families)
    by_family: dict[int, dict[int, dict[int, int]]] = {}
    for task, changed in patches.items():
        f = bisect_right(firsts, task) - 1
        by_family.setdefault(f, {})[task - firsts[f]] = changed
    for f, changes in by_family.items():
        families[f] = patch_reads(families[f], changes)
    groups: dict[Any, list[int]] = {}
    for number, extra in extras.items():
        kind: Any = extra.kind
        if kind == "again":
            kind = bisect_right(firsts, extra.source) - 1
        groups.setdefault(kind, []).append(number)
    renamed: dict[int, int] = {}
    for kind, numbers in groups.items():
        members = [extras[number] for number in numbers]
        if isinstance(kind, str):
            family = copies(kind, n_tasks, members)
        else:
            # not the patched one: a rebuilt tile reads tiles of a lower tier, which never move
            family = repeat_tasks(graph.families[kind], n_tasks, members)
        for k, number in enumerate(numbers):
            renamed[number] = n_tasks + k
        families.append(family)
        n_tasks += len(members)
    return tuple(families), renamed, n_tasks


def patch_reads(family: Family, changes: dict[int, dict[int, int]]) -> Family:
    """A family whose tasks read (or update) other tiles in place of some."""
    reads = []
    for column in family.reads:
        if column.scalar or column.span is not None:  # tiles of one piece are never evicted
            reads.append(column)
            continue
        tiles = column.tiles.copy()
        for i, changed in changes.items():
            tiles[i] = changed.get(int(tiles[i]), tiles[i])
        reads.append(replace(column, tiles=tiles))
    many = family.many
    if many is not None:
        borders, sources = many[0], many[1].copy()
        for i, changed in changes.items():
            for k in range(borders[i], borders[i + 1]):
                sources[k] = changed.get(int(sources[k]), sources[k])
        many = (borders, sources)
    writes = family.writes
    if family.updates:
        base = writes[0].copy()
        for i, changed in changes.items():
            base[i] = changed.get(int(base[i]), base[i])
        writes = (base, *writes[1:])
    return replace(family, reads=tuple(reads), many=many, writes=writes)


def copies(kind: str, first: int, members: list[Extra]) -> Family:
    """Tasks that copy a tile from one tier to another."""
    return Family(
        first=first,
        op=kind,
        site=members[0].site,
        lane=EVICT if kind == "evict" else LOAD,
        devices=np.asarray([extra.device for extra in members], np.int16),
        run=copy_tile,
        reads=(Column(np.asarray([extra.source for extra in members], np.int32)),),
        writes=(np.asarray([extra.target for extra in members], np.int32),),
    )


def repeat_tasks(family: Family, first: int, members: list[Extra]) -> Family:
    """Tasks of a family once more, into other tiles."""
    which = np.asarray([extra.source - family.first for extra in members], np.int64)
    reads = tuple(
        replace(
            column,
            tiles=column.tiles[which],
            boxes=None if column.boxes is None else column.boxes[which],
        )
        for column in family.reads
    )
    many = family.many
    if many is not None:
        borders, sources = many
        parts = [sources[borders[i] : borders[i + 1]] for i in which.tolist()]
        many = (
            np.cumsum([0, *(len(part) for part in parts)]).astype(np.int64),
            np.concatenate(parts),
        )
    run, at = family.run, which.tolist()
    return replace(
        family,
        first=first,
        devices=family.devices[which],
        run=lambda ins, outs, i: run(ins, outs, at[i]),
        reads=reads,
        many=many,
        writes=(np.asarray([extra.target for extra in members], np.int32),),
        in_place=False,
        values=(),
    )


def copy_tile(ins: list[Any], outs: list[Any], i: int) -> None:
    """The values of one tile in the memory of another."""
    copy_into(outs[0], ins[0])
