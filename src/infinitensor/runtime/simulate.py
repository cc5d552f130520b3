"""The scheduler with virtual time: how long a Program would take, without running it."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from infinitensor.ir.layout import DISK
from infinitensor.ir.tasks import COMPUTE, EVICT, LOAD
from infinitensor.price import tier_seconds
from infinitensor.runtime.run.fixed_order import FixedOrder

if TYPE_CHECKING:
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.tasks import Family, Program

STRIDED = 20.0
"""How much longer a copy to a GPU takes that the host has to put together first."""
RETIRED_S = 2e-3
"""Seconds for a GPU to give memory back and to take it in another size: all of it waits."""
GOOD_ENOUGH_TIMES = 1.05
"""A plan that takes at most this much longer than its busiest lane is good enough."""

AGAIN = 3
"""Times that a tile of a lower tier is expected to be read again, on average."""

LOADING = 0.05
"""The weight of a second of loading where kernels take longer: others may want the link."""

Durations = tuple[list[float], list[int]]


def makespan(
    program: Program,
    mesh: Mesh,
    fixed_order: bool = False,
    variation: float = 0.0,
    seed: int = 0,
    again: bool = False,
    known: Durations | None = None,
) -> float:
    """Seconds until all tasks are done, if every lane takes the first ready task of the order.

    `fixed_order`: each lane takes its tasks in the order of the program, and waits for them; loads
    go one step ahead. `variation`: the deviation of the logarithm of how long a task takes, by
    chance, as `seed` says; the mean stays as it is. `again`: what stays of one run is
    there in the next. `known`: the durations, where they were asked for before.
    """
    graph = program.graph
    seconds, lanes = known or durations(program, mesh)
    if variation:
        chance = np.random.default_rng(seed).normal(-(variation**2) / 2, variation, len(seconds))
        seconds = (np.asarray(seconds) * np.exp(chance)).tolist()
    if again and program.cached:
        seconds = list(seconds)
        for tile in program.cached:
            seconds[int(program.producers[tile])] = 0.0
    order = program.order if program.order is not None else np.flatnonzero(program.needed)
    rank = np.full(graph.n_tasks, -1, np.int64)
    rank[order] = np.arange(len(order))
    ranks, tasks = rank.tolist(), order.tolist()
    waits = program.waits.tolist()
    after, borders = program.after.tolist(), program.borders.tolist()
    ready: tuple[list[int], ...] = ([], [], [])
    fixed = FixedOrder(range(len(tasks)), lambda k: lanes[tasks[k]]) if fixed_order else None
    idle = [mesh.workers if mesh.kind == "cpu" else mesh.n_devices, 1, 1]
    for task in tasks:
        if not waits[task]:
            heapq.heappush(ready[lanes[task]], ranks[task])
    running: list[tuple[float, int]] = []
    now = 0.0
    while True:
        for lane in (COMPUTE, LOAD, EVICT):
            while idle[lane] and ready[lane]:
                if fixed is not None:
                    if fixed.next(lane) != ready[lane][0]:
                        break
                    fixed.start(lane)
                task = tasks[heapq.heappop(ready[lane])]
                idle[lane] -= 1
                heapq.heappush(running, (now + seconds[task], task))
        if not running:
            return now
        now, task = heapq.heappop(running)
        idle[lanes[task]] += 1
        for successor in after[borders[task] : borders[task + 1]]:
            waits[successor] -= 1
            if not waits[successor]:
                heapq.heappush(ready[lanes[successor]], ranks[successor])


def estimated(program: Program, mesh: Mesh) -> tuple[float, bool]:
    """Seconds of a run and of those that come after it, with a little for what they load; and
    whether all are near their busiest lane."""
    known = durations(program, mesh)
    loads = np.asarray(known[0]) * (np.asarray(known[1]) == LOAD)
    taken, is_near = 0.0, True
    for again in (False, True):
        if again:
            loads[program.producers[list(program.cached)]] = 0.0
        seconds = makespan(program, mesh, again=again, known=known)
        is_near = is_near and seconds <= GOOD_ENOUGH_TIMES * least_seconds(
            program, mesh, again, known
        )
        taken += (AGAIN if again else 1) * (seconds + LOADING * float(loads.sum()))
    return taken, is_near


def least_seconds(
    program: Program, mesh: Mesh, again: bool = False, known: Durations | None = None
) -> float:
    """A lower bound of any schedule of a Program: the work of its busiest lane, and of kernels also
    the loads that one of them at least has to wait for."""
    seconds, lanes = (np.array(column) for column in known or durations(program, mesh))
    seconds[program.producers[list(program.cached)] if again else []] = 0.0
    taken = np.bincount(lanes, seconds, minlength=3)
    taken[COMPUTE] /= mesh.workers if mesh.kind == "cpu" else mesh.n_devices
    is_load = lanes == LOAD
    sources = np.repeat(np.arange(len(lanes)), np.diff(program.borders))
    after, n = program.after, len(lanes)
    waited = np.bincount(after, seconds[sources] * is_load[sources], minlength=n)
    is_first = np.bincount(after, ~is_load[sources], minlength=n) == 0
    lead = waited[is_first & program.needed & (lanes == COMPUTE)].min(initial=np.inf)
    taken[COMPUTE] += lead if np.isfinite(lead) else 0.0
    return float(taken.max())


def _is_strided(program: Program, family: Family) -> np.ndarray:
    """Which moves of a family copy more than one run: the host puts these together."""
    strided = np.zeros(family.n, np.bool_)
    for i, target in enumerate(family.writes[0].tolist()):
        whole, part = (
            np.asarray(program.graph.box_of(tile)).reshape(-1, 2)
            for tile in (family.many_of(i)[0], target)
        )
        cut = np.flatnonzero((whole != part).any(axis=1))
        strided[i] = len(cut) > 0 and bool((part[: cut[-1], 1] - part[: cut[-1], 0] > 1).any())
    return strided


def durations(program: Program, mesh: Mesh) -> Durations:
    """Seconds of every task, and its lane."""
    graph = program.graph
    seconds = np.zeros(graph.n_tasks)
    lanes = np.zeros(graph.n_tasks, np.int64)
    n_bytes = np.zeros(graph.n_tiles, np.int64)
    owners = np.zeros(graph.n_tiles, np.int64)
    for tiles in graph.tiles:
        span = tiles.span
        lengths = (tiles.boxes[:, :, 1] - tiles.boxes[:, :, 0]).prod(axis=1)
        n_bytes[span] = lengths * tiles.dtype.itemsize
        owners[span] = tiles.devices
    for family in graph.families:
        span = family.span
        if family.lane not in (LOAD, EVICT):
            seconds[span] = family.seconds
            continue
        lanes[span] = family.lane
        sizes = n_bytes[family.writes[0]]
        if family.lane == EVICT:
            disk = owners[family.writes[0]] == DISK
        elif family.many is not None:
            disk = np.full(family.n, bool((owners[family.many[1]] == DISK).any()))
        else:
            disk = owners[family.reads[0].tiles] == DISK
        seconds[span] = [
            tier_seconds(int(size), bool(is_disk), mesh)
            for size, is_disk in zip(sizes, disk, strict=True)
        ]
        if family.many is not None and mesh.kind == "cuda":
            seconds[span] *= np.where(_is_strided(program, family), STRIDED, 1.0)
    if mesh.kind == "cuda" and program.retires:
        firsts = {slot: tile for tile, slot in reversed(list(enumerate(program.slots.tolist())))}
        for slot in program.retires:
            seconds[program.producers[firsts[slot]]] += RETIRED_S
    return seconds.tolist(), lanes.tolist()
