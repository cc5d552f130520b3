"""Systems of equations with triangular matrices, and with Cholesky's factors."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.ops.backend.torch_loading import wait_for_torch
from infinitensor.ops.linalg.matmul import batch_labels
from infinitensor.ops.linalg.triangles import (
    MATRIX,
    LinAlgError,
    linalg,
    linalg_dtype,
    positive_definite,
    tensors,
)
from infinitensor.ops.table.registry import Array, op


def _trsm_kernel(
    xp: Any, a: Any, b: Any, out: Any, lower: bool, trans: int, unit_diagonal: bool
) -> None:
    torch = wait_for_torch()

    target, matrix, right = tensors(xp, out, a, b)
    if not unit_diagonal:
        zero = matrix.diagonal(dim1=-2, dim2=-1) == 0
        if bool(zero.any()):
            at = int(zero.nonzero()[0, -1])
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
    ] + [((c, b), {"trans": 2}), ((np.stack([a, 2 * a]), b), {}), ((a, np.stack([b, b])), {})]


def _trsm_oracle(
    a: Any, b: Any, lower: Any = False, trans: Any = 0, unit_diagonal: Any = False
) -> Any:
    import scipy.linalg

    return scipy.linalg.solve_triangular(a, b, trans, lower, unit_diagonal)


@op("mapped", kernel=_trsm_kernel, cases=_triangles, oracle=_trsm_oracle, cost=2.0, **MATRIX)
def _trsm_block(
    a: Spec, b: Spec, lower: bool = False, trans: int = 0, unit_diagonal: bool = False
) -> Call:
    """op(a) x = b for triangular blocks that are not cut; the columns of b and stacks are."""
    n, k = b.shape[-2:]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    row, column, other = (len(batch) + i for i in range(3))
    inputs = (
        (*batch_labels(a.shape[:-2], batch), other, row),
        (*batch_labels(b.shape[:-2], batch), row, column),
    )
    kept = (*range(len(batch)), row, column)
    form = AxisForm((*batch, n, k, n), inputs, (kept,), frozenset((row, other)))
    out = Spec((*batch, n, k), linalg_dtype(a.dtype, b.dtype))
    return call(form, out, lower=lower, trans=trans, unit_diagonal=unit_diagonal)


_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def square_block(xp: Any, n: int) -> int:
    """The side of the square blocks that a matrix of side n is worked on in: eights, so that fewer
    tiles are halved between two blocks."""
    side = isqrt(xp.block(n * n)) if n else 1
    return max(side // 8 * 8 or side, 1)


def _solve_blocks(xp: Any, a: Any, b: Any, *, lower: bool, trans: int, unit_diagonal: bool) -> Any:
    """Substitution block by block: solve the diagonal block, take its part off the rest."""
    n = a.shape[-1]
    side = square_block(xp, n)
    if n <= side or max(len(a.shape), len(b.shape)) > 2:
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


@linalg(
    cases=lambda rng: [
        *_triangles(rng),
        ((np.tril(rng.standard_normal((4, 4))) + 4 * np.eye(4), np.ones(4)), {"lower": True}),
    ],
    oracle=_trsm_oracle,
)
def solve_triangular(
    xp: Any,
    a: Array,
    b: Array,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """x with op(a) x = b for a triangular a, as SciPy's; op is chosen by `trans` (0, "T", "C").

    Blocked: the diagonal blocks one after another, the products with the blocks beside them cut
    over all devices. Stacks are broadcast, each matrix in one piece. A zero on the diagonal raises
    `LinAlgError` when the result is computed, and a value that is not finite a `ValueError`, unless
    `check_finite=False`. Nothing is overwritten.

    >>> import infinitensor as it
    >>> a = it.asarray([[2.0, 0.0], [1.0, 1.0]])
    >>> it.linalg.solve_triangular(a, it.asarray([2.0, 3.0]), lower=True).numpy().tolist()
    [1.0, 2.0]
    """
    if trans not in _TRANS:
        raise ValueError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    if len(a.shape) < 2 or a.shape[-2] != a.shape[-1]:
        raise ValueError(f"solve_triangular: expected square matrix, got shape {tuple(a.shape)}")
    columns = _columns("solve_triangular", a, b)
    found = _solve_blocks(
        xp, a, columns, lower=bool(lower), trans=_TRANS[trans], unit_diagonal=bool(unit_diagonal)
    )
    return _finite(xp, found if len(b.shape) > 1 else found[..., 0], check_finite, a, b)


def _columns(name: str, a: Any, b: Any) -> Any:
    """The right sides as columns; stacks of them have two axes of their own, as in SciPy."""
    columns = b if len(b.shape) > 1 else b.reshape(-1, 1)
    if columns.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"{name}: shapes of a {tuple(a.shape)} and b {tuple(b.shape)} are incompatible"
        )
    return columns


def _finite(xp: Any, found: Any, is_asked: bool, *given: Any) -> Any:
    """The result; a ValueError, if that is asked for, where an input is not finite."""
    inexact = [x for x in given if x.dtype.kind in "fc"]
    if not is_asked or not inexact:
        return found
    holds = xp.all(xp.isfinite(inexact[0]))
    for x in inexact[1:]:
        holds = holds & xp.all(xp.isfinite(x))
    return xp._ensured(found, holds, "ValueError", "array must not contain infs or NaNs")


# --- Cholesky's factors -----------------------------------------------------------------------


def _definite(rng: Any) -> list[Any]:
    a = positive_definite(rng, 5, 5)
    return [
        ((a,), {}),
        ((a.astype("f4"),), {"lower": True}),
        ((positive_definite(rng, 3, 4, 4),), {"lower": True}),
        ((a + 1j * (np.tri(5) - np.tri(5).T),), {}),
    ]


def _cho_factor_oracle(a: Any, lower: bool = False) -> Any:
    import scipy.linalg

    half, other = (np.tril, np.triu(a, 1)) if lower else (np.triu, np.tril(a, -1))
    return half(scipy.linalg.cho_factor(a, lower)[0]) + other


@linalg(
    cases=_definite,
    oracle=_cho_factor_oracle,
    compared=lambda found: found[0] if isinstance(found, tuple | list) else found,
)
def cho_factor(
    xp: Any, a: Array, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Cholesky's factor, for `cho_solve`: (c, lower), as SciPy's.

    The other triangle of c is that of a. Stacks of matrices are factored one by one.

    >>> import infinitensor as it
    >>> c, lower = it.linalg.cho_factor(it.asarray([[4.0, 2.0], [2.0, 5.0]]))
    >>> c.tolist(), lower
    ([[2.0, 1.0], [2.0, 2.0]], False)
    """
    if len(a.shape) < 2 or a.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"Input array is expected to be square but has the shape: {tuple(a.shape)}."
        )
    factor = xp.linalg.cholesky(a, upper=not lower)
    other = xp.triu(a, 1) if lower else xp.tril(a, -1)
    return _finite(xp, factor + other.astype(factor.dtype), check_finite, a), lower


def _cho_solve_cases(rng: Any) -> list[Any]:
    a = positive_definite(rng, 5, 5)
    b = rng.standard_normal((5, 3))
    return [
        (((np.linalg.cholesky(a), True), b), {}),
        (((np.linalg.cholesky(a).T, False), b[:, 0]), {}),
        (((np.linalg.cholesky(np.stack([a, a])), True), b), {}),
    ]


def _cho_solve_oracle(c_and_lower: Any, b: Any) -> Any:
    import scipy.linalg

    return scipy.linalg.cho_solve(c_and_lower, b)


@linalg(cases=_cho_solve_cases, oracle=_cho_solve_oracle)
def cho_solve(
    xp: Any, c_and_lower: Any, b: Array, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """x with a x = b by Cholesky's factor of a, from `cho_factor`; as SciPy's.

    >>> import infinitensor as it
    >>> a = it.asarray([[4.0, 2.0], [2.0, 5.0]])
    >>> it.linalg.cho_solve(it.linalg.cho_factor(a), it.asarray([8.0, 12.0])).tolist()
    [1.0, 2.0]
    """
    c, lower = c_and_lower
    c = xp.asarray(c)
    if len(c.shape) < 2 or c.shape[-2] != c.shape[-1]:
        raise ValueError("The factored matrix c is not square.")
    columns = _columns("cho_solve", c, b)
    for trans in (0, 2) if lower else (2, 0):
        columns = _solve_blocks(xp, c, columns, lower=bool(lower), trans=trans, unit_diagonal=False)
    return _finite(xp, columns if len(b.shape) > 1 else columns[..., 0], check_finite, c, b)
