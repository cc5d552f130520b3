"""Groups that end with a reduction and are generated: leaf by leaf, each in one pass."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from infinitensor.ir.region import piece_boxes
from infinitensor.ops.forms.fold_order import LEAST_ROW, is_short, line_axes
from infinitensor.ops.table.numpy_kernels import lower_finish
from infinitensor.tasking.c.expressions import Unsupported
from infinitensor.tasking.c.fold_loops import (
    across_fold,
    ending_fold,
    fold_of,
    is_result,
    kept_shape,
)
from infinitensor.tasking.kernels.c_calls import Folded, reduced
from infinitensor.tasking.kernels.thread_scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.graph import Node
    from infinitensor.ir.plan import GroupPlan
    from infinitensor.tasking.c.fold_loops import Fold
    from infinitensor.tasking.kernels.c_calls import Mapped
    from infinitensor.tasking.kernels.work_left import WorkLeft

    Partial: TypeAlias = tuple[Any, ...]
    """The partial results of one reduction."""


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Axes of the operand that a reduction does away with, counted from the last (-1)."""
    form = node.call.form
    labels = form.inputs[0]
    return tuple(a - len(labels) for a, label in enumerate(labels) if label in form.contracted)


def folds_of(
    nodes: Sequence[Node], sources: Sequence[tuple[str, int]], whole: bool = False
) -> list[Fold]:
    """The folds of reductions over the same axes; raises Unsupported where there is none.

    Those of `whole` rows write results where they can.
    """
    shape = nodes[0].shapes[0]
    axes = reduced_axes(nodes[0])
    line = line_axes(shape, axes)
    inner, n = line[-1], prod(shape[a] for a in line) if axes else 1
    if n == 1:
        raise Unsupported("nothing to reduce")
    together = prod(shape[a] for a in axes) if inner in axes else n
    is_few = together < LEAST_ROW
    if is_few and not is_short(shape, axes):
        raise Unsupported("short rows")
    folds = [fold_of(node, source, inner) for node, source in zip(nodes, sources, strict=True)]
    if whole and axes == (-1,) and inner == -1:
        return [ending_fold(fold, node) for fold, node in zip(folds, nodes, strict=True)]
    return list(map(across_fold, folds)) if whole and inner not in axes else folds


def is_whole(node: Node, plan: GroupPlan, parts_out: bool) -> bool:
    """Whether what becomes one element is reduced by one task, and in one leaf."""
    return not parts_out and all(length >= node.shapes[0][axis] for axis, length in plan.leaves)


def folds_alone(nodes: Sequence[Node], whole: bool = False) -> list[Fold]:
    """The folds of reductions of one operand, as it is stored; none where C cannot do them."""
    try:
        return folds_of(nodes, [("in", 0)] * len(nodes), whole)
    except Unsupported:
        return []


def folded_run(
    generated: Any,
    folds: Sequence[Fold],
    nodes: Sequence[Node],
    plan: GroupPlan,
    boxes: np.ndarray,
    n_extra: int,
    parts_out: bool,
) -> Callable[[list[Any], list[Any], int], None]:
    """`run(ins, outs, i)`: outputs of steps come first, then those of the reductions.

    Leaves are reduced each by itself and merged in pairs: bits do not depend on tiles.
    """
    axes = reduced_axes(nodes[0])
    finishes = [lower_finish(node.op, node.call, "cpu") for node in nodes]
    is_along = generated.inner in axes
    is_end = [
        is_along and not parts_out and is_result(*both) for both in zip(folds, nodes, strict=True)
    ]
    at_once = _in_one_leaf(generated, folds, axes, is_end)
    by_leaf = _leaf_by_leaf(_leaves_together(generated, folds, axes), nodes, plan, boxes.shape[1])

    def run(ins: list[Any], outs: list[Any], i: int) -> None:
        shape = tuple([hi - lo for lo, hi in boxes[i].tolist()])
        kept, targets = outs[:n_extra], outs[n_extra:]
        is_direct = is_along and all(shape[axis] <= length for axis, length in plan.leaves)
        found = at_once(ins, kept, shape, targets) if is_direct else by_leaf(ins, kept, shape, 0)
        for j, (node, parts) in enumerate(zip(nodes, found, strict=True)):
            if folds[j].finds:
                np.add(parts[-1], boxes[i][axes[0]][0], out=parts[-1])
            n = len(parts) if parts_out else len(node.outs)
            if parts_out:
                for part, out in zip(parts, targets[:n], strict=True):
                    out[...] = part
            elif folds[j].end == "place":
                targets[0][...] = parts[0].reshape(targets[0].shape)
            elif not (is_direct and is_end[j]):
                finishes[j](parts, targets[:n])
            targets = targets[n:]

    return run


def _in_one_leaf(
    generated: Any, folds: Sequence[Fold], axes: tuple[int, ...], is_end: Sequence[bool]
) -> Callable[[list[Any], list[Any], tuple[int, ...], list[Any]], list[Partial]]:
    """`at_once(ins, kept, shape, targets)`: the partial results of every reduction of a box that no
    leaf cuts, in scratch arrays of this thread. The last is the result itself, and is where that
    goes, of reductions that end so (`is_end`).
    """

    def at_once(
        ins: list[Any], kept: list[Any], shape: tuple[int, ...], targets: list[Any]
    ) -> list[Partial]:
        own = kept_shape(shape, axes)
        registers = iter(range(-1, -3 * len(folds) - 1, -1))
        made = []
        for j, fold in enumerate(folds):
            beside = fold.parts[: len(fold.parts) - is_end[j]]
            parts = [scratch(next(registers), own, dtype) for dtype in beside]
            made.append((*parts, *([targets[j].reshape(own)] if is_end[j] else [])))
        generated(ins, [*kept, *(part for parts in made for part in parts)], shape)
        return made

    return at_once


def _leaves_together(
    generated: Any, folds: Sequence[Fold], axes: tuple[int, ...]
) -> Callable[[list[Any], list[Any], tuple[int, ...]], list[Partial]]:
    """`leaves(ins, kept, shape)`: the partial results of every reduction in new arrays, of leaves
    of one length together, which are along axes in front."""

    def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Partial results, side by side along the inner axis."""
        order = [a for a in range(-len(shape), 0) if a not in axes and a != generated.inner]
        if generated.inner in axes:
            return np.empty([shape[a] for a in order], dtype)
        partials = np.empty([shape[a] for a in (*order, generated.inner)], dtype)
        return np.moveaxis(partials, -1, sum(a < generated.inner for a in order))

    def leaves(ins: list[Any], kept: list[Any], shape: tuple[int, ...]) -> list[Partial]:
        made: list[Partial] = [tuple(empty(shape, dtype) for dtype in fold.parts) for fold in folds]
        generated(ins, [*kept, *(part for parts in made for part in parts)], shape)
        return made

    return leaves


def _leaf_by_leaf(
    leaves: Callable[[list[Any], list[Any], tuple[int, ...]], list[Partial]],
    nodes: Sequence[Node],
    plan: GroupPlan,
    ndim: int,
) -> Callable[[list[Any], list[Any], tuple[int, ...], int], list[Partial]]:
    """`by_leaf(ins, kept, shape, depth)`: the partial results of every reduction of a box, merged.

    Axes before `depth` are cut already. Along each other the full leaves are computed together, and
    what is left by itself.
    """

    def by_leaf(
        ins: list[Any], kept: list[Any], shape: tuple[int, ...], depth: int
    ) -> list[Partial]:
        if depth == len(plan.leaves):
            return leaves(ins, kept, shape)
        axis, length = plan.leaves[depth][0] - ndim, plan.leaves[depth][1]
        n = shape[axis]
        if n <= length:
            return by_leaf(ins, kept, shape, depth + 1)
        end = n - n % length
        found = []
        for lo, hi, some in ((0, end, length), (end, n, n - end)):
            if lo < hi:
                reads, writes = (
                    [_leaves(x, shape, axis, lo, hi, some) for x in xs] for xs in (ins, kept)
                )
                into = (*shape[:axis], some, *shape[axis:][1:])
                found.append(by_leaf(reads, writes, ((hi - lo) // some, *into), depth + 1))
        return [
            merge_pairwise(node, *(several[j] for several in found)) for j, node in enumerate(nodes)
        ]

    return by_leaf


def reduced_in_c(
    generated: Any,
    nodes: Sequence[Node],
    plan: GroupPlan,
    parts_out: bool,
    left: WorkLeft | None = None,
) -> Mapped | None:
    """The same as a call that C makes: to partial results, or where folds write the results, of
    tasks that no leaf cuts."""
    folds, shape = generated.folds, nodes[0].shapes[0]
    if not parts_out and not all(map(is_result, folds, nodes)):
        return None
    is_rows = reduced_axes(nodes[0]) == (-1,) and generated.inner == -1
    if is_rows and is_whole(nodes[0], plan, parts_out):
        return reduced(generated, len(shape), shape[-1], left)
    if not is_called(folds, nodes[0], plan):
        return None
    return Folded(generated, _lengths(nodes[0], plan), left)


def is_called(folds: Sequence[Fold], node: Node, plan: GroupPlan) -> bool:
    """Whether each task of a reduction is one call that C makes: of a box that no leaf cuts."""
    lengths = _lengths(node, plan)
    is_cut = any((lengths[:, axis] > length).any() for axis, length in plan.leaves)
    return not is_cut and bool(lengths.all()) and all(fold.end for fold in folds if fold.finds)


def _lengths(node: Node, plan: GroupPlan) -> np.ndarray:
    """The lengths of the box that each task reduces."""
    boxes = piece_boxes(plan.cuts, node.call.form.inputs[0], ())
    lengths: np.ndarray = boxes[:, :, 1] - boxes[:, :, 0]
    return lengths


def _leaves(x: Any, shape: tuple[int, ...], axis: int, lo: int, hi: int, length: int) -> Any:
    """A part of an operand of a shape along an axis (counted from the last), its leaves along a new
    axis in front; an operand that has not this axis is the same for all."""
    if not isinstance(x, np.ndarray) or -axis > x.ndim or x.shape[axis] == 1:
        return x
    at = len(shape) + axis
    x = x.reshape((1,) * (len(shape) - x.ndim) + x.shape)
    part = x[(slice(None),) * at + (slice(lo, hi),)]
    parted = part.reshape(*x.shape[:at], (hi - lo) // length, length, *x.shape[at + 1 :])
    return parted.transpose(at, *range(at), *range(at + 1, len(shape) + 1))


def merge_pairwise(node: Node, *several: tuple[Any, ...]) -> tuple[Any, ...]:
    """Partial results along the first axis, neighbours merged pairwise until one is left: as
    `merge_tree`, a level at a time."""
    combine = node.op.combine
    assert combine is not None
    parts = several[0]
    if len(several) > 1:
        parts = tuple(np.concatenate(both) for both in zip(*several, strict=True))
    while (n := len(parts[0])) > 1:
        pairs = combine.merge(
            np, tuple(part[: n - 1 : 2] for part in parts), tuple(part[1::2] for part in parts)
        )
        if n % 2:
            pairs = tuple(
                np.concatenate([both, part[-1:]]) for both, part in zip(pairs, parts, strict=True)
            )
        parts = pairs
    return tuple(part[0] for part in parts)
