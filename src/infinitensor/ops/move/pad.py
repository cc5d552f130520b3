"""Borders around an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.op import Call, Spec, call
from infinitensor.ops.forms.gather import along, gather_form, is_empty
from infinitensor.ops.table.registry import Array, op, program

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


@op(
    "gather",
    kernel=_pad_kernel,
    need=_pad_need,
    moves=True,
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), 2.5, ((1, 2), (0, 3))), {}),
        ((rng.integers(0, 9, (3,)), 7, ((10, 0),)), {}),
        ((rng.standard_normal((0, 4)), 1.0, ((2, 0), (0, 0))), {}),
    ],
    oracle=lambda x, fill, widths: np.pad(x, widths, constant_values=fill),
)
def _pad(x: Spec, fill: Spec, widths: tuple[tuple[int, int], ...]) -> Call:
    """x with a border of the value `fill`."""
    shape = tuple(b + n + a for n, (b, a) in zip(x.shape, widths, strict=True))
    before = tuple(b for b, _ in widths)
    return call(gather_form((x, fill), shape), Spec(shape, x.dtype), before=before)


def _pairs(given: Any, ndim: int) -> tuple[tuple[Any, Any], ...]:
    """NumPy's shorthand: one value, one (before, after) pair, or a pair for each axis."""
    if given is None:
        return ((None, None),) * ndim
    pairs = np.broadcast_to(np.asarray(given), (ndim, 2))
    return tuple((b, a) for b, a in pairs.tolist())


def _counts(given: Any, ndim: int) -> tuple[tuple[Any, Any], ...]:
    """Likewise, of lengths."""
    pairs = _pairs(given, ndim)
    if given is None:
        return pairs
    if np.size(given) and np.min(given) < 0:
        raise ValueError("index can't contain negative values")
    return tuple((round(b), round(a)) for b, a in pairs)


def _widths(given: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    if isinstance(given, dict):
        full: list[Any] = [(0, 0)] * ndim
        for axis, width in given.items():
            full[axis] = (width, width) if isinstance(width, int) else tuple(width)
        given = full
    widths = np.asarray(given)
    if widths.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    return _counts(widths, ndim)


def _reflected(n: int, index: np.ndarray[Any, Any], *, edge_twice: bool) -> np.ndarray[Any, Any]:
    """The index that one outside 0..n-1 becomes by reflection at the ends, as often as needed."""
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


def _even(xp: Any, x: Any, axis: int, widths: tuple[int, int], mode: str) -> Any:
    """Borders that are elements of the array: its edge, its reflection, or itself again."""
    n = x.shape[axis]
    before, after = widths
    parts = [x]
    if before:
        parts.insert(0, _border(xp, x, axis, np.arange(-before, 0), mode))
    if after:
        parts.append(_border(xp, x, axis, np.arange(n, n + after), mode))
    return xp._concatenate(parts, axis)


def _odd(xp: Any, x: Any, axis: int, widths: tuple[int, int], mode: str) -> Any:
    """Borders that are twice the edge less the reflection: again and again until they are full."""
    n, (before, after) = x.shape[axis], widths
    if n == 1:
        return _even(xp, x, axis, widths, "edge")
    twice = int(mode == "symmetric")
    period = n - 1 + twice
    while before or after:
        length = x.shape[axis]
        most = (length - 1 + twice) // period * period
        parts = [x]
        if before:
            some = min(most, before)
            chunk = x[along(axis, slice(1 - twice, some + 1 - twice))]
            parts.insert(0, _mirror(xp, x, axis, chunk, slice(0, 1)))
            before -= some
        if after:
            some = min(most, after)
            end = length - 1 + twice
            chunk = x[along(axis, slice(end - some, end))]
            parts.append(_mirror(xp, x, axis, chunk, slice(length - 1, length)))
            after -= some
        x = xp._concatenate(parts, axis)
    return x


def _mirror(xp: Any, x: Any, axis: int, chunk: Any, edge: slice) -> Any:
    backwards = chunk[along(axis, slice(None, None, -1))]
    return (2 * x[along(axis, edge)] - backwards).astype(x.dtype)


def _ramp(xp: Any, x: Any, axis: int, widths: tuple[int, int], ends: tuple[Any, Any]) -> Any:
    """Borders that go from the edge to a value at the end, by equal steps."""
    n = x.shape[axis]
    parts = [x]
    for side, at in ((0, 0), (1, n - 1)):
        if not widths[side]:
            continue
        edge = x[along(axis, at)]
        ramp = xp.linspace(ends[side], edge, widths[side], endpoint=False, dtype=x.dtype, axis=axis)
        if side:
            parts.append(ramp[along(axis, slice(None, None, -1))])
        else:
            parts.insert(0, ramp)
    return xp._concatenate(parts, axis)


_STATISTICS = {"maximum": "max", "minimum": "min", "mean": "mean", "median": "median"}


def _statistic(
    xp: Any, x: Any, axis: int, widths: tuple[int, int], lengths: tuple[Any, Any], mode: str
) -> Any:
    """Borders of one value for each line: a statistic of some of its elements at that end."""
    n = x.shape[axis]
    some = [n if length is None else min(length, n) for length in lengths]
    parts = [x]
    for side, span in ((0, slice(0, some[0])), (1, slice(n - some[1], n))):
        if not widths[side]:
            continue
        found = getattr(xp, _STATISTICS[mode])(x[along(axis, span)], axis=axis, keepdims=True)
        if x.dtype.kind in "iu" and found.dtype.kind == "f":
            found = xp.rint(found)
        border = xp.repeat(found.astype(x.dtype), widths[side], axis)
        parts.insert(len(parts) if side else 0, border)
    return xp._concatenate(parts, axis)


def _by_function(
    xp: Any, array: Any, widths: tuple[tuple[int, int], ...], function: Any, options: Any
) -> Any:
    """A border that a user's function writes into every line along every axis."""
    padded = xp._pad(array, array.dtype.type(0), widths)
    for axis, pair in enumerate(widths):
        lines = xp.moveaxis(padded, axis, -1)
        for place in np.ndindex(*lines.shape[:-1]):
            function(lines[place], pair, axis, options)
    return padded


_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "edge": (),
    "empty": (),
    "linear_ramp": ("end_values",),
    **dict.fromkeys(_STATISTICS, ("stat_length",)),
    **dict.fromkeys(("reflect", "symmetric"), ("reflect_type",)),
    "wrap": (),
}


def _check(array: Any, widths: Any, mode: str, options: dict[str, Any]) -> None:
    if mode not in _OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported")
    unknown = set(options) - set(_OPTIONS[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {unknown}")
    if mode in ("constant", "empty"):
        return
    for axis, (n, pair) in enumerate(zip(array.shape, widths, strict=True)):
        if not n and any(pair):
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )


def _pad_cases(rng: Any) -> list[Any]:
    x = rng.standard_normal((3, 4))
    several: list[Any] = [(1, {}), (((2, 0), (0, 2)), {}), (11, {})]
    modes: list[tuple[str, list[Any]]] = [
        ("edge", several),
        ("wrap", several),
        ("reflect", [*several, (11, {"reflect_type": "odd"})]),
        ("symmetric", [*several, (((1, 9), (9, 1)), {"reflect_type": "odd"})]),
        ("linear_ramp", [*several, (2, {"end_values": ((1, 2), (3, 4))})]),
        ("maximum", several),
        ("minimum", [(2, {"stat_length": ((1, 2), (3, 1))})]),
        ("mean", [*several, (2, {"stat_length": 2})]),
        ("median", several),
    ]
    return [
        ((x, ((1, 2), (0, 3))), {}),
        ((x, 2), {"constant_values": ((1, 2), (3, 4))}),
        *(((x, width, mode), more) for mode, some in modes for width, more in some),
        *(((rng.integers(0, 99, (3, 4)), 3, mode), {}) for mode in ("linear_ramp", "mean")),
    ]


@program(cases=_pad_cases)
def pad(xp: Any, array: Array, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """The array with a border: NumPy's modes with their options, or a function of the user's.

    A constant border costs one write of the result; the other modes one for each padded axis. A
    function is called for every line along every axis.

    >>> import infinitensor as it
    >>> it.pad(it.arange(3), (1, 2), "reflect").numpy().tolist()
    [1, 0, 1, 2, 1, 0]
    """
    ndim = len(array.shape)
    widths = _widths(pad_width, ndim)
    if callable(mode):
        return _by_function(xp, array, widths, mode, kwargs)
    _check(array, widths, mode, kwargs)
    if mode in ("constant", "empty") or 0 in array.shape:
        return _constant_border(xp, array, widths, kwargs.get("constant_values", 0))
    lengths = _counts(kwargs.get("stat_length"), ndim)
    if mode in ("maximum", "minimum") and any(0 in pair for pair in lengths):
        raise ValueError("stat_length of 0 yields no value for padding")
    result = array
    for axis, pair in enumerate(widths):
        if not any(pair):
            continue
        if mode == "linear_ramp":
            ends = _pairs(kwargs.get("end_values", 0), ndim)[axis]
            result = _ramp(xp, result, axis, pair, ends)
        elif mode in _STATISTICS:
            result = _statistic(xp, result, axis, pair, lengths[axis], mode)
        elif kwargs.get("reflect_type", "even") == "odd":
            result = _odd(xp, result, axis, pair, mode)
        else:
            result = _even(xp, result, axis, pair, mode)
    return xp._copy(array) if result is array else result


def _constant_border(xp: Any, array: Any, widths: Any, values: Any) -> Any:
    if np.ndim(values) == 0:
        return xp._pad(array, _fill(values, array.dtype), widths)
    result = array
    for axis, pair in enumerate(_pairs(values, len(array.shape))):
        for side in (0, 1):  # NumPy's order: a later axis owns the corners
            width = [(0, 0)] * len(array.shape)
            width[axis] = (widths[axis][0], 0) if side == 0 else (0, widths[axis][1])
            result = xp._pad(result, _fill(pair[side], array.dtype), tuple(width))
    return result


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """A number as an element, with NumPy's errors for what does not fit."""
    if hasattr(value, "numpy"):
        return value
    taken = np.empty(1, dtype)
    taken[0] = value
    return taken[0]
