"""Factorisations in blocks: QR and Cholesky.

Kernels work on blocks that are not cut; the programs over them cut a matrix into such blocks.
"""

from __future__ import annotations

from functools import partial
from math import isqrt
from typing import Any, NamedTuple
from warnings import warn

import numpy as np

from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.torch_loading import wait_for_torch
from infinitensor.ops.linalg.tall_qr import factored, reflected
from infinitensor.ops.linalg.triangles import (
    MATRIX,
    LinAlgError,
    adjoint,
    block_fits,
    by_numpy,
    check_matrix,
    fill,
    linalg,
    linalg_dtype,
    matrix_call,
    matrix_scratch,
    positive_definite,
    source_of,
    tensors,
)
from infinitensor.ops.linalg.triangular import square_block
from infinitensor.ops.table.registry import Array, op

# --- QR ---------------------------------------------------------------------------------------


class QRResult(NamedTuple):
    """The result of `linalg.qr`, by NumPy's names."""

    Q: Any
    R: Any


_OLD_MODES = {"f": "reduced", "full": "reduced"}
"""NumPy's deprecated names of modes."""


def _qr_compared(found: Any) -> Any:
    """Q R, Q^H Q and the sizes in R: the signs of R's rows are free."""
    if not isinstance(found, tuple | list):
        return np.abs(found)
    q, r = found
    return q @ r, np.conj(q.swapaxes(-1, -2)) @ q, np.abs(r)


def _qr_kernel(xp: Any, a: Any, out: Any, mode: str) -> None:
    if xp is np and mode != "complete" and _qr_in_c(a, *(out if mode == "reduced" else (out,))):
        return
    torch = wait_for_torch()

    found = torch.linalg.qr(source_of(xp, a), mode=mode)
    fill(xp, out, found.R if mode == "r" else tuple(found))


def _qr_in_c(a: Any, *outs: Any) -> bool:
    """Q and R, or R alone, by our own loops where there are some."""
    if len(outs) == 1:
        return factored(a, None, None, outs[0])
    q, r = outs
    if a.shape[-2] < a.shape[-1]:
        return False
    v, t = np.empty(q.shape, q.dtype), np.empty(r.shape, r.dtype)
    if not factored(a, v, t, r):
        return False
    reflected(v, t, np.broadcast_to(np.eye(r.shape[-1], dtype=r.dtype), r.shape), q)
    return True


@op(
    "mapped",
    kernel=_qr_kernel,
    cost=10.0,
    cases=lambda rng: (
        [((rng.standard_normal((3, 6, 4)), mode), {}) for mode in ("reduced", "r", "complete")]
        + [((rng.standard_normal((3, 5)).astype("f4"), "reduced"), {})]
    ),
    oracle=lambda a, mode="reduced": np.linalg.qr(a, mode),
    compared=_qr_compared,
    scratch_bytes=matrix_scratch,
    scratches={"cuda": lambda ins, outs, params: 2 * matrix_scratch(ins, outs, params)},
)
def _qr_batch(a: Spec, mode: str = "reduced") -> Call:
    """QR of matrices that are not cut; the axes in front of them are."""
    m, n = a.shape[-2:]
    dtype = linalg_dtype(a.dtype)
    outs = (("kn", dtype),) if mode == "r" else (("mk", dtype), ("kn", dtype))
    k = m if mode == "complete" else min(m, n)
    return matrix_call(a, "mn", *outs, new={"k": k}, mode=mode)


def _raw_kernel(xp: Any, a: Any, out: Any) -> None:
    packed, scales = wait_for_torch().geqrf(source_of(xp, a))
    fill(xp, out, (packed.mT, scales))


@op(
    "mapped",
    kernel=_raw_kernel,
    cost=10.0,
    cases=lambda rng: [
        ((rng.standard_normal((3, 6, 4)),), {}),
        ((rng.standard_normal((3, 5)).astype("f4"),), {}),
        ((rng.standard_normal((5, 3)) + 1j,), {}),
    ],
    oracle=lambda a: np.linalg.qr(a, "raw"),
    scratch_bytes=matrix_scratch,
    scratches={"cuda": lambda ins, outs, params: 2 * matrix_scratch(ins, outs, params)},
)
def _qr_raw(a: Spec) -> Call:
    """LAPACK's reflectors and R, transposed, and the scales, of matrices that are not cut."""
    dtype = linalg_dtype(a.dtype)
    return matrix_call(a, "mn", ("nm", dtype), ("k", dtype), new={"k": min(a.shape[-2:])})


def _reflectors_kernel(xp: Any, a: Any, out: Any) -> None:
    if xp is np and factored(a, *out):
        return
    torch = wait_for_torch()

    packed, scales = torch.geqrf(source_of(xp, a))
    k = scales.shape[-1]
    vectors = packed.tril(-1)
    vectors.diagonal(dim1=-2, dim2=-1).fill_(1)
    # The inverse of T is the upper half of V^H V with the inverse scales on its diagonal
    inverse = (vectors.mH @ vectors).triu(1) * scales[..., None]
    triangle = torch.linalg.solve_triangular(
        inverse, torch.diag_embed(scales), upper=True, unitriangular=True
    )
    fill(xp, out, (vectors, triangle, packed[..., :k, :].triu()))


def _reflectors_oracle(a: Any) -> Any:
    """One reflector more in V, and one more column of T."""
    h, scales = np.linalg.qr(a, "raw")
    m, n = a.shape[-2:]
    v = np.tril(np.swapaxes(h, -1, -2), -1) + np.eye(m, n, dtype=h.dtype)
    t = np.zeros((*a.shape[:-2], n, n), h.dtype)
    for j in range(n):
        before = np.conj(v[..., :j].swapaxes(-1, -2)) @ v[..., j, None]
        t[..., :j, j] = -scales[..., j, None] * (t[..., :j, :j] @ before)[..., 0]
        t[..., j, j] = scales[..., j]
    return v, t, np.linalg.qr(a, "r")


def _many(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@op(
    "mapped",
    kernel=_reflectors_kernel,
    alone=("_qr_batch", ("r",)),
    cost=5.0,
    cases=lambda rng: [
        ((_many(rng, 3, 6, 4).real,), {}),
        ((_many(rng, 5, 2).real.astype("f4"),), {}),
        ((_many(rng, 2, 40, 35).real,), {}),
        ((_many(rng, 2, 6, 3),), {}),
        ((np.zeros((4, 2), "f4"),), {}),
    ],
    oracle=_reflectors_oracle,
    scratch_bytes=matrix_scratch,
    # cuSOLVER's work space for a panel is megabytes, whatever its size
    scratches={"cuda": lambda ins, outs, params: 2 * matrix_scratch(ins, outs, params) + (8 << 20)},
)
def _qr_reflectors(a: Spec) -> Call:
    """V, T and R, as LAPACK's, of tall matrices that are not cut: I - V T V^H takes them to R."""
    n = a.shape[-1]
    dtype = linalg_dtype(a.dtype)
    return matrix_call(a, "mn", ("mn", dtype), ("kn", dtype), ("kn", dtype), new={"k": n})


def _reflected_kernel(xp: Any, v: Any, t: Any, top: Any, out: Any) -> None:
    if xp is np:
        v, t, top = (np.asarray(tile, out.dtype) for tile in (v, t, top))
        reflected(v, t, top, out)
        return
    v, t, top = (tile.to(out.dtype) for tile in (v, t, top))
    k = v.shape[-1]
    xp.matmul(v, -t @ (v[..., :k, :].mH @ top), out=out)
    out[..., :k, :] += top


@op(
    "mapped",
    kernel=_reflected_kernel,
    cost=3.0,
    cases=lambda rng: [
        ((x, x[..., :2, :], x[..., :2, :] + 1), {})
        for x in (_many(rng, 3, 6, 2).real, _many(rng, 5, 2))
    ],
    oracle=lambda v, t, top: (
        np.eye(*v.shape[-2:], dtype=v.dtype) @ top
        - v @ t @ np.conj(v[..., : v.shape[-1], :].swapaxes(-1, -2)) @ top
    ),
    **MATRIX,
)
def _qr_reflected(v: Spec, t: Spec, top: Spec) -> Call:
    """Q @ top with the Q of `_qr_reflectors`: an op of its own, since often only R is asked for."""
    *batch, m, k = v.shape
    n = top.shape[-1]
    lead = tuple(range(len(batch)))
    of_m, of_k, of_n = (len(batch) + i for i in range(3))
    form = AxisForm(
        (*batch, m, k, n),
        ((*lead, of_m, of_k), (*lead, of_k, of_k), (*lead, of_k, of_n)),
        ((*lead, of_m, of_n),),
        frozenset((of_m, of_k, of_n)),
    )
    return call(form, Spec((*batch, m, n), linalg_dtype(v.dtype, t.dtype, top.dtype)))


def _panels(xp: Any, a: Any, n_columns: int, *, with_q: bool) -> tuple[Any, Any]:
    """Blocked Householder QR: panels one after another, the products cut over all devices."""
    m, n = a.shape
    k = min(m, n)
    width = min(max(isqrt(xp.block(m * n)) // 4, 1), k)
    r = xp._copy(a.astype(linalg_dtype(a.dtype)))
    made = []
    for start in range(0, k, width):
        stop = min(start + width, k)
        vectors, triangle, top = xp._qr_reflectors(r[start:, start:stop])
        r[start:stop, start:stop] = top
        r[stop:, start:stop] = 0
        if stop < n:
            rest = r[start:, stop:]
            inner = xp.matmul(adjoint(xp, triangle), xp.matmul(adjoint(xp, vectors), rest))
            r[start:, stop:] -= xp.matmul(vectors, inner)
        made.append((start, vectors, triangle))
    if not with_q:
        return None, r[:k]
    q = xp.eye(m, n_columns, dtype=r.dtype)
    for start, vectors, triangle in reversed(made):  # columns before `start` are still the unit's
        rest = q[start:, start:]
        inner = xp.matmul(triangle, xp.matmul(adjoint(xp, vectors), rest))
        q[start:, start:] -= xp.matmul(vectors, inner)
    return q, r[:n_columns]


def _tall_skinny(xp: Any, a: Any, *, with_q: bool) -> tuple[Any, Any]:
    """TSQR: blocks of rows are factored side by side, their R stacked and factored again.

    Each block's Q is then multiplied by its part of the second one. The rows left over are a block
    of their own.
    """
    m, n = a.shape
    rows = max(xp.block(m * n) // n, 2 * n)
    n_blocks = m // rows
    head = a[: n_blocks * rows].reshape(n_blocks, rows, n)
    if with_q:
        vectors, triangles, r_head = xp._qr_reflectors(head)
    else:
        r_head = xp._qr_batch(head, "r")
    stacked = [r_head.reshape(n_blocks * n, n)]
    q_rest: Any = None
    if n_blocks * rows < m:
        q_rest, r_rest = reduced_qr(xp, a[n_blocks * rows :], with_q=with_q)
        stacked.append(r_rest)
    q_top, r = reduced_qr(xp, xp._concatenate(stacked, 0), with_q=with_q)
    if not with_q:
        return None, r
    tops = q_top[: n_blocks * n].reshape(n_blocks, n, n)
    q_blocks = xp._qr_reflected(vectors, triangles, tops)
    q = q_blocks.reshape(n_blocks * rows, n)
    if q_rest is not None:
        q = xp._concatenate([q, xp.matmul(q_rest, q_top[n_blocks * n :])], 0)
    return q, r


def reduced_qr(xp: Any, a: Any, *, with_q: bool = True) -> tuple[Any, Any]:
    """Q (None without `with_q`) and R of a matrix of any shape, or of a stack of them."""
    m, n = a.shape[-2:]
    if len(a.shape) > 2 or block_fits(xp, m * n):
        return xp._qr_batch(a, "reduced") if with_q else (None, xp._qr_batch(a, "r"))
    if m > 8 * n or (m > 2 * n and block_fits(xp, 2 * n * n)):
        return _tall_skinny(xp, a, with_q=with_q)
    return _panels(xp, a, min(m, n), with_q=with_q)


@linalg(
    cases=lambda rng: [
        ((rng.standard_normal((5, 3)),), {}),
        ((rng.standard_normal((3, 5)).astype("f4"),), {"mode": "r"}),
        ((rng.standard_normal((3, 5)),), {"mode": "complete"}),
        ((rng.standard_normal((2, 5, 3)),), {}),
        ((rng.standard_normal((5, 3)),), {"mode": "complete"}),
        ((rng.standard_normal((30, 3)) + 1j,), {}),
        ((np.zeros((0, 3)),), {}),
    ],
    compared=_qr_compared,
)
def qr(xp: Any, a: Array, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R with Q R = a.

    A tall matrix is factored in blocks of rows (TSQR): two passes over it, and only R-sized pieces
    in between; the signs of R's rows are then not LAPACK's, and no Q is made where only R is asked
    for. Others are factored in panels of columns. `mode` is "reduced", "r" (only R), "complete" (Q
    is square) or "raw" (LAPACK's reflectors and their scales, of a matrix in one piece).

    >>> import infinitensor as it
    >>> q, r = it.linalg.qr(it.eye(3))
    >>> abs((q @ r).numpy()).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if mode in _OLD_MODES:
        text = f"The '{mode}' option of qr is deprecated: use '{_OLD_MODES[mode]}'"
        warn(text, DeprecationWarning, stacklevel=2)
        mode = _OLD_MODES[mode]
    if mode not in ("reduced", "r", "complete", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}': 'reduced', 'complete', 'r' and 'raw' are")
    check_matrix(a)
    linalg_dtype(a.dtype)
    if mode == "raw":
        return xp._qr_raw(a)
    m, n = a.shape[-2:]
    if mode == "r":
        return reduced_qr(xp, a, with_q=False)[1]
    if mode == "reduced" or m <= n:
        return QRResult(*reduced_qr(xp, a))
    if len(a.shape) > 2 or block_fits(xp, m * m):
        return QRResult(*xp._qr_batch(a, "complete"))
    return QRResult(*_panels(xp, a, m, with_q=True))


# --- Cholesky ---------------------------------------------------------------------------------


MOST_NUMPYS_CHOLESKY = 512
"""The side of a matrix up to which NumPy makes its factor, in 1.2 to 1.9 of torch's time."""


def _cholesky_kernel(xp: Any, a: Any, out: Any, upper: bool) -> None:
    if by_numpy(xp, "cholesky", a, out, MOST_NUMPYS_CHOLESKY, upper=upper):
        return
    torch = wait_for_torch()

    target, source = tensors(xp, out, a)
    # LAPACK's columns are our rows: a transposed matrix has the order it wants
    factor, wrong = torch.linalg.cholesky_ex(source.mH, upper=not upper)
    if bool(wrong.any()):
        raise LinAlgError("Matrix is not positive definite")
    target.copy_(factor.mH)


def _definite(rng: Any) -> list[Any]:
    a = positive_definite(rng, 6, 6)
    return [
        ((a,), {}),
        ((a.astype("f4"),), {"upper": True}),
        ((positive_definite(rng, 3, 4, 4),), {}),
        ((a + 1j * (np.tri(6) - np.tri(6).T),), {}),
        ((np.zeros((0, 0)),), {}),
    ]


@op(
    "mapped",
    kernel=_cholesky_kernel,
    threaded=True,
    cost=2.0,
    cases=_definite,
    oracle=lambda a, upper=False: np.linalg.cholesky(a, upper=upper),
    scratch_bytes=partial(matrix_scratch, most=MOST_NUMPYS_CHOLESKY),
    scratches={"cuda": matrix_scratch},
)
def _cholesky_block(a: Spec, upper: bool = False) -> Call:
    """The Cholesky factors of matrices that are not cut; the axes in front of them are."""
    labels = tuple(range(a.ndim))
    form = AxisForm(a.shape, (labels,), (labels,), frozenset(labels[-2:]))
    return call(form, Spec(a.shape, linalg_dtype(a.dtype)), upper=upper)


@linalg(cases=_definite)
def cholesky(xp: Any, a: Array, *, upper: bool = False) -> Any:
    """The triangular L with L L^H = a (or U with U^H U = a); only that triangle of a is read.

    A matrix of up to 4,096 rows in one memory is one piece, factored by all cores. Else blocked,
    right-looking: the diagonal blocks one after another, the updates of the blocks below cut over
    all devices. A matrix that is not positive definite raises `LinAlgError` when the
    result is computed.

    >>> import infinitensor as it
    >>> it.linalg.cholesky(it.asarray([[4.0, 2.0], [2.0, 5.0]])).numpy().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    check_matrix(a, square=True)
    dtype = linalg_dtype(a.dtype)
    n = a.shape[-1]
    side = square_block(xp, n)
    whole = Spec(a.shape, dtype)
    if len(a.shape) > 2 or n <= side or xp.is_one_piece("_cholesky_block", whole):
        return xp._cholesky_block(a, bool(upper))
    factor = xp._copy((adjoint(xp, a) if upper else a).astype(dtype))
    for start in range(0, n, side):
        block = slice(start, min(start + side, n))
        below = slice(block.stop, n)
        factor[block, block] = xp._cholesky_block(factor[block, block])
        if block.stop < n:
            # Rows below: X L^H = B, solved as L X^H = B^H, whose columns are cut.
            right = adjoint(xp, factor[below, block])
            solved = xp._trsm_block(factor[block, block], right, True)
            panel = adjoint(xp, solved)
            factor[below, block] = panel
            factor[below, below] -= xp.matmul(panel, solved)
            factor[block, below] = 0
    return adjoint(xp, factor) if upper else factor
