"""The order of the stages, and the feedback between them. Only this file knows it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from infinitensor.analysis import analyse
from infinitensor.errors import DoesNotFit, MemoryBudgetError
from infinitensor.ir.region import box_size
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

SMALLEST_TILE = 4096
"""Tiles are not made smaller than this to fit a budget."""
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


def refuse_impossible(analysed: Analysed, mesh: Mesh, budgets: Sequence[int]) -> None:
    """Refuse at once a value that, as far as it is needed, is larger than all memories together.

    (A plan of its tiles could be larger than memory itself.)
    """
    graph = analysed.graph
    total = sum(budgets)
    for group in analysed.groups:
        node = graph.nodes[group.nodes[-1]]
        for value in node.outs:
            need = graph.specs[value].n_bytes
            if need > total and value in analysed.needed:
                need = box_size(analysed.needed[value]) * graph.specs[value].dtype.itemsize
            if need > total:
                share = -(-need // len(budgets))
                misfit = DoesNotFit(node.op.name, share, max(budgets), 0, node.site)
                raise misfit_error(misfit, mesh)


def misfit_error(misfit: DoesNotFit, mesh: Mesh) -> MemoryBudgetError:
    """What the user sees of a graph that does not fit."""
    return MemoryBudgetError(
        misfit.op,
        misfit.need_bytes,
        misfit.limit_bytes,
        mesh.devices[misfit.device].name,
        str(misfit.site),
        f"give it.init(memory=...) at least {misfit.need_bytes} bytes a device, use more devices "
        f"(now {mesh.n_devices}), a smaller dtype, or let go of tensors that are no longer needed",
    )


def prepare(graph: Graph, mesh: Mesh, tile_elements: int, budgets: Sequence[int]) -> Prepared:
    """Plan a graph into a Program that fits the budgets.

    Where it does not fit, smaller tiles are tried a bounded number of times; then
    `MemoryBudgetError` names the op, the need and the line. Nothing has run by then.
    """
    # one memory: tasks may look into any tile
    analysed = analyse(graph, renews=mesh.kind == "cpu" and mesh.n_devices == 1)
    refuse_impossible(analysed, mesh, budgets)
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
                smallest = misfit.with_traceback(None)  # it would hold the tensors of this graph
            largest = max(prod(group.longest()) for group in plan.groups)
            bound = min(bound or largest, largest) // 4
            if bound < min(SMALLEST_TILE, tile_elements or SMALLEST_TILE):
                break  # more tasks than anyone would wait for
            continue
        return Prepared(analysed, plan, moves, program, bound)
    assert smallest is not None
    raise misfit_error(smallest, mesh) from None
