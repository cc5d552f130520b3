"""Ops on whole NumPy arrays, at once: the kernels that tasks run, on one tile."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager import numpy_loops
from infinitensor.ir.op import At, Spec
from infinitensor.ir.region import whole_box
from infinitensor.ops import TABLE
from infinitensor.ops.table.numpy_kernels import lower, lower_finish, lower_partial
from infinitensor.ops.table.scalar import Arg, Term
from infinitensor.ops.table.words import EAGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.op import Call, Op

SELECT = "_mask_select"
_small: dict[int, tuple[Call, Callable[..., list[Any]]]] = {}


def small_kernel(op: Op, call: Call) -> Callable[..., list[Any]]:
    """The op on whole NumPy arrays: takes operands, and outputs too if they are there already."""
    found = _small.get(id(call))
    if found is not None and found[0] is call:
        return found[1]
    shapes = [spec.shape for spec in call.outs]
    dtypes = [spec.dtype for spec in call.outs]

    def blank() -> list[np.ndarray]:
        return [np.empty(s, d) for s, d in zip(shapes, dtypes, strict=True)]

    def are_new(parts: Any) -> bool:
        """Whether partial results are the outputs, as they are."""
        return all(
            type(x) is np.ndarray and x.shape == s and x.dtype == d and x.flags.owndata
            for x, s, d in zip(parts, shapes, dtypes, strict=True)
        )

    if op.kind == "reduction":
        partial = lower_partial(op, call, "cpu")
        finish = lower_finish(op, call, "cpu")

        places: list[At] = []

        def run(ins: list[Any], outs: list[Any] | None = None) -> list[Any]:
            if not places:  # the shapes of operands belong to the call
                boxes = tuple(whole_box(np.shape(x)) for x in ins)
                places.append(At(tuple(map(whole_box, shapes)), boxes))
            parts = partial(ins, places[0])
            if outs is None and op.finish is None and are_new(parts):
                return list(parts)
            outs = outs or blank()
            finish(parts, outs)
            return outs
    elif op.kind == "elementwise":
        kernel = lower(op, call, "cpu")
        word = _ufunc_of(op.expression)

        def run(ins: list[Any], outs: list[Any] | None = None) -> list[Any]:
            outs = outs or [np.empty(shapes[0], dtypes[0])]
            is_done = False
            if word is not None and outs[0].size >= numpy_loops.LEAST_SHARED_ELEMENTS:
                is_done = numpy_loops.into(word, outs[0], *ins)
            if not is_done:
                kernel(ins, outs, None)
            return outs
    else:
        kernel = lower(op, call, "cpu")
        wholes: list[At] = []
        is_whole = op.need is None or (op.moves and all(map(prod, shapes)))

        def run(ins: list[Any], outs: list[Any] | None = None) -> list[Any]:
            outs = outs or blank()
            if (
                op.name == SELECT
                and ins[1].size >= numpy_loops.LEAST_SHARED_ELEMENTS
                and numpy_loops.choose(*ins[::-1], *outs)
            ):
                return outs
            if is_whole and wholes:  # the shapes of operands belong to the call
                kernel(ins, outs, wholes[0])
                return outs
            boxes: tuple[Any, ...] = tuple(whole_box(np.shape(x)) for x in ins)
            if op.need is not None and not is_whole:
                specs = tuple(Spec(np.shape(x), np.asarray(x).dtype) for x in ins)
                boxes = op.need(whole_box(shapes[0]), specs, **dict(call.params))
                ins = [
                    None if box is None else x[tuple(slice(lo, hi) for lo, hi in box)] if box else x
                    for x, box in zip(ins, boxes, strict=True)
                ]
            at = At(tuple(map(whole_box, shapes)), boxes)
            if is_whole:
                wholes.append(at)
            kernel(ins, outs, at)
            return outs

    if len(_small) > 4096:
        _small.clear()
    _small[id(call)] = (call, run)
    return run


def _ufunc_of(tree: Any) -> np.ufunc | None:
    """The ufunc that is all of an expression."""
    word = EAGER["cpu"].get(tree.word) if isinstance(tree, Term) else None
    is_all = word is not None and tree.args == tuple(map(Arg, range(len(tree.args))))
    return word if is_all and isinstance(word, np.ufunc) else None


@lru_cache(4096)
def _kernel(name: str, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    op = TABLE[name]
    specs = [Spec(shape, dtype) for shape, dtype in operands]
    return small_kernel(op, op.rule(*specs, **dict(params)))


def at_once(name: str, *arrays: np.ndarray, **params: Any) -> Any:
    """The result of an op of the table for few values on the host: an array, or several.

    For those who know that values are few, and call it many times: nothing is looked at, recorded
    or made a tensor of.
    """
    operands = tuple([(x.shape, x.dtype) for x in arrays])
    with np.errstate(all="ignore"):
        made = _kernel(name, operands, tuple(params.items()))(list(arrays))
    return made[0] if len(made) == 1 else tuple(made)
