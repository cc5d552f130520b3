"""Fourier transforms along one axis: that axis is not cut, the others are. Several go in turn.

A long line that is the only axis is one piece whose columns and rows threads share (`fft_mkl.py`);
where that cannot be, the plan takes it as a matrix (`long_fft.py`). One piece: the `whole` entries.
"""

from __future__ import annotations

import inspect
import operator
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.dtypes import (
    HALVES,
    as_dtype,
    bool_,
    can_cast,
    complex64,
    complex128,
    float32,
    float64,
    from_numpy,
    to_torch,
)
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.mkl import mkl_file
from infinitensor.ops.backend.torch_bridge import tensor_of
from infinitensor.ops.signal.fft_cuda import transform_into
from infinitensor.ops.signal.fft_mkl import is_numpys, is_smooth, transform_lines
from infinitensor.ops.signal.long_fft import long_transform, rows_for
from infinitensor.ops.table.registry import Array, op, program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ir.op import Op


@lru_cache(maxsize=64)
def computed_in(word: str, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The dtype a transform reads and the one it gives: single precision stays single."""
    single = dtype in (*HALVES, float32, complex64)
    real, complex_ = (float32, complex64) if single else (float64, complex128)
    if word == "irfft":
        return complex_, dtype if dtype in HALVES else real
    return (complex_ if dtype.kind == "c" else real), complex_


@lru_cache(maxsize=64)
def _read_as(word: str, dtype: Any) -> Any:
    """`computed_in` by torch's dtypes: the host has nothing to think while a GPU waits."""
    return to_torch(computed_in(word, np.dtype(str(dtype).removeprefix("torch.")))[0])


SHORT_LINE, SHORT_ROUGH_LINE = 1 << 12, 1 << 9
"""Points of one line that NumPy transforms in less time than torch, and 0.1 ms at most: the file
with MKL is not loaded for it. Where the number has a large prime factor NumPy makes a convolution
of it, in ten times that time."""


@lru_cache(maxsize=1024)
def _is_short(n: int) -> bool:
    return n <= SHORT_ROUGH_LINE or (n <= SHORT_LINE and is_smooth(n))


def transform_tile(xp: Any, x: Any, out: Any, word: str, axis: int, n: int, norm: str) -> None:
    """By MKL or, on a CPU without it, by torch, of which many lines at once are several times
    NumPy's. One line is not, and NumPy writes into `out`; it also makes the first transforms of a
    process. On a GPU: by cuFFT, which torch has.
    """
    if xp is np:
        reads, gives = computed_in(word, x.dtype)
        is_line = x.size == x.shape[axis] and out.dtype == gives not in HALVES
        is_short = is_line and x.size <= SHORT_LINE and _is_short(n)
        n_points = x.size // max(x.shape[axis], 1) * n
        if is_short or is_numpys(n_points, n):
            _transform_by_numpy(x.astype(reads, copy=False), out, word, axis, n, norm)
            return
        if transform_lines(x.astype(reads, copy=False), out, word, axis, n, norm):
            return
        if is_line:
            _transform_by_numpy(x.astype(reads, copy=False), out, word, axis, n, norm)
            return
        source, target = tensor_of(x, reads), from_numpy(out)
    else:
        source, target = x.to(_read_as(word, x.dtype)), out
        if transform_into(source, target, word, axis, n, norm):
            return
    if target.numel():
        target.copy_(getattr(torch.fft, word)(source, n=n, dim=axis, norm=norm))


def _transform_by_numpy(x: Any, out: Any, word: str, axis: int, n: int, norm: str) -> None:
    gives = computed_in(word, x.dtype)[1] if word != "irfft" else x.real.dtype
    made = getattr(np.fft, word)(x, n, axis, norm, out=out if out.dtype == gives else None)
    if made is not out:
        out[...] = made


def _fft_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Input copies (cast, padded to n), the result, and the plan's own work space."""
    longest = max(ins[0].n_elements, outs[0].n_elements)
    single = computed_in(params["word"], ins[0].dtype)[0] in (float32, complex64)
    n: int = params["n"]
    work = 4 * n if is_smooth(n) else 16 * n  # a large prime factor: a convolution of twice n
    return (8 if single else 16) * (3 * longest + work) + 1024


def _fft_spec(x: Spec, word: str, axis: int, n: int) -> tuple[AxisForm, Spec]:
    length = n // 2 + 1 if word == "rfft" else n
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    # The axis has a label on each side: its length may change, and neither side is cut.
    source = tuple(x.ndim if a == axis else a for a in range(x.ndim))
    sizes = (*shape, x.shape[axis])
    form = AxisForm(sizes, (source,), (tuple(range(x.ndim)),), frozenset((axis, x.ndim)))
    return form, Spec(shape, computed_in(word, x.dtype)[1])


def _fft_cases(rng: Any, shape: tuple[int, ...]) -> list[Any]:
    x = rng.standard_normal(shape)
    y = x + 1j * rng.standard_normal(shape)
    axis = len(shape) - 1
    return [
        ((x, "fft", axis, 7, "backward"), {}),
        ((y.astype("c8"), "ifft", axis, 5, "ortho"), {}),
        ((x.astype("f4"), "rfft", axis, 7, "forward"), {}),
        ((y, "irfft", axis, 8, "backward"), {}),
    ]


_FFT: dict[str, Any] = {
    "kernel": transform_tile,
    "scratch_bytes": _fft_scratch,
    "moves": True,
    "oracle": lambda x, word, axis, n, norm: getattr(np.fft, word)(x, n, axis, norm),
    "cost": 40.0,
}


@op("mapped", cases=lambda rng: _fft_cases(rng, (3, 6)), **_FFT)
def _fft_axis(x: Spec, word: str, axis: int, n: int, norm: str) -> Call:
    """A transform along one axis of several."""
    form, out = _fft_spec(x, word, axis, n)
    return call(form, out, word=word, axis=axis, n=n, norm=norm)


@op("mapped", whole=True, cases=lambda rng: _fft_cases(rng, (6,)), **_FFT)
def _fft_whole(x: Spec, word: str, axis: int, n: int, norm: str) -> Call:
    """A transform along the only axis."""
    form, out = _fft_spec(x, word, axis, n)
    return call(form, out, word=word, axis=axis, n=n, norm=norm)


def transform(cases: Callable[..., Any]) -> Callable[[Callable[..., Any]], Op]:
    """Decorator: a transform becomes a public function, with NumPy's `out` behind its arguments."""

    def enter(rule: Callable[..., Any]) -> Op:
        name = f"fft.{rule.__name__}"

        @wraps(rule)
        def with_out(*args: Any, **kwargs: Any) -> Any:
            if not kwargs and len(args) == len(signature.parameters):  # as users' calls arrive
                *args, out = args  # type: ignore[assignment]
                made = rule(*args)
            else:
                bound = signature.bind(*args, **kwargs)
                out = bound.arguments.pop("out", None)
                made = rule(*bound.args, **bound.kwargs)
            if out is None:
                return made
            if not hasattr(out, "shape"):
                raise TypeError(f"{name}: return arrays must be of ArrayType, not {type(out)}")
            if out.shape != made.shape:
                raise ValueError(
                    f"{name}: output array has wrong shape: {tuple(out.shape)}, not {made.shape}"
                )
            if not can_cast(made.dtype, out.dtype, "same_kind"):
                raise TypeError(f"{name}: Cannot cast the result from {made.dtype} to {out.dtype}")
            out[...] = made
            return out

        last = inspect.Parameter("out", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        parameters = inspect.signature(rule).parameters.values()
        signature = inspect.Signature([*parameters, last], return_annotation="Any")
        with_out.__signature__ = signature  # type: ignore[attr-defined]
        return program("a", name=name, cases=cases)(with_out)

    return enter


def _fft(xp: Any, word: str, a: Any, n: int | None, axis: int, norm: str | None) -> Any:
    ndim = len(a.shape)
    if not -ndim <= axis < ndim:
        raise IndexError(f"{word}: axis {axis} of an array of {ndim} dimensions")
    axis %= ndim
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    length = a.shape[axis]
    if n is None:
        n = 2 * (length - 1) if word == "irfft" else length
    n = int(operator.index(n))
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    if word == "rfft" and np.dtype(a.dtype).kind == "c":
        raise TypeError("ufunc 'rfft' did not contain a loop with signature matching types complex")
    if a.dtype == bool_:
        a = a.astype(float64)
    if not length:  # n points of an empty axis: zeros
        widths = tuple((0, n if i == axis else 0) for i in range(ndim))
        a = xp._pad(a, 0, widths)
    others = [size for i, size in enumerate(a.shape) if i != axis]
    norm = norm or "backward"
    if any(size != 1 for size in others):
        return xp._fft_axis(a, word, axis, n, norm)
    is_cut = n == length and word != "irfft" and is_in_pieces(xp, n, np.dtype(a.dtype))
    n_rows = rows_for(n) if is_cut else None
    if n_rows is None:
        return xp._fft_whole(a, word, axis, n, norm)
    made = long_transform(xp, a.reshape(-1), word, n_rows, norm)
    return made.reshape((*a.shape[:axis], made.shape[0], *a.shape[axis + 1 :]))


def is_in_pieces(xp: Any, n: int, dtype: np.dtype[Any]) -> bool:
    """Whether one line is transformed by the columns and rows of a plan (`long_transform`), not by
    one kernel that threads share."""
    if n < 2 * xp.block(n):
        return False
    n_bytes = 3 * n * computed_in("fft", dtype)[1].itemsize
    return xp.device_kind() != "cpu" or mkl_file() is None or not xp.n_hands(n_bytes)


def _signals(rng: Any) -> list[Any]:
    x = rng.standard_normal((4, 6))
    return [
        ((x,), {}),
        ((x.astype("f4"),), {"n": 5, "axis": 0}),
        ((x[0],), {"n": 9, "norm": "ortho"}),
        ((rng.integers(0, 9, (4, 6)),), {"norm": "forward"}),
    ]


def _spectra(rng: Any) -> list[Any]:
    x = rng.standard_normal((4, 6)) + 1j * rng.standard_normal((4, 6))
    return [
        *_signals(rng),
        ((x,), {}),
        ((x.astype("c8"),), {"axis": 0}),
        ((x[0],), {"n": 7, "norm": "forward"}),
    ]


@transform(_spectra)
def fft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along an axis, cut or padded with zeros to `n` points.

    Single precision stays single. The axis is not cut, except for a one-dimensional transform of
    two blocks or more over several memories, or without MKL: that takes four passes. Else, or where
    its length has no fitting divisor, or it is cut or padded, it runs in one piece and counts as a
    whole op; MKL has all cores for a long line.

    >>> import infinitensor as it
    >>> it.fft.fft(it.ones(4)).numpy().real.tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    return _fft(xp, "fft", a, n, axis, norm)


@transform(_spectra)
def ifft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft.fft`.

    >>> import infinitensor as it
    >>> it.fft.ifft(it.fft.fft(it.ones(4))).numpy().real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _fft(xp, "ifft", a, n, axis, norm)


@transform(_signals)
def rfft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The transform of real values: the n // 2 + 1 terms that are not mirrored.

    >>> import infinitensor as it
    >>> it.fft.rfft(it.ones(4)).numpy().real.tolist()
    [4.0, 0.0, 0.0]
    """
    return _fft(xp, "rfft", a, n, axis, norm)


@transform(_spectra)
def irfft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft.rfft`; `n` is the length of the real result (even unless given).

    >>> import infinitensor as it
    >>> it.fft.irfft(it.fft.rfft(it.ones(4))).numpy().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _fft(xp, "irfft", a, n, axis, norm)


# --- hermitian spectra ------------------------------------------------------------------------

_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _swapped(norm: str | None) -> str:
    """The norm that makes the opposite transform of one."""
    if norm not in _SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return _SWAPPED[norm]


def _conjugated(xp: Any, a: Any) -> Any:
    return xp.conj(a) if np.dtype(a.dtype).kind == "c" else a


@transform(_spectra)
def hfft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The real transform of a signal that is its own mirrored conjugate; `n` is its length.

    >>> import infinitensor as it
    >>> it.fft.hfft(it.asarray([1.0, 0.0, 0.0])).numpy().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _fft(xp, "irfft", _conjugated(xp, a), n, axis, _swapped(norm))


@transform(_signals)
def ihfft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft.hfft`: the half that is not mirrored.

    >>> import infinitensor as it
    >>> it.fft.ihfft(it.ones(4)).numpy().real.tolist()
    [1.0, 0.0, 0.0]
    """
    return xp.conj(_fft(xp, "rfft", a, n, axis, _swapped(norm)))


# --- several axes: one after another ----------------------------------------------------------


def _lengths(a: Any, s: Any, axes: Any, real: str = "") -> list[tuple[int | None, int]]:
    """(points, axis) of each transform, in the order of the axes."""
    if axes is None:
        axes = range(-len(a.shape if s is None else s), 0)
    along = [operator.index(axis) for axis in axes]
    for axis in along:
        if not -len(a.shape) <= axis < len(a.shape):
            raise IndexError(
                f"{real or 'fft'}n: axis {axis} of an array of {len(a.shape)} dimensions"
            )
    # the lengths of the source count, also for a repeated axis when it has another one
    points = [a.shape[axis] for axis in along] if s is None else list(s)
    if len(points) != len(along):
        raise ValueError("Shape and axes have different lengths.")
    found = [a.shape[axis] if n == -1 else n for n, axis in zip(points, along, strict=True)]
    if real and not along:
        raise IndexError(f"{real}n: a real transform needs at least one axis")
    if real == "irfft" and s is None:
        found[-1] = 2 * (found[-1] - 1)
    return list(zip(found, along, strict=True))


def _each(xp: Any, word: str, a: Any, steps: Any, norm: str | None) -> Any:
    """The transforms along several axes, one after another."""
    for n, axis in steps:
        a = _fft(xp, word, a, n, axis, norm)
    return a


def _images(rng: Any) -> list[Any]:
    x = rng.standard_normal((3, 4, 6))
    return [
        ((x,), {}),
        ((x.astype("f4"),), {"axes": (0, -1), "norm": "ortho"}),
        ((x,), {"s": (5, 3), "axes": (1, 2), "norm": "forward"}),
        ((x,), {"s": (-1, 5), "axes": (2, 0)}),
        ((x[0, 0],), {"axes": (0,)}),
    ]


def _complex_images(rng: Any) -> list[Any]:
    x = rng.standard_normal((3, 4, 6)) + 1j * rng.standard_normal((3, 4, 6))
    return [*_images(rng), ((x,), {}), ((x.astype("c8"),), {"axes": (2, 1)})]


def _flat(cases: Any) -> Any:
    """Cases of several axes for functions of two."""
    return lambda rng: [
        (args, {k: v for k, v in kwargs.items() if k != "axes"} if "s" not in kwargs else kwargs)
        for args, kwargs in cases(rng)
        if args[0].ndim > 1
    ]


@transform(_complex_images)
def fftn(xp: Any, a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The Fourier transform over several axes, all of them by default.

    One axis after another; each time the other axes are cut.

    >>> import infinitensor as it
    >>> it.fft.fftn(it.ones((2, 2))).numpy().real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return _each(xp, "fft", a, reversed(_lengths(a, s, axes)), norm)


@transform(_complex_images)
def ifftn(xp: Any, a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The inverse of `fft.fftn`.

    >>> import infinitensor as it
    >>> it.fft.ifftn(it.fft.fftn(it.ones((2, 2)))).numpy().real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _each(xp, "ifft", a, reversed(_lengths(a, s, axes)), norm)


@transform(_images)
def rfftn(xp: Any, a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The transform of real values over several axes; the last of them is halved.

    >>> import infinitensor as it
    >>> it.fft.rfftn(it.ones((2, 4))).numpy().real.tolist()
    [[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    *rest, (n, axis) = _lengths(a, s, axes, "rfft")
    return _each(xp, "fft", _fft(xp, "rfft", a, n, axis, norm), reversed(rest), norm)


@transform(_complex_images)
def irfftn(xp: Any, a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The inverse of `fft.rfftn`; `s` is the shape of the real result (its last size even unless
    given).

    >>> import infinitensor as it
    >>> it.fft.irfftn(it.fft.rfftn(it.ones((2, 4)))).numpy().tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    *rest, (n, axis) = _lengths(a, s, axes, "irfft")
    return _fft(xp, "irfft", _each(xp, "ifft", a, rest, norm), n, axis, norm)


@transform(_flat(_complex_images))
def fft2(xp: Any, a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """The Fourier transform over two axes, the last ones by default.

    >>> import infinitensor as it
    >>> it.fft.fft2(it.ones((2, 2))).numpy().real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return xp.fft_fftn(a, s, axes, norm)


@transform(_flat(_complex_images))
def ifft2(xp: Any, a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `fft.fft2`.

    >>> import infinitensor as it
    >>> it.fft.ifft2(it.fft.fft2(it.ones((2, 2)))).numpy().real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return xp.fft_ifftn(a, s, axes, norm)


@transform(_flat(_images))
def rfft2(xp: Any, a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """The transform of real values over two axes; the second is halved.

    >>> import infinitensor as it
    >>> it.fft.rfft2(it.ones((2, 4))).shape
    (2, 3)
    """
    return xp.fft_rfftn(a, s, axes, norm)


@transform(_flat(_complex_images))
def irfft2(xp: Any, a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `fft.rfft2`.

    >>> import infinitensor as it
    >>> it.fft.irfft2(it.fft.rfft2(it.ones((2, 4)))).shape
    (2, 4)
    """
    return xp.fft_irfftn(a, s, axes, norm)


# --- the frequencies and their order ----------------------------------------------------------


def _step(n: Any, d: Any) -> float:
    if not isinstance(n, int | np.integer):
        raise ValueError("n should be an integer")  # noqa: TRY004 - NumPy's
    return float(1.0 / (n * d))


@program(
    space="fft", cases=lambda rng: [((n,), {"d": d}) for n in (1, 2, 7, 8) for d in (1.0, 0.25)]
)
def fftfreq(xp: Any, n: int, d: Any = 1.0, *, dtype: Any = None) -> Any:
    """The frequency of each term of an n-point transform with samples `d` apart.

    >>> import infinitensor as it
    >>> it.fft.fftfreq(4).numpy().tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    step, half = _step(n, d), (n - 1) // 2 + 1
    index = xp.arange(n)
    return _as(xp.where(index < half, index, index - n) * step, dtype)


@program(
    space="fft", cases=lambda rng: [((n,), {"d": d}) for n in (1, 2, 7, 8) for d in (1.0, 0.25)]
)
def rfftfreq(xp: Any, n: int, d: Any = 1.0, *, dtype: Any = None) -> Any:
    """The frequency of each term of an n-point transform of real values.

    >>> import infinitensor as it
    >>> it.fft.rfftfreq(4).numpy().tolist()
    [0.0, 0.25, 0.5]
    """
    return _as(xp.arange(n // 2 + 1) * _step(n, d), dtype)


def _as(x: Any, dtype: Any) -> Any:
    """The Array API lets frequencies have a dtype of their own."""
    return x if dtype is None else x.astype(as_dtype(dtype))


def _shift(xp: Any, x: Any, axes: Any, sign: int) -> Any:
    given = range(len(x.shape)) if axes is None else axes
    along = normalize_axis_tuple(given, len(x.shape), allow_duplicate=True)
    shifts = tuple(sign * (x.shape[axis] // 2) for axis in along)
    return xp.roll(x, shifts, along) if along else xp._copy(x)


def _shifts(rng: Any) -> list[Any]:
    x = rng.standard_normal((3, 4, 5))
    return [((x,), {}), ((x,), {"axes": 1}), ((x,), {"axes": (0, -1)}), ((np.arange(7),), {})]


@program(space="fft", cases=_shifts, same="equal")
def fftshift(xp: Any, x: Array, axes: Any = None) -> Any:
    """The zero frequency moved to the middle of the axes.

    >>> import infinitensor as it
    >>> it.fft.fftshift(it.fft.fftfreq(4)).numpy().tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _shift(xp, x, axes, 1)


@program(space="fft", cases=_shifts, same="equal")
def ifftshift(xp: Any, x: Array, axes: Any = None) -> Any:
    """The inverse of `fft.fftshift`.

    >>> import infinitensor as it
    >>> it.fft.ifftshift(it.fft.fftshift(it.arange(5))).numpy().tolist()
    [0, 1, 2, 3, 4]
    """
    return _shift(xp, x, axes, -1)
