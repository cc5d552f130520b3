"""Convolution, and the window functions that go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import finfo, kind_of, result_type
from infinitensor.ir.op import AxisForm, Call, Spec
from infinitensor.ops.backend.torch_bridge import as_signed
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.op import At

# --- convolution ------------------------------------------------------------------------------


def _smear_numpy(xp: Any, x: Any, v: Any, out: Any, at: At) -> None:
    """The tile and the piece before it, convolved; the first sums are of the piece before."""
    before = x.shape[0] - out.shape[0]
    if out.size:
        out[...] = np.convolve(x, v)[before : before + out.shape[0]]


def _smear_torch(xp: Any, x: Any, v: Any, out: Any, at: At) -> None:
    """One shifted product for each element of the kernel: every dtype, no scratch of n * k."""
    before = x.shape[0] - out.shape[0]
    n, k = out.shape[0], v.shape[0]
    total = xp.zeros(n, dtype=_sum_dtype(xp, out), device=out.device)
    x, v = as_signed(x).to(total.dtype), as_signed(v).to(total.dtype)
    for i in range(min(k, before + n)):
        first = max(i - before, 0)
        total[first:] += x[before + first - i : before + n - i] * v[i]
    if out.dtype == xp.bool:
        out[...] = total != 0
    else:
        as_signed(out)[...] = total.to(as_signed(out).dtype)


def _sum_dtype(xp: Any, out: Any) -> Any:
    if out.dtype.is_floating_point or out.dtype.is_complex:
        return xp.float32 if out.dtype == xp.float16 else out.dtype
    return xp.int64


def _signals(rng: Any) -> list[Any]:
    return [
        ((rng.normal(size=20), rng.normal(size=4)), {}),
        ((rng.normal(size=20), rng.normal(size=1)), {}),
        ((rng.normal(size=9), rng.normal(size=9)), {}),
        ((rng.integers(0, 5, 12), rng.integers(0, 5, 3)), {}),
    ]


@op(
    "mapped",
    wide=True,
    kernel=_smear_numpy,
    kernels={"cuda": _smear_torch},
    located=True,
    scratch_bytes=lambda ins, outs, params: 3 * 16 * (ins[0].n_elements + ins[1].n_elements) + 1024,
    cost=8.0,
    cases=_signals,
    oracle=lambda x, v: np.convolve(x, v)[: len(x)],
)
def _smear(x: Spec, v: Spec) -> Call:
    """out[i] = sum of x[i - k] * v[k]: a tile reads as many elements before it as v is long."""
    form = AxisForm(
        (x.shape[0], v.shape[0]),
        ((0,), (1,)),
        ((0,),),
        frozenset((1,)),
        (((v.shape[0] - 1, 0),), ((0, 0),)),
    )
    dtype = result_type(x.dtype, v.dtype)
    return Call(form, (Spec(x.shape, dtype),), (), (dtype, dtype))


_MODES = ("full", "same", "valid")


def _convolved(xp: Any, a: Any, v: Any, mode: Any, is_late: bool) -> Any:
    """`is_late`: of the two middles of an even length, the later one."""
    if type(mode) is int and 0 <= mode < len(_MODES):
        mode = _MODES[-1 - mode]
    if not isinstance(mode, int | str):
        raise TypeError("convolve/correlate mode not understood")
    if mode not in _MODES:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    if len(a.shape) > 1 or len(v.shape) > 1:
        raise ValueError("object too deep for desired array")
    a, v = a.reshape(-1), v.reshape(-1)
    for name, x in (("a", a), ("v", v)):
        if not x.shape[0]:
            raise ValueError(f"{name} cannot be empty")
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    n, k = a.shape[0], v.shape[0]
    full = xp._smear(xp._pad(a, False, ((0, k - 1),)) if k > 1 else a, v)
    if mode == "full":
        return full
    if mode == "valid":
        return full[k - 1 : n]
    first = k - 1 - k // 2
    first = k - 1 - first if is_late else first
    return full[first : first + n]


def _modes(rng: Any) -> list[Any]:
    a, v = rng.normal(size=15), rng.normal(size=4)
    calls: list[Any] = [
        ((*pair, mode), {}) for mode in _MODES for pair in ((a, v), (v, a), (a[:5], v[:3]))
    ]
    return [
        *calls,
        ((np.arange(6), np.array([1, 2])), {}),
        ((a + 1j, v * 1j, "same"), {}),
        ((a.astype(np.float32), v.astype(np.float32), "full"), {}),
        ((a, np.float64(2)), {}),
        ((a, v[:0]), {}),
        ((a, v, "whole"), {}),
    ]


@program(cases=_modes)
def convolve(xp: Any, a: Array, v: Array, mode: str = "full") -> Any:
    """The sums of products of a and of v, reversed and moved along it.

    The longer one is cut; a tile reads as many elements before it as the shorter one is long.

    >>> import infinitensor as it
    >>> it.convolve(it.asarray([1, 2, 3]), it.asarray([1, 1])).tolist()
    [1, 3, 5, 3]
    """
    return _convolved(xp, a, v, mode, is_late=False)


@program(cases=_modes)
def correlate(xp: Any, a: Array, v: Array, mode: str = "valid") -> Any:
    """The sums of products of a and the conjugate of v moved along it.

    >>> import infinitensor as it
    >>> it.correlate(it.asarray([1, 2, 3]), it.asarray([0, 1])).tolist()
    [2, 3]
    """
    if not len(a.shape) or not len(v.shape):
        raise ValueError("correlate: object of too small depth for desired array")
    other = xp.conjugate(v) if v.dtype.kind == "c" else v
    return _convolved(xp, a, other[::-1], mode, is_late=a.shape[0] < v.shape[0])


# --- special functions ------------------------------------------------------------------------


def _bessel_numpy(xp: Any, x: Any, out: Any) -> None:
    out[...] = np.i0(x)


def _bessel_torch(xp: Any, x: Any, out: Any) -> None:
    out[...] = xp.special.i0(x.to(out.dtype if out.dtype != xp.float16 else xp.float32))


@op(
    "mapped",
    wide=True,
    kernel=_bessel_numpy,
    kernels={"cuda": _bessel_torch},
    scratch_bytes=lambda ins, outs, params: 12 * 8 * outs[0].n_elements + 1024,
    cost=60.0,
    cases=lambda rng: [
        ((rng.normal(size=(4, 5)) * 3,), {}),
        ((np.arange(-4, 5),), {}),
        ((np.float64(20),), {}),
        ((rng.normal(size=5).astype(np.float32),), {}),
        ((rng.normal(size=5) * 1j,), {}),
    ],
)
def i0(x: Spec) -> Call:
    """The modified Bessel function of the first kind, of order 0.

    >>> import infinitensor as it
    >>> it.i0(it.asarray(0.0)).item()
    1.0
    """
    if x.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    dtype = x.dtype if kind_of(x.dtype) == "f" else np.dtype(np.float64)
    labels = tuple(range(x.ndim))
    form = AxisForm(x.shape, (labels,), (labels,))
    return Call(form, (Spec(x.shape, dtype),), (), (dtype,))


@program(
    wide=True,
    cases=lambda rng: [
        ((rng.normal(size=(4, 5)),), {}),
        ((np.arange(-3, 4),), {}),
        ((rng.normal(size=5).astype(np.float32),), {}),
        ((np.array([0j, 1 + 2j]),), {}),
    ],
)
def sinc(xp: Any, x: Array) -> Any:
    """sin(pi x) / (pi x); 1 at 0.

    >>> import infinitensor as it
    >>> it.sinc(it.asarray([0.0, 0.5])).numpy().round(4).tolist()
    [1.0, 0.6366]
    """
    turns = x * np.pi
    tiny = float(finfo(turns.dtype).eps) if kind_of(turns.dtype) == "f" else 1e-20
    turns = xp.where(turns == 0, turns.dtype.type(tiny), turns)
    return xp.sin(turns) / turns


# --- windows ----------------------------------------------------------------------------------


def _window(name: str, doc: str, shape: Callable[..., Any]) -> None:
    """A window of M points, from `shape(xp, n, M - 1)` with n from 1 - M to M - 1 in steps of 2."""

    def window(xp: Any, M: float) -> Any:
        if M < 1:
            return xp.zeros((0,))
        if M == 1:
            return xp.ones((1,))
        return shape(xp, xp.arange(1.0 - M, float(M), 2.0), float(M) - 1)

    window.__doc__ = doc
    program(name=name, cases=lambda rng: [((m,), {}) for m in (12, 1, 0, -3, 7)])(window)


def _wave(xp: Any, n: Any, last: float, times: int = 1) -> Any:
    return xp.cos(times * np.pi * n / last)


_window(
    "bartlett",
    """A triangle that is 0 at both ends.

    >>> import infinitensor as it
    >>> it.bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """,
    lambda xp, n, last: xp.where(n <= 0, 1 + n / last, 1 - n / last),
)
_window(
    "hanning",
    """A raised cosine that is 0 at both ends.

    >>> import infinitensor as it
    >>> it.hanning(5).numpy().round(4).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """,
    lambda xp, n, last: 0.5 + 0.5 * _wave(xp, n, last),
)
_window(
    "hamming",
    """A raised cosine that is 0.08 at both ends.

    >>> import infinitensor as it
    >>> it.hamming(3).numpy().round(4).tolist()
    [0.08, 1.0, 0.08]
    """,
    lambda xp, n, last: 0.54 + 0.46 * _wave(xp, n, last),
)
_window(
    "blackman",
    """Two cosines that leak little: 0 at both ends.

    >>> import infinitensor as it
    >>> abs(it.blackman(3).numpy().round(4)).tolist()
    [0.0, 1.0, 0.0]
    """,
    lambda xp, n, last: 0.42 + 0.5 * _wave(xp, n, last) + 0.08 * _wave(xp, n, last, 2),
)


@program(cases=lambda rng: [((m, 8.6), {}) for m in (12, 1, 0)])
def kaiser(xp: Any, M: float, beta: float) -> Any:
    """A window of M points made from `i0`; the larger beta, the narrower.

    >>> import infinitensor as it
    >>> it.kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    if M == 1:
        return xp.ones((1,))
    half = (M - 1) / 2.0
    n = (xp.arange(0.0, float(M)) - half) / half
    return xp.i0(beta * xp.sqrt(1 - n**2.0)) / np.i0(float(beta)).item()
