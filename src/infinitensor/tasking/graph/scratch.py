"""The scratch of a group's tasks beside their tiles: bytes that the memory stage sets apart."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from infinitensor.ir.op import Spec
from infinitensor.ops.table.numpy_kernels import task_scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.graph import Group, Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.ir.tasks import Column
    from infinitensor.tasking.graph.lowering import Lowering
    from infinitensor.tasking.kernels.choose_kernel import Fused


def group_scratch(
    lowering: Lowering, group: Group, plan: GroupPlan, columns: Sequence[Column], fused: Fused
) -> int:
    """Bytes that one task works in: by what its ops declare, and for steps that are not fused."""
    lengths = plan.longest()
    if fused.one_pass:  # what is created, and partial results of at least 8 elements each
        is_reduced = fused.steps is None
        return (8 * fused.n_registers + 3 * is_reduced) * prod(lengths)
    joined = _joined_elements(plan, lengths)
    widest = 0
    for n in group.nodes:
        node = lowering.graph.nodes[n]
        form = node.call.form
        if node is plan.space.last and node.op.need is None:
            ins = tuple(
                Spec(
                    tuple(1 if k is None else lengths[k] for k in labels), lowering.operand_dtype(o)
                )
                for labels, o in zip(form.inputs, node.operands, strict=True)
            )
            outs = tuple(
                Spec(tuple(1 if k is None else lengths[k] for k in labels), spec.dtype)
                for labels, spec in zip(form.outputs, node.call.outs, strict=True)
            )
        elif node.op.need is not None:
            ins = needed_specs(lowering, node, columns)
            outs = tuple(
                Spec(tuple(1 if k is None else lengths[k] for k in labels), spec.dtype)
                for labels, spec in zip(form.outputs, node.call.outs, strict=True)
            )
        else:
            ins = (Spec((joined,), node.call.outs[0].dtype),) * len(node.operands)
            outs = (Spec((joined,), node.call.outs[0].dtype),)
        widest = max(widest, task_scratch(node, ins, outs, lowering.target))
    wide = max(
        spec.dtype.itemsize for n in group.nodes for spec in lowering.graph.nodes[n].call.outs
    )
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
