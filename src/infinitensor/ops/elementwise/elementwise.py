"""Elementwise ops: those that are one word of the vocabulary (`ops/table/words.py`), and others.

Loop and output dtypes are those of NumPy's ufunc.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import as_dtype, result_type
from infinitensor.ir.op import AxisForm, Call, Op, Spec
from infinitensor.ops.table.registry import (
    Array,
    add,
    broadcast_form,
    elementwise,
    op,
    program,
    resolve_loop,
)
from infinitensor.ops.table.scalar import trace
from infinitensor.ops.table.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ops.table.words import Word

    Dtypes = tuple[np.dtype[Any], ...]

_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)


def promoted(*specs: Spec) -> np.dtype[Any]:
    """NumPy's result type, where Python scalars are weak."""
    return result_type(*(s.weak() if s.weak in (int, float, complex) else s.dtype for s in specs))


def _comparing(ufunc: np.ufunc) -> Callable[..., Dtypes]:
    """A Python int need not fit the other's dtype: it is compared in 64 bits."""

    def resolve(x: Spec, y: Spec) -> Dtypes:
        specs = tuple(
            Spec(s.shape, _UINT64 if other.dtype == _UINT64 else _INT64)
            if s.weak is int and other.dtype.kind in "iu"
            else s
            for s, other in ((x, y), (y, x))
        )
        if specs == (x, y):
            return resolve_loop(ufunc, specs)
        return (*(s.dtype for s in specs), _BOOL)

    return resolve


def _branches(condition: Spec, x: Spec, y: Spec) -> Dtypes:
    dtype = promoted(x, y)
    return (_BOOL, dtype, dtype, dtype)


def _countable_dtypes(condition: Spec, x: Spec) -> Dtypes:
    dtype = np.dtype(np.int8) if x.dtype == _BOOL else x.dtype
    return (_BOOL, dtype, dtype)


def _or_zero(condition: Any, x: Any) -> Any:
    x = np.asarray(x)
    return np.where(condition, x, np.zeros((), np.int8 if x.dtype == _BOOL else x.dtype))


def _add_word(word: Word) -> None:
    """The op that is one word, under each of its names."""
    resolve: Any = _comparing(word.ufunc) if word.ufunc and word.compares else word.ufunc
    expressions = (
        lambda e, x: getattr(e, word.name)(x),
        lambda e, x1, x2: getattr(e, word.name)(x1, x2),
    )
    for name in word.names:
        elementwise(
            name,
            expressions[word.n_args - 1],
            word.doc,
            dtype=resolve,
            **word.entry,
        )


for _word in WORDS.values():
    _add_word(_word)

# --- choice -----------------------------------------------------------------------------------

elementwise(
    "_where",
    lambda e, condition, x, y: e.where(condition, x, y),
    "x where the condition holds, y elsewhere.",
    dtype=_branches,
    oracle=np.where,
    scratch_bytes=lambda ins, outs, params: 2 * outs[0].n_elements,
)
elementwise(
    "_chosen",
    lambda e, condition, x: e.where(condition, x, 0),
    "x where the condition holds, zero elsewhere; truth as numbers.",
    dtype=_countable_dtypes,
    oracle=_or_zero,
    scratch_bytes=lambda ins, outs, params: 2 * outs[0].n_elements,
)
elementwise(
    "_clip",
    lambda e, x, low, high: e.clip(x, low, high),
    "x, but no less than low and no more than high.",
    dtype=lambda *specs: (promoted(*specs),) * (len(specs) + 1),
    oracle=np.clip,
    scratch_bytes=lambda ins, outs, params: outs[0].n_bytes,
)


def _cast(x: Spec, dtype: Any) -> Call:
    target = as_dtype(dtype)
    return Call(broadcast_form((x,), x.shape), (Spec(x.shape, target),), (), (x.dtype,))


def _cast_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(5, 9)) * 50
    kinds = (np.float32, np.int16, np.bool_, np.complex64)
    return [
        ((x.astype(a), b), {}) for a in kinds for b in (*kinds, np.float16) if a != np.complex64
    ]


add(
    Op(
        "_cast",
        "elementwise",
        _cast,
        ("x",),
        "The values of x in another dtype, as `astype` gives them.",
        expression=trace(lambda e, x: e.cast(x), 1),
        cases=_cast_cases,
        oracle=lambda x, dtype: x.astype(dtype),
        same="equal",
    )
)


def _where_cases(rng: np.random.Generator) -> list[Any]:
    x, y = rng.normal(size=(2, 6, 5))
    return [
        ((x > 0, x, y), {}),
        ((x[0] > 0, x.astype(np.float32), 1.5), {}),
        ((x.round().astype(int), 1, y[:, :1]), {}),
    ]


@program(cases=_where_cases, same="equal")
def where(xp: Any, condition: Array, x: Any = None, y: Any = None) -> Any:
    """x where the condition holds and y elsewhere, broadcast together; reads each once.

    Without x and y: the indices where the condition holds, as `nonzero`.

    >>> import infinitensor as it
    >>> it.where(it.asarray([True, False]), 1, 2).numpy()
    array([1, 2])
    """
    if x is None and y is None:
        return xp.nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    _check_integers(x, y)
    return xp._where(condition, x, y)


def _check_integers(x: Any, y: Any) -> None:
    """Raise what NumPy raises for a Python integer that the dtype of both does not hold:
    from 2.5 on an OverflowError, before that nothing. So the NumPy that is installed is asked."""
    for number, other in ((x, y), (y, x)):
        dtype = getattr(other, "dtype", None)
        if type(number) is int and dtype is not None and dtype.kind in "iub":
            np.where(np.empty(0, bool), number, np.empty(0, dtype))


def _clip_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(6, 5))
    n = np.arange(-4, 5, dtype=np.int8)
    return [
        ((x, -0.5, 0.5), {}),
        ((x,), {"min": x[0]}),
        ((x,), {"max": 0}),
        ((n, -1000, 2), {}),
        ((n, -2, 1000), {}),
        ((n.astype(np.uint8), 1, 3), {}),
    ]


@program(cases=_clip_cases, same="equal")
def clip(
    xp: Any, a: Array, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Any:
    """The values of a, but none below `min` and none above `max`; None is no bound.

    `a_min` and `a_max` are older names of the same; by position come both or the lower alone.

    >>> import infinitensor as it
    >>> it.clip(it.arange(5), 1, 3).numpy()
    array([1, 1, 2, 3, 3])
    """
    if (a_min is not None and min is not None) or (a_max is not None and max is not None):
        raise ValueError("clip: give bounds as a_min, a_max or as min, max, not as both")
    low = a_min if min is None else min
    high = a_max if max is None else max
    if a.dtype.kind in "iu":  # a Python int beyond the dtype is no bound at all
        info = np.iinfo(a.dtype)
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    if low is None and high is None:
        return xp.positive(a)
    if high is None:
        return xp.maximum(a, low)
    return xp.minimum(a, high) if low is None else xp._clip(a, low, high)


# --- round, divmod, angle ---------------------------------------------------------------------


def _round_cpu(xp: Any, x: Any, out: Any, decimals: int) -> None:
    if x.dtype.kind in "iu":  # NumPy rounds integers to tens only without `out`
        out[...] = np.round(x, decimals)
    else:
        np.round(x, decimals, out=out)


def _round_cuda(xp: Any, x: Any, out: Any, decimals: int) -> None:
    if decimals >= 0 and not x.dtype.is_floating_point and not x.dtype.is_complex:
        out.copy_(x)
    elif x.dtype.is_complex:
        _round_cuda(xp, x.real, out.real, decimals)
        _round_cuda(xp, x.imag, out.imag, decimals)
    elif decimals == 0:
        xp.round(x, out=out)
    else:
        wide = x if x.dtype.is_floating_point else x.to(xp.float64)
        factor = 10.0 ** abs(decimals)
        scaled = xp.round(wide * factor if decimals > 0 else wide / factor)
        out.copy_(scaled / factor if decimals > 0 else scaled * factor)


def _round_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(5, 4)) * 100
    return [
        ((x,), {}),
        ((x, 2), {}),
        ((x.astype(np.float32), -1), {}),
        ((x.astype(np.int32), -1), {}),
        ((np.array([0.5, 1.5, 2.5, -0.5]),), {}),
    ]


@op(
    "mapped",
    name="round around",
    wide=True,
    kernel=_round_cpu,
    kernels={"cuda": _round_cuda},
    scratch_bytes=lambda ins, outs, params: 3 * 8 * outs[0].n_elements if params["decimals"] else 0,
    cases=_round_cases,
)
def round_(a: Spec, decimals: int = 0) -> Call:
    """The values of a to so many decimals, halves to even; negative: tens, hundreds ...

    >>> import infinitensor as it
    >>> it.round(it.asarray([1.25, 0.5]), 1).numpy()
    array([1.2, 0.5])
    """
    dtype = np.dtype(np.float16) if a.dtype.kind == "b" else a.dtype
    labels = tuple(range(a.ndim))
    form = AxisForm(a.shape, (labels,), (labels,))
    params = (("decimals", operator.index(decimals)),)
    return Call(form, (Spec(a.shape, dtype),), params, (a.dtype,))


@program(
    name="divmod",
    cases=lambda rng: [((rng.integers(-9, 9, (4, 5)), rng.integers(-3, 4, (5,))), {})],
)
def divmod_(xp: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    """`floor_divide` and `remainder` of x1 and x2.

    >>> import infinitensor as it
    >>> [part.numpy() for part in it.divmod(it.asarray([7, -7]), 2)]
    [array([ 3, -4]), array([1, 1])]
    """
    return xp.floor_divide(x1, x2), xp.remainder(x1, x2)


@program(cases=lambda rng: [((rng.normal(size=5) + 1j * rng.normal(size=5),), {})])
def angle(xp: Any, z: Array, deg: bool = False) -> Any:
    """The angle of complex numbers in the plane, in radians or degrees.

    >>> import infinitensor as it
    >>> it.angle(it.asarray([1, 1j])).numpy()
    array([0.        , 1.57079633])
    """
    is_complex = z.dtype.kind == "c"
    radians = xp.arctan2(xp.imag(z), xp.real(z)) if is_complex else xp.arctan2(0, z)
    return xp.rad2deg(radians) if deg else radians
