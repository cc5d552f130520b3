"""Groups of one op: its own kernel on the tiles of a task, with their regions if it asks."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from infinitensor.config import config
from infinitensor.devices import copy_into
from infinitensor.dtypes import bool_
from infinitensor.ir.op import At
from infinitensor.ops.backend.c_loops import is_for
from infinitensor.ops.reduce.scan_calls import scanned
from infinitensor.ops.table.numpy_kernels import lower, lower_finish, lower_partial
from infinitensor.tasking.kernels.by_steps import reduce_kernel
from infinitensor.tasking.kernels.choose_kernel import Fused, product_called
from infinitensor.tasking.kernels.fused_reduction import folds_alone
from infinitensor.tasking.kernels.worth_compiling import is_worth_compiling

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from infinitensor.ir.call_tables import InC
    from infinitensor.ir.graph import Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.ir.tasks import Column, TileSet
    from infinitensor.tasking.graph.lowering import Lowering

PLACES = 64
"""Tasks of a family whose places are remembered."""


def single_run(
    lowering: Lowering,
    node: Node,
    columns: Sequence[Column],
    sets: Sequence[TileSet],
    order: Sequence[np.ndarray],
) -> Any:
    """The kernel of a task of one op; ops with `located=True` get the regions of their tiles."""
    kernel = lower(node.op, node.call, lowering.kind)
    if node.op.kind == "elementwise" or not (
        node.op.located or node.op.kind in ("creation", "gather")
    ):
        return lambda ins, outs, i: kernel(ins, outs, None)
    where = locator(lowering, columns, sets, order)
    return lambda ins, outs, i: kernel(ins, outs, where(i))


def reduction_kernel(
    lowering: Lowering,
    node: Node,
    plan: GroupPlan,
    columns: Sequence[Column],
    sets: Sequence[TileSet],
    order: Sequence[np.ndarray],
    parts_out: bool,
) -> Fused:
    """The kernel of one reduction: to its end, or to partial results (`parts_out`). It is a
    fall-back where only a compiler is missing to make it one generated pass
    (`joint_reductions`)."""
    if len(columns) == 1:
        reduce = reduce_kernel(node, plan, lowering.kind, parts_out)
        is_missed = (
            lowering.kind == "cpu"
            and not lowering.target.compiles
            and is_worth_compiling(plan, 1)
            and not node.op.located
            and bool(folds_alone([node]))
        )
        return Fused(lambda ins, outs, i: reduce(ins[0], outs, i), eager=is_missed)
    partial = lower_partial(node.op, node.call, lowering.kind)
    finish = lower_finish(node.op, node.call, lowering.kind)
    where = locator(lowering, columns, *((), ()) if parts_out else (sets, order))

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        parts = partial(ins, where(i))
        if parts_out:
            for part, out in zip(parts, outs, strict=True):
                copy_into(out, part)
        else:
            finish(parts, outs)

    return Fused(run)


def product_in_c(lowering: Lowering, node: Node, *, is_part: bool = False) -> InC | None:
    """The tasks of a product, or of parts of its sum, as calls that C makes."""
    is_compiled = lowering.kind == "cpu" and lowering.target.compiles
    return product_called(lowering.graph, node, is_part=is_part) if is_compiled else None


def scan_in_c(lowering: Lowering, node: Node) -> InC | None:
    """The tasks of a running sum as calls that C makes."""
    if (
        node.op.name not in ("_scan_axis", "_scan_lines")
        or lowering.kind != "cpu"
        or config.compile == "never"
    ):
        return None
    params, (operand,) = dict(node.call.params), node.operands
    dtype = node.call.outs[0].dtype
    is_plain = operand.value >= 0 and lowering.graph.specs[operand.value].dtype == dtype
    access = operand.access
    if params.get("word", "add") != "add" or not is_plain or dtype == bool_ or not is_for(dtype):
        return None
    if not lowering.target.compiles or (access is not None and access.part):
        return None
    return scanned(dtype, params["axis"], params.get("block", 0))


def locator(
    lowering: Lowering,
    columns: Sequence[Column],
    sets: Sequence[TileSet],
    order: Sequence[np.ndarray],
) -> Any:
    """`at(i)`: the regions of task i's tiles in their tensors (inputs: in their views)."""

    @lru_cache(maxsize=PLACES)
    def at(i: int) -> At:
        outputs = tuple(
            tuple(map(tuple, tiles.boxes[index[i]].tolist()))
            for tiles, index in zip(sets, order, strict=True)
        )
        return At(outputs, tuple(lowering.seen_box(column, i) for column in columns))

    return at
