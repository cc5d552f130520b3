"""The oracle of cutting: runs an op tile by tile, serially, in plain NumPy, from its entry.

It shares no code with the pipeline, so both can be held against it and against NumPy.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.op import At
from infinitensor.ops.table.numpy_kernels import lower, lower_finish, lower_partial, merge_tree
from infinitensor.ops.table.registry import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import Call, Op


def legal_cuts(op: Op, call: Call, step: int) -> tuple[tuple[int, ...], ...]:
    """Borders by `step`; uncut labels, and contracted ones without a combine, stay whole."""
    borders = []
    for label, size in enumerate(call.form.sizes):
        whole = label in call.form.uncut or (
            label in call.form.contracted and op.combine is None and op.kind != "contraction"
        )
        piece = max(size, 1) if whole or op.whole else step
        borders.append((*range(0, size, piece), size) if size else (0, 0))
    return tuple(borders)


def run_cut(name: str, arrays: Sequence[Any], call: Call, step: int) -> tuple[np.ndarray, ...]:
    """Outputs of an op computed in pieces of `step` along every label that may be cut."""
    op = TABLE[name]
    borders = legal_cuts(op, call, step)
    outs = tuple(np.empty(spec.shape, spec.dtype) for spec in call.outs)
    with np.errstate(all="ignore"):
        if op.kind in ("reduction", "contraction"):
            _run_contracted(op, call, arrays, outs, borders)
        else:
            for piece in product(*(tuple(pairwise(axis)) for axis in borders)):
                _run_tile(op, call, arrays, outs, piece)
    return outs


def _box(labels: Any, piece: Any, shape: Sequence[int]) -> Any:
    return tuple(
        (0, n) if label is None else piece[label] for label, n in zip(labels, shape, strict=True)
    )


def _cut(array: Any, box: Any) -> Any:
    return array[tuple(slice(lo, hi) for lo, hi in box)] if box else array


def _inputs(op: Op, call: Call, arrays: Sequence[Any], piece: Any, out_box: Any) -> tuple[Any, Any]:
    from infinitensor.ir.op import Spec

    if op.need is not None:
        specs = tuple(Spec(np.shape(a), np.asarray(a).dtype) for a in arrays)
        boxes = op.need(out_box, specs, **dict(call.params))
    else:
        boxes = tuple(
            _widen(_box(labels, piece, np.shape(a)), call.form.halo, i, np.shape(a))
            for i, (labels, a) in enumerate(zip(call.form.inputs, arrays, strict=True))
        )
    return [None if b is None else _cut(a, b) for a, b in zip(arrays, boxes, strict=True)], boxes


def _widen(box: Any, halo: Any, i: int, shape: Sequence[int]) -> Any:
    if not halo or not halo[i]:
        return box
    return tuple(
        (max(lo - b, 0), min(hi + a, n))
        for (lo, hi), (b, a), n in zip(box, halo[i], shape, strict=True)
    )


def _run_tile(op: Op, call: Call, arrays: Any, outs: Any, piece: Any) -> None:
    boxes = [
        _box(labels, piece, out.shape) for labels, out in zip(call.form.outputs, outs, strict=True)
    ]
    ins, in_boxes = _inputs(op, call, arrays, piece, boxes[0])
    tiles = [np.empty_like(_cut(out, box)) for out, box in zip(outs, boxes, strict=True)]
    lower(op, call, "cpu")(ins, tiles, At(tuple(boxes), tuple(in_boxes)))
    for out, box, tile in zip(outs, boxes, tiles, strict=True):
        out[tuple(slice(lo, hi) for lo, hi in box)] = tile


def _run_contracted(op: Op, call: Call, arrays: Any, outs: Any, borders: Any) -> None:
    contracted = call.form.contracted
    kept = [
        tuple(pairwise(axis)) if i not in contracted else ((0, 0),)
        for i, axis in enumerate(borders)
    ]
    cut = [
        tuple(pairwise(axis)) if i in contracted else ((0, 0),) for i, axis in enumerate(borders)
    ]
    for keep in product(*kept):
        parts = []
        for lost in product(*cut):
            piece = tuple(lost[i] if i in contracted else keep[i] for i in range(len(borders)))
            boxes = [
                _box(labels, piece, out.shape)
                for labels, out in zip(call.form.outputs, outs, strict=True)
            ]
            ins, in_boxes = _inputs(op, call, arrays, piece, boxes[0])
            at = At(tuple(boxes), tuple(in_boxes))
            if op.kind == "reduction":
                parts.append(lower_partial(op, call, "cpu")(ins, at))
            else:
                tile = np.empty_like(_cut(outs[0], boxes[0]))
                lower(op, call, "cpu")(ins, [tile], at)
                parts.append((tile,))
        tiles = [np.empty_like(_cut(out, box)) for out, box in zip(outs, boxes, strict=True)]
        if op.kind == "reduction":
            lower_finish(op, call, "cpu")(merge_tree(op, np, parts), tiles)
        else:
            tiles = [sum((p[0] for p in parts[1:]), parts[0][0])]
        for out, box, tile in zip(outs, boxes, tiles, strict=True):
            out[tuple(slice(lo, hi) for lo, hi in box)] = tile
