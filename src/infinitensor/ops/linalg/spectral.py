"""Singular values and eigenvalues, and what follows from them: rank, pseudo-inverse, least squares.

Of a stack each matrix is one piece. One general matrix is one piece too (the `whole` entries), but
a tall or wide one is first reduced to its small square factor by a blocked QR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib import NumpyVersion

from infinitensor.lazy_torch import torch
from infinitensor.ops.linalg.factor import reduced_qr
from infinitensor.ops.linalg.triangles import (
    LinAlgError,
    adjoint,
    block_fits,
    by_numpy,
    check_matrix,
    complex_of,
    converging,
    fill,
    is_numpys,
    is_one,
    linalg,
    linalg_dtype,
    matrix_call,
    matrix_scratch,
    one_and_many,
    real_of,
    source_of,
    squares,
    stacked_op,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.ir.op import Call, Spec
    from infinitensor.ops.table.registry import Array

NO_VALUE: Any = np._NoValue
"""Stands for an argument that was not given where None has a meaning."""


def _work_bytes(ins: Any, outs: Any, params: Any) -> int:
    """The stack cast and in LAPACK's order, the results, and what its drivers take for one matrix.

    Divide and conquer takes 4 k^2 numbers and once the matrix for vectors of shape (m, k) (gesdd),
    or 2 n^2 (syevd); geev keeps real vectors beside the complex ones. Without vectors they take
    one matrix. NumPy (2.5, for a small matrix) has one more, and all of them in double
    precision.
    """
    m, n = ins[0].shape[-2:]
    k = min(m, n)
    item = linalg_dtype(ins[0].dtype).itemsize
    work = 4 * k * k + m * n if any(spec.ndim == ins[0].ndim for spec in outs) else m * n
    if is_numpys(*(spec.shape for spec in (*ins, *outs))):
        work += m * n
        item = max(item, 8 if linalg_dtype(ins[0].dtype).kind == "f" else 16)
    given = item * (2 * ins[0].n_elements + work + 130 * (m + n))
    return int(given + sum(spec.n_bytes for spec in outs) + 4096)


def _work_bytes_cuda(ins: Any, outs: Any, params: Any) -> int:
    """cuSOLVER has other methods, and takes several matrices of the size of the largest."""
    longest = int(max(ins[0].shape[-2:]))
    return 4 * matrix_scratch(ins, outs, params) + 128 * longest**2


_WORK: dict[str, Any] = {"scratch_bytes": _work_bytes, "scratches": {"cuda": _work_bytes_cuda}}


# --- singular values --------------------------------------------------------------------------


class SVDResult(NamedTuple):
    """The result of `linalg.svd`, by NumPy's names."""

    U: Any
    S: Any
    Vh: Any


def _conj_t(a: Any) -> Any:
    return np.conj(np.swapaxes(a, -1, -2))


def _svd_compared(found: Any) -> Any:
    """U S Vh, S and that the vectors are orthonormal: their signs are free."""
    if not isinstance(found, tuple | list):
        return found
    u, s, vh = found
    k = s.shape[-1]
    product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    return product, s, _conj_t(u) @ u, vh @ _conj_t(vh)


def _by_library(
    name: str, text: str, read: Callable[..., Any] = source_of, options: Callable[..., Any] = dict
) -> Callable[..., None]:
    """A kernel that is one function of `torch.linalg`, or NumPy's of one small matrix.

    `text` is NumPy's for what does not converge; `options` makes theirs of an op's parameters.
    """
    numpys = ("svd", {"compute_uv": False}) if name == "svdvals" else (name, {})

    def kernel(xp: Any, a: Any, out: Any, **params: Any) -> None:
        given = options(**params)
        if by_numpy(xp, numpys[0], a, out, **numpys[1], **given):
            return
        with converging(text):
            found = getattr(torch.linalg, name)(read(xp, a), **given)
            fill(xp, out, tuple(found) if isinstance(out, tuple) else found)

    return kernel


_NO_SVD, _NO_EIGENVALUES = "SVD did not converge", "Eigenvalues did not converge"


def _rectangles(*batch: int) -> Callable[..., list[Any]]:
    def cases(rng: Any) -> list[Any]:
        a = rng.standard_normal((*batch, 5, 3))
        return [
            ((a,), {}),
            ((a.swapaxes(-1, -2).astype("f4"),), {}),
            ((a + 1j * a[..., ::-1],), {}),
            ((np.zeros((*batch, 0, 3)),), {}),
        ]

    return cases


def _full_or_not(*batch: int) -> Callable[..., list[Any]]:
    return lambda rng: [
        ((*args, full), kwargs)
        for args, kwargs in _rectangles(*batch)(rng)
        for full in (False, True)
    ]


@stacked_op(
    _full_or_not,
    kernel=_by_library("svd", _NO_SVD, options=lambda full: {"full_matrices": full}),
    cost=20.0,
    compared=_svd_compared,
    **_WORK,
)
def _svd(a: Spec, full: bool) -> Call:
    """U, S and Vh of matrices, each in one piece."""
    dtype = linalg_dtype(a.dtype)
    m, n = a.shape[-2:]
    new = {"k": min(m, n), **({"i": m, "j": n} if full else {})}
    outs = ("mi" if full else "mk", dtype), ("k", real_of(dtype)), ("jn" if full else "kn", dtype)
    return matrix_call(a, "mn", *outs, new=new, full=full)


@stacked_op(_rectangles, kernel=_by_library("svdvals", _NO_SVD), cost=10.0, **_WORK)
def _svdvals(a: Spec) -> Call:
    """The singular values of matrices, each in one piece."""
    dtype = linalg_dtype(a.dtype)
    return matrix_call(a, "mn", ("k", real_of(dtype)), new={"k": min(a.shape[-2:])})


def is_elongated(xp: Any, a: Any) -> bool:
    """Whether one matrix is large and so tall or wide that a QR makes it much smaller."""
    m, n = a.shape[-2:]
    return len(a.shape) == 2 and max(m, n) > 2 * min(m, n) and not block_fits(xp, m * n)


def thin_svd(xp: Any, a: Any) -> tuple[Any, Any, Any]:
    """U, S and Vh with as many vectors as there are singular values."""
    if not is_elongated(xp, a):
        u, s, vh = (xp._svd_whole if is_one(a) else xp._svd_batch)(a, False)
        return u, s, vh
    if a.shape[0] < a.shape[1]:
        v, s, uh = thin_svd(xp, adjoint(xp, a))
        return adjoint(xp, uh), s, adjoint(xp, v)
    q, r = reduced_qr(xp, a)
    u, s, vh = xp._svd_whole(r, False)
    return xp.matmul(q, u), s, vh


def singular_values(xp: Any, a: Any) -> Any:
    """S alone."""
    if is_elongated(xp, a):
        a = reduced_qr(xp, a if a.shape[0] > a.shape[1] else a.mT, with_q=False)[1]
    return (xp._svdvals_whole if is_one(a) else xp._svdvals_batch)(a)


def _hermitian_svd(xp: Any, a: Any) -> SVDResult:
    """By eigenvalues: their sizes in falling order, their signs moved into Vh."""
    w, v = xp.linalg_eigh(a)
    order = xp.flip(xp.argsort(xp.abs(w)), -1)
    signs = xp.take_along_axis(xp.copysign(1.0, w), order, -1)[..., None, :]
    u = xp.take_along_axis(v, order[..., None, :], -1)
    s = xp.take_along_axis(xp.abs(w), order, -1)
    return SVDResult(u, s, adjoint(xp, u * signs.astype(real_of(v.dtype))))


@linalg(
    cases=lambda rng: [
        ((rng.standard_normal((5, 3)),), {}),
        ((rng.standard_normal((3, 5)),), {"full_matrices": False}),
        ((rng.standard_normal((40, 3)) + 1j,), {"full_matrices": False}),
        ((rng.standard_normal((3, 41)).astype("f4"),), {"full_matrices": False}),
        ((rng.standard_normal((2, 3, 4, 2)),), {}),
        ((rng.standard_normal((30, 2)),), {"compute_uv": False}),
        ((np.diag([1.0, -3.0, 2.0]) + 1,), {"hermitian": True}),
        ((np.diag([1.0, -3.0, 2.0]) + 1,), {"hermitian": True, "compute_uv": False}),
        ((np.zeros((3, 0)),), {}),
    ],
    compared=_svd_compared,
)
def svd(
    xp: Any, a: Array, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """U, S, Vh with U diag(S) Vh = a, the singular values falling; only S without `compute_uv`.

    One matrix runs in one piece (a whole op), but without `full_matrices` a tall or wide one is
    first reduced to its small factor by a blocked QR. Of a stack, each matrix is one piece.

    >>> import infinitensor as it
    >>> it.linalg.svd(it.asarray([[3.0, 0.0], [0.0, 4.0]])).S.numpy().tolist()
    [4.0, 3.0]
    """
    check_matrix(a, square=bool(hermitian))
    linalg_dtype(a.dtype)
    if not compute_uv:
        return xp.linalg_svdvals(a) if not hermitian else _sizes(xp, a)
    if hermitian:
        return _hermitian_svd(xp, a)
    if full_matrices and a.shape[-1] != a.shape[-2]:
        return SVDResult(*(xp._svd_whole if is_one(a) else xp._svd_batch)(a, True))
    return SVDResult(*thin_svd(xp, a))


def _sizes(xp: Any, a: Any) -> Any:
    """The singular values of hermitian matrices."""
    return xp.flip(xp.sort(xp.abs(xp.linalg_eigvalsh(a))), -1)


@linalg(
    cases=lambda rng: [
        *_rectangles()(rng),
        *_rectangles(2)(rng),
        ((rng.standard_normal((3, 40)),), {}),
    ]
)
def svdvals(xp: Any, x: Array, /) -> Any:
    """The singular values of a matrix, or of each of many, falling.

    >>> import infinitensor as it
    >>> it.linalg.svdvals(it.asarray([[3.0, 0.0], [0.0, 4.0]])).numpy().tolist()
    [4.0, 3.0]
    """
    check_matrix(x)
    linalg_dtype(x.dtype)
    return singular_values(xp, x)


# --- eigenvalues ------------------------------------------------------------------------------


class EighResult(NamedTuple):
    """The result of `linalg.eigh`, by NumPy's names."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """The result of `linalg.eig`, by NumPy's names."""

    eigenvalues: Any
    eigenvectors: Any


def _eigh_compared(found: Any) -> Any:
    """V w V^H, w and V^H V: the signs of the vectors are free."""
    w, v = found
    return w, (v * w[..., None, :]) @ _conj_t(v), _conj_t(v) @ v


def _eig_compared(found: Any) -> Any:
    """Sums of powers and V w V^-1: the order of the values is free."""
    if not isinstance(found, tuple | list):
        return _power_sums(found)
    w, v = found
    matrix = (v * w[..., None, :]) @ np.linalg.inv(v)
    return _power_sums(w), matrix, np.linalg.norm(v, axis=-2)


def _power_sums(w: Any) -> Any:
    return w.sum(-1), (w**2).sum(-1), (w**3).sum(-1), (w**4).sum(-1)


def _triangle(lower: bool) -> dict[str, str]:
    return {"UPLO": "L" if lower else "U"}


def _finite(xp: Any, a: Any) -> Any:
    source = source_of(xp, a)
    if not bool(source.isfinite().all()):
        raise LinAlgError("Array must not contain infs or NaNs")
    return source


def _either_triangle(*batch: int) -> Callable[..., list[Any]]:
    return lambda rng: [
        ((*args, lower), {}) for args, _ in squares(*batch)(rng) for lower in (True, False)
    ]


def _triangle_oracle(name: str) -> Callable[..., Any]:
    return lambda a, lower: getattr(np.linalg, name)(a, **_triangle(lower))


def _as_complex(name: str) -> Callable[..., Any]:
    """NumPy's function with complex results even where every eigenvalue is real."""

    def oracle(a: Any) -> Any:
        found = getattr(np.linalg, name)(a)
        dtype = complex_of(a.dtype)
        if isinstance(found, tuple):
            return tuple(one.astype(dtype) for one in found)
        return found.astype(dtype)

    return oracle


_SYMMETRIC: dict[str, Any] = {"cost": 10.0, **_WORK}
_GENERAL: dict[str, Any] = {"cost": 25.0, "compared": _eig_compared, **_WORK}


@stacked_op(
    _either_triangle,
    kernel=_by_library("eigh", _NO_EIGENVALUES, options=_triangle),
    oracle=_triangle_oracle("eigh"),
    compared=_eigh_compared,
    **_SYMMETRIC,
)
def _eigh(a: Spec, lower: bool) -> Call:
    """Eigenvalues and vectors of hermitian matrices, each in one piece."""
    dtype = linalg_dtype(a.dtype)
    return matrix_call(a, "mn", ("n", real_of(dtype)), ("mn", dtype), lower=lower)


@stacked_op(
    _either_triangle,
    kernel=_by_library("eigvalsh", _NO_EIGENVALUES, options=_triangle),
    oracle=_triangle_oracle("eigvalsh"),
    **_SYMMETRIC,
)
def _eigvalsh(a: Spec, lower: bool) -> Call:
    """Eigenvalues of hermitian matrices, each in one piece."""
    return matrix_call(a, "mn", ("n", real_of(linalg_dtype(a.dtype))), lower=lower)


@stacked_op(
    squares,
    kernel=_by_library("eig", _NO_EIGENVALUES, _finite),
    oracle=_as_complex("eig"),
    **_GENERAL,
)
def _eig(a: Spec) -> Call:
    """Eigenvalues and vectors of general matrices, each in one piece."""
    dtype = complex_of(a.dtype)
    return matrix_call(a, "mn", ("n", dtype), ("mn", dtype))


@stacked_op(
    squares,
    kernel=_by_library("eigvals", _NO_EIGENVALUES, _finite),
    oracle=_as_complex("eigvals"),
    **_GENERAL,
)
def _eigvals(a: Spec) -> Call:
    """Eigenvalues of general matrices, each in one piece."""
    return matrix_call(a, "mn", ("n", complex_of(a.dtype)))


def _uplo(a: Any, uplo: str) -> bool:
    """Whether the lower triangle is to be read."""
    letter = uplo.upper()
    if letter not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    check_matrix(a, square=True)
    linalg_dtype(a.dtype)
    return letter == "L"


@linalg(cases=lambda rng: [*one_and_many(rng), ((np.eye(3), "U"), {})], compared=_eigh_compared)
def eigh(xp: Any, a: Array, UPLO: str = "L") -> Any:
    """Eigenvalues, rising, and eigenvectors of a hermitian matrix; only one triangle is read.

    One matrix runs in one piece (a whole op); of a stack, each is.

    >>> import infinitensor as it
    >>> it.linalg.eigh(it.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.numpy().tolist()
    [1.0, 2.0]
    """
    lower = _uplo(a, UPLO)
    return EighResult(*(xp._eigh_whole if is_one(a) else xp._eigh_batch)(a, lower))


@linalg(cases=lambda rng: [*one_and_many(rng), ((np.eye(3), "U"), {})])
def eigvalsh(xp: Any, a: Array, UPLO: str = "L") -> Any:
    """The eigenvalues of a hermitian matrix, rising; only one triangle is read.

    >>> import infinitensor as it
    >>> it.linalg.eigvalsh(it.asarray([[2.0, 0.0], [0.0, 1.0]])).numpy().tolist()
    [1.0, 2.0]
    """
    lower = _uplo(a, UPLO)
    return (xp._eigvalsh_whole if is_one(a) else xp._eigvalsh_batch)(a, lower)


MAY_BE_REAL = NumpyVersion(np.__version__) < "2.5.0"
"""NumPy's eigenvalues of real matrices were real where all of them are; they are complex since."""


def all_real(xp: Any, a: Any, eigenvalues: Any) -> bool:
    """Whether a real matrix, or every one of a stack, has real eigenvalues; looked at now."""
    return a.dtype.kind != "c" and bool(xp.force(xp.all(xp.imag(eigenvalues) == 0)))


@linalg(
    cases=lambda rng: [*one_and_many(rng), ((np.diag([1.0, 2.0]),), {})], compared=_eig_compared
)
def eig(xp: Any, a: Array) -> Any:
    """Eigenvalues and eigenvectors (columns of length one) of a general square matrix.

    Before NumPy 2.5 those of real matrices are computed now, and real where all are, as NumPy's.
    One matrix runs in one piece (a whole op); of a stack, each is.

    >>> import infinitensor as it
    >>> it.linalg.eig(it.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.real.tolist()
    [2.0, 1.0]
    """
    check_matrix(a, square=True)
    found = (xp._eig_whole if is_one(a) else xp._eig_batch)(a)
    return EigResult(*(map(xp.real, found) if MAY_BE_REAL and all_real(xp, a, found[0]) else found))


@linalg(
    cases=lambda rng: [*one_and_many(rng), ((np.diag([1.0, 2.0]),), {})], compared=_eig_compared
)
def eigvals(xp: Any, a: Array) -> Any:
    """The eigenvalues of a general square matrix; as `eig` gives them.

    >>> import infinitensor as it
    >>> it.linalg.eigvals(it.asarray([[2.0, 0.0], [0.0, 1.0]])).real.tolist()
    [2.0, 1.0]
    """
    check_matrix(a, square=True)
    found = (xp._eigvals_whole if is_one(a) else xp._eigvals_batch)(a)
    return xp.real(found) if MAY_BE_REAL and all_real(xp, a, found) else found


# --- what follows from them -------------------------------------------------------------------


def _columns(xp: Any, rcond: Any) -> Any:
    """A tolerance for each matrix of a stack, beside its singular values."""
    return rcond if np.ndim(rcond) == 0 else xp.asarray(rcond)[..., None]


@linalg(
    cases=lambda rng: [
        ((rng.standard_normal((5, 3)),), {}),
        ((rng.standard_normal((2, 3, 5)),), {"rcond": np.array([1e-3, 0.6])}),
        ((rng.standard_normal((3, 31)) + 1j,), {}),
        ((np.diag([1.0, 0.0, 2.0]).astype("f4"),), {"rtol": None}),
        ((np.diag([1.0, -3.0, 2.0]) + 1,), {"hermitian": True}),
        ((np.zeros((3, 0)),), {}),
    ]
)
def pinv(
    xp: Any, a: Array, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NO_VALUE
) -> Any:
    """The Moore-Penrose inverse; singular values up to `rcond` times the largest count as zero.

    >>> import infinitensor as it
    >>> it.linalg.pinv(it.asarray([[2.0, 0.0], [0.0, 0.0]])).numpy().tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    if rcond is not None and rtol is not NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    check_matrix(a)
    dtype = linalg_dtype(a.dtype)
    m, n = a.shape[-2:]
    if rcond is None:
        rcond = 1e-15 if rtol is NO_VALUE else rtol
    if rcond is None:
        rcond = max(m, n) * float(np.finfo(dtype).eps)
    if not min(m, n):
        return xp.zeros((*a.shape[:-2], n, m), dtype=a.dtype)
    u, s, vh = xp.linalg_svd(a, False, hermitian=hermitian)
    large = s > _columns(xp, rcond) * xp.max(s, axis=-1, keepdims=True)
    inverse = xp.where(large, 1 / xp.where(large, s, 1), 0).astype(s.dtype)
    return xp.matmul(adjoint(xp, vh), inverse[..., None] * adjoint(xp, u))


@linalg(
    cases=lambda rng: [
        ((np.diag([1.0, 0.0, 2.0]),), {}),
        ((rng.standard_normal((2, 4, 3)),), {"tol": np.array([1e-6, 1.2])}),
        ((rng.standard_normal((2, 4, 3)),), {"rtol": 0.5}),
        ((np.ones((30, 3)),), {}),
        ((np.diag([1.0, -3.0, 2.0]) + 1,), {"hermitian": True}),
        ((np.zeros(4),), {}),
        ((np.array(2.0),), {}),
    ]
)
def matrix_rank(
    xp: Any, A: Array, tol: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Any:
    """How many singular values are above `tol` (or `rtol` times the largest).

    >>> import infinitensor as it
    >>> int(it.linalg.matrix_rank(it.ones((4, 4))))
    1
    """
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if len(A.shape) < 2:
        return xp.any(A != 0).astype(np.dtype(np.int64))
    s = _sizes(xp, A) if hermitian else xp.linalg_svdvals(A)
    if not s.shape[-1]:
        return xp.zeros(s.shape[:-1], dtype=np.dtype(np.int64))
    if tol is None:
        eps = float(np.finfo(s.dtype).eps)
        share = max(A.shape[-2:]) * eps if rtol is None else _columns(xp, rtol)
        return xp.count_nonzero(s > xp.max(s, axis=-1, keepdims=True) * share, axis=-1)
    return xp.count_nonzero(s > _columns(xp, tol), axis=-1)


@linalg(
    cases=lambda rng: [
        ((rng.standard_normal((6, 3)), rng.standard_normal(6)), {}),
        ((rng.standard_normal((40, 3)), rng.standard_normal((40, 2))), {}),
        ((rng.standard_normal((3, 5)) + 1j, rng.standard_normal((3, 2))), {}),
        ((np.ones((6, 3)), rng.standard_normal(6)), {"rcond": 1e-6}),
        ((rng.standard_normal((6, 3)).astype("f4"), np.ones((6, 0), "f4")), {}),
        ((np.zeros((0, 3)), np.zeros(0)), {}),
    ]
)
def lstsq(xp: Any, a: Array, b: Array, rcond: Any = None) -> Any:
    """The x of least norm for which |b - a x| is least, the squared distances, the rank and S.

    By singular values; a tall matrix is reduced by a blocked QR first. There are distances only
    where the rank is full, so the singular values are computed at the call.

    >>> import infinitensor as it
    >>> x, _, rank, _ = it.linalg.lstsq(it.asarray([[1.0], [1.0]]), it.asarray([1.0, 3.0]))
    >>> round(float(x[0]), 6), rank
    (2.0, np.int32(1))
    """
    columns = b.reshape(-1, 1) if len(b.shape) == 1 else b
    for one in (a, columns):
        if len(one.shape) != 2:
            raise LinAlgError(
                f"{len(one.shape)}-dimensional array given. Array must be two-dimensional"
            )
    (m, n), dtype = a.shape, linalg_dtype(a.dtype, b.dtype)
    if columns.shape[0] != m:
        raise LinAlgError(f"Incompatible dimensions: lstsq of a {a.shape} and b {b.shape}")
    if rcond is None:
        rcond = float(np.finfo(dtype).eps) * max(m, n)
    a, columns = a.astype(dtype), columns.astype(dtype)
    u, s, vh = thin_svd(xp, a)
    sizes = xp.force(s)
    large = sizes > rcond * sizes.max(initial=0)
    inverse = np.where(large, 1 / np.where(large, sizes, 1), 0).astype(sizes.dtype)
    rank = np.int32(large.sum())
    x = xp.matmul(adjoint(xp, vh), inverse[:, None] * xp.matmul(adjoint(xp, u), columns))
    distances = xp.zeros(0, dtype=s.dtype)
    if rank == n and m > n:
        distances = xp.sum(xp.square(xp.abs(columns - xp.matmul(a, x))), axis=0)
    return x if len(b.shape) == 2 else x.reshape(-1), distances, rank, s
