"""The best of several serial orders for a program that does not fit, or whose data is in files."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from infinitensor.errors import DoesNotFit
from infinitensor.ir.tasks import LOAD
from infinitensor.memory.fit import fit
from infinitensor.memory.order import ORDERS, STREAMING
from infinitensor.memory.uses import FOREVER, Uses
from infinitensor.runtime.simulate import makespan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.tasks import Program, TaskGraph

MANY_TASKS = 20_000
"""Tasks from which only one order is tried: a walk takes up to 0.1 ms a task."""
SOME_TASKS = 2_000
"""Tasks up to which another order is tried only because more might stay for the next run."""
FEW_TASKS = 500
LITTLE = 8
"""Of more tasks than those few, the part of the budgets that is too little to try another order
for: to walk one takes as long as to read some of what might stay."""


def stream(
    graph: TaskGraph,
    budgets: Sequence[int],
    donated: Sequence[bool],
    mesh: Mesh,
    moved: dict[tuple[int, int], int],
) -> Program:
    """A Program within the budgets that moves few bytes between tiers.

    Of the serial orders the one that is estimated to take least time; `DoesNotFit` if none fits.
    """
    uses = Uses(graph)
    with contextlib.suppress(DoesNotFit):
        return _stream(uses, [a_little_less(b) for b in budgets], donated, mesh, moved)
    # not where the error is handled: it would hold the frames of all who asked
    return _stream(uses, budgets, donated, mesh, moved)


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
) -> Program:
    graph = uses.graph
    best: Program | None = None
    least = float("inf")
    misfit: DoesNotFit | None = None
    is_read = any(family.lane == LOAD for family in graph.families)
    orders = {**STREAMING, **ORDERS} if is_read else dict(ORDERS)
    if mesh.kind == "cpu":  # where all that was read has stayed, it still takes least room so
        orders = {**orders, **STREAMING}
    for name, order in orders.items():
        try:
            found = fit(uses, order(uses), budgets, donated, mesh, moved)
        except DoesNotFit as error:
            if misfit is None or error.need_bytes < misfit.need_bytes:
                misfit = error.with_traceback(None)
            continue
        enough = 0
        if graph.n_tasks <= SOME_TASKS:
            little = sum(budgets) // LITTLE if graph.n_tasks > FEW_TASKS else 0
            enough = most_stays(uses, budgets, donated) - little
        is_last = graph.n_tasks > MANY_TASKS or is_least(found, uses, enough)
        taken = 0.0
        if best is not None or not is_last:  # there is something to compare it with
            # again: what is read from below is often read by the next run too, without what stayed
            taken = makespan(found, mesh) + (makespan(found, mesh, again=True) if is_read else 0.0)
        if taken < least:
            best, least = replace(found, traffic=replace(found.traffic, order=name)), taken
        if is_last:
            break
    if best is None:
        assert misfit is not None
        try:
            raise misfit
        finally:
            del misfit  # it would hold this frame, and so those of all who asked
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


def is_least(program: Program, uses: Uses, enough_bytes: int) -> bool:
    """Whether nothing is evicted, nothing read twice, and all that is read stays, or enough."""
    once = sum(
        int(uses.tile_bytes[family.writes[0]].sum())
        for family in uses.graph.families
        if family.lane == LOAD
    )
    here = sum(int(program.slot_bytes[program.slots[tile]]) for tile in program.cached)
    is_once = program.traffic.evicted == 0 and program.traffic.loaded <= once
    return is_once and here >= min(once, enough_bytes)
