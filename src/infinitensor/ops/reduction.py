"""Reductions: a kernel makes partial results of a tile, `combine` merges two, `finish` ends it.

float16 is summed in float32. Partial results that association cannot change are `exact`.
"""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype, to_torch
from infinitensor.ir.op import AxisForm, Call, Combine, Spec
from infinitensor.ops.bridge import as_signed
from infinitensor.ops.registry import op, program
from infinitensor.ops.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.op import At

    Dtype = np.dtype[Any]

COMBINES = {
    "sum": "add",
    "prod": "multiply",
    "min": "minimum",
    "max": "maximum",
    "any": "logical_or",
    "all": "logical_and",
}
"""The plain combines by name: the word that merges two partial results."""

_INT64 = np.dtype(np.int64)
_BOOL = np.dtype(bool)


def words_of(xp: Any) -> dict[str, Callable[..., Any]]:
    """The vocabulary that goes with an array module."""
    return WORDS["cpu" if xp is np else "cuda"]


def plain_combine(name: str, exact: bool) -> Combine:
    """Partial results merged one by one with one word, by its own name or that of a combine."""
    word = COMBINES.get(name, name)

    def merge(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        apply = words_of(xp)[word]
        return tuple(apply(x, y) for x, y in zip(a, b, strict=True))

    return Combine(name, merge, exact)


SUM = plain_combine("sum", exact=False)


# --- axes and dtypes --------------------------------------------------------------------------


def reduced_axes(name: str, x: Spec, axis: Any) -> tuple[int, ...]:
    """The axes a user means, sorted; None is all of them."""
    if axis is None:
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = []
    for one in given:
        i = operator.index(one)
        if not -x.ndim <= i < x.ndim:
            raise np.exceptions.AxisError(
                f"{name}: axis {i} is out of bounds for shape {x.shape} of dimension {x.ndim}"
            )
        axes.append(i % x.ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: duplicate value in 'axis' {axis}, shape {x.shape}")
    return tuple(sorted(axes))


def reduce_form(shape: tuple[int, ...], axes: Sequence[int], keepdims: bool) -> AxisForm:
    """Label i is input axis i; the reduced ones are gone, or of size 1."""
    labels = tuple(range(len(shape)))
    kept = tuple(None if i in axes else i for i in labels if keepdims or i not in axes)
    return AxisForm(shape, (labels,), (kept,))


def reduce_call(
    x: Spec,
    axes: Sequence[int],
    keepdims: bool,
    made: Dtype,
    parts: tuple[Dtype, ...],
    **params: Any,
) -> Call:
    form = reduce_form(x.shape, axes, bool(keepdims))
    shape = tuple(1 if label is None else x.shape[label] for label in form.outputs[0])
    return Call(form, (Spec(shape, made),), tuple(params.items()), (x.dtype,), parts)


def sum_dtype(x: Spec, dtype: Any) -> Dtype:
    """NumPy's result dtype of a sum or product: small integers become 64 bits."""
    if dtype is not None:
        return as_dtype(dtype)
    if x.dtype.kind in "bi":
        return _INT64
    return np.dtype(np.uint64) if x.dtype.kind == "u" else x.dtype


def mean_dtype(x: Spec, dtype: Any) -> Dtype:
    """NumPy's result dtype of a mean: float64 for integers."""
    if dtype is not None:
        return as_dtype(dtype)
    return np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype


def wide(dtype: Dtype) -> Dtype:
    """What sums are accumulated in."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _real(dtype: Dtype) -> Dtype:
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def _n_reduced(x: Spec, axes: Sequence[int]) -> int:
    return prod(x.shape[axis] for axis in axes)


def _not_empty(name: str, x: Spec, axes: Sequence[int]) -> None:
    if _n_reduced(x, axes) == 0:
        raise ValueError(
            f"zero-size array to reduction operation {name} which has no identity: shape {x.shape}"
        )


# --- kernels ----------------------------------------------------------------------------------


def to_dtype(xp: Any, x: Any, dtype: Dtype) -> Any:
    """A tile in another dtype; itself where it has it. Complex to real keeps the real part."""
    if xp is np:
        array = np.asarray(x)
        if array.dtype.kind == "c" and dtype.kind not in "cb":
            array = array.real
        return array.astype(dtype, copy=False)
    if x.dtype.is_complex and dtype.kind not in "cb":
        x = x.real
    return x.to(to_torch(dtype))


def rows_of(x: Any, axes: Sequence[int]) -> Any:
    """A torch tile as (kept axes ..., all reduced elements in C order)."""
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = [x.shape[i] for i in kept]
    return x.permute((*kept, *axes)).reshape((*shape, prod(x.shape[i] for i in axes)))


def cpu_reduce(ufunc: np.ufunc) -> Callable[..., Any]:
    def kernel(xp: Any, x: Any, axes: Any, dtype: Dtype, **params: Any) -> tuple[Any]:
        if x.dtype.kind == "c" and dtype.kind not in "cb":
            x = x.real
        return (np.asarray(ufunc.reduce(x, axis=axes, dtype=dtype)),)

    return kernel


def _cuda_sum(xp: Any, x: Any, axes: Any, dtype: Dtype, **params: Any) -> tuple[Any]:
    x = to_dtype(xp, x, dtype)
    if not axes:
        return (x,)
    if dtype.kind == "b":
        return (rows_of(x, axes).any(-1),)
    signed = as_signed(x)
    return (xp.sum(signed, axes, dtype=signed.dtype).view(x.dtype),)


def _cuda_prod(xp: Any, x: Any, axes: Any, dtype: Dtype, **params: Any) -> tuple[Any]:
    x = to_dtype(xp, x, dtype)
    if not axes:
        return (x,)
    if dtype.kind == "b":
        return (rows_of(x, axes).all(-1),)
    signed = as_signed(x)
    return (xp.prod(rows_of(signed, axes), -1, dtype=signed.dtype).view(x.dtype),)


# NumPy reduces in small buffers. torch may copy a tile into another dtype, or into another order
# (`rows_of`), and needs more for dtypes it does not compute in.


def _sum_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    cast = int(params["dtype"].itemsize) if ins[0].dtype != params["dtype"] else 0
    return ins[0].n_elements * cast + 32 * outs[0].n_elements


def _prod_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    copy = int(params["dtype"].itemsize) * ins[0].n_elements
    return copy + _sum_scratch(ins, outs, params)


def _extreme_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    odd = ins[0].dtype.kind == "c" or (ins[0].dtype.kind == "u" and ins[0].dtype.itemsize > 1)
    return (4 * 8 * ins[0].n_elements if odd else 0) + 32 * outs[0].n_elements


def _truth_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 2 * ins[0].n_elements + 16 * outs[0].n_elements


def _arg_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    copies = int(ins[0].dtype.itemsize) + {"b": 8, "u": 8, "c": 48}.get(ins[0].dtype.kind, 0)
    return copies * ins[0].n_elements + 96 * outs[0].n_elements


_X = "a"


def _cases(*extra: Any, kinds: Sequence[Any] = (np.float64, np.int8, np.complex64)) -> Any:
    """The axes that matter, for some dtypes; `extra` keyword sets are tried on the whole."""

    def cases(rng: np.random.Generator) -> list[Any]:
        x = rng.normal(size=(4, 3, 5)) * 3
        calls: list[Any] = [((x.astype(kind),), {"axis": 1}) for kind in kinds]
        calls += [((x,), {}), ((x,), {"axis": (0, -1)}), ((x,), {"axis": -1, "keepdims": True})]
        calls += [((x[0].astype(np.float16), 0), {}), ((x[0, 0, 0],), {}), ((x > 0, 2), {})]
        return calls + [((x,), dict(more)) for more in extra]

    return cases


@op(
    "sum",
    "reduction",
    _X,
    kernel=cpu_reduce(np.add),
    kernels={"cuda": _cuda_sum},
    combine=SUM,
    scratch_bytes=_sum_scratch,
    cases=_cases({"axis": 0, "dtype": np.float32}),
)
def sum_(a: Spec, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Call:
    """The sum over the axes; small integers add up in 64 bits, float16 in float32.

    >>> import infinitensor as it
    >>> int(it.sum(it.arange(5)))
    10
    """
    kind = sum_dtype(a, dtype)
    return reduce_call(
        a, reduced_axes("sum", a, axis), keepdims, kind, (wide(kind),), dtype=wide(kind)
    )


@op(
    "prod",
    "reduction",
    _X,
    kernel=cpu_reduce(np.multiply),
    kernels={"cuda": _cuda_prod},
    combine=plain_combine("prod", exact=False),
    scratch_bytes=_prod_scratch,
    cases=_cases({"axis": 0, "dtype": np.float32}),
)
def prod_(a: Spec, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Call:
    """The product over the axes.

    >>> import infinitensor as it
    >>> int(it.prod(it.arange(1, 5)))
    24
    """
    kind = sum_dtype(a, dtype)
    return reduce_call(
        a, reduced_axes("prod", a, axis), keepdims, kind, (wide(kind),), dtype=wide(kind)
    )


def _cuda_extreme(largest: bool) -> Callable[..., Any]:
    word = "maximum" if largest else "minimum"

    def kernel(xp: Any, x: Any, axes: Any, dtype: Dtype) -> tuple[Any]:
        if not axes:
            return (x,)
        if x.dtype in (xp.uint16, xp.uint32):
            return (kernel(xp, x.to(xp.int64), axes, dtype)[0].to(x.dtype),)
        if x.dtype == xp.uint64:
            flipped = kernel(xp, x.view(xp.int64) ^ -(2**63), axes, dtype)[0]
            return ((flipped ^ -(2**63)).view(xp.uint64),)
        if not x.dtype.is_complex:
            return ((xp.amax if largest else xp.amin)(x, axes),)
        rows = rows_of(x, axes)
        while rows.shape[-1] > 1:  # complex numbers have no torch order: halve with the word
            half = rows.shape[-1] // 2
            top = WORDS["cuda"][word](rows[..., :half], rows[..., half : 2 * half])
            rows = xp.cat([top, rows[..., 2 * half :]], -1)
        return (rows[..., 0],)

    return kernel


def _extreme_rule(name: str, a: Spec, axis: Any, keepdims: bool) -> Call:
    axes = reduced_axes(name, a, axis)
    _not_empty("minimum" if name == "min" else "maximum", a, axes)
    return reduce_call(a, axes, keepdims, a.dtype, (a.dtype,), dtype=a.dtype)


def min_(a: Spec, axis: Any = None, keepdims: bool = False) -> Call:
    """The smallest value over the axes; NaN if there is one.

    >>> import infinitensor as it
    >>> int(it.min(it.asarray([3, 1, 2])))
    1
    """
    return _extreme_rule("min", a, axis, keepdims)


def max_(a: Spec, axis: Any = None, keepdims: bool = False) -> Call:
    """The largest value over the axes; NaN if there is one.

    >>> import infinitensor as it
    >>> int(it.max(it.asarray([3, 1, 2])))
    3
    """
    return _extreme_rule("max", a, axis, keepdims)


for _names, _rule, _ufunc in (
    (("min", "amin"), min_, np.minimum),
    (("max", "amax"), max_, np.maximum),
):
    for _name in _names:
        op(
            _name,
            "reduction",
            _X,
            kernel=cpu_reduce(_ufunc),
            kernels={"cuda": _cuda_extreme(_names[0] == "max")},
            combine=plain_combine(_names[0], exact=True),
            scratch_bytes=_extreme_scratch,
            cases=_cases(),
            same="equal",
        )(_rule)


@program("ptp", _X, cases=lambda rng: [((rng.normal(size=(4, 5)), 1), {}), ((np.arange(3),), {})])
def ptp(xp: Any, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest value less the smallest, over the axes.

    >>> import infinitensor as it
    >>> int(it.ptp(it.asarray([3, 1, 7])))
    6
    """
    return xp.max(a, axis=axis, keepdims=keepdims) - xp.min(a, axis=axis, keepdims=keepdims)


# --- truth ------------------------------------------------------------------------------------


def _cuda_truth(name: str) -> Callable[..., Any]:
    def kernel(xp: Any, x: Any, axes: Any, dtype: Dtype) -> tuple[Any]:
        return (getattr(rows_of(x != 0, axes), name)(-1),)

    return kernel


def _truth(name: str, doc: str) -> None:
    def rule(a: Spec, axis: Any = None, keepdims: bool = False) -> Call:
        axes = reduced_axes(name, a, axis)
        return reduce_call(a, axes, keepdims, _BOOL, (_BOOL,), dtype=_BOOL)

    rule.__doc__ = doc
    op(
        name,
        "reduction",
        _X,
        kernel=cpu_reduce(np.logical_or if name == "any" else np.logical_and),
        kernels={"cuda": _cuda_truth(name)},
        combine=plain_combine(name, exact=True),
        scratch_bytes=_truth_scratch,
        cases=_cases(),
        same="equal",
    )(rule)


_truth(
    "any",
    """True where a value over the axes is not zero.

    >>> import infinitensor as it
    >>> it.any(it.asarray([0, 2])).item()
    True
    """,
)
_truth(
    "all",
    """True where no value over the axes is zero.

    >>> import infinitensor as it
    >>> it.all(it.asarray([0, 2])).item()
    False
    """,
)


def _count_kernel(xp: Any, x: Any, axes: Any) -> tuple[Any]:
    if xp is np:
        return (np.asarray(np.add.reduce(x != 0, axis=axes, dtype=np.int64)),)
    return (rows_of(x != 0, axes).sum(-1),)


@op(
    "count_nonzero",
    "reduction",
    _X,
    kernel=_count_kernel,
    combine=plain_combine("sum", exact=True),
    scratch_bytes=lambda ins, outs, params: (
        8 * ins[0].n_elements + _truth_scratch(ins, outs, params)
    ),
    cases=_cases(),
    same="equal",
)
def count_nonzero(a: Spec, axis: Any = None, *, keepdims: bool = False) -> Call:
    """How many values over the axes are not zero.

    >>> import infinitensor as it
    >>> int(it.count_nonzero(it.asarray([0, 2, 3])))
    2
    """
    return reduce_call(a, reduced_axes("count_nonzero", a, axis), keepdims, _INT64, (_INT64,))


# --- moments ----------------------------------------------------------------------------------


def _mean_finish(xp: Any, total: Any, out: Any, dtype: Dtype, n: int) -> None:
    if dtype.kind in "fc":
        quotient = total / total.dtype.type(n) if xp is np else total / n
    else:
        quotient = to_dtype(xp, total, np.dtype(np.float64)) / n
    out[...] = to_dtype(xp, quotient, dtype) if dtype.kind not in "fc" else quotient


@op(
    "mean",
    "reduction",
    _X,
    kernel=cpu_reduce(np.add),
    kernels={"cuda": _cuda_sum},
    combine=SUM,
    finish=_mean_finish,
    scratch_bytes=_sum_scratch,
    cases=_cases({"axis": 0, "dtype": np.float32}),
)
def mean(a: Spec, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Call:
    """The arithmetic mean over the axes; float64 for integers. NaN over nothing.

    >>> import infinitensor as it
    >>> float(it.mean(it.arange(5)))
    2.0
    """
    axes = reduced_axes("mean", a, axis)
    kind = mean_dtype(a, dtype)
    total = wide(kind)
    return reduce_call(a, axes, keepdims, kind, (total,), dtype=total, n=_n_reduced(a, axes))


def _moments_kernel(xp: Any, x: Any, axes: Any, dtype: Dtype, **params: Any) -> tuple[Any, ...]:
    """(count, mean, sum of squared distances from the mean) of a tile."""
    n = prod(x.shape[axis] for axis in axes)
    x = to_dtype(xp, x, dtype)
    kept = tuple(m for i, m in enumerate(x.shape) if i not in axes)
    if xp is np:
        count = np.full(kept, n, np.int64)
        mean = np.add.reduce(x, axis=axes, keepdims=True) / dtype.type(max(n, 1))
        away = np.asarray(x - mean)
        if dtype.kind == "c":
            away = away.real**2 + away.imag**2
        else:
            np.multiply(away, away, out=away)
        m2 = np.add.reduce(away, axis=axes)
        return count, np.asarray(mean).reshape(kept), np.asarray(m2)
    count = xp.full(kept, n, dtype=xp.int64, device=x.device)
    mean = xp.sum(x, axes, keepdim=True) / max(n, 1) if axes else x
    away = x - mean
    away = away.real**2 + away.imag**2 if dtype.kind == "c" else away.mul_(away)
    return count, mean.reshape(kept), xp.sum(away, axes) if axes else away


def _merge_moments(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Chan's rule."""
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = a, b
    n = n_a + n_b
    share = xp.asarray(n_b, dtype=xp.float64) / xp.asarray(n, dtype=xp.float64)
    share = xp.asarray(share, dtype=m2_a.dtype)
    weight = share * xp.asarray(n_a, dtype=m2_a.dtype)
    delta = mean_b - mean_a
    squared = delta.real**2 + delta.imag**2 if np.dtype(_kind(delta)).kind == "c" else delta * delta
    return n, mean_a + delta * share, m2_a + m2_b + squared * weight


def _kind(x: Any) -> str:
    return str(x.dtype).rpartition(".")[2]


def _var_finish(
    xp: Any, n: Any, mean: Any, m2: Any, out: Any, dtype: Dtype, ddof: float, root: bool
) -> None:
    degrees = xp.asarray(n, dtype=xp.float64) - ddof
    degrees = xp.clip(degrees, 0, None)
    variance = m2 / xp.asarray(degrees, dtype=m2.dtype)
    out[...] = xp.sqrt(variance) if root else variance


def _moments_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 3 * ins[0].n_elements * int(params["dtype"].itemsize) + 96 * outs[0].n_elements


def _var_rule(
    name: str, a: Spec, axis: Any, dtype: Any, ddof: float, keepdims: bool, correction: float | None
) -> Call:
    if correction is not None:
        if ddof != 0:
            raise ValueError(f"{name}: ddof and correction can't be provided simultaneously.")
        ddof = correction
    kind = mean_dtype(a, dtype)
    if kind.kind not in "fc":
        raise TypeError(f"{name}: dtype must be inexact, got {kind}")
    loop = wide(kind)
    if a.dtype.kind == "c" and loop.kind != "c":
        raise TypeError(f"{name}: cannot cast {a.dtype} to {kind}")
    parts = (_INT64, loop, _real(loop))
    axes = reduced_axes(name, a, axis)
    return reduce_call(
        a, axes, keepdims, _real(kind), parts, dtype=loop, ddof=float(ddof), root=name == "std"
    )


_MOMENTS: dict[str, Any] = {
    "kernel": _moments_kernel,
    "combine": Combine("moments", _merge_moments, exact=False),
    "finish": _var_finish,
    "scratch_bytes": _moments_scratch,
    "cost": 4.0,
    "cases": _cases({"axis": 0, "ddof": 1}, {"correction": 1}),
}


@op("var", "reduction", _X, **_MOMENTS)
def var(
    a: Spec,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
) -> Call:
    """The variance over the axes: squared distances from the mean, divided by n - ddof.

    One pass over the data; pieces are merged by their count, mean and squared distances.

    >>> import infinitensor as it
    >>> float(it.var(it.asarray([1.0, 3.0])))
    1.0
    """
    return _var_rule("var", a, axis, dtype, ddof, keepdims, correction)


@op("std", "reduction", _X, **_MOMENTS)
def std(
    a: Spec,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
) -> Call:
    """The standard deviation over the axes: the square root of `var`.

    >>> import infinitensor as it
    >>> float(it.std(it.asarray([1.0, 3.0])))
    1.0
    """
    return _var_rule("std", a, axis, dtype, ddof, keepdims, correction)


# --- positions --------------------------------------------------------------------------------


def _taken(xp: Any, x: Any, positions: Any) -> Any:
    """take_along_axis over the last axis; torch gathers wide unsigned integers as signed ones."""
    if xp is np:
        return np.take_along_axis(x, positions, -1)
    signed = {xp.uint16: xp.int16, xp.uint32: xp.int32, xp.uint64: xp.int64}.get(x.dtype)
    if signed is None:
        return xp.gather(x, -1, positions)
    return xp.gather(x.view(signed), -1, positions).view(x.dtype)


def _signed_order(xp: Any, x: Any) -> Any:
    """A torch tile in a dtype that argmin knows, in the same order."""
    if x.dtype == xp.uint64:
        return x.view(xp.int64) ^ -(2**63)
    if x.dtype in (xp.bool, xp.uint16, xp.uint32):
        return x.to(xp.int64)
    return x


def _cuda_arg(xp: Any, rows: Any, largest: bool) -> Any:
    rows = _signed_order(xp, rows)
    if not rows.dtype.is_complex:
        return (xp.argmax if largest else xp.argmin)(rows, -1)
    best = _cuda_extreme(largest)(xp, rows, (rows.ndim - 1,), np.dtype(complex))[0].unsqueeze(-1)
    hit = (rows == best) | (xp.isnan(best) & xp.isnan(rows))
    return xp.argmax(hit.to(xp.int8), -1)


def _numpy_arg(rows: Any, largest: bool) -> Any:
    return np.asarray((np.argmax if largest else np.argmin)(rows, axis=-1))


def _arg_kernel(
    xp: Any, x: Any, axes: Any, at: At, shape: tuple[int, ...], largest: bool
) -> tuple[Any, Any]:
    """(best value, its index): along the one axis, or in C order over all of them."""
    box = at.inputs[0]
    assert box is not None
    if xp is np and len(axes) == 1:
        best = np.argmax if largest else np.argmin
        found = np.asarray(best(x, axis=axes[0], keepdims=True))
        value = np.take_along_axis(x, found, axes[0]).squeeze(axes[0])
        local = found.squeeze(axes[0])
    else:  # all axes, in C order; torch takes one axis in this form too
        rows = np.asarray(x).reshape(-1) if xp is np else rows_of(x, axes)
        local = _numpy_arg(rows, largest) if xp is np else _cuda_arg(xp, rows, largest)
        value = _taken(xp, rows, local[..., None])[..., 0]
    where, stride = 0, 1
    for axis in reversed(axes):
        n = max(x.shape[axis], 1)
        where = where + (local % n + box[axis][0]) * stride
        local = local // n
        stride *= shape[axis]
    return value, where


def _merge_arg(largest: bool) -> Callable[..., tuple[Any, Any]]:
    """NaN wins, then the better value, then the smaller index."""

    def merge(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, Any]:
        words = words_of(xp)
        (value_a, at_a), (value_b, at_b) = a, b
        nan_a, nan_b = (words["not_equal"](v, v) for v in (value_a, value_b))
        beats = words["greater" if largest else "less"](value_b, value_a)
        same = words["equal"](value_a, value_b) | (nan_a & nan_b)
        take = ((beats & ~nan_a) | (nan_b & ~nan_a)) | (same & (at_b < at_a))
        return words["where"](take, value_b, value_a), xp.where(take, at_b, at_a)

    return merge


def _arg_finish(xp: Any, value: Any, where: Any, out: Any, **params: Any) -> None:
    out[...] = where


def _arg_rule(name: str, a: Spec, axis: Any, keepdims: bool) -> Call:
    axes = reduced_axes(name, a, None if axis is None else operator.index(axis))
    if _n_reduced(a, axes) == 0:
        raise ValueError(
            f"attempt to get {name} of an empty sequence: shape {a.shape}, axis {axis}"
        )
    return reduce_call(
        a, axes, keepdims, _INT64, (a.dtype, _INT64), shape=a.shape, largest=name == "argmax"
    )


def argmin(a: Spec, axis: Any = None, *, keepdims: bool = False) -> Call:
    """The index of the smallest value along an axis, or in C order over all of them.

    NaN counts as smallest. The first of equal values wins.

    >>> import infinitensor as it
    >>> int(it.argmin(it.asarray([3, 1, 2])))
    1
    """
    return _arg_rule("argmin", a, axis, keepdims)


def argmax(a: Spec, axis: Any = None, *, keepdims: bool = False) -> Call:
    """The index of the largest value along an axis, or in C order over all of them.

    NaN counts as largest. The first of equal values wins.

    >>> import infinitensor as it
    >>> int(it.argmax(it.asarray([3, 1, 2])))
    0
    """
    return _arg_rule("argmax", a, axis, keepdims)


def _arg_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.integers(0, 5, (4, 3, 5)).astype(float)
    nan = np.where(x == 2, np.nan, x)
    return [
        ((x,), {}),
        ((x, 1), {}),
        ((nan,), {"axis": 2}),
        ((nan,), {}),
        ((x,), {"axis": 0, "keepdims": True}),
        ((x.astype(np.uint8), -1), {}),
        ((x > 2, 0), {}),
        ((x[0] + 1j * x[1], 0), {}),
    ]


for _arg in (argmin, argmax):
    op(
        _arg.__name__,
        "reduction",
        _X,
        kernel=_arg_kernel,
        combine=Combine(_arg.__name__, _merge_arg(_arg is argmax), exact=True),
        finish=_arg_finish,
        located=True,
        scratch_bytes=_arg_scratch,
        cases=_arg_cases,
        same="equal",
    )(_arg)


# --- logsumexp --------------------------------------------------------------------------------


def _anchor(xp: Any, top: Any) -> Any:
    """What is taken off before exp: the maximum where it is finite."""
    return xp.where(xp.isfinite(top), top, xp.zeros_like(top))


def _logsumexp_kernel(xp: Any, x: Any, axes: Any, dtype: Dtype) -> tuple[Any, Any]:
    """(maximum, sum of exp(x - maximum)) of a tile."""
    x = to_dtype(xp, x, dtype)
    if xp is np:
        top = np.maximum.reduce(x, axis=axes, keepdims=True, initial=-np.inf)
        away = np.asarray(x - _anchor(np, top))
        np.exp(away, out=away)
        total = np.asarray(np.add.reduce(away, axis=axes))
        return np.asarray(top).reshape(total.shape), total
    rows = rows_of(x, axes)
    if rows.shape[-1] == 0:
        none = xp.zeros(rows.shape[:-1], dtype=rows.dtype, device=rows.device)
        return none - xp.inf, none
    top = rows.amax(-1)
    return top, (rows - _anchor(xp, top).unsqueeze(-1)).exp_().sum(-1)


def _merge_logsumexp(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, Any]:
    top = xp.maximum(a[0], b[0])
    anchor = _anchor(xp, top)
    total = 0
    for part_top, part in (a, b):
        scale = xp.exp(_anchor(xp, part_top) - anchor)
        scale = xp.where(part_top == -xp.inf, xp.zeros_like(scale), scale)
        total = total + part * scale
    return top, total


def _logsumexp_finish(xp: Any, top: Any, total: Any, out: Any, dtype: Dtype) -> None:
    out[...] = xp.log(total) + _anchor(xp, top)


def _logsumexp_oracle(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    a = np.asarray(a)
    if a.dtype.kind == "c":
        raise TypeError("logsumexp: needs real numbers")
    kind = np.dtype(np.float64) if a.dtype.kind in "biu" else a.dtype
    reduce: Any = np.logaddexp.reduce
    found = reduce(a.astype(wide(kind)), axis=axis, keepdims=keepdims)
    return np.asarray(found, kind)


@op(
    "logsumexp",
    "reduction",
    _X,
    kernel=_logsumexp_kernel,
    combine=Combine("logsumexp", _merge_logsumexp, exact=False),
    finish=_logsumexp_finish,
    scratch_bytes=lambda ins, outs, params: (
        3 * ins[0].n_elements * params["dtype"].itemsize + 6 * 8 * outs[0].n_elements
    ),
    cost=10.0,
    cases=_cases(kinds=(np.float64, np.int8)),
    oracle=_logsumexp_oracle,
    method=False,
)
def logsumexp(a: Spec, axis: Any = None, keepdims: bool = False) -> Call:
    """log(sum(exp(a))) over the axes, without overflow on the way; -inf over nothing.

    >>> import infinitensor as it
    >>> float(it.logsumexp(it.asarray([1000.0, -1000.0])))
    1000.0
    """
    kind = mean_dtype(a, None)
    if kind.kind != "f":
        raise TypeError(f"logsumexp: needs real numbers, got {a.dtype}")
    loop = wide(kind)
    axes = reduced_axes("logsumexp", a, axis)
    return reduce_call(a, axes, keepdims, kind, (loop, loop), dtype=loop)


# --- top k ------------------------------------------------------------------------------------


def _sort_keys(xp: Any, x: Any, largest: bool) -> Any:
    """int64 keys in the order wanted: the best has the smallest; NaN is the largest value."""
    if xp is np:
        if x.dtype.kind == "f":
            wide_x = x.astype(np.float64) + 0.0
            bits = wide_x.view(np.int64)
            keys = np.where(np.isnan(x), 2**63 - 1, bits ^ ((bits >> 63) & (2**63 - 1)))
        else:
            keys = x.astype(np.int64)
            keys = keys ^ -(2**63) if x.dtype == np.uint64 else keys
    elif x.dtype.is_floating_point:
        bits = (x.to(xp.float64) + 0.0).view(xp.int64)
        keys = xp.where(xp.isnan(x), 2**63 - 1, bits ^ ((bits >> 63) & (2**63 - 1)))
    else:
        keys = x.view(xp.int64) ^ -(2**63) if x.dtype == xp.uint64 else x.to(xp.int64)
    return ~keys if largest else keys


def _first_k(xp: Any, keys: Any, where: Any, k: int) -> Any:
    """Positions of the k smallest (key, where) along the last axis, in order."""
    if xp is np:
        return np.lexsort((where, keys), axis=-1)[..., :k]
    by_index = xp.sort(where, dim=-1, stable=True).indices
    by_key = xp.sort(xp.gather(keys, -1, by_index), dim=-1, stable=True).indices
    return xp.gather(by_index, -1, by_key)[..., :k]


def _topk_kernel(xp: Any, x: Any, axes: Any, at: At, k: int, largest: bool) -> tuple[Any, Any]:
    """(values, indices) of the best k of a tile; a tile with fewer is filled up behind the end."""
    box = at.inputs[0]
    assert box is not None
    lo, n = box[-1][0], x.shape[-1]
    keys = _sort_keys(xp, x, largest)
    worst = _worst(np.dtype(_kind(x)), largest)
    if xp is np:
        best = _numpy_first_k(keys, min(k, n))
        values, where = _taken(xp, x, best), best + lo
        if n < k:
            shape = (*x.shape[:-1], k - n)
            values = np.concatenate([values, np.full(shape, worst, x.dtype)], -1)
            where = np.concatenate([where, np.full(shape, 2**62)], -1)
        return values, where
    best = xp.sort(keys, dim=-1, stable=True).indices[..., :k]
    values, where = _taken(xp, x, best), best + lo
    if n < k:
        shape = (*x.shape[:-1], k - n)
        fill = xp.zeros(shape, dtype=x.dtype, device=x.device)
        values = xp.cat(
            [values, fill + worst if x.dtype.is_floating_point else fill.fill_(worst)], -1
        )
        where = xp.cat([where, xp.full(shape, 2**62, device=x.device)], -1)
    return values, where


def _numpy_first_k(keys: Any, k: int) -> Any:
    """Positions of the k smallest keys in order, the first of equal ones first, in linear time."""
    n = keys.shape[-1]
    if k == 0:
        return np.zeros((*keys.shape[:-1], 0), np.int64)
    if 4 * k >= n:
        return np.argsort(keys, axis=-1, kind="stable")[..., :k]
    limit = np.partition(keys, k - 1, axis=-1)[..., k - 1 : k]
    below = keys < limit
    tied = keys == limit
    room = k - np.count_nonzero(below, axis=-1, keepdims=True)
    chosen = below | (tied & (np.cumsum(tied, axis=-1) <= room))
    positions = np.nonzero(chosen)[-1].reshape(*keys.shape[:-1], k)
    order = np.argsort(np.take_along_axis(keys, positions, -1), axis=-1, kind="stable")
    return np.take_along_axis(positions, order, -1)


def _merge_topk(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...], largest: bool) -> tuple[Any, Any]:
    k = a[0].shape[-1]
    join = np.concatenate if xp is np else xp.cat
    values, where = join([a[0], b[0]], -1), join([a[1], b[1]], -1)
    best = _first_k(xp, _sort_keys(xp, values, largest), where, k)
    return _taken(xp, values, best), _taken(xp, where, best)


def _topk_merger(largest: bool) -> Combine:
    def merge(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, Any]:
        return _merge_topk(xp, a, b, largest)

    return Combine("topk", merge, exact=True)


def _topk_rule(x: Spec, k: int, largest: bool) -> Call:
    n = x.shape[-1]
    labels = tuple(range(x.ndim))
    form = AxisForm((*x.shape, k), (labels,), ((*labels[:-1], x.ndim),) * 2, frozenset((x.ndim,)))
    shape = (*x.shape[:-1], k)
    params = (("k", k), ("largest", largest))
    assert 0 <= k <= n
    outs = (Spec(shape, x.dtype), Spec(shape, _INT64))
    return Call(form, outs, params, (), (x.dtype, _INT64), (k,))


def _worst(dtype: Dtype, largest: bool) -> float | int:
    if dtype.kind == "f":
        return -np.inf if largest else np.nan
    if dtype.kind == "b":
        return int(not largest)
    info = np.iinfo(dtype)
    return int(info.min if largest else info.max)


def _topk_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 6 * 8 * ins[0].n_elements + 12 * 8 * outs[0].n_elements


def _topk_finish(xp: Any, values: Any, where: Any, out: Any, **params: Any) -> None:
    out[0][...] = values
    out[1][...] = where


def _numpy_topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    rows = np.moveaxis(np.asarray(x), axis, -1)
    order = np.argsort(_sort_keys(np, rows, largest), axis=-1, kind="stable")[..., :k]
    values = np.take_along_axis(rows, order, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(order, -1, axis)


def _last_topk(largest: bool) -> str:
    """Two internal ops, since a combine knows no parameters."""
    name = "_topk_largest" if largest else "_topk_smallest"

    def rule(x: Spec, k: int) -> Call:
        return _topk_rule(x, k, largest)

    rule.__doc__ = "The best k along the last axis: values and indices."
    op(
        name,
        "reduction",
        "x",
        kernel=_topk_kernel,
        combine=_topk_merger(largest),
        finish=_topk_finish,
        located=True,
        scratch_bytes=_topk_scratch,
        cost=8.0,
        cases=lambda rng: [((rng.integers(0, 6, (3, 9)), 4), {}), ((rng.normal(size=8), 8), {})],
        oracle=lambda x, k: _numpy_topk(x, k, -1, largest),
        same="equal",
    )(rule)
    return name


_TOPK = {largest: _last_topk(largest) for largest in (True, False)}


def _topk_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.integers(0, 6, (4, 9)).astype(np.float32)
    return [((x, 3), {}), ((x, 2), {"axis": 0}), ((x, 9), {"largest": False}), ((x, 0), {})]


@program("topk", "x", cases=_topk_cases, oracle=_numpy_topk, same="equal")
def topk(xp: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    """The k largest (or smallest) values along an axis, best first, and their indices.

    Of equal values the first counts as better; NaN is larger than every number.

    >>> import infinitensor as it
    >>> values, indices = it.topk(it.asarray([5, 9, 7]), 2)
    >>> values.numpy(), indices.numpy()
    (array([9, 7]), array([1, 2]))
    """
    k, ndim = operator.index(k), len(x.shape)
    (axis,) = reduced_axes("topk", Spec(tuple(x.shape), x.dtype), operator.index(axis))
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(
            f"topk: k={k} is not between 0 and {x.shape[axis]}, the size of axis {axis}"
        )
    if x.dtype.kind == "c":
        raise TypeError(f"topk: complex numbers have no order, got {x.dtype}")
    last = axis == ndim - 1
    values, where = getattr(xp, _TOPK[bool(largest)])(x if last else xp.moveaxis(x, axis, -1), k)
    if last:
        return values, where
    return xp.moveaxis(values, -1, axis), xp.moveaxis(where, -1, axis)
