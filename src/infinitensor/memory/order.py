"""Serial orders: in which sequence tasks get their memory. What runs when is decided by events."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.tasks import LOAD

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.memory.uses import Uses


def layers(uses: Uses) -> np.ndarray:
    """One family after another, as they were lowered."""
    return np.flatnonzero(uses.needed)


def depth_first(uses: Uses) -> np.ndarray:
    """An order with the inputs of a result just before it: few tiles wait for their readers. Linear
    in edges."""
    return _with_needs(uses, np.zeros(0, np.int64))


def _with_needs(uses: Uses, first: np.ndarray) -> np.ndarray:
    """Some tasks in their order, then those that nobody waits for; before each what it needs."""
    sources, targets = _edges(uses)
    n = uses.graph.n_tasks
    before, borders = _sorted_by(targets, sources, sources, n)
    last = uses.needed.copy()
    last[sources] = False
    seen = bytearray(n)
    order: list[int] = []
    for end in [*first.tolist(), *np.flatnonzero(last).tolist()]:
        if seen[end]:
            continue
        seen[end] = 1
        stack = [(end, borders[end])]
        while stack:
            task, at = stack.pop()
            stop = borders[task + 1]
            while at < stop and seen[before[at]]:
                at += 1
            if at == stop:
                order.append(task)
            else:
                stack.append((task, at + 1))
                seen[before[at]] = 1
                stack.append((before[at], borders[before[at]]))
    return np.asarray(order, np.int64)


def in_turn(uses: Uses) -> np.ndarray:
    """Tasks that are numbered as they should come, each with what it needs just before; then the
    rest, depth first. Linear in edges."""
    ends = [
        np.arange(family.first, family.first + family.n)
        for family in uses.graph.families
        if family.in_turn
    ]
    turns = np.concatenate([*ends, np.zeros(0, np.int64)])
    return _with_needs(uses, turns[uses.needed[turns]])


def forward(uses: Uses) -> np.ndarray:
    """After each task all that it made ready: what was read is used by everybody, then goes. What
    waits for nothing comes as its first reader does: what is read after what is there already.
    Linear in edges."""
    sources, targets = _edges(uses)
    n = uses.graph.n_tasks
    after, borders = _sorted_by(sources, targets, -targets, n)
    waits = np.bincount(targets, minlength=n).tolist()
    turn = np.arange(n)
    for family in uses.graph.families:
        if family.lane == LOAD:
            turn[family.span] = n
    is_load = turn[sources] == n
    np.minimum.at(turn, sources[is_load], targets[is_load])
    ready = [task for task in range(n - 1, -1, -1) if uses.needed[task] and not waits[task]]
    ready.sort(key=lambda task: -int(turn[task]))
    order: list[int] = []
    while ready:
        task = ready.pop()
        order.append(task)
        for successor in after[borders[task] : borders[task + 1]]:
            waits[successor] -= 1
            if not waits[successor]:
                ready.append(successor)
    return np.asarray(order, np.int64)


def least_growth(uses: Uses) -> np.ndarray:
    """Of the tasks that could run, the one that makes memory grow least."""
    sources, targets = _edges(uses)
    n = uses.graph.n_tasks
    after, borders = _sorted_by(sources, targets, np.zeros_like(targets), n)
    waits = np.bincount(targets, minlength=n).tolist()
    touched, touched_at = uses.tiles_by_task()
    left = np.bincount(touched, minlength=uses.graph.n_tiles)
    left += uses.last_use == np.iinfo(np.int64).max  # kept ones are never given back
    n_left = left.tolist()
    sizes = np.where(uses.devices >= 0, uses.tile_bytes, 0).tolist()
    made = [0] * n
    for family in uses.graph.families:
        if not family.updates:
            for writes in family.writes:
                for i, tile in enumerate(writes.tolist()):
                    made[family.first + i] += sizes[tile]

    def growth(task: int) -> int:
        tiles = set(touched[touched_at[task] : touched_at[task + 1]].tolist())
        freed: int = sum(sizes[t] for t in tiles if n_left[t] <= 1)
        return made[task] - freed

    start = np.flatnonzero(uses.needed & (np.asarray(waits) == 0)).tolist()
    ready = [(growth(task), task) for task in start]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, task = heapq.heappop(ready)
        now = growth(task)
        if ready and (now, task) > ready[0]:  # what it frees has changed since it was put there
            heapq.heappush(ready, (now, task))
            continue
        order.append(task)
        for tile in touched[touched_at[task] : touched_at[task + 1]].tolist():
            n_left[tile] -= 1
        for successor in after[borders[task] : borders[task + 1]]:
            waits[successor] -= 1
            if not waits[successor]:
                heapq.heappush(ready, (growth(successor), successor))
    return np.asarray(order, np.int64)


def _edges(uses: Uses) -> tuple[np.ndarray, np.ndarray]:
    sources, targets = uses.graph.sources, uses.graph.targets
    if uses.needed.all():
        return sources, targets
    real = uses.needed[sources] & uses.needed[targets]
    return sources[real], targets[real]


def _sorted_by(
    tasks: np.ndarray, others: np.ndarray, within: np.ndarray, n: int
) -> tuple[list[int], list[int]]:
    """The others of each of n tasks, task by task and in an order `within`; where these begin."""
    order = np.lexsort((within, tasks))
    return others[order].tolist(), np.searchsorted(tasks[order], np.arange(n + 1)).tolist()


STREAMING: dict[str, Callable[[Uses], np.ndarray]] = {"forward": forward}
"""Tried first where something is read from a lower tier."""
PLANNED: dict[str, Callable[[Uses], np.ndarray]] = {"in turn": in_turn}
"""The one for tasks that were put in order before."""
ORDERS: dict[str, Callable[[Uses], np.ndarray]] = {
    "depth first": depth_first,
    "least growth": least_growth,
    "layers": layers,
}
