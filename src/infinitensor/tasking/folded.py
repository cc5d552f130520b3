"""Groups that end with a reduction and are generated: leaf by leaf, each in one pass."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ops.kernels import lower_finish, merge_tree
from infinitensor.tasking.folds import fold_of, kept_shape, n_folded
from infinitensor.tasking.generate import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.graph import Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.folds import Fold

LEAST_ROW = 16
"""Elements of a row from which reducing it in a loop of its own is worth its beginning and end."""


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Axes of the operand that a reduction does away with."""
    form = node.call.form
    return tuple(a for a, label in enumerate(form.inputs[0]) if label in form.contracted)


def folds_of(nodes: Sequence[Node], sources: Sequence[tuple[str, int]]) -> list[Fold]:
    """The folds of reductions over the same axes; raises Unsupported where there is none."""
    axes = reduced_axes(nodes[0])
    shape = nodes[0].shapes[0]
    is_reduced = [a in axes for a, n in enumerate(shape) if n != 1]
    changes = sum(a != b for a, b in pairwise(is_reduced))
    if not is_reduced or (is_reduced[-1] and changes > 1) or shape[-1] == 1:
        raise Unsupported("reduced axes around kept ones")
    inner = prod(n for a, n in enumerate(shape) if (a in axes) == is_reduced[-1])
    if inner < LEAST_ROW or (not is_reduced[-1] and shape[-1] < LEAST_ROW):
        raise Unsupported("short rows")
    return [fold_of(node, source) for node, source in zip(nodes, sources, strict=True)]


def folded_run(
    generated: Any,
    folds: Sequence[Fold],
    nodes: Sequence[Node],
    plan: GroupPlan,
    boxes: np.ndarray,
    n_extra: int,
    parts_out: bool,
) -> Callable[[list[Any], list[Any], int], None]:
    """`run(ins, outs, i)`: outputs of steps come first, then those of the reductions."""
    axes = reduced_axes(nodes[0])
    finishes = [lower_finish(node.op, node.call, "cpu") for node in nodes]

    def leaf(ins: list[Any], kept: list[Any], shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """One leaf: the partial results of every reduction."""
        left = kept_shape(shape, axes)
        made = [tuple(np.empty(left, fold.dtype) for _ in range(fold.n_parts)) for fold in folds]
        generated(ins, [*kept, *(part for parts in made for part in parts)], shape)
        count = np.full(left, n_folded(shape, axes), np.int64)
        return [
            (count, *parts) if fold.kind == "moments" else parts
            for fold, parts in zip(folds, made, strict=True)
        ]

    def by_leaf(
        ins: list[Any], kept: list[Any], shape: tuple[int, ...], depth: int
    ) -> list[tuple[Any, ...]]:
        if depth == len(plan.leaves):
            return leaf(ins, kept, shape)
        axis, length = plan.leaves[depth]
        n = shape[axis]
        if n <= length:
            return by_leaf(ins, kept, shape, depth + 1)
        pieces = []
        for lo in range(0, n, length):
            hi = min(lo + length, n)
            some = [_piece(x, axis - len(shape), lo, hi) for x in ins]
            out = [_piece(x, axis - len(shape), lo, hi) for x in kept]
            pieces.append(
                by_leaf(some, out, (*shape[:axis], hi - lo, *shape[axis + 1 :]), depth + 1)
            )
        return [
            merge_tree(node.op, np, [piece[j] for piece in pieces]) for j, node in enumerate(nodes)
        ]

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        shape = tuple([hi - lo for lo, hi in boxes[i].tolist()])
        found = by_leaf(ins, outs[:n_extra], shape, 0)
        targets = outs[n_extra:]
        for node, parts, finish in zip(nodes, found, finishes, strict=True):
            n = len(parts) if parts_out else len(node.outs)
            if parts_out:
                for part, out in zip(parts, targets[:n], strict=True):
                    out[...] = part
            else:
                finish(parts, targets[:n])
            targets = targets[n:]

    return run


def _piece(x: Any, axis: int, lo: int, hi: int) -> Any:
    """A part along an axis counted from the last, of operands that have it."""
    if not isinstance(x, np.ndarray) or -axis > x.ndim or x.shape[axis] == 1:
        return x
    index: tuple[Any, ...] = (..., slice(lo, hi), *(slice(None),) * (-axis - 1))
    return x[index]
