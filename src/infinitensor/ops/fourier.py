"""Fourier transforms along one axis: that axis is not cut, the others are.

Where there is no other axis nothing can be cut: those are the `whole` entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import (
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    to_torch,
)
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.bridge import tensor_of
from infinitensor.ops.registry import op, program

if TYPE_CHECKING:
    from collections.abc import Sequence


def _computed_in(word: str, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The dtype a transform reads and the one it gives: single precision stays single."""
    single = dtype in (float16, float32, complex64)
    real, complex_ = (float32, complex64) if single else (float64, complex128)
    if word == "irfft":
        return complex_, float16 if dtype == float16 else real
    return (complex_ if dtype.kind == "c" else real), complex_


def _transform(xp: Any, x: Any, out: Any, word: str, axis: int, n: int, norm: str) -> None:
    """torch's FFT on both kinds of device: on a CPU it is MKL's, several times NumPy's."""
    import torch

    reads, _ = _computed_in(word, np.dtype(str(x.dtype).removeprefix("torch.")))
    if xp is np:
        source, target = tensor_of(x, reads), torch.from_numpy(out)
    else:
        source, target = x.to(to_torch(reads)), out
    if target.numel():
        target.copy_(getattr(torch.fft, word)(source, n=n, dim=axis, norm=norm))


def _fft_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Input copies (cast, padded to n), the result, and the plan's own work space."""
    longest = max(ins[0].n_elements, outs[0].n_elements)
    single = _computed_in(params["word"], ins[0].dtype)[0] in (float32, complex64)
    n: int = params["n"]
    work = 4 * n if _is_smooth(n) else 16 * n  # a large prime factor: a convolution of twice n
    return (8 if single else 16) * (3 * longest + work) + 1024


def _is_smooth(n: int) -> bool:
    """Whether n has only the small prime factors that a transform is split by."""
    for prime in (2, 3, 5, 7, 11, 13):
        while n % prime == 0:
            n //= prime
    return n == 1


def _fft_spec(x: Spec, word: str, axis: int, n: int) -> tuple[AxisForm, Spec]:
    length = n // 2 + 1 if word == "rfft" else n
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    # The axis has a label on each side: its length may change, and neither side is cut.
    source = tuple(x.ndim if a == axis else a for a in range(x.ndim))
    sizes = (*shape, x.shape[axis])
    form = AxisForm(sizes, (source,), (tuple(range(x.ndim)),), frozenset((axis, x.ndim)))
    return form, Spec(shape, _computed_in(word, x.dtype)[1])


def _fft_oracle(x: Any, word: str, axis: int, n: int, norm: str) -> Any:
    return getattr(np.fft, word)(x, n, axis, norm)


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
    "kernel": _transform,
    "scratch_bytes": _fft_scratch,
    "oracle": _fft_oracle,
    "cost": 40.0,
}


@op("_fft_axis", "mapped", "x", cases=lambda rng: _fft_cases(rng, (3, 6)), **_FFT)
def _fft_axis(x: Spec, word: str, axis: int, n: int, norm: str) -> Call:
    """A transform along one axis of several."""
    form, out = _fft_spec(x, word, axis, n)
    return call(form, out, word=word, axis=axis, n=n, norm=norm)


@op("_fft_whole", "mapped", "x", whole=True, cases=lambda rng: _fft_cases(rng, (6,)), **_FFT)
def _fft_whole(x: Spec, word: str, axis: int, n: int, norm: str) -> Call:
    """A transform along the only axis."""
    form, out = _fft_spec(x, word, axis, n)
    return call(form, out, word=word, axis=axis, n=n, norm=norm)


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
    transform = xp._fft_axis if any(size != 1 for size in others) else xp._fft_whole
    return transform(a, word, axis, n, norm or "backward")


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


@program("fft.fft", "a", cases=_spectra, oracle=np.fft.fft)
def fft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along an axis, cut or padded with zeros to `n` points.

    Single precision stays single. The axis is not cut; a one-dimensional transform runs in one
    piece and counts as a whole op.

    >>> import infinitensor as it
    >>> it.fft.fft(it.ones(4)).numpy().real.tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    return _fft(xp, "fft", a, n, axis, norm)


@program("fft.ifft", "a", cases=_spectra, oracle=np.fft.ifft)
def ifft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft.fft`.

    >>> import infinitensor as it
    >>> it.fft.ifft(it.fft.fft(it.ones(4))).numpy().real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _fft(xp, "ifft", a, n, axis, norm)


@program("fft.rfft", "a", cases=_signals, oracle=np.fft.rfft)
def rfft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The transform of real values: the n // 2 + 1 terms that are not mirrored.

    >>> import infinitensor as it
    >>> it.fft.rfft(it.ones(4)).numpy().real.tolist()
    [4.0, 0.0, 0.0]
    """
    return _fft(xp, "rfft", a, n, axis, norm)


@program("fft.irfft", "a", cases=_spectra, oracle=np.fft.irfft)
def irfft(xp: Any, a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft.rfft`; `n` is the length of the real result (even unless given).

    >>> import infinitensor as it
    >>> it.fft.irfft(it.fft.rfft(it.ones(4))).numpy().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _fft(xp, "irfft", a, n, axis, norm)
