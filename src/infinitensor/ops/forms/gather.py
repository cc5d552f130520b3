"""Ops that only move elements: the form of them all, strided views made real, roll."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.torch_bridge import strided, strides_of
from infinitensor.ops.table.registry import Array, broadcast_form, op, program

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
    """Whether no element is in the box."""
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
    "gather",
    kernel=_strided_kernel,
    need=_strided_need,
    scratch_bytes=_strided_scratch,
    cases=_strided_cases,
    oracle=_strided_oracle,
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
    "mapped",
    kernel=_copy_kernel,
    cases=lambda rng: [((rng.standard_normal((3, 4)),), {}), ((np.float32(2),), {})],
    oracle=np.array,
    same="equal",
)
def _copy(x: Spec) -> Call:
    """The same values in memory of their own."""
    return call(broadcast_form((x,), x.shape), Spec(x.shape, x.dtype))


def along(axis: int, part: Any) -> tuple[Any, ...]:
    """The index that takes `part` of one axis and everything of the axes before and after."""
    return (*(slice(None),) * axis, part)


@program(
    cases=lambda rng: [
        ((x, shift), {"axis": axis})
        for x in (rng.standard_normal((3, 5)),)
        for shift, axis in ((2, None), (-7, 1), (1, 0), ((1, 2), (0, 1)), ((1, 2), 1), (3, (0, 1)))
    ],
    same="equal",
)
def roll(xp: Any, a: Array, shift: int | tuple[int, ...], axis: Axes = None) -> Any:
    """Elements shifted along an axis, those that fall off one end coming back at the other.

    Without an axis the flattened array is rolled. Moves each element once for each axis.

    >>> import infinitensor as it
    >>> it.roll(it.arange(5), 2).numpy().tolist()
    [3, 4, 0, 1, 2]
    """
    if axis is None:
        return xp.roll(a.reshape(-1), shift, 0).reshape(a.shape)
    shifts: dict[int, int] = {}
    if type(axis) is int and type(shift) is int and -len(a.shape) <= axis < len(a.shape):
        shifts[axis % len(a.shape)] = shift  # what loops ask for
    else:
        axes = normalize_axis_tuple(axis, len(a.shape), "roll", allow_duplicate=True)
        pairs = np.broadcast(np.asarray(shift), np.asarray(axes))
        if pairs.ndim > 1:
            raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
        for step, one in pairs:
            shifts[int(one)] = shifts.get(int(one), 0) + int(step)
    rolled = a
    for one, step in shifts.items():
        n = a.shape[one]
        step = step % n if n else 0
        if step:
            parts = [rolled[along(one, slice(n - step, n))], rolled[along(one, slice(0, n - step))]]
            rolled = xp._concatenate(parts, one)
    return xp._copy(a) if rolled is a else rolled
