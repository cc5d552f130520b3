"""Tasks that only copy (copies, joins, writes in place) as calls that C makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from infinitensor.config import config
from infinitensor.ir.call_tables import Calls, InC
from infinitensor.tasking.c.expressions import C_TYPES
from infinitensor.tasking.kernels.c_calls import Mapped
from infinitensor.tasking.kernels.c_kernel import copy_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.call_tables import Operands, StridedArrays
    from infinitensor.ir.graph import Node
    from infinitensor.ir.tasks import Column, TileSet
    from infinitensor.ir.view import Access
    from infinitensor.tasking.graph.lowering import Lowering


class Target(NamedTuple):
    """The place of an operand in the output of each task: a box of it, or of a view of it."""

    boxes: np.ndarray
    starts: np.ndarray
    """The first index of each task's tile."""
    region: Access | None = None

    def of(self, asked: Operands) -> StridedArrays:
        """The place in the one output of each of some tasks."""
        starts, boxes = self.starts[asked.tasks], self.boxes[asked.tasks]
        return asked.outs[0].view(starts, boxes, self.region)


class Copied(InC):
    """Every operand of a family copied to where it belongs in the one output; a call each, but for
    those that a task does not have."""

    def __init__(self, mapped: Mapped, targets: Sequence[Target]) -> None:
        self._mapped = mapped
        self._targets = targets
        # one operand is copied like any other of its dtype, once it is said where
        self.together = mapped.together if len(targets) == 1 else None

    def plain(self, asked: Operands) -> tuple[InC, Operands]:
        """The copy, and where one operand goes."""
        if len(self._targets) > 1:
            return self, asked
        return self._mapped, asked._replace(outs=[self._targets[0].of(asked)])

    def is_due(self, n_tasks: int) -> bool:
        """As of the kernel."""
        return self._mapped.is_due(n_tasks)

    def begin(self) -> None:
        """Start to compile the kernel."""
        self._mapped.begin()

    def calls(self, asked: Operands) -> Calls:
        """The calls of some tasks."""
        found = []
        for operand, target in zip(asked.ins, self._targets, strict=True):
            one = asked._replace(ins=[operand], outs=[target.of(asked)])
            found.append(self._mapped.calls(one))
        if len(found) == 1:
            return found[0]
        each = np.concatenate([calls.tasks for calls in found])
        order = np.argsort(each, kind="stable")
        firsts = np.cumsum([0, *(len(calls.of) for calls in found[:-1])])
        forms = np.concatenate([calls.forms + k for calls, k in zip(found, firsts, strict=True)])
        bases = np.concatenate([calls.bases for calls in found]).reshape(-1, 2)
        offsets = np.concatenate([calls.offsets for calls in found]).reshape(-1, 2)
        return Calls(
            each[order],
            forms[order],
            [form for calls in found for form in calls.of],
            bases[order].reshape(-1),
            offsets[order].reshape(-1),
            np.zeros(0, np.int64),
        )


def copies_in_c(
    lowering: Lowering, node: Node, columns: Sequence[Column], tiles: TileSet, which: np.ndarray
) -> Copied | None:
    """The calls of a copy, or of arrays that are joined; None of any other op."""
    mapped = _copying(lowering, node, tiles.dtype)
    if mapped is None or node.op.name not in ("_copy", "_concatenate"):
        return None
    params = dict(node.call.params)
    targets = []
    for k, column in enumerate(columns):
        boxes = tiles.boxes[which]
        if node.op.name == "_concatenate":
            if column.boxes is None:
                return None
            boxes = column.boxes.copy()
            boxes[:, params["axis"]] += params["starts"][k]
            boxes[column.tiles < 0] = 0
        targets.append(Target(boxes, tiles.boxes[which, :, 0]))
    return Copied(mapped, targets)


def write_in_c(
    lowering: Lowering, node: Node, tiles: TileSet, which: np.ndarray, written: np.ndarray
) -> Copied | None:
    """The calls of a plain write of an array into the tiles of the version before."""
    mapped = _copying(lowering, node, tiles.dtype)
    if mapped is None or (node.region is not None and node.region.part):
        return None
    return Copied(mapped, [Target(written, tiles.boxes[which, :, 0], node.region)])


def _copying(lowering: Lowering, node: Node, dtype: np.dtype[Any]) -> Mapped | None:
    """The call that copies what a node reads, where all of it has the dtype of the tiles."""
    operands = node.operands[1:] if node.op.kind == "update" else node.operands
    is_compiled = lowering.kind == "cpu" and lowering.target.compiles
    if config.compile == "never" or not is_compiled:
        return None
    for operand in operands:
        if operand.value < 0 or lowering.graph.specs[operand.value].dtype != dtype:
            return None
        if operand.access is not None and operand.access.part:
            return None
    return Mapped(copy_kernel(dtype)) if dtype.name in C_TYPES else None
