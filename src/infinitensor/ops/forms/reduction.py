"""Reductions: a kernel makes partial results of a tile, `combine` merges two, `finish` ends it.

float16 and bfloat16 are summed in float32. Partial results that association cannot change are
`exact`.
"""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import HALVES, as_dtype, bfloat16, bool_, float32, int64, to_torch
from infinitensor.ir.op import AxisForm, Call, Combine, Op, Spec
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.forms.fold_order import line_axes
from infinitensor.ops.forms.folds import can_fold, sums
from infinitensor.ops.table.registry import Array, op, program
from infinitensor.ops.table.words import EAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def words_of(xp: Any) -> dict[str, Callable[..., Any]]:
    """The vocabulary that goes with an array module."""
    return EAGER["cpu" if xp is np else "cuda"]


def plain_combine(name: str, exact: bool) -> Combine:
    """Partial results merged one by one with one word, by its own name or that of a combine."""
    word = COMBINES.get(name, name)

    def merge(xp: Any, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        apply = words_of(xp)[word]
        return tuple(apply(x, y) for x, y in zip(a, b, strict=True))

    return Combine(name, merge, exact)


SUM = plain_combine("sum", exact=False)


# --- axes and dtypes --------------------------------------------------------------------------


COUNTED = ("mean", "var", "std")
"""Reductions that count what they reduce."""


def reduced_axes(name: str, x: Spec, axis: Any) -> tuple[int, ...]:
    """The axes a user means, sorted; None is all of them.

    As in NumPy a number has a first and a last axis, unless it is counted for a mean.
    """
    if axis is None or (not x.ndim and name not in COUNTED and _is_index(axis) and -2 < axis < 1):
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = []
    for one in given:
        if isinstance(one, bool):
            raise TypeError(f"{name}: an integer is required for the axis, not {one}")
        i = operator.index(one)
        if not -x.ndim <= i < x.ndim:
            raise np.exceptions.AxisError(
                f"{name}: axis {i} is out of bounds for shape {x.shape} of dimension {x.ndim}"
            )
        axes.append(i % x.ndim)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: duplicate value in 'axis' {axis}, shape {x.shape}")
    return tuple(sorted(axes))


def _is_index(axis: Any) -> bool:
    return hasattr(axis, "__index__") and not isinstance(axis, bool) and not np.ndim(axis)


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
        return int64
    return np.dtype(np.uint64) if x.dtype.kind == "u" else x.dtype


def mean_dtype(x: Spec, dtype: Any) -> Dtype:
    """NumPy's result dtype of a mean: float64 for integers."""
    if dtype is not None:
        return as_dtype(dtype)
    return np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype


def wide(dtype: Dtype) -> Dtype:
    """The dtype that sums are accumulated in."""
    return float32 if dtype in HALVES else dtype


def n_reduced(x: Spec, axes: Sequence[int]) -> int:
    return prod(x.shape[axis] for axis in axes)


def _not_empty(name: str, x: Spec, axes: Sequence[int]) -> None:
    if n_reduced(x, axes) == 0:
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


def cpu_sum(
    xp: Any, x: Any, axes: Any, dtype: Dtype, line: tuple[int, ...], **params: Any
) -> tuple[Any]:
    """Floats in the order of generated code; whatever has no rounding as NumPy likes."""
    if axes and can_fold(dtype):
        return (sums(to_dtype(xp, x, dtype), axes, line),)
    found: tuple[Any] = _any_sum(xp, x, axes, dtype)
    return found


def line_of(x: Spec, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes, counted from the last, that the order of sums over some axes goes by."""
    return line_axes(x.shape, tuple(axis - x.ndim for axis in axes))


def cuda_sum(xp: Any, x: Any, axes: Any, dtype: Dtype, **params: Any) -> tuple[Any]:
    if axes and dtype.kind == "f" and x.dtype.is_floating_point:  # cast as it is read
        return (xp.sum(x, axes, dtype=to_torch(dtype)),)
    x = to_dtype(xp, x, dtype)
    if not axes:
        return (x,)
    if dtype.kind == "b":
        return (rows_of(x, axes).any(-1),)
    signed = as_signed(x)
    return (xp.sum(signed, axes, dtype=signed.dtype).view(x.dtype),)


def cuda_sum_at_once(xp: Any, x: Any, axes: Any, out: Any, dtype: Dtype, **params: Any) -> bool:
    """A sum straight into its result: halves add up in float32 there too."""
    if not axes or x.dtype != out.dtype or not (x.is_floating_point() or x.dtype == xp.int64):
        return False
    xp.sum(x, axes, out=out)
    return True


def _cuda_prod(xp: Any, x: Any, axes: Any, dtype: Dtype, **params: Any) -> tuple[Any]:
    x = to_dtype(xp, x, dtype)
    if not axes:
        return (x,)
    if dtype.kind == "b":
        return (rows_of(x, axes).all(-1),)
    signed = as_signed(x)
    return (xp.prod(rows_of(signed, axes), -1, dtype=signed.dtype).view(x.dtype),)


_any_sum = cpu_reduce(np.add)


# NumPy reduces in small buffers. torch may copy a tile into another dtype, or into another order
# (`rows_of`), and needs more for dtypes it does not compute in.


def sum_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    cast = int(params["dtype"].itemsize) if ins[0].dtype != params["dtype"] else 0
    return ins[0].n_elements * cast + 32 * outs[0].n_elements


def _prod_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    copy = int(params["dtype"].itemsize) * ins[0].n_elements
    return copy + sum_scratch(ins, outs, params)


def _extreme_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    if ins[0].dtype in HALVES:
        return 8 * ins[0].n_elements + 32 * outs[0].n_elements
    odd = ins[0].dtype.kind == "c" or (ins[0].dtype.kind == "u" and ins[0].dtype.itemsize > 1)
    return (4 * 8 * ins[0].n_elements if odd else 0) + 32 * outs[0].n_elements


def _truth_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    return 2 * ins[0].n_elements + 16 * outs[0].n_elements


def reduce_cases(*extra: Any, kinds: Sequence[Any] = (np.float64, np.int8, np.complex64)) -> Any:
    """The axes that matter, for some dtypes; `extra` keyword sets are tried on the whole."""

    def cases(rng: np.random.Generator) -> list[Any]:
        x = rng.normal(size=(4, 3, 5)) * 3
        calls: list[Any] = [((x.astype(kind),), {"axis": 1}) for kind in kinds]
        calls += [((x,), {}), ((x,), {"axis": (0, -1)}), ((x,), {"axis": -1, "keepdims": True})]
        calls += [((x[0].astype(np.float16), 0), {}), ((x[0, 0, 0],), {}), ((x > 0, 2), {})]
        return calls + [((x,), dict(more)) for more in extra]

    return cases


def _total_rule(name: str, a: Spec, axis: Any, dtype: Any, keepdims: bool) -> Call:
    kind = sum_dtype(a, dtype)
    total = wide(kind)
    axes = reduced_axes(name, a, axis)
    line = line_of(a, axes)
    return reduce_call(a, axes, keepdims, kind, (total,), dtype=total, line=line)


@op(
    "reduction",
    name="sum",
    kernel=cpu_sum,
    kernels={"cuda": cuda_sum},
    at_once={"cuda": cuda_sum_at_once},
    combine=SUM,
    scratch_bytes=sum_scratch,
    cases=reduce_cases({"axis": 0, "dtype": np.float32}),
)
def sum_(a: Spec, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Call:
    """The sum over the axes; small integers add up in 64 bits, halves in float32.

    >>> import infinitensor as it
    >>> int(it.sum(it.arange(5)))
    10
    """
    return _total_rule("sum", a, axis, dtype, keepdims)


@op(
    "reduction",
    name="prod",
    kernel=cpu_reduce(np.multiply),
    kernels={"cuda": _cuda_prod},
    combine=plain_combine("prod", exact=False),
    scratch_bytes=_prod_scratch,
    cases=reduce_cases({"axis": 0, "dtype": np.float32}),
)
def prod_(a: Spec, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Call:
    """The product over the axes.

    >>> import infinitensor as it
    >>> int(it.prod(it.arange(1, 5)))
    24
    """
    return _total_rule("prod", a, axis, dtype, keepdims)


INFINITY_BITS = {np.dtype(np.float16): 0x7C00, bfloat16: 0x7F80}
NAN_BITS = {np.dtype(np.float16): 0x7E00, bfloat16: 0x7FC0}


def _ranks(bits: np.ndarray) -> np.ndarray:
    """Bits of halves as integers that are ordered as the numbers are, and the way back."""
    found: np.ndarray = bits ^ ((bits >> 15) & 0x7FFF)
    return found


def _cpu_extreme(ufunc: np.ufunc) -> Callable[..., Any]:
    """Of halves by their bits: NumPy compares them one by one."""
    plain = cpu_reduce(ufunc)

    def kernel(xp: Any, x: Any, axes: Any, dtype: Dtype, **params: Any) -> tuple[Any]:
        if dtype not in HALVES or x.dtype != dtype:
            found: tuple[Any] = plain(xp, x, axes, dtype)
            return found
        bits = np.asarray(x).view(np.int16)
        best = _ranks(np.asarray(ufunc.reduce(_ranks(bits), axis=axes)))
        farthest = np.maximum.reduce(bits & 0x7FFF, axis=axes)
        best = np.where(farthest > INFINITY_BITS[dtype], np.int16(NAN_BITS[dtype]), best)
        return (best.view(dtype),)

    return kernel


def cuda_extreme(largest: bool) -> Callable[..., Any]:
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
            top = EAGER["cuda"][word](rows[..., :half], rows[..., half : 2 * half])
            rows = xp.cat([top, rows[..., 2 * half :]], -1)
        return (rows[..., 0],)

    return kernel


def _cuda_extreme_at_once(largest: bool) -> Callable[..., bool]:
    def at_once(xp: Any, x: Any, axes: Any, out: Any, dtype: Dtype) -> bool:
        if not axes or x.dtype in (xp.uint16, xp.uint32, xp.uint64) or x.dtype.is_complex:
            return False
        (xp.amax if largest else xp.amin)(x, axes, out=out)
        return True

    return at_once


def _extreme_rule(name: str, a: Spec, axis: Any, keepdims: bool) -> Call:
    axes = reduced_axes(name, a, axis)
    _not_empty("minimum" if name == "min" else "maximum", a, axes)
    return reduce_call(a, axes, keepdims, a.dtype, (a.dtype,), dtype=a.dtype)


def _extreme_op(name: str) -> Callable[[Callable[..., Call]], Op]:
    return op(
        "reduction",
        name=f"{name} a{name}",
        kernel=_cpu_extreme(np.minimum if name == "min" else np.maximum),
        kernels={"cuda": cuda_extreme(name == "max")},
        at_once={"cuda": _cuda_extreme_at_once(name == "max")},
        combine=plain_combine(name, exact=True),
        scratch_bytes=_extreme_scratch,
        cases=reduce_cases(),
        same="equal",
    )


@_extreme_op("min")
def min_(a: Spec, axis: Any = None, keepdims: bool = False) -> Call:
    """The smallest value over the axes; NaN if there is one.

    >>> import infinitensor as it
    >>> int(it.min(it.asarray([3, 1, 2])))
    1
    """
    return _extreme_rule("min", a, axis, keepdims)


@_extreme_op("max")
def max_(a: Spec, axis: Any = None, keepdims: bool = False) -> Call:
    """The largest value over the axes; NaN if there is one.

    >>> import infinitensor as it
    >>> int(it.max(it.asarray([3, 1, 2])))
    3
    """
    return _extreme_rule("max", a, axis, keepdims)


@program(cases=lambda rng: [((rng.normal(size=(4, 5)), 1), {}), ((np.arange(3),), {})])
def ptp(xp: Any, a: Array, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest value less the smallest, over the axes.

    >>> import infinitensor as it
    >>> int(it.ptp(it.asarray([3, 1, 7])))
    6
    """
    return xp.max(a, axis=axis, keepdims=keepdims) - xp.min(a, axis=axis, keepdims=keepdims)


# --- truth ------------------------------------------------------------------------------------


def _truths(xp: Any, x: Any) -> Any:
    """Where values of a GPU are not zero."""
    return x if x.dtype == xp.bool else x != 0


def _cuda_truth(name: str) -> Callable[..., Any]:
    def kernel(xp: Any, x: Any, axes: Any, dtype: Dtype) -> tuple[Any]:
        return (getattr(rows_of(_truths(xp, x), axes), name)(-1),)

    return kernel


def _cuda_truth_at_once(name: str) -> Callable[..., bool]:
    def at_once(xp: Any, x: Any, axes: Any, out: Any, dtype: Dtype) -> bool:
        signed = (xp.bool, xp.int8, xp.int16, xp.int32, xp.int64)
        if not axes or not (x.is_floating_point() or x.dtype in signed):
            return False
        getattr(xp, name)(x, axes, out=out)
        return True

    return at_once


def _truth(name: str, doc: str) -> None:
    def rule(a: Spec, axis: Any = None, keepdims: bool = False) -> Call:
        axes = reduced_axes(name, a, axis)
        return reduce_call(a, axes, keepdims, bool_, (bool_,), dtype=bool_)

    rule.__doc__ = doc
    op(
        "reduction",
        name=name,
        kernel=cpu_reduce(np.logical_or if name == "any" else np.logical_and),
        kernels={"cuda": _cuda_truth(name)},
        at_once={"cuda": _cuda_truth_at_once(name)},
        combine=plain_combine(name, exact=True),
        scratch_bytes=_truth_scratch,
        cases=reduce_cases(),
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
    return (rows_of(_truths(xp, x), axes).sum(-1),)


@op(
    "reduction",
    kernel=_count_kernel,
    combine=plain_combine("sum", exact=True),
    scratch_bytes=lambda ins, outs, params: (
        8 * ins[0].n_elements + _truth_scratch(ins, outs, params)
    ),
    cases=reduce_cases(),
    same="equal",
)
def count_nonzero(a: Spec, axis: Any = None, *, keepdims: bool = False) -> Call:
    """How many values over the axes are not zero.

    >>> import infinitensor as it
    >>> int(it.count_nonzero(it.asarray([0, 2, 3])))
    2
    """
    return reduce_call(a, reduced_axes("count_nonzero", a, axis), keepdims, int64, (int64,))
