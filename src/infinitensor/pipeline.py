"""The order of the stages, and the feedback between them. Only this file knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infinitensor.analysis import analyse
from infinitensor.errors import DoesNotFit, MemoryBudgetError
from infinitensor.memory import allocate
from infinitensor.partition import choose
from infinitensor.redistribute import route
from infinitensor.tasking import lower_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.graph import Analysed, Graph
    from infinitensor.ir.mesh import Mesh
    from infinitensor.ir.plan import Moves, Plan
    from infinitensor.ir.tasks import Program

ROUNDS = 8
"""How often smaller tiles are tried before a graph is said not to fit."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What each stage said of one graph."""

    analysed: Analysed
    plan: Plan
    moves: Moves
    program: Program
    tile_elements: int
    """The tile bound that fitted; 0: the devices' own."""


def prepare(graph: Graph, mesh: Mesh, tile_elements: int, budgets: Sequence[int]) -> Prepared:
    """Plan a graph into a Program that fits the budgets.

    Where it does not fit, smaller tiles are tried a bounded number of times; then
    `MemoryBudgetError` names the op, the need and the line. Nothing has run by then.
    """
    analysed = analyse(graph)
    donated = [leaf.donated for leaf in graph.leaves]
    bound = tile_elements
    smallest: DoesNotFit | None = None
    for _ in range(ROUNDS):
        plan = choose(analysed, mesh, bound)
        moves = route(plan)
        tasks = lower_plan(plan, moves)
        n_concurrent = mesh.workers if mesh.kind == "cpu" else 1
        try:
            program = allocate(tasks, budgets, donated, n_concurrent, moves.moved)
        except DoesNotFit as misfit:
            if smallest is None or misfit.need_bytes < smallest.need_bytes:
                smallest = misfit
            largest = max(
                (t.boxes[:, :, 1] - t.boxes[:, :, 0]).prod(axis=1).max() for t in tasks.tiles
            )
            bound = int(min(bound or largest, largest)) // 4
            if bound < 1:
                break
            continue
        return Prepared(analysed, plan, moves, program, bound)
    assert smallest is not None
    raise MemoryBudgetError(
        smallest.op,
        smallest.need_bytes,
        smallest.limit_bytes,
        mesh.devices[smallest.device].name,
        str(smallest.site),
        f"give it.init(memory=...) at least {smallest.need_bytes} bytes a device, use more devices "
        f"(now {mesh.n_devices}), a smaller dtype, or let go of tensors that are no longer needed",
    ) from None
