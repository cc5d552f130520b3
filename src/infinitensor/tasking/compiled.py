"""A group's steps as generated C: which arrays and scalars a call of it gets."""

from __future__ import annotations

import ctypes
import struct
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.native import library
from infinitensor.tasking.loops import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.tasking.folds import Fold
    from infinitensor.tasking.generate import Input, Part


def compiled_kernel(
    parts: Sequence[Part],
    inputs: Sequence[Input],
    n_outs: int,
    folds: Sequence[Fold] = (),
    axes: tuple[int, ...] = (),
) -> Callable[[Sequence[Any], Sequence[Any], tuple[int, ...]], None]:
    """`run(ins, outs, shape)`: the steps of a group in one pass; compiled at its first call.

    Behind the outputs come the partial results of `folds`, without the reduced `axes`.
    """
    source = source_of(parts, inputs, n_outs, folds)
    scalars = [k for k, given in enumerate(inputs) if given.scalar]
    packer = struct.Struct("".join("d" if inputs[k].dtype.kind == "f" else "q" for k in scalars))
    wide = [k for k in scalars if inputs[k].dtype == "uint64"]
    arrays = [k for k, given in enumerate(inputs) if not given.scalar]
    n_plain = len(arrays) + n_outs
    keeps_last = bool(folds) or any(given.row for given in inputs)
    shapes: dict[Any, Any] = {}

    def run(ins: Sequence[Any], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
        function = entry(source)
        tiles = [np.asarray(ins[k]) for k in arrays]  # an element of an array has no address
        tiles += outs
        key = (shape, *[(tile.shape, tile.strides) for tile in tiles])
        walk = shapes.get(key)
        if walk is None:
            if len(shapes) > 64:
                shapes.clear()
            walk = shapes[key] = Walk(shape, tiles, keeps_last, axes, n_plain)
        for k in walk.scattered:
            tiles[k] = np.ascontiguousarray(tiles[k])
        values = [ins[k] for k in scalars]
        for k in wide:
            at = scalars.index(k)
            values[at] = int(values[at]) - (int(values[at]) >> 63 << 64)
        pointers = (ctypes.c_void_p * len(tiles))(
            *[tile.__array_interface__["data"][0] for tile in tiles]
        )
        function(
            walk.n_rows, walk.n, walk.n_outer, walk.shape, pointers, walk.steps,
            packer.pack(*[v.item() if hasattr(v, "item") else v for v in values]),
            walk.folded, walk.n_same,
        )  # fmt: skip
        for k in walk.scattered:
            if k >= len(arrays):
                np.copyto(outs[k - len(arrays)], tiles[k])

    return run


def entry(source: str) -> Any:
    """The one function of a generated source."""
    run = library(source).run
    if run.argtypes is None:
        run.restype = None
        run.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 5 + [ctypes.c_int64]
    return run


class Walk:
    """How a shape is walked over arrays: the last axis inside, neighbours that lie alike as one.

    With reduced axes the walk is the same for every tile of a shape, because it decides the order
    of rounding: neighbours are one wherever operands could lie alike, and those that do not
    (`scattered`) are brought together first.
    """

    __slots__ = ("folded", "n", "n_outer", "n_rows", "n_same", "scattered", "shape", "steps")

    def __init__(
        self,
        shape: tuple[int, ...],
        tiles: Sequence[Any],
        keeps_last: bool,
        axes: tuple[int, ...],
        n_plain: int,
    ) -> None:
        last = len(shape) - 1
        walked = [a for a, n in enumerate(shape) if n != 1 or (a == last and keeps_last)]
        self.scattered: list[int] = []
        strides = [
            _strides(tile, len(shape), axes if k >= n_plain else ()) for k, tile in enumerate(tiles)
        ]
        if axes:
            for k, tile in enumerate(tiles[:n_plain]):
                if not _is_mergeable(strides[k], shape, walked, axes):
                    self.scattered.append(k)
                    strides[k] = _strides(np.empty(tile.shape, np.bool_), len(shape), ())
                    strides[k] = [s * tile.itemsize for s in strides[k]]
        merged: list[tuple[int, list[int], bool]] = []
        for a in reversed(walked):
            outer = [s[a] for s in strides]
            if merged and merged[-1][2] == (a in axes):
                n, inner, _ = merged[-1]
                if all(s == t * n for s, t in zip(outer, inner, strict=True)) and any(inner):
                    merged[-1] = (shape[a] * n, inner, a in axes)
                    continue
            merged.append((shape[a], outer, a in axes))
        if not merged:
            merged.append((1, [0] * len(tiles), False))
        merged.reverse()
        self.n = merged[-1][0]
        self.n_outer = len(merged) - 1
        lengths = [n for n, _, _ in merged[:-1]]
        self.n_rows = prod(lengths)
        self.n_same = 1
        for n, _, is_folded in reversed(merged[:-1]):
            if not is_folded:
                break
            self.n_same *= n
        steps = [s for _, strides, _ in merged for s in strides]
        self.shape = (ctypes.c_int64 * max(len(lengths), 1))(*lengths)
        self.folded = (ctypes.c_int64 * max(len(lengths), 1))(*[f for _, _, f in merged[:-1]])
        self.steps = (ctypes.c_int64 * len(steps))(*steps)


def _strides(tile: Any, ndim: int, axes: tuple[int, ...]) -> list[int]:
    """The step along each axis of a shape: 0 where one value stands for all, or is reduced to."""
    kept = [a for a in range(ndim) if a not in axes]
    found = [0] * ndim
    for axis, n, stride in zip(
        reversed(kept), reversed(tile.shape), reversed(tile.strides), strict=False
    ):
        found[axis] = int(stride) if n != 1 else 0
    return found


def _is_mergeable(
    strides: list[int], shape: tuple[int, ...], walked: list[int], axes: tuple[int, ...]
) -> bool:
    """Whether neighbouring axes that an array has both or neither of can be walked as one."""
    return all(
        (a in axes) != (b in axes)
        or (strides[a] == 0) != (strides[b] == 0)
        or strides[a] == strides[b] * shape[b]
        for a, b in pairwise(walked)
    )
