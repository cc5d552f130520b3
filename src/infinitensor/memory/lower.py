"""Evictions, loads and repeated tasks as families beside those of the graph."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.devices import copy_into
from infinitensor.ir.tasks import EVICT, LOAD, Column, Family

if TYPE_CHECKING:
    from infinitensor.ir.tasks import TaskGraph


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
        families[f] = patched(families[f], changes)
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
            # not the patched one: what is made again reads what lies below, which never moves
            family = repeated(graph.families[kind], n_tasks, members)
        for k, number in enumerate(numbers):
            renamed[number] = n_tasks + k
        families.append(family)
        n_tasks += len(members)
    return tuple(families), renamed, n_tasks


def patched(family: Family, changes: dict[int, dict[int, int]]) -> Family:
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


def repeated(family: Family, first: int, members: list[Extra]) -> Family:
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
