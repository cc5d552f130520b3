"""Groups that the plan cut alike for one pass over their rows (`partition/sweeps.py`).

Each is a generated kernel, or one over rows of few columns (`few_columns.py`); together they are a
family (`row_blocks.py`). Where C has none for one of them, all are lowered by themselves.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from infinitensor.tasking.c.expressions import Unsupported
from infinitensor.tasking.c.few_columns import added_product, multiplied, summed_rows
from infinitensor.tasking.groups.row_blocks import Member, Rows, generated_member, leaving_values

if TYPE_CHECKING:
    from infinitensor.tasking.c.few_columns import RowKernel
    from infinitensor.tasking.graph.lowering import Lowering


def find_swept(lowering: Lowering) -> dict[int, Rows]:
    """Groups that become one family, by the last of them."""
    sweeps: dict[int, list[int]] = {}
    for g, plan in enumerate(lowering.plan.groups):
        if plan.sweep >= 0:
            sweeps.setdefault(plan.sweep, []).append(g)
    if lowering.kind != "cpu" or not lowering.target.compiles:
        return {}
    found = {several[-1]: _rows(lowering, several) for several in sweeps.values()}
    return {last: rows for last, rows in found.items() if rows is not None}


def _rows(lowering: Lowering, several: list[int]) -> Rows | None:
    members = []
    for g in several:
        member = _member(lowering, g)
        if member is None:
            return None
        members.append(member)
    inside = frozenset(value for m in members if not m.ends for value, _ in m.plan.space.outs)
    leaving = leaving_values(lowering, several, inside)
    if leaving is None:
        return None
    first = members[0].plan  # it makes rows, so the first label of what it makes is theirs
    rows = first.space.outs[0][1][0]
    assert rows is not None
    return Rows(members, inside, leaving, (first.cuts[rows],), first.devices)


def _member(lowering: Lowering, g: int) -> Member | None:
    """A group with its kernel; None where C has none."""
    plan, group = lowering.plan.groups[g], lowering.plan.analysed.groups[g]
    node = plan.space.last
    ends = node.op.kind == "reduction" and node.call.form.contracted == (0,)
    if not ends and node.op.kind != "contraction":
        return generated_member(lowering, g)
    try:
        few, ends = _kernel(lowering, g, ends)
    except Unsupported:
        return None
    return Member(g, group, plan, None, few, ends)


def _kernel(lowering: Lowering, g: int, is_sum: bool) -> tuple[RowKernel, bool]:
    """The kernel of a product or a sum, and whether it ends the rows."""
    node = lowering.plan.groups[g].space.last
    dtypes = [lowering.graph.specs[operand.value].dtype for operand in node.operands]
    if is_sum:
        return summed_rows(dtypes[0], node.call.parts[0], node.shapes[0][1]), True
    first, second = node.shapes
    dtype = node.call.outs[0].dtype
    if len(first) == 2 and first[0] > first[1]:  # rows are many, columns are few
        return multiplied(dtypes[0], dtypes[1], dtype, first[1], prod(second[1:])), False
    if len(second) == 1:  # x.T @ v, as v.T @ x
        return added_product(dtypes[1], dtypes[0], dtype, 1, first[0]), True
    return added_product(dtypes[0], dtypes[1], dtype, prod(first[:-1]), second[1]), True
