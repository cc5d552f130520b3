"""`xp` for programs and single ops, straight from the table: NumPy arrays in, NumPy arrays out.

`TableXp(step)` runs every op of the table in pieces of `step`; `TableXp(step, "cuda")` runs the
torch form of its kernel, on the GPU if there is one, else on CPU tensors.
Names the table lacks are NumPy's.
"""

from __future__ import annotations

import inspect
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tests.ops.reference import legal_cuts

from infinitensor.dtypes import from_numpy, to_numpy, to_torch
from infinitensor.ir.op import At, Call, Op, Spec
from infinitensor.ops.table.numpy_kernels import lower, lower_finish, lower_partial, merge_tree
from infinitensor.ops.table.registry import TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE = 1 << 40
TORCH_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def spec_of(value: Any) -> Spec:
    """The spec the api would make: Python scalars are weak."""
    if type(value) in (bool, int, float, complex):
        return Spec((), np.asarray(value).dtype, type(value))
    array = np.asarray(value)
    return Spec(array.shape, array.dtype)


def bind(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Call, list[Any]]:
    """The op's call and its array operands, from a user's arguments."""
    bound = inspect.signature(op.rule).bind(*args, **kwargs)
    arrays: list[Any] = []
    for name in op.arrays:
        value = bound.arguments.get(name.lstrip("*"))
        if value is None:
            continue
        if name.startswith("*"):
            arrays += value
            bound.arguments[name[1:]] = tuple(spec_of(v) for v in value)
        else:
            arrays.append(value)
            bound.arguments[name] = spec_of(value)
    return op.rule(*bound.args, **bound.kwargs), arrays


def run(
    op: Op, call: Call, arrays: Sequence[Any], step: int, device: str = "cpu"
) -> tuple[Any, ...]:
    """Outputs of an op computed in pieces of `step` along every label that may be cut."""
    scalars = op.kind in ("creation", "elementwise")  # these get NumPy scalars as they are
    given = [a if scalars and np.ndim(a) == 0 else _to_device(a, device) for a in arrays]
    outs = tuple(_empty(spec.shape, spec.dtype, device) for spec in call.outs)
    borders = [tuple(pairwise(axis)) for axis in legal_cuts(op, call, step)]
    with np.errstate(all="ignore"):
        if op.kind in ("reduction", "contraction"):
            _run_contracted(op, call, given, outs, borders, device)
        else:
            for piece in product(*borders):
                boxes = _boxes(call.form.outputs, piece, outs)
                ins, at = _inputs(op, call, given, piece, boxes)
                lower(op, call, device)(
                    ins, [_cut(o, b) for o, b in zip(outs, boxes, strict=True)], at
                )
    return tuple(o if device == "cpu" else to_numpy(o.cpu()) for o in outs)


def _run_contracted(op: Op, call: Call, arrays: Any, outs: Any, borders: Any, device: str) -> None:
    contracted = call.form.contracted
    kept = [((0, 0),) if i in contracted else axis for i, axis in enumerate(borders)]
    lost = [axis if i in contracted else ((0, 0),) for i, axis in enumerate(borders)]
    xp: Any = np if device == "cpu" else torch
    for keep in product(*kept):
        parts: list[tuple[Any, ...]] = []
        boxes = _boxes(call.form.outputs, keep, outs)
        targets = [_cut(o, b) for o, b in zip(outs, boxes, strict=True)]
        for gone in product(*lost):
            piece = [gone[i] if i in contracted else keep[i] for i in range(len(borders))]
            ins, at = _inputs(op, call, arrays, piece, boxes)
            if op.kind == "reduction":
                made = lower_partial(op, call, device)(ins, at)
                for part, dtype in zip(made, call.parts, strict=False):
                    assert part.dtype == (dtype if device == "cpu" else to_torch(dtype)), op.name
                parts.append(made)
            else:
                tile = _empty(targets[0].shape, call.outs[0].dtype, device)
                lower(op, call, device)(ins, [tile], at)
                parts.append((tile,))
        merged = merge_tree(op, xp, parts)
        if op.kind == "reduction":
            lower_finish(op, call, device)(merged, targets)
        else:
            targets[0][...] = merged[0]


def _to_device(a: Any, device: str) -> Any:
    if not isinstance(a, np.ndarray | np.generic):
        return a
    if device == "cpu":
        return np.asarray(a)
    return from_numpy(np.array(a, order="C")).to(TORCH_DEVICE)


def _empty(shape: Any, dtype: Any, device: str) -> Any:
    return (
        np.empty(shape, dtype)
        if device == "cpu"
        else torch.empty(tuple(shape), dtype=to_torch(dtype), device=TORCH_DEVICE)
    )


def _boxes(outputs: Any, piece: Any, outs: Any) -> list[Any]:
    return [
        tuple(
            (0, n) if label is None else piece[label]
            for label, n in zip(labels, out.shape, strict=True)
        )
        for labels, out in zip(outputs, outs, strict=True)
    ]


def _cut(array: Any, box: Any) -> Any:
    return array[tuple(slice(lo, hi) for lo, hi in box)] if box else array


def _inputs(op: Op, call: Call, arrays: Any, piece: Any, out_boxes: Any) -> tuple[list[Any], At]:
    boxes: list[Any] = []
    if op.need is not None:
        specs = tuple(
            Spec(tuple(a.shape), np.dtype(str(a.dtype).rpartition(".")[2])) for a in arrays
        )
        boxes = list(op.need(out_boxes[0], specs, **dict(call.params)))
    else:
        for i, (labels, a) in enumerate(zip(call.form.inputs, arrays, strict=True)):
            shape = tuple(getattr(a, "shape", ()))
            halo = call.form.halo[i] if call.form.halo else ((0, 0),) * len(shape)
            box = ((0, n) if c is None else piece[c] for c, n in zip(labels, shape, strict=True))
            wide = zip(box, halo, shape, strict=True)
            boxes.append(tuple((max(lo - b, 0), min(hi + f, n)) for (lo, hi), (b, f), n in wide))
    ins = [None if b is None else _cut(a, b) for a, b in zip(arrays, boxes, strict=True)]
    return ins, At(tuple(out_boxes), tuple(boxes))


class TableXp:
    """Every op of the table as a function of NumPy arrays."""

    def __init__(self, step: int = WHOLE, device: str = "cpu") -> None:
        self.step, self.device, self.seed = step, device, 1

    def next_seed(self) -> int:
        self.seed += 1
        return self.seed

    def force(self, t: Any) -> Any:
        return np.asarray(t)

    def mask_values(self, mask: Any) -> None:
        """Masks are counted in tiles."""

    def beside(self, a: Any, make: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return make(shape, dtype)

    def tiered_bytes(self) -> int:
        """There is no lower tier: nothing is too long."""
        return 0

    def device_kind(self) -> str:
        return self.device

    def scratch_bytes(self, name: str, x: Spec, out: Spec | None = None, **params: Any) -> int:
        """There is room for every kernel."""
        return 0

    def is_one_piece(self, name: str, x: Spec) -> bool:
        return False

    def block(self, n: int) -> int:
        return 4

    def n_hands(self, n_bytes: int) -> int:
        """Lines are walked tile by tile."""
        return 0

    def packs(self, n: int) -> bool:
        """What a mask selects is counted, then filled."""
        return False

    def constant(self, values: np.ndarray, near: Any) -> np.ndarray:
        """Nothing is kept."""
        return values

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        op = TABLE[name]
        if op.kind == "program":
            return op.rule(self, *args, **kwargs)
        call, arrays = bind(op, args, kwargs)
        outs = run(op, call, arrays, self.step, self.device)
        for out, spec in zip(outs, call.outs, strict=True):
            assert (out.shape, out.dtype) == (spec.shape, spec.dtype), name
        return outs[0] if len(outs) == 1 else outs

    def __getattr__(self, name: str) -> Any:
        if name not in TABLE or (name in OTHERS):
            return getattr(np, name)
        return lambda *args, **kwargs: self.call(name, *args, **kwargs)


_OTHERS = """
argsort moveaxis diagonal permute_dims concat take broadcast_to broadcast_arrays reshape nonzero
"""
OTHERS = frozenset(_OTHERS.split())
"""Ops of other chapters that programs here use: tests of those are not the matter."""
