"""Factorisations and solves: block kernels on uncut matrices, and programs that block over them.

A general solve, inverse or determinant of one matrix needs it in one piece: the `whole` entries.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.dtypes import complex64, complex128, float16, float32, float64
from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.bridge import tensor_of
from infinitensor.ops.registry import op, program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LinAlgError = np.linalg.LinAlgError


# --- what all share ---------------------------------------------------------------------------


def linalg_dtype(*dtypes: Any) -> np.dtype[Any]:
    """NumPy's rule: single precision where every operand has it, else double."""
    for dtype in dtypes:
        if np.dtype(dtype) == float16:
            raise TypeError("array type float16 is unsupported in linalg")
    single = all(np.dtype(dtype) in (float32, complex64) for dtype in dtypes)
    if any(np.dtype(dtype).kind == "c" for dtype in dtypes):
        return complex64 if single else complex128
    return float32 if single else float64


def _check_matrix(a: Any, *, square: bool = False) -> None:
    ndim = len(a.shape)
    if ndim < 2:
        raise LinAlgError(f"{ndim}-dimensional array given. Array must be at least two-dimensional")
    if square and a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")


def _tensors(xp: Any, out: Any, *tiles: Any) -> tuple[Any, ...]:
    """The output's memory and the inputs in its dtype, as torch tensors on either device."""
    import torch

    if xp is np:
        return (torch.from_numpy(out), *(tensor_of(tile, out.dtype) for tile in tiles))
    return (out, *(tile.to(out.dtype) for tile in tiles))


def _matrix_scratch(ins: Sequence[Spec], outs: Sequence[Spec], params: dict[str, Any]) -> int:
    """Inputs cast and copied to LAPACK's order, results in its order, and its work space."""
    numbers = 2 * sum(spec.n_elements for spec in (*ins, *outs))
    longest = max(max(spec.shape, default=1) for spec in (*ins, *outs))
    return int(outs[0].dtype.itemsize) * (numbers + 130 * longest)


def _batched(ndim: int) -> tuple[int, ...]:
    """Labels of the axes in front of the matrix."""
    return tuple(range(ndim - 2))


_MATRIX: dict[str, Any] = {"scratch_bytes": _matrix_scratch}


# --- QR ---------------------------------------------------------------------------------------


class QRResult(NamedTuple):
    """What `linalg.qr` returns, by NumPy's names."""

    Q: Any
    R: Any


def _qr_kernel(xp: Any, a: Any, out: Any, mode: str) -> None:
    import torch

    if mode == "r":
        target, source = _tensors(xp, out, a)
        target.copy_(torch.linalg.qr(source, mode="r").R)
        return
    q_target, source = _tensors(xp, out[0], a)
    (r_target,) = _tensors(xp, out[1])
    q, r = torch.linalg.qr(source, mode=mode)
    q_target.copy_(q)
    r_target.copy_(r)


def _tall(rng: Any) -> list[Any]:
    return [
        ((rng.standard_normal((3, 6, 4)), mode), {}) for mode in ("reduced", "r", "complete")
    ] + [((rng.standard_normal((3, 5)).astype("f4"), "reduced"), {})]


@op(
    "_qr_batch",
    "mapped",
    "a",
    kernel=_qr_kernel,
    cost=10.0,
    cases=_tall,
    oracle=lambda a, mode="reduced": np.linalg.qr(a, mode),
    scratch_bytes=lambda ins, outs, params: 2 * _matrix_scratch(ins, outs, params),
)
def _qr_batch(a: Spec, mode: str = "reduced") -> Call:
    """QR of matrices that are not cut; the axes in front of them are."""
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    dtype = linalg_dtype(a.dtype)
    lead = _batched(a.ndim)
    rows, columns, inner = (len(lead) + i for i in range(3))
    q, r = (*lead, rows, inner), (*lead, inner, columns)
    form = AxisForm(
        (*batch, m, n, k),
        ((*lead, rows, columns),),
        (r,) if mode == "r" else (q, r),
        frozenset((rows, columns, inner)),
    )
    outs = (Spec((*batch, m, k), dtype), Spec((*batch, k, n), dtype))
    return call(form, *(outs[1:] if mode == "r" else outs), mode=mode)


def _qr(xp: Any, a: Any, *, with_q: bool) -> tuple[Any, Any]:
    """Q (None without `with_q`) and R; rows beyond a block: TSQR.

    Blocks of rows are factored side by side, their R stacked and factored again, and each block's
    Q multiplied by its part of the second one. The rows left over are a block of their own.
    """
    m, n = a.shape[-2:]
    rows = max(xp.block(m * n) // n, 2 * n) if n else m
    if len(a.shape) > 2 or m <= rows:
        if not with_q:
            return None, xp._qr_batch(a, "r")
        q, r = xp._qr_batch(a, "reduced")
        return q, r
    n_blocks = m // rows
    head = a[: n_blocks * rows].reshape(n_blocks, rows, n)
    q_head, r_head = xp._qr_batch(head, "reduced") if with_q else (None, xp._qr_batch(head, "r"))
    stacked = [r_head.reshape(n_blocks * n, n)]
    q_rest: Any = None
    if n_blocks * rows < m:
        q_rest, r_rest = _qr(xp, a[n_blocks * rows :], with_q=with_q)
        stacked.append(r_rest)
    q_top, r = _qr(xp, xp._concatenate(stacked, 0), with_q=with_q)
    if not with_q:
        return None, r
    q_blocks = xp.matmul(q_head, q_top[: n_blocks * n].reshape(n_blocks, n, n))
    q = q_blocks.reshape(n_blocks * rows, n)
    if q_rest is not None:
        q = xp._concatenate([q, xp.matmul(q_rest, q_top[n_blocks * n :])], 0)
    return q, r


@program(
    "linalg.qr",
    "a",
    cases=lambda rng: [
        ((rng.standard_normal((5, 3)),), {}),
        ((rng.standard_normal((3, 5)).astype("f4"),), {"mode": "r"}),
        ((rng.standard_normal((2, 5, 3)),), {}),
        ((rng.standard_normal((5, 3)),), {"mode": "complete"}),
    ],
    oracle=np.linalg.qr,
)
def qr(xp: Any, a: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R with Q R = a.

    A tall matrix is factored in blocks of rows (TSQR): two passes over it, and only R-sized pieces
    in between; the signs of R's rows are then not LAPACK's. `mode` is "reduced", "r" or "complete"
    (in one piece).

    >>> import infinitensor as it
    >>> q, r = it.linalg.qr(it.eye(3))
    >>> abs((q @ r).numpy()).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if mode not in ("reduced", "r", "complete"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    _check_matrix(a)
    linalg_dtype(a.dtype)
    if mode == "complete":
        return QRResult(*xp._qr_batch(a, "complete"))
    q, r = _qr(xp, a, with_q=mode == "reduced")
    return r if mode == "r" else QRResult(q, r)


# --- triangular solve -------------------------------------------------------------------------


def _trsm_kernel(
    xp: Any, a: Any, b: Any, out: Any, lower: bool, trans: int, unit_diagonal: bool
) -> None:
    import torch

    target, matrix, right = _tensors(xp, out, a, b)
    if not unit_diagonal:
        zero = matrix.diagonal() == 0
        if bool(zero.any()):
            at = int(zero.nonzero()[0])
            raise LinAlgError(f"singular matrix: resolution failed at diagonal {at}")
    if trans:
        matrix = matrix.mH if trans == 2 else matrix.mT
    target.copy_(
        torch.linalg.solve_triangular(
            matrix, right, upper=lower == bool(trans), unitriangular=unit_diagonal
        )
    )


def _triangles(rng: Any) -> list[Any]:
    a = rng.standard_normal((5, 5)) + 5 * np.eye(5)
    b = rng.standard_normal((5, 7))
    c = (a + 1j * rng.standard_normal((5, 5))).astype("c8")
    return [
        ((a, b), {"lower": lower, "trans": trans, "unit_diagonal": unit})
        for lower in (False, True)
        for trans in (0, 1)
        for unit in (False, True)
    ] + [((c, b), {"trans": 2})]


def _trsm_oracle(
    a: Any, b: Any, lower: Any = False, trans: Any = 0, unit_diagonal: Any = False
) -> Any:
    return scipy.linalg.solve_triangular(a, b, trans, lower, unit_diagonal)


@op(
    "_trsm_block",
    "mapped",
    "a b",
    kernel=_trsm_kernel,
    cases=_triangles,
    oracle=_trsm_oracle,
    cost=2.0,
    **_MATRIX,
)
def _trsm_block(
    a: Spec, b: Spec, lower: bool = False, trans: int = 0, unit_diagonal: bool = False
) -> Call:
    """op(a) x = b for a triangular block that is not cut; the columns of b are."""
    n, k = b.shape
    form = AxisForm((n, k, n), ((2, 0), (0, 1)), ((0, 1),), frozenset((0, 2)))
    out = Spec((n, k), linalg_dtype(a.dtype, b.dtype))
    return call(form, out, lower=lower, trans=trans, unit_diagonal=unit_diagonal)


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def square_block(xp: Any, n: int) -> int:
    """The side of the square blocks that a matrix of side n is worked on in."""
    return max(isqrt(xp.block(n * n)), 1) if n else 1


def _solve_blocks(xp: Any, a: Any, b: Any, *, lower: bool, trans: int, unit_diagonal: bool) -> Any:
    """Substitution block by block: solve the diagonal block, take its part off the rest."""
    n = a.shape[0]
    side = square_block(xp, n)
    if n <= side:
        return xp._trsm_block(a, b, lower, trans, unit_diagonal)
    x = xp._copy(b.astype(linalg_dtype(a.dtype, b.dtype)))
    forwards = lower != bool(trans)
    starts = range(0, n, side)
    for start in starts if forwards else reversed(starts):
        block = slice(start, min(start + side, n))
        x[block] = xp._trsm_block(a[block, block], x[block], lower, trans, unit_diagonal)
        rest = slice(block.stop, n) if forwards else slice(0, start)
        if rest.start < rest.stop:
            factor = a[block, rest].T if trans else a[rest, block]
            if trans == 2 and np.dtype(a.dtype).kind == "c":
                factor = xp.conj(factor)
            x[rest] -= xp.matmul(factor, x[block])
    return x


@program(
    "linalg.solve_triangular",
    "a b",
    cases=lambda rng: [
        *_triangles(rng),
        ((np.tril(rng.standard_normal((4, 4))) + 4 * np.eye(4), np.ones(4)), {"lower": True}),
    ],
    oracle=_trsm_oracle,
)
def solve_triangular(
    xp: Any,
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """x with op(a) x = b for a triangular a, as SciPy's; op is chosen by `trans` (0, "T", "C").

    Blocked: the diagonal blocks one after another, the products with what lies beside them cut
    over all devices. A zero on the diagonal raises `LinAlgError` when the result is computed.

    >>> import infinitensor as it
    >>> a = it.asarray([[2.0, 0.0], [1.0, 1.0]])
    >>> it.linalg.solve_triangular(a, it.asarray([2.0, 3.0]), lower=True).numpy().tolist()
    [1.0, 2.0]
    """
    if trans not in _TRANS:
        raise ValueError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    if len(a.shape) != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"solve_triangular: expected square matrix, got shape {tuple(a.shape)}")
    if len(b.shape) not in (1, 2) or b.shape[0] != a.shape[0]:
        raise ValueError(
            f"solve_triangular: shapes of a {tuple(a.shape)} and b {tuple(b.shape)} "
            "are incompatible"
        )
    columns = b if len(b.shape) == 2 else b.reshape(-1, 1)
    found = _solve_blocks(
        xp, a, columns, lower=bool(lower), trans=_TRANS[trans], unit_diagonal=bool(unit_diagonal)
    )
    return found if len(b.shape) == 2 else found.reshape(-1)


# --- Cholesky ---------------------------------------------------------------------------------


def _cholesky_kernel(xp: Any, a: Any, out: Any, upper: bool) -> None:
    import torch

    target, source = _tensors(xp, out, a)
    factor, wrong = torch.linalg.cholesky_ex(source, upper=upper)
    if bool(wrong.any()):
        raise LinAlgError("Matrix is not positive definite")
    target.copy_(factor)


def positive_definite(rng: Any, *shape: int) -> np.ndarray[Any, Any]:
    """A random matrix, or several, with eigenvalues well above zero."""
    a = rng.standard_normal(shape)
    return np.asarray(a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1]))


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
    "_cholesky_block",
    "mapped",
    "a",
    kernel=_cholesky_kernel,
    cost=2.0,
    cases=_definite,
    oracle=lambda a, upper=False: np.linalg.cholesky(a, upper=upper),
    **_MATRIX,
)
def _cholesky_block(a: Spec, upper: bool = False) -> Call:
    """The Cholesky factors of matrices that are not cut; the axes in front of them are."""
    labels = tuple(range(a.ndim))
    form = AxisForm(a.shape, (labels,), (labels,), frozenset(labels[-2:]))
    return call(form, Spec(a.shape, linalg_dtype(a.dtype)), upper=upper)


@program("linalg.cholesky", "a", cases=_definite, oracle=np.linalg.cholesky)
def cholesky(xp: Any, a: Any, *, upper: bool = False) -> Any:
    """The triangular L with L L^H = a (or U with U^H U = a); only that triangle of a is read.

    Blocked, right-looking: the diagonal blocks one after another, the updates of what lies below
    cut over all devices. A matrix that is not positive definite raises `LinAlgError` when the
    result is computed.

    >>> import infinitensor as it
    >>> it.linalg.cholesky(it.asarray([[4.0, 2.0], [2.0, 5.0]])).numpy().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    _check_matrix(a, square=True)
    dtype = linalg_dtype(a.dtype)
    n = a.shape[-1]
    side = square_block(xp, n)
    if len(a.shape) > 2 or n <= side:
        return xp._cholesky_block(a, bool(upper))
    adjoint = xp.conj if dtype.kind == "c" else _same
    factor = xp._copy((adjoint(a).T if upper else a).astype(dtype))
    for start in range(0, n, side):
        block = slice(start, min(start + side, n))
        below = slice(block.stop, n)
        factor[block, block] = xp._cholesky_block(factor[block, block])
        if block.stop < n:
            # Rows below: X L^H = B, solved as L X^H = B^H, whose columns are cut.
            right = adjoint(factor[below, block]).T
            solved = xp._trsm_block(factor[block, block], right, True)
            panel = adjoint(solved).T
            factor[below, block] = panel
            factor[below, below] -= xp.matmul(panel, solved)
            factor[block, below] = 0
    return adjoint(factor).T if upper else factor


def _same(x: Any) -> Any:
    return x


# --- one general matrix -----------------------------------------------------------------------


def _solve_kernel(xp: Any, a: Any, b: Any, out: Any) -> None:
    import torch

    target, matrix, right = _tensors(xp, out, a, b)
    if not target.numel():
        return
    found, wrong = torch.linalg.solve_ex(matrix, right)
    if bool(wrong.any()):
        raise LinAlgError("Singular matrix")
    target.copy_(found)


def _solve_call(a: Spec, b: Spec) -> Call:
    n, k = b.shape[-2:]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    ndim = len(batch)
    labels = []
    for spec in (a, b):
        lead = ndim - (spec.ndim - 2)
        labels.append(
            tuple(
                None if size == 1 and batch[lead + axis] != 1 else lead + axis
                for axis, size in enumerate(spec.shape[:-2])
            )
        )
    rows, columns, inner = ndim, ndim + 1, ndim + 2
    form = AxisForm(
        (*batch, n, k, n),
        ((*labels[0], inner, rows), (*labels[1], rows, columns)),
        ((*range(ndim), rows, columns),),
        frozenset((rows, inner)),
    )
    return call(form, Spec((*batch, n, k), linalg_dtype(a.dtype, b.dtype)))


def _solvable(rng: Any, *batch: int) -> list[Any]:
    a = rng.standard_normal((*batch, 4, 4))
    return [
        ((a, rng.standard_normal((*batch, 4, 3))), {}),
        ((a.astype("f4"), rng.standard_normal((4, 2)).astype("f4")), {}),
    ]


_SOLVE: dict[str, Any] = {
    "kernel": _solve_kernel,
    "oracle": np.linalg.solve,
    "cost": 2.0,
    **_MATRIX,
}


@op("_solve_batch", "mapped", "a b", cases=lambda rng: _solvable(rng, 3), **_SOLVE)
def _solve_batch(a: Spec, b: Spec) -> Call:
    """a x = b for many matrices, each in one piece."""
    return _solve_call(a, b)


@op("_solve_whole", "mapped", "a b", whole=True, cases=_solvable, **_SOLVE)
def _solve_whole(a: Spec, b: Spec) -> Call:
    """a x = b for one general matrix."""
    return _solve_call(a, b)


@program(
    "linalg.solve",
    "a b",
    cases=lambda rng: [
        *_solvable(rng),
        *_solvable(rng, 3),
        ((rng.standard_normal((4, 4)), rng.standard_normal(4)), {}),
        ((rng.standard_normal((2, 4, 4)), rng.standard_normal(4)), {}),
    ],
    oracle=np.linalg.solve,
)
def solve(xp: Any, a: Any, b: Any) -> Any:
    """x with a x = b; b is one vector when it has one axis, else columns.

    One general matrix is solved in one piece (a whole op); of many, each is. A singular matrix
    raises `LinAlgError` when the result is computed.

    >>> import infinitensor as it
    >>> a = it.asarray([[2.0, 0.0], [0.0, 4.0]])
    >>> it.linalg.solve(a, it.asarray([2.0, 4.0])).numpy().tolist()
    [1.0, 1.0]
    """
    _check_matrix(a, square=True)
    vector = len(b.shape) == 1
    columns = b.reshape(-1, 1) if vector else b
    if len(columns.shape) < 2 or columns.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"solve: a of shape {tuple(a.shape)} and b of shape {tuple(b.shape)} do not match: "
            f"b needs {a.shape[-1]} along axis {'0' if vector else '-2'}"
        )
    np.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    found = (xp._solve_whole if len(a.shape) == 2 else xp._solve_batch)(a, columns)
    return found.reshape(found.shape[:-1]) if vector else found


def _inv_kernel(xp: Any, a: Any, out: Any) -> None:
    import torch

    target, matrix = _tensors(xp, out, a)
    found, wrong = torch.linalg.inv_ex(matrix)
    if bool(wrong.any()):
        raise LinAlgError("Singular matrix")
    target.copy_(found)


def _det_kernel(xp: Any, a: Any, out: Any) -> None:
    import torch

    target, matrix = _tensors(xp, out, a)
    target.copy_(torch.linalg.det(matrix))


def _inv_call(a: Spec) -> Call:
    labels = tuple(range(a.ndim))
    form = AxisForm(a.shape, (labels,), (labels,), frozenset(labels[-2:]))
    return call(form, Spec(a.shape, linalg_dtype(a.dtype)))


def _det_call(a: Spec) -> Call:
    labels = tuple(range(a.ndim))
    form = AxisForm(a.shape, (labels,), (labels[:-2],), frozenset(labels[-2:]))
    return call(form, Spec(a.shape[:-2], linalg_dtype(a.dtype)))


def _squares(*batch: int) -> Callable[..., list[Any]]:
    def cases(rng: Any) -> list[Any]:
        a = rng.standard_normal((*batch, 4, 4))
        return [((a,), {}), ((a.astype("f4"),), {}), (((10 * a).astype("i4"),), {})]

    return cases


_INV: dict[str, Any] = {"kernel": _inv_kernel, "oracle": np.linalg.inv, "cost": 2.0, **_MATRIX}
_DET: dict[str, Any] = {"kernel": _det_kernel, "oracle": np.linalg.det, "cost": 1.0, **_MATRIX}


@op("_inv_batch", "mapped", "a", cases=_squares(3), **_INV)
def _inv_batch(a: Spec) -> Call:
    """The inverses of many matrices, each in one piece."""
    return _inv_call(a)


@op("_inv_whole", "mapped", "a", whole=True, cases=_squares(), **_INV)
def _inv_whole(a: Spec) -> Call:
    """The inverse of one general matrix."""
    return _inv_call(a)


@op("_det_batch", "mapped", "a", cases=_squares(3), **_DET)
def _det_batch(a: Spec) -> Call:
    """The determinants of many matrices, each in one piece."""
    return _det_call(a)


@op("_det_whole", "mapped", "a", whole=True, cases=_squares(), **_DET)
def _det_whole(a: Spec) -> Call:
    """The determinant of one general matrix."""
    return _det_call(a)


@program("linalg.inv", "a", cases=_squares(), oracle=np.linalg.inv)
def inv(xp: Any, a: Any) -> Any:
    """The inverse of a square matrix, or of each of many.

    One general matrix is inverted in one piece (a whole op). A singular matrix raises
    `LinAlgError` when the result is computed.

    >>> import infinitensor as it
    >>> it.linalg.inv(it.asarray([[2.0, 0.0], [0.0, 4.0]])).numpy().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    _check_matrix(a, square=True)
    return (xp._inv_whole if len(a.shape) == 2 else xp._inv_batch)(a)


@program("linalg.det", "a", cases=_squares(2), oracle=np.linalg.det)
def det(xp: Any, a: Any) -> Any:
    """The determinant of a square matrix, or of each of many.

    One general matrix is factored in one piece (a whole op).

    >>> import infinitensor as it
    >>> float(it.linalg.det(it.asarray([[2.0, 0.0], [0.0, 4.0]])))
    8.0
    """
    _check_matrix(a, square=True)
    return (xp._det_whole if len(a.shape) == 2 else xp._det_batch)(a)


# --- norms ------------------------------------------------------------------------------------


def _vector_norm(xp: Any, x: Any, ord_: Any, axis: Any, keepdims: bool) -> Any:
    along = {"axis": axis, "keepdims": keepdims}
    if ord_ in (np.inf, -np.inf):
        return (xp.max if ord_ > 0 else xp.min)(xp.abs(x), **along)
    if ord_ == 0:
        return xp.sum((x != 0).astype(np.dtype(x.dtype).char.lower()), **along)
    if ord_ == 1:
        return xp.sum(xp.abs(x), **along)
    if ord_ is None or ord_ == 2:
        size = xp.abs(x) if np.dtype(x.dtype).kind == "c" else x
        return xp.sqrt(xp.sum(size * size, **along))
    if isinstance(ord_, str):
        raise ValueError(f"Invalid norm order '{ord_}' for vectors")  # noqa: TRY004 - NumPy's
    return xp.power(xp.sum(xp.power(xp.abs(x), ord_), **along), 1.0 / ord_)


def _matrix_norm(xp: Any, x: Any, ord_: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    rows, columns = axes
    if rows == columns:
        raise ValueError("Duplicate axes given.")
    if ord_ in (None, "fro", "f"):
        return _vector_norm(xp, x, None, axes, keepdims)
    if ord_ in (2, -2, "nuc"):
        raise NotImplementedError(
            f"norm: ord={ord_!r} of a matrix needs its singular values, which infinitensor does "
            "not compute yet; use np.linalg.norm on x.numpy()"
        )
    if ord_ not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    summed, kept = (rows, columns) if abs(ord_) == 1 else (columns, rows)
    sums = xp.sum(xp.abs(x), axis=summed, keepdims=True)
    found = (xp.max if ord_ > 0 else xp.min)(sums, axis=kept, keepdims=True)
    if keepdims:
        return found
    return found.reshape([n for axis, n in enumerate(x.shape) if axis not in axes])


@program(
    "linalg.norm",
    "x",
    cases=lambda rng: [
        *(((rng.standard_normal(7),), {"ord": o}) for o in (None, 2, 1, 0, 3, np.inf, -np.inf)),
        *(((rng.standard_normal((4, 5)),), {"ord": o}) for o in (None, "fro", 1, -1, np.inf)),
        ((rng.standard_normal((4, 5)), 2, 1, True), {}),
        ((rng.standard_normal((3, 4, 5)), "fro", (0, 2)), {}),
        ((rng.integers(0, 9, (3, 4)),), {}),
    ],
    oracle=np.linalg.norm,
)
def norm(xp: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors along an axis, or of matrices over two: Frobenius, 1, inf and their kin.

    Without an axis and an order it is the 2-norm of all elements. One pass.

    >>> import infinitensor as it
    >>> float(it.linalg.norm(it.asarray([3.0, 4.0])))
    5.0
    """
    if np.dtype(x.dtype).kind not in "fc":
        x = x.astype(float64)
    ndim = len(x.shape)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1):
            found = _vector_norm(xp, x.reshape(-1), None, 0, False)
            return found.reshape((1,) * ndim) if keepdims else found
        axes = tuple(range(ndim))
    else:
        axes = normalize_axis_tuple(axis, ndim, "norm", allow_duplicate=True)
    if len(axes) == 1:
        return _vector_norm(xp, x, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(xp, x, ord, (axes[0], axes[1]), keepdims)
    raise ValueError("Improper number of dimensions to norm.")


@program(
    "linalg.trace",
    "x",
    cases=lambda rng: [((rng.standard_normal((2, 4, 4)),), {"offset": k}) for k in (0, 1, -2)],
    oracle=np.linalg.trace,
)
def trace(xp: Any, x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum along a diagonal of the last two axes (Array API).

    >>> import infinitensor as it
    >>> float(it.linalg.trace(it.eye(3)))
    3.0
    """
    return xp.trace(x, offset, -2, -1, dtype)
