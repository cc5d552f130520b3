"""Groups of equal kin join a batch while a plan is lowered, and a batch becomes a family."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from infinitensor.tasking.graph.batch import Batch, reads_of

if TYPE_CHECKING:
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.graph.batch import Pattern
    from infinitensor.tasking.graph.lowering import Lowering


def repeat(lowering: Lowering, pattern: Pattern, plan: GroupPlan) -> None:
    """As a group of equal kin before: it joins those that came just before it, if it can."""
    node = plan.space.last
    value = node.outs[0]
    alone = value in lowering.edges.written or (
        value in lowering.in_one_piece and len(pattern.owners) > 1
    )
    batch = lowering.batch
    if (
        batch is None
        or alone
        or not batch.takes(pattern, node.site, reads_of(node.operands, lowering.roots))
    ):
        end_batch(lowering)
        batch = lowering.batch = Batch(pattern, node.site, lowering.n_tiles)
    bases = [o.scalar if o.value < 0 else lowering.first_tile(o) for o in node.operands]
    lowering.first_of[value] = batch.add(value, bases)
    if alone:
        end_batch(lowering)


def end_batch(lowering: Lowering) -> None:
    """The groups that were collected become one family."""
    batch, lowering.batch = lowering.batch, None
    if batch is None:
        return
    pattern, k = batch.pattern, len(batch.values)
    boxes = pattern.boxes if k == 1 else np.tile(pattern.boxes, (k, 1, 1))
    owners = pattern.owners if k == 1 else np.tile(pattern.owners, k)
    lowering.add_tiles(boxes, owners, pattern.dtype, batch.values[0] if k == 1 else -1)
    lowering.edges.of_columns(lowering.add_family(**batch.columns()))
