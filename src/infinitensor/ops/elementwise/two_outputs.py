"""The parts of numbers: ufuncs with two outputs, both made from one tile, and `fix`."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.dtypes import resolve_dtypes
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.table.registry import Array, op, program

_ODD = [-0.0, 0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, 1e-310]


def _part_cases(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(4, 5)) * 100
    return [
        ((x,), {}),
        ((x.astype(np.float32),), {}),
        ((x.astype(np.float16),), {}),
        ((x.astype(np.int16),), {}),
        ((x > 0,), {}),
        ((np.array(_ODD),), {}),
        ((x[:0],), {}),
        ((x[0, 0],), {}),
    ]


def _two_parts(ufunc: np.ufunc, x: Spec) -> Call:
    labels = tuple(range(x.ndim))
    loop: Any = resolve_dtypes(ufunc, (x.dtype, None, None))
    form = AxisForm(x.shape, (labels,), (labels, labels))
    return call(form, Spec(x.shape, loop[1]), Spec(x.shape, loop[2]))


def _modf_kernel(xp: Any, x: Any, out: tuple[Any, Any]) -> None:
    fraction, integral = out
    if xp is np:
        np.modf(x, out=out)
        return
    x = x.to(fraction.dtype)
    xp.trunc(x, out=integral)
    rest = xp.where(xp.isinf(x), xp.zeros_like(x), x - integral)
    fraction.copy_(xp.copysign(rest, x))


def _frexp_kernel(xp: Any, x: Any, out: tuple[Any, Any]) -> None:
    if xp is np:
        np.frexp(x, out=out)
        return
    x = x.to(out[0].dtype)
    known = xp.isfinite(x)  # of the others torch gives no exponent that can be relied on
    mantissa, exponent = xp.frexp(xp.where(known, x, xp.zeros_like(x)).to(xp.float64))
    out[0].copy_(xp.where(known, mantissa.to(x.dtype), x))
    out[1].copy_(exponent)


@op(
    "mapped",
    kernel=_modf_kernel,
    scratch_bytes=lambda ins, outs, params: 5 * outs[0].n_bytes + 1024,
    cases=_part_cases,
    same="equal",
)
def modf(x: Spec) -> Call:
    """The fractional and the integral part, both with the sign of x.

    >>> import infinitensor as it
    >>> [part.tolist() for part in it.modf(it.asarray([1.5, -2.25]))]
    [[0.5, -0.25], [1.0, -2.0]]
    """
    return _two_parts(np.modf, x)


@op(
    "mapped",
    kernel=_frexp_kernel,
    scratch_bytes=lambda ins, outs, params: 40 * outs[0].n_elements + 1024,
    cases=_part_cases,
    same="equal",
)
def frexp(x: Spec) -> Call:
    """Mantissa and exponent: x = mantissa * 2**exponent with 0.5 <= |mantissa| < 1.

    >>> import infinitensor as it
    >>> [part.tolist() for part in it.frexp(it.asarray([8.0, -0.3]))]
    [[0.5, -0.6], [4, -1]]
    """
    return _two_parts(np.frexp, x)


@program(cases=_part_cases, same="equal")
def fix(xp: Any, x: Array) -> Any:
    """The nearest integer towards zero.

    >>> import infinitensor as it
    >>> it.fix(it.asarray([2.7, -2.7])).tolist()
    [2.0, -2.0]
    """
    return xp.trunc(x)
