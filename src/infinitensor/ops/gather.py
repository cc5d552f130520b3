"""Ops that only move elements: strided views made real, joins, padding, repetition, splits."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from infinitensor.dtypes import as_dtype
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.bridge import as_signed, strided, strides_of
from infinitensor.ops.registry import broadcast_form, op, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box

    Axes = int | tuple[int, ...] | None


def gather_form(specs: Sequence[Spec], shape: tuple[int, ...], n_outs: int = 1) -> AxisForm:
    """A label for each output axis; what is read of the inputs is `need`'s to say."""
    inputs = tuple((None,) * spec.ndim for spec in specs)
    return AxisForm(shape, inputs, (tuple(range(len(shape))),) * n_outs)


def is_empty(box: Box) -> bool:
    """Whether no element lies in the box."""
    return any(lo >= hi for lo, hi in box)


# --- views made real --------------------------------------------------------------------------


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a C-order array, in elements.

    >>> c_strides((2, 3, 4))
    (12, 4, 1)
    """
    steps = list(accumulate((max(n, 1) for n in reversed(shape)), lambda a, b: a * b, initial=1))
    return tuple(reversed(steps[:-1]))


@lru_cache(maxsize=4096)
def affine_steps(
    base: tuple[int, ...], shape: tuple[int, ...], offset: int, strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None:
    """The base's index as an affine function of the view's: (origin, steps per view axis).

    None where no such function stays inside the base's axes (a reshape across axes).

    >>> affine_steps((4, 5), (4,), 0, (6,))
    ((0, 0), ((1, 1),))
    """
    borders = c_strides(base)
    origin = []
    rest = offset
    for border, n in zip(borders, base, strict=True):
        at, rest = divmod(rest, border) if n > 1 else (0, rest)
        origin.append(at)
    for nearest in (False, True):
        steps = tuple(
            _digits(stride if n > 1 else 0, borders, base, nearest)
            for stride, n in zip(strides, shape, strict=True)
        )
        if all(
            at + sum(min(0, s[axis] * (n - 1)) for s, n in zip(steps, shape, strict=True)) >= 0
            and at + sum(max(0, s[axis] * (n - 1)) for s, n in zip(steps, shape, strict=True))
            < size
            for axis, (at, size) in enumerate(zip(origin, base, strict=True))
        ):
            return tuple(origin), steps
    return None


def _digits(
    stride: int, borders: Sequence[int], base: Sequence[int], nearest: bool
) -> tuple[int, ...]:
    """A flat step as steps along the base's axes."""
    sign = -1 if stride < 0 else 1
    rest = abs(stride)
    digits = []
    for border, n in zip(borders, base, strict=True):
        digit = 0 if n == 1 else (rest + border // 2) // border if nearest else rest // border
        rest -= digit * border
        digits.append(sign * digit)
    return tuple(digits)


def _flat_range(box: Box, offset: int, strides: Sequence[int]) -> tuple[int, int]:
    """The smallest and the largest flat index of the elements in a view's box."""
    low = high = offset
    for (lo, hi), stride in zip(box, strides, strict=True):
        ends = (stride * lo, stride * (hi - 1))
        low += min(ends)
        high += max(ends)
    return low, high


def _strided_need(
    box: Box, specs: Sequence[Spec], *, base: Any, shape: Any, offset: int, strides: Any
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    affine = affine_steps(base, shape, offset, strides)
    if affine is None:
        return (_rows_hull(base, *_flat_range(box, offset, strides)),)
    hull = []
    for axis, at in enumerate(affine[0]):
        ends = [
            (s[axis] * lo, s[axis] * (hi - 1)) for s, (lo, hi) in zip(affine[1], box, strict=True)
        ]
        hull.append((at + sum(map(min, ends)), at + sum(map(max, ends)) + 1))
    return (tuple(hull),)


def _rows_hull(base: tuple[int, ...], low: int, high: int) -> Box:
    """The smallest box that holds a flat range and is itself one flat range of the base."""
    hull: list[tuple[int, int]] = []
    for border in c_strides(base):
        first, low = divmod(low, border)
        last, high = divmod(high, border)
        hull.append((first, last + 1))
        if first != last:
            break
    return (*hull, *((0, n) for n in base[len(hull) :]))


def _strided_kernel(
    xp: Any, x: Any, out: Any, at: At, base: Any, shape: Any, offset: int, strides: Any
) -> None:
    """The tile holds a box of the base: the view's box is a strided read of its memory."""
    if x is None:
        return
    box, source = at.outputs[0], at.inputs[0]
    assert source is not None
    affine = affine_steps(base, shape, offset, strides)
    if affine is None:
        flat = x.reshape(-1)  # a flat range of the base: strides over it are the view's own
        (step,) = strides_of(flat)
        start = offset + sum(s * lo for s, (lo, _) in zip(strides, box, strict=True))
        start -= sum(s * lo for s, (lo, _) in zip(c_strides(base), source, strict=True))
        strided(flat, start * step, out.shape, tuple(s * step for s in strides), out)
        return
    origin, steps = affine
    memory = strides_of(x)
    start = 0
    for axis, (first, _) in enumerate(source):
        index = origin[axis] + sum(s[axis] * lo for s, (lo, _) in zip(steps, box, strict=True))
        start += (index - first) * memory[axis]
    moved = tuple(sum(a * b for a, b in zip(s, memory, strict=True)) for s in steps)
    strided(x, start, out.shape, moved, out)


def _strided_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    flipped = outs[0].n_bytes if any(stride < 0 for stride in params["strides"]) else 0
    keys = (params["base"], params["shape"], params["offset"], params["strides"])
    return flipped + (ins[0].n_bytes if affine_steps(*keys) is None else 0)


def _strided_oracle(x: Any, shape: Any, offset: int, strides: Any) -> Any:
    flat = np.ascontiguousarray(x).reshape(-1)
    if not prod(shape):
        return np.empty(shape, flat.dtype)
    bytes_ = tuple(s * flat.itemsize for s in strides)
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, bytes_).copy()


def _strided_cases(rng: Any) -> list[Any]:
    x = rng.standard_normal((5, 6))
    return [
        ((x, (6, 5), 0, (1, 6)), {}),  # transpose
        ((x, (5, 6), 29, (-6, -1)), {}),  # both axes flipped
        ((x, (5, 3), 1, (6, 2)), {}),  # columns, step 2
        ((x, (5,), 0, (7,)), {}),  # diagonal
        ((x, (5,), 5, (5,)), {}),  # the other diagonal
        ((x, (3, 10), 0, (10, 1)), {}),  # reshape
        ((x, (10, 3), 2, (3, -1)), {}),  # reshape, then flip
        ((x, (4, 5, 6), 0, (0, 6, 1)), {}),  # broadcast
        ((x, (), 7, ()), {}),
        ((x, (0, 6), 0, (6, 1)), {}),
        ((x[:, :1], (5, 1, 1), 0, (1, 1, 1)), {}),
    ]


@op(
    "_strided",
    "gather",
    "x",
    kernel=_strided_kernel,
    need=_strided_need,
    scratch_bytes=_strided_scratch,
    cases=_strided_cases,
    oracle=_strided_oracle,
    same="equal",
)
def _strided(x: Spec, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> Call:
    """The elements of a view: out[i] = x.flat[offset + i . strides]."""
    shape, strides = tuple(shape), tuple(strides)
    return call(
        gather_form((x,), shape),
        Spec(shape, x.dtype),
        base=x.shape,
        shape=shape,
        offset=offset,
        strides=strides,
    )


def _copy_kernel(xp: Any, x: Any, out: Any) -> None:
    out[...] = x


@op(
    "_copy",
    "mapped",
    "x",
    kernel=_copy_kernel,
    cases=lambda rng: [((rng.standard_normal((3, 4)),), {}), ((np.float32(2),), {})],
    oracle=np.array,
    same="equal",
)
def _copy(x: Spec) -> Call:
    """The same values in memory of their own."""
    return call(broadcast_form((x,), x.shape), Spec(x.shape, x.dtype))


# --- joins ------------------------------------------------------------------------------------


def _joined_need(
    box: Box, specs: Sequence[Spec], *, axis: int, starts: tuple[int, ...]
) -> tuple[Box | None, ...]:
    boxes: list[Box | None] = []
    lo, hi = box[axis]
    for spec, start in zip(specs, starts, strict=True):
        span = (max(lo - start, 0), min(hi - start, spec.shape[axis]))
        part = (*box[:axis], span, *box[axis + 1 :])
        boxes.append(None if is_empty(part) else part)
    return tuple(boxes)


def _joined_kernel(
    xp: Any, *tiles: Any, out: Any, at: At, axis: int, starts: tuple[int, ...]
) -> None:
    first = at.outputs[0][axis][0]
    before = (slice(None),) * axis
    for tile, box, start in zip(tiles, at.inputs, starts, strict=True):
        if tile is not None and box is not None:
            lo, hi = box[axis]
            out[(*before, slice(start + lo - first, start + hi - first))] = tile


def _joined(name: str, arrays: Sequence[Spec], axis: int, dtype: Any = None) -> Call:
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    if any(not spec.ndim for spec in arrays):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    shape = arrays[0].shape
    axis = normalize_axis_index(axis, len(shape), name)
    for i, spec in enumerate(arrays):
        if spec.ndim != len(shape):
            raise ValueError(
                f"{name}: all the input arrays must have same number of dimensions, but the array "
                f"at index 0 has {len(shape)} dimension(s) and the array at index {i} has "
                f"{spec.ndim} dimension(s)"
            )
        for other, (n, wanted) in enumerate(zip(spec.shape, shape, strict=True)):
            if other != axis and n != wanted:
                raise ValueError(
                    f"{name}: all the input array dimensions except for the concatenation axis "
                    f"must match exactly, but along dimension {other}, the array at index 0 has "
                    f"size {wanted} and the array at index {i} has size {n}"
                )
    *starts, total = accumulate((spec.shape[axis] for spec in arrays), initial=0)
    joined = (*shape[:axis], total, *shape[axis + 1 :])
    found = np.result_type(*(spec.dtype for spec in arrays)) if dtype is None else as_dtype(dtype)
    return call(gather_form(arrays, joined), Spec(joined, found), axis=axis, starts=tuple(starts))


_JOIN: dict[str, Any] = {"kernel": _joined_kernel, "need": _joined_need, "same": "equal"}


@op(
    "_concatenate",
    "gather",
    "*arrays",
    cases=lambda rng: [
        (([rng.standard_normal((2, 3)), rng.standard_normal((0, 3)), np.ones((4, 3), "i4")],), {}),
        (([rng.standard_normal((2, 3)), rng.standard_normal((2, 9))], 1), {}),
    ],
    oracle=np.concatenate,
    **_JOIN,
)
def _concatenate(arrays: Sequence[Spec], axis: int = 0, dtype: Any = None) -> Call:
    """`concatenate` along an axis that is given."""
    return _joined("concatenate", arrays, axis, dtype)


def _join_cases(rng: Any) -> list[Any]:
    x, y = rng.standard_normal((2, 3)), rng.integers(0, 9, (4, 3))
    return [(([x, y],), {}), (([x, x], 1), {}), (([x, y], -2), {}), (([x, y], None), {})]


@program("concatenate", "*arrays", cases=_join_cases, same="equal")
def concatenate(xp: Any, arrays: Sequence[Any], axis: int | None = 0, *, dtype: Any = None) -> Any:
    """Arrays joined along an axis that exists; `axis=None` joins them flattened.

    Reads each element once and writes it once; only the inputs under a tile are moved to it.

    >>> import infinitensor as it
    >>> it.concatenate([it.arange(3), it.arange(2)]).numpy().tolist()
    [0, 1, 2, 0, 1]
    """
    if axis is None:
        return xp._concatenate([x.reshape(-1) for x in arrays], 0, dtype)
    return xp._concatenate(arrays, axis, dtype)


@program("concat", "*arrays", cases=_join_cases, same="equal", oracle=np.concatenate)
def concat(xp: Any, arrays: Sequence[Any], axis: int | None = 0) -> Any:
    """The Array API's name of `concatenate`.

    >>> import infinitensor as it
    >>> it.concat([it.arange(2), it.arange(2)]).numpy().tolist()
    [0, 1, 0, 1]
    """
    return xp.concatenate(arrays, axis)


def _stack_cases(rng: Any) -> list[Any]:
    x, y = rng.standard_normal((2, 3)), rng.integers(0, 9, (2, 3))
    return [(([x, y],), {}), (([x, y], 1), {}), (([x, y, x], -1), {}), (([x[0, 0], x[0, 1]],), {})]


@program("stack", "*arrays", cases=_stack_cases, same="equal")
def stack(xp: Any, arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape joined along a new axis.

    Costs what `concatenate` costs.

    >>> import infinitensor as it
    >>> it.stack([it.arange(2), it.arange(2)], axis=1).numpy().tolist()
    [[0, 0], [1, 1]]
    """
    if not arrays:
        raise ValueError("need at least one array to stack")
    shape = tuple(arrays[0].shape)
    for i, x in enumerate(arrays):
        if tuple(x.shape) != shape:
            raise ValueError(
                "stack: all input arrays must have the same shape, but the array at index 0 has "
                f"shape {shape} and the array at index {i} has shape {tuple(x.shape)}"
            )
    axis = normalize_axis_index(axis, len(shape) + 1, "stack")
    new = (*shape[:axis], 1, *shape[axis:])
    return xp._concatenate([x.reshape(new) for x in arrays], axis)


def _rows(x: Any) -> Any:
    return x.reshape(1, -1) if len(x.shape) < 2 else x


def _line(x: Any) -> Any:
    return x.reshape(1) if not len(x.shape) else x


def _columns(x: Any) -> Any:
    return x.reshape(-1, 1) if len(x.shape) < 2 else x


def _deep(x: Any) -> Any:
    if len(x.shape) < 2:
        return x.reshape(1, -1, 1)
    return x.reshape(*x.shape, 1) if len(x.shape) == 2 else x


def _some_columns(rng: Any) -> list[Any]:
    x = rng.standard_normal((3, 2))
    return [(([x, x],), {}), (([x[:, 0], x[:, 1]],), {})]


@program("vstack", "*tup", cases=_some_columns, same="equal")
def vstack(xp: Any, tup: Sequence[Any]) -> Any:
    """Arrays joined as rows: along axis 0, one-dimensional ones as one row each.

    >>> import infinitensor as it
    >>> it.vstack([it.arange(2), it.arange(2)]).numpy().tolist()
    [[0, 1], [0, 1]]
    """
    return xp.concatenate([_rows(x) for x in tup], 0)


@program("hstack", "*tup", cases=_some_columns, same="equal")
def hstack(xp: Any, tup: Sequence[Any]) -> Any:
    """Arrays joined side by side: along axis 1, one-dimensional ones along axis 0.

    >>> import infinitensor as it
    >>> it.hstack([it.arange(2), it.arange(2)]).numpy().tolist()
    [0, 1, 0, 1]
    """
    lines = [_line(x) for x in tup]
    return xp.concatenate(lines, 0 if lines and len(lines[0].shape) == 1 else 1)


@program("column_stack", "*tup", cases=_some_columns, same="equal")
def column_stack(xp: Any, tup: Sequence[Any]) -> Any:
    """Arrays joined as columns: one-dimensional ones become one column each.

    >>> import infinitensor as it
    >>> it.column_stack([it.arange(2), it.arange(2)]).numpy().tolist()
    [[0, 0], [1, 1]]
    """
    return xp.concatenate([_columns(x) for x in tup], 1)


@program("dstack", "*tup", cases=_some_columns, same="equal")
def dstack(xp: Any, tup: Sequence[Any]) -> Any:
    """Arrays joined along the third axis.

    >>> import infinitensor as it
    >>> it.dstack([it.arange(2), it.arange(2)]).numpy().tolist()
    [[[0, 0], [1, 1]]]
    """
    return xp.concatenate([_deep(x) for x in tup], 2)


def along(axis: int, part: Any) -> tuple[Any, ...]:
    """The index that takes `part` of one axis and everything of the axes before and after."""
    return (*(slice(None),) * axis, part)


@program(
    "roll",
    "a",
    cases=lambda rng: [
        ((x, shift), {"axis": axis})
        for x in (rng.standard_normal((3, 5)),)
        for shift, axis in ((2, None), (-7, 1), (1, 0), ((1, 2), (0, 1)), ((1, 2), 1), (3, (0, 1)))
    ],
    same="equal",
)
def roll(xp: Any, a: Any, shift: int | tuple[int, ...], axis: Axes = None) -> Any:
    """Elements shifted along an axis, those that fall off one end coming back at the other.

    Without an axis the flattened array is rolled. Moves each element once for each axis.

    >>> import infinitensor as it
    >>> it.roll(it.arange(5), 2).numpy().tolist()
    [3, 4, 0, 1, 2]
    """
    if axis is None:
        return xp.roll(a.reshape(-1), shift, 0).reshape(a.shape)
    axes = normalize_axis_tuple(axis, len(a.shape), "roll", allow_duplicate=True)
    shifts: dict[int, int] = {}
    pairs = np.broadcast(np.asarray(shift), np.asarray(axes))
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    for step, one in pairs:
        shifts[int(one)] = shifts.get(int(one), 0) + as_int(step)
    rolled = a
    for one, step in shifts.items():
        n = a.shape[one]
        step = step % n if n else 0
        if step:
            parts = [rolled[along(one, slice(n - step, n))], rolled[along(one, slice(0, n - step))]]
            rolled = xp._concatenate(parts, one)
    return xp._copy(a) if rolled is a else rolled


# --- padding and repetition -------------------------------------------------------------------


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


def _cyclic_need(
    box: Box, specs: Sequence[Spec], *, base: tuple[int, ...]
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    need = []
    for (lo, hi), n in zip(box, base, strict=True):
        first = lo % n
        need.append((first, first + hi - lo) if first + hi - lo <= n else (0, n))
    return (tuple(need),)


def _cyclic_kernel(xp: Any, x: Any, out: Any, at: At, base: tuple[int, ...]) -> None:
    """Copies the base's tile into each of its repetitions that falls into the output's."""
    if x is None:
        return
    source = at.inputs[0]
    assert source is not None
    spans = []
    for (lo, hi), (first, last), n in zip(at.outputs[0], source, base, strict=True):
        runs = []
        position = lo
        while position < hi:
            inside = position % n
            length = min(hi - position, n - inside)
            runs.append(
                (
                    slice(position - lo, position - lo + length),
                    slice(inside - first, inside - first + length),
                )
            )
            position += length
        spans.append(runs)
        del last
    _copy_runs(x, out, spans, (), ())


def _copy_runs(x: Any, out: Any, spans: Any, to: Any, of: Any) -> None:
    if len(to) == len(spans):
        out[to] = x[of]
        return
    for target, source in spans[len(to)]:
        _copy_runs(x, out, spans, (*to, target), (*of, source))


@op(
    "_tile",
    "gather",
    "x",
    kernel=_cyclic_kernel,
    need=_cyclic_need,
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), (2, 3)), {}),
        ((rng.standard_normal((3, 4)), (0, 3)), {}),
        ((rng.standard_normal((1, 4)), (5, 1)), {}),
        ((rng.standard_normal((0, 4)), (5, 1)), {}),
        ((np.float64(3), ()), {}),
    ],
    oracle=np.tile,
    same="equal",
)
def _tile(x: Spec, reps: tuple[int, ...]) -> Call:
    """x beside itself, `reps` times along each of its axes."""
    shape = tuple(n * r for n, r in zip(x.shape, reps, strict=True))
    return call(gather_form((x,), shape), Spec(shape, x.dtype), base=x.shape)


@program(
    "tile",
    "A",
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), 2), {}),
        ((rng.standard_normal((3, 4)), (2, 1)), {}),
        ((rng.standard_normal(4), (2, 3)), {}),
        ((np.float64(2), 3), {}),
    ],
    same="equal",
)
def tile(xp: Any, A: Any, reps: int | tuple[int, ...]) -> Any:
    """The array beside itself, `reps` times along each axis.

    Writes the result once; an axis longer than a block is joined from views of itself.

    >>> import infinitensor as it
    >>> it.tile(it.arange(2), 3).numpy().tolist()
    [0, 1, 0, 1, 0, 1]
    """
    counts = tuple(as_int(r) for r in np.atleast_1d(np.asarray(reps)).tolist())
    ndim = max(len(counts), len(A.shape))
    counts = (1,) * (ndim - len(counts)) + counts
    result = A.reshape((1,) * (ndim - len(A.shape)) + tuple(A.shape))
    if any(count < 0 for count in counts):
        raise ValueError("tile: negative dimensions are not allowed")
    short = [1 if n > xp.block(n) else c for n, c in zip(result.shape, counts, strict=True)]
    for axis, (count, done) in enumerate(zip(counts, short, strict=True)):
        if count == 0:
            short[axis] = 0
        elif count != done:
            result = xp._concatenate([result] * count, axis)
    return xp._tile(result, tuple(short))


def _repeat_need(
    box: Box, specs: Sequence[Spec], *, axis: int, repeats: int, ends: tuple[int, ...]
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None,)
    first, last = _repeat_source(*box[axis], repeats, ends)
    return ((*box[:axis], (first, last), *box[axis + 1 :]),)


def _repeat_source(lo: int, hi: int, repeats: int, ends: tuple[int, ...]) -> tuple[int, int]:
    """The source elements that the output's range lo..hi repeats; `ends` where counts differ."""
    if not ends:
        return lo // repeats, (hi - 1) // repeats + 1
    first, last = np.searchsorted(ends, [lo, hi - 1], side="right").tolist()
    return first, last + 1


def _repeat_kernel(
    xp: Any, x: Any, out: Any, at: At, axis: int, repeats: int, ends: tuple[int, ...]
) -> None:
    if x is None:
        return
    source = at.inputs[0]
    assert source is not None
    lo, hi = at.outputs[0][axis]
    first, last = source[axis]
    if ends:
        stops = np.minimum(ends[first:last], hi) - lo
    else:
        stops = np.minimum(np.arange(first + 1, last + 1) * repeats, hi) - lo
    counts = np.diff(stops, prepend=0)
    index = np.repeat(np.arange(last - first), counts)
    if xp is np and x.flags.c_contiguous:  # else `take` copies x
        np.take(x, index, axis=axis, out=out, mode="clip")
    elif xp is np:
        out[...] = x[along(axis, index)]
    else:
        at_ = xp.as_tensor(index, device=x.device)
        as_signed(out)[...] = xp.index_select(as_signed(x), axis, at_)


@op(
    "_repeat",
    "gather",
    "x",
    kernel=_repeat_kernel,
    need=_repeat_need,
    scratch_bytes=lambda ins, outs, params: (
        32 * (outs[0].shape[params["axis"]] + 1) + 2 * outs[0].n_bytes
    ),
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), 2, 1), {}),
        ((rng.standard_normal((3, 4)), 0, 1), {}),
        ((rng.standard_normal((3, 4)), (2, 0, 5), 0), {}),
    ],
    oracle=lambda x, repeats, axis: np.repeat(x, repeats, axis),
    same="equal",
)
def _repeat(x: Spec, repeats: int | tuple[int, ...], axis: int) -> Call:
    """Each element `repeats` times, or as often as its count says."""
    n = x.shape[axis]
    ends: tuple[int, ...] = ()
    if isinstance(repeats, tuple):
        ends = tuple(accumulate(repeats))
        total = ends[-1] if ends else 0
        repeats = 0
    else:
        total = n * repeats
    shape = (*x.shape[:axis], total, *x.shape[axis + 1 :])
    out = Spec(shape, x.dtype)
    return call(gather_form((x,), shape), out, axis=axis, repeats=repeats, ends=ends)


@program(
    "repeat",
    "a",
    cases=lambda rng: [
        ((rng.standard_normal((3, 4)), 2), {}),
        ((rng.standard_normal((3, 4)), 3), {"axis": 1}),
        ((rng.standard_normal((3, 4)), [1, 0, 2]), {"axis": 0}),
        ((np.float64(3), 3), {}),
    ],
    same="equal",
)
def repeat(xp: Any, a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element several times in a row: a number, or a count for each index of the axis.

    Counts must be known on the host: they decide the shape; a tensor of them is computed.

    >>> import infinitensor as it
    >>> it.repeat(it.arange(3), [2, 0, 1]).numpy().tolist()
    [0, 0, 2]
    """
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_axis_index(axis, len(a.shape), "repeat")
    n = a.shape[axis]
    counts = np.asarray(repeats)
    if counts.dtype.kind not in "iub" and counts.size:
        raise TypeError(
            f"repeat: cannot cast repeats from {counts.dtype!r} to dtype('int64') "
            "according to the rule 'safe'"
        )
    if counts.size and int(counts.min()) < 0:
        raise ValueError("repeat: repeats may not contain negative values.")
    if counts.ndim == 0 or counts.shape == (1,):
        return xp._repeat(a, int(counts.reshape(())), axis)
    if counts.shape != (n,):
        raise ValueError(
            f"repeat: operands could not be broadcast together with shape ({n},) {counts.shape}"
        )
    return xp._repeat(a, tuple(int(c) for c in counts), axis)


# --- splits and diagonals ---------------------------------------------------------------------


def _split_points(n: int, sections: Any, *, even: bool) -> list[int]:
    if isinstance(sections, (int, np.integer)):
        count = int(sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        if even and n % count:
            raise ValueError("array split does not result in an equal division")
        size, extra = divmod(n, count)
        return [i * size + min(i, extra) for i in range(count + 1)]
    return [0, *(as_int(i) for i in sections), n]


def split_views(name: str, ary: Any, sections: Any, axis: int, *, even: bool) -> list[Any]:
    """Views of the pieces of an axis."""
    axis = normalize_axis_index(axis, len(ary.shape), name)
    points = _split_points(ary.shape[axis], sections, even=even)
    return [ary[along(axis, slice(lo, hi))] for lo, hi in pairwise(points)]


def _split_cases(rng: Any) -> list[Any]:
    x = rng.standard_normal((4, 6))
    return [((x, 2), {}), ((x, [1, 3]), {}), ((x, [2, 1, 9]), {})]


@program("split", "ary", cases=_split_cases, same="equal")
def split(xp: Any, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Views of equal pieces of an axis, or of the pieces between the given indices.

    Moves nothing: writing to a piece writes to the array.

    >>> import infinitensor as it
    >>> [part.numpy().tolist() for part in it.split(it.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return split_views("split", ary, indices_or_sections, axis, even=True)


@program(
    "unstack",
    "x",
    cases=lambda rng: [((rng.standard_normal((3, 2, 4)),), {"axis": axis}) for axis in (0, 1, -1)],
    same="equal",
)
def unstack(xp: Any, x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Views of the entries of an axis, which is gone in each: the inverse of `stack`.

    >>> import infinitensor as it
    >>> [part.numpy().tolist() for part in it.unstack(it.eye(2))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not x.shape:
        raise ValueError("Input array must be at least 1-d.")
    axis = normalize_axis_index(axis, len(x.shape), "unstack")
    return tuple(x[along(axis, i)] for i in range(x.shape[axis]))


@program("array_split", "ary", cases=_split_cases, same="equal")
def array_split(xp: Any, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As `split`, but the pieces may differ in length by one.

    >>> import infinitensor as it
    >>> [part.numpy().tolist() for part in it.array_split(it.arange(3), 2)]
    [[0, 1], [2]]
    """
    return split_views("array_split", ary, indices_or_sections, axis, even=False)


@program("vsplit", "ary", cases=_split_cases, same="equal")
def vsplit(xp: Any, ary: Any, indices_or_sections: Any) -> list[Any]:
    """Views of pieces of the rows.

    >>> import infinitensor as it
    >>> [part.shape for part in it.vsplit(it.zeros((4, 2)), 2)]
    [(2, 2), (2, 2)]
    """
    if len(ary.shape) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split_views("vsplit", ary, indices_or_sections, 0, even=True)


@program("hsplit", "ary", cases=_split_cases, same="equal")
def hsplit(xp: Any, ary: Any, indices_or_sections: Any) -> list[Any]:
    """Views of pieces of the columns, or of a one-dimensional array.

    >>> import infinitensor as it
    >>> [part.shape for part in it.hsplit(it.zeros((4, 2)), 2)]
    [(4, 1), (4, 1)]
    """
    if not len(ary.shape):
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    axis = 1 if len(ary.shape) > 1 else 0
    return split_views("hsplit", ary, indices_or_sections, axis, even=True)


def diagonal_of(xp: Any, a: Any, offset: int, axis1: int, axis2: int) -> Any:
    """The elements of the diagonals of two axes, as a new last axis."""
    shape = tuple(a.shape)
    borders = c_strides(shape)
    rows, columns = shape[axis1], shape[axis2]
    first = -offset * borders[axis1] if offset < 0 else offset * borders[axis2]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    kept = [axis for axis in range(len(shape)) if axis not in (axis1, axis2)]
    return xp._strided(
        a,
        (*(shape[axis] for axis in kept), length),
        first if length else 0,
        (*(borders[axis] for axis in kept), borders[axis1] + borders[axis2]),
    )


@program(
    "trace",
    "a",
    cases=lambda rng: [
        ((rng.standard_normal((4, 6)),), {}),
        ((rng.integers(0, 9, (4, 6)).astype("i2"), -2), {}),
        ((rng.standard_normal((2, 3, 4)), 1, 1, 2), {}),
    ],
)
def trace(
    xp: Any, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> Any:
    """The sum along a diagonal.

    Reads only the diagonal's tiles.

    >>> import infinitensor as it
    >>> float(it.trace(it.eye(3)))
    3.0
    """
    ndim = len(a.shape)
    if ndim < 2:
        raise ValueError("trace: diag requires an array of at least two dimensions")
    first = normalize_axis_index(axis1, ndim, "trace")
    second = normalize_axis_index(axis2, ndim, "trace")
    if first == second:
        raise ValueError("trace: axis1 and axis2 cannot be the same")
    return xp.sum(diagonal_of(xp, a, as_int(offset), first, second), axis=-1, dtype=dtype)


@program(
    "diag",
    "v",
    cases=lambda rng: [
        ((rng.standard_normal(4), k), {}) if one else ((rng.standard_normal((3, 5)), k), {})
        for one in (True, False)
        for k in (0, 2, -1)
    ],
    same="equal",
)
def diag(xp: Any, v: Any, k: int = 0) -> Any:
    """A diagonal of a matrix, copied, or the matrix that has this diagonal and zeros beside it.

    >>> import infinitensor as it
    >>> it.diag(it.arange(1, 3)).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    k = as_int(k)
    if len(v.shape) == 2:
        return diagonal_of(xp, v, k, 0, 1)
    if len(v.shape) != 1:
        raise ValueError("diag: Input must be 1- or 2-d.")
    return _on_diagonal(xp, v, k)


def _on_diagonal(xp: Any, v: Any, k: int) -> Any:
    n = v.shape[0] + abs(k)
    flat = xp.zeros((n * n,), dtype=v.dtype)
    first = k if k >= 0 else -k * n
    if v.shape[0]:
        flat[first : first + (v.shape[0] - 1) * (n + 1) + 1 : n + 1] = v
    return flat.reshape(n, n)


@program(
    "diagflat",
    "v",
    cases=lambda rng: [((rng.standard_normal((2, 2)), 1), {}), ((np.float64(2),), {})],
    same="equal",
)
def diagflat(xp: Any, v: Any, k: int = 0) -> Any:
    """The matrix with the flattened input on its k-th diagonal.

    >>> import infinitensor as it
    >>> it.diagflat(it.arange(1, 3)).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    return _on_diagonal(xp, v.reshape(-1), as_int(k))
