"""The scratch of a group's tasks beside their tiles: bytes that the memory stage sets apart."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from infinitensor.ir.op import Spec
from infinitensor.ops.table.numpy_kernels import task_scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

    from infinitensor.ir.graph import Node
    from infinitensor.ir.op import Labels
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.ir.tasks import Column
    from infinitensor.tasking.graph.lowering import Lowering
    from infinitensor.tasking.kernels.choose_kernel import Fused


def group_scratch(
    lowering: Lowering,
    g: int,
    columns: Sequence[Column],
    fused: Fused,
    plan: GroupPlan | None = None,
) -> int:
    """Bytes that one task works in: by what its ops declare, and for steps that are not fused.

    `plan`: of another group, whose reduction ends the same task.
    """
    group, plan = lowering.plan.analysed.groups[g], plan or lowering.plan.groups[g]
    lengths = plan.longest()
    if fused.one_pass:  # what is created, and partial results of at least 8 elements each
        is_reduced = fused.steps is None
        return (8 * fused.n_registers + 3 * is_reduced) * prod(lengths)
    joined = _joined_elements(plan, lengths)
    nodes = [lowering.graph.nodes[n] for n in group.nodes]

    def tiles(every: Sequence[Labels], dtypes: Iterable[np.dtype[Any]]) -> tuple[Spec, ...]:
        shapes = (tuple(1 if k is None else lengths[k] for k in labels) for labels in every)
        return tuple(map(Spec, shapes, dtypes))

    widest = 0
    for node in nodes:
        form, dtypes = node.call.form, [spec.dtype for spec in node.call.outs]
        if node.op.need is not None:
            ins, outs = needed_specs(lowering, node, columns), tiles(form.outputs, dtypes)
        elif node is plan.space.last:
            ins = tiles(form.inputs, map(lowering.operand_dtype, node.operands))
            outs = tiles(form.outputs, dtypes)
        else:
            outs = (Spec((joined,), dtypes[0]),)
            ins = outs * len(node.operands)
        widest = max(widest, task_scratch(node, ins, outs, lowering.target))
    wide = max(spec.dtype.itemsize for node in nodes for spec in node.call.outs)
    return widest + fused.n_registers * joined * wide


def _joined_elements(plan: GroupPlan, lengths: Sequence[int]) -> int:
    """Elements of what steps before the last make: of a reduction, as many as it reads, however
    many axes of its own its result has."""
    last = plan.space.last
    if last.op.kind != "reduction":
        return prod(lengths)
    return prod(lengths[k] for k in last.call.form.inputs[0] if k is not None)


def needed_specs(lowering: Lowering, node: Node, columns: Sequence[Column]) -> tuple[Spec, ...]:
    """The largest box that any task gets of each operand."""
    specs = []
    operands = node.operands[len(node.operands) - len(columns) :]
    for operand, column in zip(operands, columns, strict=True):
        shape: tuple[int, ...] = ()
        if column.boxes is not None and len(column.boxes):
            shape = tuple((column.boxes[:, :, 1] - column.boxes[:, :, 0]).max(axis=0).tolist())
        specs.append(Spec(shape, lowering.operand_dtype(operand)))
    return tuple(specs)
