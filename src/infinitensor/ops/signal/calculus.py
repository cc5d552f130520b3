"""Slopes, sums under curves, and values between known points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from infinitensor.dtypes import can_cast, result_type
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.forms.gather import along
from infinitensor.ops.table.registry import Array, op, program

# --- differences ------------------------------------------------------------------------------


@program(
    cases=lambda rng: [
        ((rng.normal(size=(3, 4)),), {}),
        ((rng.integers(0, 9, 6), np.array([7, 8])), {}),
        ((rng.normal(size=5),), {"to_begin": np.float64(2), "to_end": np.array([1, 2])}),
        ((np.zeros(0),), {"to_end": np.ones(2)}),
        ((np.arange(3),), {"to_end": np.array([1.5])}),
    ]
)
def ediff1d(xp: Any, ary: Array, to_end: Array = None, to_begin: Array = None) -> Any:
    """Differences of neighbours of the flattened array, with other values before and behind.

    >>> import infinitensor as it
    >>> it.ediff1d(it.asarray([1, 4, 9]), to_begin=0).tolist()
    [0, 3, 5]
    """
    flat = ary.reshape(-1)
    parts = []
    for name, given in (("to_begin", to_begin), (None, None), ("to_end", to_end)):
        if name is None:
            parts.append(flat[1:] - flat[:-1])
        elif given is not None:
            if not can_cast(given.dtype, flat.dtype, "same_kind"):
                raise TypeError(
                    f"dtype of `{name}` must be compatible "
                    "with input `ary` under the `same_kind` rule."
                )
            parts.append(given.reshape(-1).astype(flat.dtype))
    return parts[0] if len(parts) == 1 else xp._concatenate(parts, 0)


def _heights(rng: Any) -> list[Any]:
    x = rng.normal(size=(5, 6))
    points = np.cumsum(rng.random(6) + 0.1)
    return [
        ((x,), {}),
        ((x, 2.0), {}),
        ((x, 0.5, points), {}),
        ((x, points), {"axis": 1, "edge_order": 2}),
        ((x,), {"axis": (1, 0), "edge_order": 2}),
        ((rng.integers(0, 9, 7), 2), {}),
        ((x.astype(np.float32), np.arange(6)), {"axis": -1}),
        ((x[:, :1],), {"axis": 1}),
        ((x, 1.0, 2.0, 3.0), {}),
        ((x, points[:4], points), {}),
        ((x,), {"edge_order": 3}),
        ((x[0] + 1j,), {}),
    ]


@program(cases=_heights)
def gradient(xp: Any, f: Array, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes along each axis: central inside, one-sided at the ends; a tuple for several axes.

    Distances are a number, or the points along an axis, which are computed now.

    >>> import infinitensor as it
    >>> it.gradient(it.asarray([1.0, 2.0, 4.0, 7.0])).tolist()
    [1.0, 1.5, 2.5, 3.0]
    """
    ndim = len(f.shape)
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
    if not varargs:
        steps: tuple[Any, ...] = (1.0,) * len(axes)
    elif len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        steps = varargs * len(axes)
    elif len(varargs) == len(axes):
        steps = varargs
    else:
        raise TypeError("gradient: invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    steps = tuple(_step(xp, step, f.shape[i], ndim, i) for i, step in zip(axes, steps, strict=True))
    f = f.astype(np.float64) if f.dtype.kind in "iu" else f
    for i in axes:
        if f.shape[i] < edge_order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, "
                f"at least (edge_order + 1) elements are required: shape {tuple(f.shape)}, axis {i}"
            )
    found = tuple(
        _slopes(xp, f, step, i, edge_order).astype(f.dtype)
        for i, step in zip(axes, steps, strict=True)
    )
    return found[0] if len(found) == 1 else found


def _step(xp: Any, step: Any, n: int, ndim: int, axis: int) -> Any:
    """The distance of neighbours: a number, or an array along the axis."""
    if np.ndim(step) == 0:
        return step
    if np.ndim(step) != 1:
        raise ValueError("distances must be either scalars or 1d")
    points = xp.asarray(step)
    if points.shape[0] != n:
        raise ValueError(
            f"when 1d, distances must match the length of the corresponding dimension: "
            f"{points.shape[0]} for axis {axis} of {n}"
        )
    points = points.astype(np.float64) if points.dtype.kind in "iu" else points
    steps = xp.diff(points)
    if n > 1 and bool(xp.force(xp.all(steps == steps[0]))):
        return steps[0]  # no weights: a value that is not finite would spread with weight zero
    return steps.reshape(tuple(n - 1 if i == axis else 1 for i in range(ndim)))


def _slopes(xp: Any, f: Any, step: Any, axis: int, edge_order: int) -> Any:
    def part(x: Any, lo: int | None, hi: int | None) -> Any:
        return x[along(axis, slice(lo, hi))]

    uneven = np.ndim(step) > 0
    left, here, right = part(f, None, -2), part(f, 1, -1), part(f, 2, None)
    if uneven:
        before, after = part(step, None, -1), part(step, 1, None)
        inside = (
            -after / (before * (before + after)) * left
            + (after - before) / (before * after) * here
            + before / (after * (before + after)) * right
        )
    else:
        inside = (right - left) / (2.0 * step)
    ends = []
    for forward in (True, False):  # the other end is the same, seen from behind
        g = f if forward else f[along(axis, slice(None, None, -1))]
        h = step if not uneven or forward else step[along(axis, slice(None, None, -1))]
        one, two = (part(h, 0, 1), part(h, 1, 2)) if uneven else (h, h)
        f0, f1, f2 = part(g, 0, 1), part(g, 1, 2), part(g, 2, 3)
        if edge_order == 1:
            slope = (f1 - f0) / one
        else:
            slope = (
                -(2.0 * one + two) / (one * (one + two)) * f0
                + (one + two) / (one * two) * f1
                - one / (two * (one + two)) * f2
            )
        ends.append(slope if forward else -slope)
    return xp._concatenate([ends[0], inside, ends[1]], axis)


# --- sums under curves ------------------------------------------------------------------------


@program(
    cases=lambda rng: [
        ((rng.normal(size=(4, 5)),), {}),
        ((rng.normal(size=(4, 5)), rng.random(5)), {}),
        ((rng.normal(size=(4, 5)), rng.random(4)), {"axis": 0}),
        ((rng.normal(size=(4, 5)), rng.random((4, 5))), {"axis": 0}),
        ((rng.integers(0, 9, 6),), {"dx": 0.5}),
        ((np.ones(1),), {}),
        ((rng.normal(size=5) + 1j,), {"dx": 2}),
    ]
)
def trapezoid(xp: Any, y: Array, x: Array = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The area under a curve by trapezoids between neighbours, at points x or at distances dx.

    >>> import infinitensor as it
    >>> it.trapezoid(it.asarray([1.0, 2.0, 3.0])).item()
    4.0
    """
    axis = normalize_axis_index(axis, len(y.shape))
    if x is None:
        width = dx
    elif len(x.shape) == 1:
        width = xp.diff(x)
        shape = [1] * len(y.shape)
        shape[axis] = width.shape[0]
        width = width.reshape(tuple(shape))
    else:
        width = xp.diff(x, axis=axis)
    pairs = y[along(axis, slice(1, None))] + y[along(axis, slice(None, -1))]
    return xp.sum(width * pairs / 2.0, axis=axis)


# --- between points ---------------------------------------------------------------------------


def _interp_kernel(xp: Any, x: Any, at: Any, values: Any, out: Any, left: Any, right: Any) -> None:
    interpolate = loop("searchsorted", "interpolate", values.dtype)
    if interpolate is None or not out.flags.c_contiguous:
        out[...] = np.interp(x, at, values, left, right)
        return
    x, at, values = map(np.ascontiguousarray, (x, at, values))
    ends = (values[0] if left is None else left, values[-1] if right is None else right)
    interpolate(x, x.size, at, values, at.size, *map(float, ends), out)


def _interp_torch(xp: Any, x: Any, at: Any, values: Any, out: Any, left: Any, right: Any) -> None:
    n = at.shape[0]
    found = xp.searchsorted(at.contiguous(), x.contiguous(), right=True) - 1
    i = found.clamp(0, max(n - 2, 0))
    j = (i + 1).clamp(max=n - 1)
    x0, x1, y0, y1 = at[i], at[j], values[i], values[j]
    slope = (y1 - y0) / (x1 - x0)
    line = slope * (x - x0) + y0
    # From the other end where this one gives NaN; level where both are the same infinity.
    line = xp.where(line.isnan(), slope * (x - x1) + y1, line)
    line = xp.where(line.isnan() & (y0 == y1), y0, line)
    line = xp.where(x == x0, y0, xp.where(found >= n - 1, values[-1], line))
    line = xp.where(x < at[0], values[0] if left is None else left, line)
    line = xp.where(x > at[-1], values[-1] if right is None else right, line)
    unknown = values[0] if n == 1 else x.to(out.dtype)  # one point is asked only what is beside it
    out[...] = xp.where(x.isnan(), unknown, line)


def _points(rng: Any) -> list[Any]:
    x, heights = rng.normal(size=(4, 5)) * 2, rng.normal(size=4)
    at = np.array([-1.0, 0.0, 0.5, 2.0])
    return [((x, at, heights, None, 3.0), {}), ((x, at, heights + 1j, -2.0, None), {})]


@op(
    "mapped",
    kernel=_interp_kernel,
    kernels={"cuda": _interp_torch},
    scratch_bytes=lambda ins, outs, params: (
        16 * outs[0].n_bytes + ins[0].n_bytes + 4 * ins[1].n_bytes + 4 * ins[2].n_bytes + 1024
    ),
    cost=30.0,
    cases=_points,
    oracle=np.interp,
)
def _interp(x: Spec, at: Spec, values: Spec, left: Any, right: Any) -> Call:
    """`interp` between points that rise, of float64."""
    labels, points = tuple(range(x.ndim)), (x.ndim,)
    form = AxisForm((*x.shape, *at.shape), (labels, points, points), (labels,), frozenset(points))
    return call(form, Spec(x.shape, values.dtype), left=left, right=right)


def _curves(rng: Any) -> list[Any]:
    x = rng.normal(size=(4, 5)) * 2
    at = np.array([-1.0, 0.0, 0.5, 2.0])
    heights = rng.normal(size=4)
    holes = np.where(x > 2, np.nan, x)
    return [
        ((x, at, heights), {}),
        ((holes, at, heights, -9.0, 9.0), {}),
        ((x, at, heights + 1j), {}),
        ((x, at, heights), {"period": 1.5}),
        ((at, at, heights), {}),
        ((x, at[:1], heights[:1]), {"left": 5}),
        ((holes, at[:1], heights[:1]), {"left": 5}),
        ((holes, at, np.array([0.0, np.nan, np.inf, 2.0])), {}),
        ((np.float64(0.25), at, heights), {}),
        ((rng.integers(0, 3, 5), at, np.arange(4)), {}),
        ((x, at, np.array([0.0, np.inf, 1.0, 2.0])), {}),
        ((x, np.array([np.nan, 1.0]), heights[:2]), {}),
        ((x, at[:0], heights[:0]), {}),
        ((x, at, heights[:3]), {}),
        ((x, at, heights), {"period": 0}),
    ]


@program(cases=_curves)
def interp(
    m: Any, x: Array, xp: Array, fp: Array, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Straight lines between the points (xp, fp), at x; xp must rise.

    Before the first and behind the last point: `left`, `right`, by default the ends. With a
    `period` everything is taken modulo it.

    >>> import infinitensor as it
    >>> it.interp(it.asarray([0.5, 9.0]), [0, 1, 2], [0, 10, 20]).tolist()
    [5.0, 20.0]
    """
    kind = np.dtype(np.complex128 if fp.dtype.kind == "c" else np.float64)
    if "c" in (x.dtype.kind, xp.dtype.kind):
        raise TypeError("interp: Cannot cast x or xp from complex to float64 by the rule 'safe'")
    x, xp, fp = x.astype(np.float64), xp.astype(np.float64), fp.astype(kind)
    if len(xp.shape) != 1 or len(fp.shape) != 1:
        raise ValueError("Data points must be 1-D sequences")
    if xp.shape[0] != fp.shape[0]:
        raise ValueError("fp and xp are not of the same length.")
    if not xp.shape[0]:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period, left, right = abs(period), None, None
        x, xp = x % period, xp % period
        order = m.argsort(xp)
        xp, fp = m.take(xp, order, 0), m.take(fp, order, 0)
        xp = m._concatenate([xp[-1:] - period, xp, xp[:1] + period], 0)
        fp = m._concatenate([fp[-1:], fp, fp[:1]], 0)
    left, right = (None if end is None else kind.type(end) for end in (left, right))
    return m._interp(x, xp, fp, left, right)


@program(
    cases=lambda rng: [
        ((rng.normal(size=20) * 6,), {}),
        ((rng.normal(size=(4, 5)) * 6,), {"axis": 0}),
        ((rng.normal(size=20) * 6,), {"discont": 4.0}),
        ((rng.integers(0, 20, 12),), {"period": 8}),
        ((rng.integers(0, 20, 12),), {"period": 7}),
        ((rng.normal(size=9).astype(np.float32) * 6,), {}),
    ]
)
def unwrap(
    xp: Any, p: Array, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi
) -> Any:
    """Angles without jumps: neighbours that differ by more than half a period come nearer.

    >>> import infinitensor as it
    >>> it.unwrap(it.asarray([0, 1, 2, -1, 0]), period=4).tolist()
    [0, 1, 2, 3, 4]
    """
    axis = normalize_axis_index(axis, len(p.shape))
    step = xp.diff(p, axis=axis)
    dtype = result_type(step.dtype, period)
    if dtype.kind in "iu":
        high, odd = divmod(period, 2)
    else:
        high, odd = period / 2, 0
    wrapped = (step + high) % period - high
    if not odd:  # a step of just half a period keeps its direction
        wrapped = xp.where((wrapped == -high) & (step > 0), high, wrapped)
    change = xp.where(
        xp.abs(step) < (period / 2 if discont is None else discont), 0, wrapped - step
    )
    first, rest = p[along(axis, slice(0, 1))], p[along(axis, slice(1, None))]
    moved = rest + xp.cumsum(change, axis)
    return xp._concatenate([first.astype(dtype), moved.astype(dtype)], axis)
