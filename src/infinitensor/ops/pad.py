"""Borders around an array."""

from __future__ import annotations

from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.gather import along, gather_form, is_empty
from infinitensor.ops.registry import op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box

    Axes = int | tuple[int, ...] | None


def _pad_need(
    box: Box, specs: Sequence[Spec], *, before: tuple[int, ...]
) -> tuple[Box | None, ...]:
    part = tuple(
        (max(lo - b, 0), min(hi - b, n))
        for (lo, hi), b, n in zip(box, before, specs[0].shape, strict=True)
    )
    return (None if is_empty(part) else part, ())


def _pad_kernel(xp: Any, x: Any, fill: Any, out: Any, at: At, before: tuple[int, ...]) -> None:
    box, source = at.outputs[0], at.inputs[0]
    if isinstance(fill, np.generic | np.ndarray) and xp is not np:
        fill = fill.item()  # torch takes no NumPy scalars
    if x is None or source is None:
        out[...] = fill
        return
    if tuple(x.shape) != tuple(out.shape):
        out[...] = fill
    inner = tuple(
        slice(lo + b - start, hi + b - start)
        for (lo, hi), b, (start, _) in zip(source, before, box, strict=True)
    )
    out[inner] = x


def _pad_oracle(x: Any, fill: Any, widths: Any) -> Any:
    return np.pad(x, widths, constant_values=fill)


@op(
    "_pad",
    "gather",
    "x fill",
    kernel=_pad_kernel,
    need=_pad_need,
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), 2.5, ((1, 2), (0, 3))), {}),
        ((rng.integers(0, 9, (3,)), 7, ((10, 0),)), {}),
        ((rng.standard_normal((0, 4)), 1.0, ((2, 0), (0, 0))), {}),
    ],
    oracle=_pad_oracle,
    same="equal",
)
def _pad(x: Spec, fill: Spec, widths: tuple[tuple[int, int], ...]) -> Call:
    """x with a border of the value `fill`."""
    shape = tuple(b + n + a for n, (b, a) in zip(x.shape, widths, strict=True))
    before = tuple(b for b, _ in widths)
    return call(gather_form((x, fill), shape), Spec(shape, x.dtype), before=before)


def _pairs(name: str, given: Any, ndim: int) -> tuple[tuple[Any, Any], ...]:
    """NumPy's shorthand: one value, one (before, after) pair, or a pair for each axis."""
    if isinstance(given, dict):
        full: list[tuple[Any, Any]] = [(0, 0)] * ndim
        for axis, width in given.items():
            where = normalize_axis_index(axis, ndim, name)
            full[where] = (width, width) if isinstance(width, int) else tuple(width)
        return tuple(full)
    pairs = np.broadcast_to(np.asarray(given), (ndim, 2))
    return tuple((b, a) for b, a in pairs.tolist())


def _reflected(n: int, index: np.ndarray[Any, Any], *, edge_twice: bool) -> np.ndarray[Any, Any]:
    """Where an index outside 0..n-1 lies after reflection at the ends, as often as needed."""
    if n == 1:
        return np.zeros_like(index)
    period = 2 * n if edge_twice else 2 * n - 2
    index = index % period
    return np.where(index < n, index, period - index - edge_twice)


def _border(xp: Any, x: Any, axis: int, index: np.ndarray[Any, Any], mode: str) -> Any:
    """The elements of one padded border: `index` counts from the array's start, outside of it."""
    n = x.shape[axis]
    if mode == "wrap":
        source = index % n
    elif mode == "edge":
        source = np.clip(index, 0, n - 1)
    else:
        source = _reflected(n, index, edge_twice=mode == "symmetric")
    first, last = int(source[0]), int(source[-1])
    steps = set(np.diff(source).tolist())
    if steps <= {1} or steps == {-1}:  # a slice, forwards or backwards: a view is enough
        step = -1 if steps == {-1} else 1
        stop = last + step
        return x[along(axis, slice(first, None if stop < 0 else stop, step))]
    if steps == {0}:
        return xp.repeat(x[along(axis, slice(first, first + 1))], len(index), axis)
    return xp.take(x, xp.asarray(source), axis)


@program(
    "pad",
    "array",
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), ((1, 2), (0, 3))), {}),
        ((rng.standard_normal((3, 4)), 2), {"constant_values": ((1, 2), (3, 4))}),
        *(
            ((rng.standard_normal((3, 4)), width, mode), {})
            for mode in ("edge", "reflect", "symmetric", "wrap")
            for width in (1, ((2, 0), (0, 2)), 11)
        ),
    ],
    same="equal",
)
def pad(
    xp: Any, array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0
) -> Any:
    """The array with a border: a constant, its edge, its reflection, or itself again.

    `mode` is "constant", "edge", "reflect", "symmetric" or "wrap". A constant border costs one
    write of the result; the other modes one for each padded axis.

    >>> import infinitensor as it
    >>> it.pad(it.arange(3), (1, 2), "reflect").numpy().tolist()
    [1, 0, 1, 2, 1, 0]
    """
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise ValueError(f"pad: mode {mode!r} is not supported")
    ndim = len(array.shape)
    widths = tuple((as_int(b), as_int(a)) for b, a in _pairs("pad", pad_width, ndim))
    if any(width < 0 for pair in widths for width in pair):
        raise ValueError("pad: index can't contain negative values")
    if mode == "constant":
        return _constant_border(xp, array, widths, constant_values)
    result = array
    for axis, (before, after) in enumerate(widths):
        n = array.shape[axis]
        if not before + after:
            continue
        if not n:
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )
        parts = [result]
        if before:
            parts.insert(0, _border(xp, result, axis, np.arange(-before, 0), mode))
        if after:
            parts.append(_border(xp, result, axis, np.arange(n, n + after), mode))
        result = xp._concatenate(parts, axis)
    return xp._copy(array) if result is array else result


def _constant_border(xp: Any, array: Any, widths: Any, values: Any) -> Any:
    if np.ndim(values) == 0:
        return xp._pad(array, values, widths)
    result = array
    for axis, pair in enumerate(_pairs("pad", values, len(array.shape))):
        for side in (0, 1):  # NumPy's order: a later axis owns the corners
            width = [(0, 0)] * len(array.shape)
            width[axis] = (widths[axis][0], 0) if side == 0 else (0, widths[axis][1])
            result = xp._pad(result, pair[side], tuple(width))
    return result
