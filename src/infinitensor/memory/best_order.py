"""The best of several serial orders for a program that does not fit, or whose data is in files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infinitensor.ir.tasks import LOAD, Misfit
from infinitensor.memory.evict_walk import fit
from infinitensor.memory.order import ORDERS, PLANNED, STREAMING
from infinitensor.memory.uses import FOREVER, Uses
from infinitensor.runtime.simulate import estimated, makespan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.tasks import Program, TaskGraph

ONE_ORDER_TASKS = 20_000
"""Tasks from which only one order is tried: a walk takes up to 0.1 ms a task."""
SOME_TASKS = 2_000
"""Tasks up to which another order is tried only because more might stay for the next run."""
FEW_TASKS = 500
UNTRIED_BUDGET_PART = 8
"""Of more tasks than those few, the part of the budgets that is too little to try another order
for: to walk one takes as long as to read some of what might stay."""


MOVED_READ_PART = 8
"""The part of what is read once that a program of many tasks may move beside it."""

AHEAD = (3, None)
"""Slots that a GPU reads into beside what it computes with; kernels that vary in length need more.
None: all the room there is, and nothing stays."""


def stream(
    graph: TaskGraph,
    budgets: Sequence[int],
    donated: Sequence[bool],
    mesh: Mesh,
    moved: dict[tuple[int, int], int],
    gives_back: bool = False,
) -> Program | Misfit:
    """A Program within the budgets that moves few bytes between tiers.

    Of the serial orders the one that is estimated to take least time; a `Misfit` if none fits.
    `gives_back`: a program that evicts is of no use, tiles that have stayed go before it. So where
    they and what is kept are more than the budgets, one order is enough.
    """
    uses = Uses(graph)
    less = [a_little_less(budget) for budget in budgets]
    found = _stream(uses, less, donated, mesh, moved, gives_back)
    if isinstance(found, Misfit):
        return _stream(uses, budgets, donated, mesh, moved, gives_back)
    return found


def a_little_less(budget: int) -> int:
    """A little less than a budget: a program that takes all there is should still fit when a few
    bytes less are left the next time."""
    return budget - budget // 64


def _stream(
    uses: Uses,
    budgets: Sequence[int],
    donated: Sequence[bool],
    mesh: Mesh,
    moved: dict[tuple[int, int], int],
    gives_back: bool,
) -> Program | Misfit:
    graph = uses.graph
    best: Program | None = None
    least = float("inf")
    misfit: Misfit | None = None
    is_read = any(family.lane == LOAD for family in graph.families)
    orders = [*STREAMING, *ORDERS] if is_read else list(ORDERS)
    if any(family.in_turn for family in graph.families):
        orders = [*PLANNED]
    elif mesh.kind == "cpu":  # where all that was read has stayed, it still takes least room so
        orders += [name for name in STREAMING if name not in orders]
    tries: list[tuple[str, int | None]] = [(name, AHEAD[0]) for name in orders]
    is_streamed = is_read and mesh.kind == "cuda"
    if is_streamed:
        tries = [*((orders[0], ahead) for ahead in AHEAD), *tries[1:]]
    for name, ahead in tries:
        order = {**PLANNED, **STREAMING, **ORDERS}[name]
        found = fit(uses, order(uses), budgets, donated, mesh, moved, ahead)
        if isinstance(found, Misfit):
            if misfit is None or found.need_bytes < misfit.need_bytes:
                misfit = found
            continue
        enough = 0
        if graph.n_tasks <= SOME_TASKS:
            is_many = graph.n_tasks > FEW_TASKS and not is_streamed
            little = sum(budgets) // UNTRIED_BUDGET_PART if is_many else 0
            enough = most_stays(uses, budgets, donated) - little
        is_last = graph.n_tasks > ONE_ORDER_TASKS or is_least(found, uses, enough)
        if graph.n_tasks > FEW_TASKS and not is_streamed:
            is_last |= is_near_least(found, uses)
        if gives_back and found.traffic.evicted:
            is_last |= most_stays(uses, budgets, donated) < 0
        taken = 0.0
        if best is not None or not is_last:  # there is something to compare it with
            # again: tiles of a lower tier are often read by the next run too, without what stayed
            if is_streamed:
                taken = estimated(found, mesh)[0]
            else:
                taken = makespan(found, mesh)
                taken += makespan(found, mesh, again=True) if is_read else 0.0
        if taken < least:
            best, least = replace(found, traffic=replace(found.traffic, order=name)), taken
        if is_last:
            break
        if ahead is None and best is not None and not best.traffic.evicted:
            break  # another order would hold more tiles that wait for their readers
    if best is None:
        assert misfit is not None
        return misfit
    return best


def most_stays(uses: Uses, budgets: Sequence[int], donated: Sequence[bool]) -> int:
    """Bytes that no order could leave room for more than: beside what is there all the time, and
    what is made to be kept."""
    is_busy = uses.last_use == FOREVER
    for tiles in uses.graph.tiles:
        if tiles.leaf >= 0 and not donated[tiles.leaf]:
            is_busy[tiles.first : tiles.first + tiles.n] = True
    busy = int(uses.tile_bytes[is_busy & (uses.devices >= 0)].sum())
    return sum(budgets) - busy


def is_near_least(program: Program, uses: Uses) -> bool:
    """Whether little is moved beside what has to be read once: no order saves what it takes to walk
    another."""
    once, traffic = bytes_read_once(uses), program.traffic
    more = traffic.evicted + max(traffic.loaded - once, 0)
    return once > 0 and MOVED_READ_PART * more <= once


def bytes_read_once(uses: Uses) -> int:
    """The bytes of all tiles that are read from a lower tier."""
    loads = [family for family in uses.graph.families if family.lane == LOAD]
    return sum(int(uses.tile_bytes[family.writes[0]].sum()) for family in loads)


def is_least(program: Program, uses: Uses, enough_bytes: int) -> bool:
    """Whether nothing is evicted, nothing read twice, and all that is read stays, or enough."""
    once = bytes_read_once(uses)
    here = sum(int(program.slot_bytes[program.slots[tile]]) for tile in program.cached)
    is_once = program.traffic.evicted == 0 and program.traffic.loaded <= once
    return is_once and here >= min(once, enough_bytes)
