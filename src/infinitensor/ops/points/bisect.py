"""A tree of rows that are parted in two, again and again: as one task over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import float64, int64
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.points import bisect_triton as on_gpu
from infinitensor.ops.points import centres, lloyd_task
from infinitensor.ops.points.centres_triton import launch, may_launch
from infinitensor.ops.points.lloyd_triton import HAS_EMPTY
from infinitensor.ops.points.seeds import even_draws
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Array = Any

ROOT, NOT_PARTED = -1, -2
"""The number of the node of all rows, and what is said of a split that was not made."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A node that is not parted, its rows (None: all of them), and what it would be chosen by."""

    number: int
    rows: Array | None
    n_rows: int
    score: float


def _kernel(
    xp: Any,
    x: Array,
    shift: Array,
    scale: Array,
    draws: Array,
    tol: Array,
    out: tuple[Array, ...],
    max_iter: int,
    by_size: bool,
) -> None:
    if xp is not np and may_launch(x, shift, scale, draws, tol):

        def run(x: Array, shift: Array, scale: Array, draws: Array, tol: Array, *made: Any) -> None:
            def part(rows: Array, centers: Array, found: tuple[Array, ...]) -> None:
                on_gpu.part_in_two(xp, rows, shift, scale, centers, tol, found, max_iter=max_iter)

            _grow(xp, x, shift, draws, made, by_size, part)

        launch(run, (x, shift, scale, draws, tol), out)
        return

    def part(rows: Array, centers: Array, found: tuple[Array, ...]) -> None:
        lloyd_task._kernel(xp, rows, shift, scale, centers, tol, out=found, max_iter=max_iter)

    _grow(xp, x, shift, draws, out, by_size, part)


def _grow(
    xp: Any,
    x: Array,
    shift: Array,
    draws: Array,
    out: tuple[Array, ...],
    by_size: bool,
    part: Callable[..., None],
) -> None:
    labels, centers, scores, parents = out
    n, d = x.shape
    labels[...], centers[...], scores[...], parents[...] = ROOT, 0, 0, NOT_PARTED
    like = {} if xp is np else {"device": x.device}
    leaves = [_Leaf(ROOT, None, n, 0.0)]
    for step, some in enumerate(np.array(draws.tolist())):
        which = max(range(len(leaves)), key=lambda i: leaves[i].score)
        leaf = leaves[which]
        chosen = even_draws(some, leaf.n_rows)
        if chosen is None:
            return
        rows = x if leaf.rows is None else x[leaf.rows]
        starts = rows[chosen.tolist()] - shift
        kind = {"dtype": x.dtype, **like}
        found = (
            xp.empty((leaf.n_rows,), dtype=xp.int32, **like),
            xp.empty((2, d), **kind),
            xp.empty((2,), dtype=xp.int64, **like),
        )
        part(rows, starts, found)
        if int(found[2][0]) == HAS_EMPTY:
            return
        is_second = found[0] == 1
        far = centres._own_far(xp, rows, shift, found[1], centres._as(xp, found[0], np.int64))
        inertias = [float(xp.where(is_second, 0.0, far).sum()), float((far * is_second).sum())]
        every = xp.arange(n, **like) if leaf.rows is None else leaf.rows
        children = every[~is_second], every[is_second]
        sizes = [len(child) for child in children]
        values = sizes if by_size else inertias
        numbers = 2 * step, 2 * step + 1
        parents[step] = leaf.number
        centers[numbers[0] : numbers[1] + 1] = found[1]
        for side, number in enumerate(numbers):
            scores[number] = values[side]
        leaves[which : which + 1] = [
            _Leaf(number, child, size, float(value))
            for number, child, size, value in zip(numbers, children, sizes, values, strict=True)
        ]
    for leaf in leaves:
        if leaf.rows is not None:
            labels[leaf.rows] = leaf.number


def _scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Of the plain kernel: the rows of a node, and a few copies of them in float64."""
    x, shift, scale, _, tol = ins
    two = Spec((2, x.shape[1]), x.dtype)
    return lloyd_task._scratch((x, shift, scale, two, tol), outs, {}) + _of_nodes(x)


def _scratch_on_gpu(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    if not all(spec.n_elements for spec in ins):
        return _scratch(ins, outs, params)
    x, shift, scale, _, tol = ins
    two = Spec((2, x.shape[1]), x.dtype)
    return lloyd_task._scratch_on_gpu((x, shift, scale, two, tol), outs, params) + _of_nodes(x)


def _of_nodes(x: Spec) -> int:
    """The rows of a node, what is made of them in float64, and the numbers of all rows."""
    n, d = x.shape
    return 2 * x.n_bytes + 8 * n * (3 * d + 12) + 65_536


def _cases(rng: np.random.Generator) -> list[Any]:
    found: list[Any] = []
    for dtype, n, d, k in ((np.float64, 300, 3, 6), (np.float32, 200, 20, 3)):
        x = (rng.normal(size=(n, d)) + 5 * rng.normal(size=(k, d))[rng.integers(0, k, n)]).astype(
            dtype
        )
        scale, tol = np.full(d + 1, 2.0**36), np.array([0.0])
        draws = rng.uniform(size=(k - 1, 2))
        given = (x, x.mean(0, dtype=dtype), scale, draws, tol)
        found += [(given, {"max_iter": 40}), (given, {"max_iter": 1})]
        found += [(given, {"max_iter": 40, "by_size": True})]
    same = np.array([[0.25, 0.25]])  # the same row twice
    return [*found, ((*found[0][0][:3], same, tol), {"max_iter": 5})]


def _oracle(
    x: Any, shift: Any, scale: Any, draws: Any, tol: Any, *, max_iter: int, by_size: bool = False
) -> Any:
    """Node by node, by the oracle of Lloyd's iterations."""
    n, d = x.shape
    labels = np.full(n, ROOT, np.int32)
    centers, scores = np.zeros((2 * len(draws), d), x.dtype), np.zeros(2 * len(draws))
    parents = np.full(len(draws), NOT_PARTED)
    order, rank = [ROOT], {ROOT: 0.0}
    for step, some in enumerate(draws):
        node = max(order, key=lambda one: rank[one])
        inside = np.flatnonzero(labels == node)
        rows = (some * len(inside)).astype(int)
        if rows[0] == rows[1]:
            return np.full(n, ROOT, np.int32), centers, scores, parents
        starts = x[inside[rows]] - shift
        made = lloyd_task._oracle(x[inside], shift, scale, starts, tol, max_iter=max_iter)
        labels[inside] = 2 * step + made[0]
        parents[step] = node
        at = order.index(node)
        order[at : at + 1] = [2 * step, 2 * step + 1]
        for side in (0, 1):
            mine = x[inside[made[0] == side]] - shift
            far = ((mine.astype(float) - made[1][side]) ** 2).sum()
            rank[2 * step + side] = float(len(mine) if by_size else far)
            centers[2 * step + side], scores[2 * step + side] = made[1][side], rank[2 * step + side]
    return labels, centers, scores, parents


@op(
    "mapped",
    kernel=_kernel,
    scratch_bytes=_scratch,
    scratches={"cuda": _scratch_on_gpu},
    cost=4.0,
    cases=_cases,
    oracle=_oracle,
)
def _bisect(
    x: Spec,
    shift: Spec,
    scale: Spec,
    draws: Spec,
    tol: Spec,
    *,
    max_iter: int,
    by_size: bool = False,
) -> Call:
    """The leaf of each row, and of a tree: the centres and scores of nodes, and what was parted.

    Split s parts the leaf of the greatest score (its inertia, or how many rows it has), by Lloyd's
    iterations from the two of its rows that the draws of s give, into nodes 2 s and 2 s + 1. Where
    these draws do not give two rows, or no row has a label, what was parted is said to be -2.
    """
    (n, d), k = x.shape, draws.shape[0]
    form = AxisForm(
        (n, d, 2 * k, k, d + 1, 1, 2),
        ((0, 1), (1,), (4,), (3, 6), (5,)),
        ((0,), (2, 1), (2,), (3,)),
        frozenset(range(7)),
    )
    outs = (
        Spec((n,), np.dtype(np.int32)),
        Spec((2 * k, d), x.dtype),
        Spec((2 * k,), float64),
        Spec((k,), int64),
    )
    return Call(form, outs, (("max_iter", int(max_iter)), ("by_size", bool(by_size))))
