"""A group's steps as generated C: which arrays and scalars a call of it gets."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from infinitensor.native import library
from infinitensor.tasking.generate import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.tasking.generate import Input, Part


def compiled_kernel(
    parts: Sequence[Part], inputs: Sequence[Input], n_outs: int
) -> Callable[[Sequence[Any], Sequence[Any], tuple[int, ...]], None]:
    """`run(ins, outs, shape)`: the steps of a group in one pass; compiled at its first call."""
    source = source_of(parts, inputs, n_outs)
    scalars = [k for k, given in enumerate(inputs) if given.scalar]
    packer = struct.Struct("".join("d" if inputs[k].dtype.kind == "f" else "q" for k in scalars))
    wide = [k for k in scalars if inputs[k].dtype == "uint64"]
    arrays = [k for k, given in enumerate(inputs) if not given.scalar]
    has_rows = any(given.row for given in inputs)
    shapes: dict[Any, Any] = {}

    def run(ins: Sequence[Any], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
        function = entry(source)
        tiles = [ins[k] for k in arrays]
        tiles += outs
        key = (shape, *[(tile.shape, tile.strides) for tile in tiles])
        walk = shapes.get(key)
        if walk is None:
            if len(shapes) > 64:
                shapes.clear()
            walk = shapes[key] = Walk(shape, tiles, has_rows)
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
        )  # fmt: skip

    return run


def entry(source: str) -> Any:
    """The one function of a generated source."""
    run = library(source).run
    if run.argtypes is None:
        run.restype = None
        run.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 4
    return run


class Walk:
    """How a shape is walked over arrays: the last axis inside, neighbours that lie alike as one."""

    __slots__ = ("n", "n_outer", "n_rows", "shape", "steps")

    def __init__(self, shape: tuple[int, ...], tiles: Sequence[Any], has_rows: bool) -> None:
        last = len(shape) - 1
        axes = [
            (n, [_stride(tile, axis - len(shape)) for tile in tiles])
            for axis, n in enumerate(shape)
            if n != 1 or (axis == last and has_rows)
        ] or [(1, [0] * len(tiles))]
        merged = [axes[-1]]
        for n, strides in reversed(axes[:-1]):
            inner_n, inner = merged[-1]
            if all(s == t * inner_n for s, t in zip(strides, inner, strict=True)) and any(inner):
                merged[-1] = (n * inner_n, inner)
            else:
                merged.append((n, strides))
        merged.reverse()
        self.n = merged[-1][0]
        self.n_outer = len(merged) - 1
        self.n_rows = 1
        for n, _ in merged[:-1]:
            self.n_rows *= n
        lengths = [n for n, _ in merged[:-1]]
        steps = [s for _, strides in merged for s in strides]
        self.shape = (ctypes.c_int64 * max(len(lengths), 1))(*lengths)
        self.steps = (ctypes.c_int64 * len(steps))(*steps)


def _stride(tile: Any, axis: int) -> int:
    """The step of an axis counted from the last; 0 where one value stands for all."""
    if -axis > tile.ndim or tile.shape[axis] == 1:
        return 0
    return int(tile.strides[axis])
