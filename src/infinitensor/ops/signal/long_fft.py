"""The transform of one long line, in pieces: that of a matrix by columns, then by rows.

With n = a * b and the line in rows of b, term r + a * c of the transform is term c of row r of the
second one, after each element is rotated by exp(2 pi i * row * column / n). Of real values half of
the rows are conjugates of the others, and are not made.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.dtypes import complex64
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.forms.gather import gather_form, is_empty
from infinitensor.ops.table.registry import op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infinitensor.ir.op import At
    from infinitensor.ir.region import Box

SLIM = 64
"""A matrix that is so much longer than wide, or more, is no gain."""


@lru_cache(maxsize=1024)
def rows_for(n: int) -> int | None:
    """Rows of the matrix that a line of n is taken as: the divisor next to the root.

    >>> rows_for(12), rows_for(13)
    (3, None)
    """
    root = isqrt(n)
    return next((a for a in range(root, max(root // SLIM, 1), -1) if n % a == 0), None)


def long_transform(xp: Any, line: Any, word: str, n_rows: int, norm: str) -> Any:
    """The transform (fft, ifft, rfft) of a line by columns and rows."""
    n = line.shape[0]
    lines = xp._fft_axis(line.reshape((n_rows, n // n_rows)), word, 0, n_rows, norm)
    terms = xp._rotated_fft(lines, "ifft" if word == "ifft" else "fft", n, norm)
    return xp._unfolded(terms, terms, n_rows, n // 2 + 1 if word == "rfft" else n)


# --- turning ----------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _turns(n: int, sign: int) -> tuple[Any, Any, int]:
    """exp(2 pi i k / n) of the low digits of k and of the high ones, and how many bits are low."""
    shift = (n.bit_length() + 1) // 2
    low, high = np.arange(1 << shift), np.arange((n >> shift) + 1) << shift
    return (*(np.exp(sign * 2j * np.pi * (k / n)) for k in (low, high)), shift)


def _rotate(xp: Any, x: Any, row: int, n: int, sign: int) -> Any:
    """Rows from `row` on, each element rotated by (row * column) n-ths of a circle."""
    twiddle = loop("fft", "twiddle", _real(x)) if xp is np else None
    if twiddle is not None:
        made, (low, high, shift) = np.empty(x.shape, x.dtype), _turns(n, sign)
        twiddle(np.ascontiguousarray(x), made, *x.shape, row, n, low, high, shift)
        return made
    kind: dict[str, Any] = {} if xp is np else {"device": x.device}
    rows, columns = xp.arange(row, row + len(x), **kind), xp.arange(x.shape[1], **kind)
    angle = rows[:, None] * columns % n / xp.ones((), dtype=xp.float64, **kind)  # in double
    return x * xp.exp(sign * 2j * np.pi / n * angle)


def _real(x: Any) -> Any:
    return np.float32 if x.dtype == complex64 else np.float64


def _rotated_fft_kernel(xp: Any, x: Any, out: Any, at: At, word: str, n: int, norm: str) -> None:
    rotated = _rotate(xp, x, at.outputs[0][0][0], n, 1 if word == "ifft" else -1)
    source, target = (rotated, out) if xp is not np else map(torch.from_numpy, (rotated, out))
    if target.numel():
        target.copy_(getattr(torch.fft, word)(source.to(target.dtype), dim=1, norm=norm))


def _rotated_fft_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Bytes of rotated rows and their angles, of the result, and of the transform's own space."""
    return 6 * 16 * ins[0].n_elements + 64 * ins[0].shape[1] + 1024


def _rotated_cases(rng: Any) -> list[Any]:
    x = rng.standard_normal((4, 6)) + 1j * rng.standard_normal((4, 6))
    return [
        ((x, "fft", 24, "backward"), {}),
        ((x.astype("c8"), "ifft", 24, "ortho"), {}),
        ((x[:3], "fft", 24, "forward"), {}),
    ]


def _rotated_oracle(x: Any, word: str, n: int, norm: str) -> Any:
    angle = np.outer(*map(np.arange, x.shape)) * (1 if word == "ifft" else -1)
    rotated = x * np.exp(2j * np.pi / n * angle)
    return getattr(np.fft, word)(rotated, norm=norm).astype(x.dtype)


@op(
    "mapped",
    kernel=_rotated_fft_kernel,
    located=True,
    scratch_bytes=_rotated_fft_scratch,
    cost=48.0,
    cases=_rotated_cases,
    oracle=_rotated_oracle,
)
def _rotated_fft(x: Spec, word: str, n: int, norm: str) -> Call:
    """Each row transformed, after its elements are rotated by (row * column) n-ths of a circle."""
    form = AxisForm(x.shape, ((0, 1),), ((0, 1),), frozenset((1,)))
    return call(form, Spec(x.shape, x.dtype), word=word, n=n, norm=norm)


# --- terms in their order ---------------------------------------------------------------------


def _unfolded_need(
    box: Box, specs: Sequence[Spec], *, step: int, n_terms: int
) -> tuple[Box | None, ...]:
    if is_empty(box):
        return (None, None)
    (lo, hi), (n_rows, width) = box[0], specs[0].shape
    first, last = lo // step, (hi - 1) // step + 1
    rows = (0, n_rows)
    mirrored = (rows, (width - last, width - first)) if n_rows < step else None
    return ((rows, (first, last)), mirrored)


def _by_rows(x: Any) -> tuple[Any, int]:
    """The first of rows that are contiguous each, and how far it is to the next."""
    if x is None:
        return None, 0
    if x.strides[1] != x.itemsize or x.strides[0] % x.itemsize:
        x = np.ascontiguousarray(x)
    return x[0], x.strides[0] // x.itemsize


def _unfolded_kernel(
    xp: Any, x: Any, mirror: Any, out: Any, at: At, step: int, n_terms: int
) -> None:
    source = at.inputs[0]
    if x is None or source is None:
        return
    (lo, hi), first, (n_rows, width) = at.outputs[0][0], source[1][0], x.shape
    unfold = loop("fft", "unfold", _real(x)) if xp is np and out.flags.c_contiguous else None
    if unfold is not None:
        unfold(*_by_rows(x), *_by_rows(mirror), out, n_rows, width, step, first, lo, hi)
        return
    term = np.arange(lo, hi) if xp is np else xp.arange(lo, hi, device=x.device)
    row, column = term % step, term // step - first
    own = row < n_rows
    out[own] = x[row[own], column[own]]
    if mirror is not None:
        out[~own] = xp.conj(mirror)[step - row[~own], width - 1 - column[~own]]


def _unfolded_oracle(x: Any, mirror: Any, step: int, n_terms: int) -> Any:
    term = np.arange(n_terms)
    row, column = term % step, term // step
    own = row < len(x)
    other = np.conj(x[(step - row) % len(x), x.shape[1] - 1 - column])
    return np.where(own, x[row % len(x), column], other)


def _unfolded_cases(rng: Any) -> list[Any]:
    x = rng.standard_normal((4, 6)) + 1j * rng.standard_normal((4, 6))
    return [
        ((x, x, 4, 24), {}),
        ((x[:3], x[:3], 4, 13), {}),
        ((x.astype("c8"), x.astype("c8"), 7, 22), {}),
    ]


@op(
    "gather",
    kernel=_unfolded_kernel,
    need=_unfolded_need,
    scratch_bytes=lambda ins, outs, params: (
        2 * sum(spec.n_bytes for spec in ins) + 64 * outs[0].n_elements + 1024
    ),
    cost=4.0,
    cases=_unfolded_cases,
    oracle=_unfolded_oracle,
)
def _unfolded(x: Spec, mirror: Spec, step: int, n_terms: int) -> Call:
    """Term r + step * c from row r, column c; rows that are missing are conjugates of others."""
    form = gather_form((x, mirror), (n_terms,))
    return call(form, Spec((n_terms,), x.dtype), step=step, n_terms=n_terms)
