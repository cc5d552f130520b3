"""One general matrix in one piece (the `whole` entries) or many: solve, inverse, determinant, and
programs over them; names that `linalg` shares with the main module.
"""

from __future__ import annotations

import operator
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.ir.op import AxisForm, Call, Spec, call
from infinitensor.lazy_torch import torch
from infinitensor.ops.backend.torch_loading import wait_for_torch
from infinitensor.ops.linalg import products
from infinitensor.ops.linalg.matmul import batch_labels
from infinitensor.ops.linalg.matmul import matmul as matrix_product
from infinitensor.ops.linalg.triangles import (
    LinAlgError,
    by_numpy,
    check_matrix,
    fill,
    is_one,
    linalg,
    linalg_dtype,
    matrix_call,
    matrix_scratch,
    one_and_many,
    real_of,
    solve_one,
    source_of,
    squares,
    stacked_op,
    tensors,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infinitensor.ops.table.registry import Array

# --- one general matrix -----------------------------------------------------------------------


def _solve_kernel(xp: Any, a: Any, b: Any, out: Any) -> None:
    if xp is np and solve_one(a, b, out):
        return
    torch = wait_for_torch() if xp is np else xp
    target, matrix, right = tensors(xp, out, a, b)
    if not target.numel():
        return
    found, wrong = torch.linalg.solve_ex(matrix, right)
    if bool(wrong.any()):
        raise LinAlgError("Singular matrix")
    target.copy_(found)


def _solvable(rng: Any, *batch: int) -> list[Any]:
    a = rng.standard_normal((*batch, 4, 4))
    return [
        ((a, rng.standard_normal((*batch, 4, 3))), {}),
        ((a.astype("f4"), rng.standard_normal((4, 2)).astype("f4")), {}),
    ]


@stacked_op(lambda *batch: lambda rng: _solvable(rng, *batch), kernel=_solve_kernel, cost=2.0)
def _solve(a: Spec, b: Spec) -> Call:
    """a x = b for general matrices, each in one piece."""
    n, k = b.shape[-2:]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    ndim = len(batch)
    left, right = (batch_labels(spec.shape[:-2], batch) for spec in (a, b))
    rows, columns, inner = ndim, ndim + 1, ndim + 2
    form = AxisForm(
        (*batch, n, k, n),
        ((*left, inner, rows), (*right, rows, columns)),
        ((*range(ndim), rows, columns),),
        frozenset((rows, inner)),
    )
    return call(form, Spec((*batch, n, k), linalg_dtype(a.dtype, b.dtype)))


@linalg(
    cases=lambda rng: [
        *_solvable(rng),
        *_solvable(rng, 3),
        ((rng.standard_normal((4, 4)), rng.standard_normal(4)), {}),
        ((rng.standard_normal((2, 4, 4)), rng.standard_normal(4)), {}),
        ((rng.standard_normal((4, 4)), rng.standard_normal((2, 4, 3))), {}),
    ]
)
def solve(xp: Any, a: Array, b: Array) -> Any:
    """x with a x = b; b is one vector when it has one axis, else columns.

    One general matrix is solved in one piece (a whole op); of many, each is. A singular matrix
    raises `LinAlgError` when the result is computed.

    >>> import infinitensor as it
    >>> a = it.asarray([[2.0, 0.0], [0.0, 4.0]])
    >>> it.linalg.solve(a, it.asarray([2.0, 4.0])).numpy().tolist()
    [1.0, 1.0]
    """
    check_matrix(a, square=True)
    vector = len(b.shape) == 1
    columns = b.reshape(-1, 1) if vector else b
    if len(columns.shape) < 2 or columns.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"solve: a of shape {tuple(a.shape)} and b of shape {tuple(b.shape)} do not match: "
            f"b needs {a.shape[-1]} along axis {'0' if vector else '-2'}"
        )
    np.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    found = (xp._solve_whole if is_one(a) and is_one(columns) else xp._solve_batch)(a, columns)
    return found.reshape(found.shape[:-1]) if vector else found


def _inv_kernel(xp: Any, a: Any, out: Any, strict: bool) -> None:
    if strict and by_numpy(xp, "inv", a, out):
        return
    target, matrix = tensors(xp, out, a)
    found, wrong = torch.linalg.inv_ex(matrix)
    if strict and bool(wrong.any()):
        raise LinAlgError("Singular matrix")
    target.copy_(found)
    if not strict:
        target[wrong != 0] = float("nan")


def _det_kernel(xp: Any, a: Any, out: Any) -> None:
    if by_numpy(xp, "det", a, out):
        return
    target, matrix = tensors(xp, out, a)
    target.copy_(torch.linalg.det(matrix))


def _slogdet_kernel(xp: Any, a: Any, out: Any) -> None:
    if by_numpy(xp, "slogdet", a, out):
        return
    matrix = source_of(xp, a)
    sign, size = torch.linalg.slogdet(matrix)
    if not sign.is_complex() and bool(size.isnan().any()):
        sign = torch.where(size.isnan(), _sign(matrix), sign)
    fill(xp, out, (sign, size))


def _sign(matrix: Any) -> Any:
    """The sign of determinants by the swaps and negative pivots: NumPy's NaN changes none."""
    factors, rows, _ = torch.linalg.lu_factor_ex(matrix)
    unmoved = torch.arange(1, rows.shape[-1] + 1, device=rows.device)
    turns = (rows != unmoved).sum(-1) + (factors.diagonal(dim1=-2, dim2=-1) < 0).sum(-1)
    return 1 - 2 * (turns % 2).to(matrix.dtype)


def _expm_kernel(xp: Any, a: Any, out: Any) -> None:
    target, matrix = tensors(xp, out, a)
    if target.numel():
        target.copy_(torch.linalg.matrix_exp(matrix))


@stacked_op(squares, kernel=_inv_kernel, oracle=lambda a, strict=True: np.linalg.inv(a), cost=2.0)
def _inv(a: Spec, strict: bool = True) -> Call:
    """The inverses of matrices, each in one piece; without `strict` NaN where there is none."""
    return matrix_call(a, "mn", ("mn", linalg_dtype(a.dtype)), strict=strict)


@stacked_op(squares, kernel=_det_kernel)
def _det(a: Spec) -> Call:
    """The determinants of matrices, each in one piece."""
    return matrix_call(a, "mn", ("", linalg_dtype(a.dtype)))


@stacked_op(squares, kernel=_slogdet_kernel)
def _slogdet(a: Spec) -> Call:
    """Sign and logarithm of the determinants of matrices, each in one piece."""
    dtype = linalg_dtype(a.dtype)
    return matrix_call(a, "mn", ("", dtype), ("", real_of(dtype)))


def _scipys_expm(a: Any) -> Any:
    import scipy.linalg  # takes long to import, and only tests ask for it

    return scipy.linalg.expm(a)


def _exponents(*batch: int) -> Callable[..., list[Any]]:
    """Matrices whose exponentials are not huge."""
    return lambda rng: [
        ((a // 10 if a.dtype.kind == "i" else a,), {}) for (a,), _ in squares(*batch)(rng)
    ]


@stacked_op(
    _exponents,
    kernel=_expm_kernel,
    oracle=_scipys_expm,
    cost=40.0,
    scratch_bytes=lambda ins, outs, params: 5 * matrix_scratch(ins, outs, params),
)
def _expm(a: Spec) -> Call:
    """The exponentials of matrices, each in one piece."""
    return matrix_call(a, "mn", ("mn", linalg_dtype(a.dtype)))


@linalg(cases=one_and_many)
def inv(xp: Any, a: Array) -> Any:
    """The inverse of a square matrix, or of each of many.

    One general matrix is inverted in one piece (a whole op). A singular matrix raises
    `LinAlgError` when the result is computed.

    >>> import infinitensor as it
    >>> it.linalg.inv(it.asarray([[2.0, 0.0], [0.0, 4.0]])).numpy().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    check_matrix(a, square=True)
    return (xp._inv_whole if is_one(a) else xp._inv_batch)(a)


@linalg(cases=one_and_many)
def det(xp: Any, a: Array) -> Any:
    """The determinant of a square matrix, or of each of many.

    One general matrix is factored in one piece (a whole op).

    >>> import infinitensor as it
    >>> float(it.linalg.det(it.asarray([[2.0, 0.0], [0.0, 4.0]])))
    8.0
    """
    check_matrix(a, square=True)
    return (xp._det_whole if is_one(a) else xp._det_batch)(a)


class SlogdetResult(NamedTuple):
    """The result of `linalg.slogdet`, by NumPy's names."""

    sign: Any
    logabsdet: Any


@linalg(cases=lambda rng: [*one_and_many(rng), ((np.ones((2, 2)),), {})])
def slogdet(xp: Any, a: Array) -> Any:
    """The sign of the determinant and the logarithm of its size: no overflow for large matrices.

    >>> import infinitensor as it
    >>> sign, logabsdet = it.linalg.slogdet(-it.eye(3))
    >>> float(sign), float(logabsdet)
    (-1.0, 0.0)
    """
    check_matrix(a, square=True)
    return SlogdetResult(*(xp._slogdet_whole if is_one(a) else xp._slogdet_batch)(a))


@linalg(cases=lambda rng: [*_exponents()(rng), *_exponents(2)(rng)], oracle=_scipys_expm)
def expm(xp: Any, a: Array) -> Any:
    """The exponential of a square matrix, or of each of many, as SciPy's.

    One matrix runs in one piece (a whole op).

    >>> import infinitensor as it
    >>> it.linalg.expm(it.zeros((2, 2))).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_matrix(a, square=True)
    return (xp._expm_whole if is_one(a) else xp._expm_batch)(a)


# --- programs over them -----------------------------------------------------------------------


@linalg(
    cases=lambda rng: [
        *(((rng.standard_normal((2, 3, 3)), n), {}) for n in (0, 1, 2, 3, 6, -1, -5)),
        ((rng.integers(-3, 3, (3, 3)), 5), {}),
    ]
)
def matrix_power(xp: Any, a: Array, n: int) -> Any:
    """A square matrix times itself n times, by squaring; the inverse's power where n < 0.

    >>> import infinitensor as it
    >>> it.linalg.matrix_power(it.asarray([[1, 1], [0, 1]]), 5).numpy().tolist()
    [[1, 5], [0, 1]]
    """
    check_matrix(a, square=True)
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError("exponent must be an integer") from None
    if not n:
        unit = xp.eye(a.shape[-1], dtype=a.dtype)
        return xp._copy(xp.broadcast_to(unit, a.shape))
    power, n = (xp.linalg_inv(a), -n) if n < 0 else (a, n)
    result = None
    while True:
        if n & 1:
            result = power if result is None else xp.matmul(result, power)
        n >>= 1
        if not n:
            return result
        power = xp.matmul(power, power)


def cheapest_splits(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """For every run of matrices, of sizes[i] x sizes[i + 1] each, after which one to split it so
    that its product takes the fewest multiplications. Cubic in their number.

    >>> cheapest_splits((8, 2, 8, 1))[0, 2], cheapest_splits((1, 8, 2, 8))[0, 2]
    (0, 1)
    """
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for first in range(n - length):
            last = first + length
            cost[first, last], split[first, last] = min(
                (
                    cost[first, at]
                    + cost[at + 1, last]
                    + sizes[first] * sizes[at + 1] * sizes[last + 1],
                    at,
                )
                for at in range(first, last)
            )
    return split


@linalg(
    cases=lambda rng: [
        (([rng.standard_normal(s) for s in shapes],), {})
        for shapes in (
            [(3, 4), (4, 5)],
            [(3, 4), (4, 5), (5, 2)],
            [4, (4, 5), (5, 2), (2, 6)],
            [4, (4, 5), 5],
        )
    ]
)
def multi_dot(xp: Any, arrays: Sequence[Array], *, out: Any = None) -> Any:
    """The product of several matrices in the order that costs least; the ends may be vectors.

    >>> import infinitensor as it
    >>> it.linalg.multi_dot([it.ones((2, 3)), it.ones((3, 4)), it.ones(4)]).numpy().tolist()
    [12.0, 12.0]
    """
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    last = len(arrays) - 1
    for i, one in enumerate(arrays):
        if len(one.shape) != 2 and not (i in (0, last) and len(one.shape) == 1):
            raise LinAlgError(
                f"{len(one.shape)}-dimensional array given. Array must be two-dimensional"
            )
    for i, (left, right) in enumerate(pairwise(arrays)):
        if left.shape[-1] != right.shape[0]:
            raise ValueError(
                f"multi_dot: shapes {tuple(left.shape)} of array {i} and {tuple(right.shape)} "
                f"of array {i + 1} not aligned: {left.shape[-1]} != {right.shape[0]}"
            )
    row = arrays[0].shape[0] if len(arrays[0].shape) == 2 else 1
    column = arrays[-1].shape[1] if len(arrays[-1].shape) == 2 else 1
    split = cheapest_splits((row, *(one.shape[0] for one in arrays[1:]), column))

    def product_of(first: int, last: int) -> Any:
        if first == last:
            return arrays[first]
        at = split[first, last]
        return xp.matmul(product_of(first, at), product_of(at + 1, last))

    product = product_of(0, last)
    if out is None:
        return product
    if tuple(out.shape) != tuple(product.shape) or out.dtype != product.dtype:
        raise ValueError(
            f"multi_dot: out of shape {tuple(out.shape)} and dtype {out.dtype} is not that of the "
            f"product, {tuple(product.shape)} and {product.dtype}"
        )
    out[...] = product
    return out


@linalg(
    cases=lambda rng: [
        ((rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 3))), {}),
        ((rng.standard_normal((2, 6, 3)), rng.standard_normal((6,))), {"axes": (0, 2)}),
    ]
)
def tensorsolve(xp: Any, a: Array, b: Array, axes: Any = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b; `axes` of a are moved to its end first.

    >>> import infinitensor as it
    >>> a = 2 * it.eye(4).reshape(2, 2, 2, 2)
    >>> it.linalg.tensorsolve(a, it.ones((2, 2))).numpy().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if axes is not None:
        moved = normalize_axis_tuple(axes, len(a.shape), "tensorsolve")
        a = xp.moveaxis(a, moved, tuple(range(-len(moved), 0)))
    shape = tuple(a.shape[len(b.shape) :])
    n = prod(shape)
    if prod(a.shape) != n * n:
        raise LinAlgError(
            "Input arrays must satisfy the requirement "
            "prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return xp.linalg_solve(a.reshape(n, n), b.reshape(-1)).reshape(shape)


@linalg(
    cases=lambda rng: [
        ((rng.standard_normal((2, 3, 6)),), {}),
        ((rng.standard_normal((6, 2, 3)), 1), {}),
    ]
)
def tensorinv(xp: Any, a: Array, ind: int = 2) -> Any:
    """The inverse of a as a map from its last axes to its first `ind`.

    >>> import infinitensor as it
    >>> it.linalg.tensorinv(it.eye(4).reshape(4, 2, 2), 1).shape
    (2, 2, 4)
    """
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    n = prod(a.shape[ind:])
    inverse = xp.linalg_inv(a.reshape(-1, n) if n else a.reshape(prod(a.shape[:ind]), n))
    return inverse.reshape((*a.shape[ind:], *a.shape[:ind]))


# --- names that linalg shares with the main module --------------------------------------------


@linalg(cases=lambda rng: [((rng.standard_normal((2, 4, 4)),), {"offset": k}) for k in (0, 1, -2)])
def trace(xp: Any, x: Array, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum along a diagonal of the last two axes (Array API).

    >>> import infinitensor as it
    >>> float(it.linalg.trace(it.eye(3)))
    3.0
    """
    return xp.trace(x, offset, -2, -1, dtype)


@linalg(cases=lambda rng: [((rng.standard_normal((2, 4, 3)),), {"offset": k}) for k in (0, 1, -2)])
def diagonal(xp: Any, x: Array, /, *, offset: int = 0) -> Any:
    """A diagonal of the last two axes (Array API).

    >>> import infinitensor as it
    >>> it.linalg.diagonal(it.asarray([[1, 2], [3, 4]])).numpy().tolist()
    [1, 4]
    """
    return xp.diagonal(x, offset, -2, -1)


@linalg(cases=lambda rng: [((rng.standard_normal((2, 4, 3)),), {})])
def matrix_transpose(xp: Any, x: Array, /) -> Any:
    """The last two axes swapped; a view.

    >>> import infinitensor as it
    >>> it.linalg.matrix_transpose(it.ones((2, 3))).shape
    (3, 2)
    """
    return xp.matrix_transpose(x)


@linalg(cases=matrix_product.cases)
def matmul(xp: Any, x1: Array, x2: Array, /) -> Any:
    """The matrix product, as `matmul`.

    >>> import infinitensor as it
    >>> it.linalg.matmul(it.ones((1, 2)), it.ones((2, 1))).numpy().tolist()
    [[2.0]]
    """
    return xp.matmul(x1, x2)


@linalg(
    cases=lambda rng: [
        ((rng.standard_normal((2, 3, 4)), rng.standard_normal((3, 4, 5))), {}),
        ((rng.standard_normal((2, 3)), rng.standard_normal((4, 2))), {"axes": ((0,), (1,))}),
    ]
)
def tensordot(xp: Any, x1: Array, x2: Array, /, *, axes: Any = 2) -> Any:
    """Products summed over pairs of axes, as `tensordot`.

    >>> import infinitensor as it
    >>> float(it.linalg.tensordot(it.ones((2, 3)), it.ones((2, 3))))
    6.0
    """
    return xp.tensordot(x1, x2, axes)


@linalg(cases=products.vecdot.cases)
def vecdot(xp: Any, x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    """The sum of conj(x1) * x2 along one axis, as `vecdot`.

    >>> import infinitensor as it
    >>> float(it.linalg.vecdot(it.ones(3), it.ones(3)))
    3.0
    """
    return xp.vecdot(x1, x2, axis=axis)


@linalg(cases=lambda rng: [((rng.standard_normal(3), rng.standard_normal(4)), {})])
def outer(xp: Any, x1: Array, x2: Array, /) -> Any:
    """Every product of an element of one vector and one of another.

    >>> import infinitensor as it
    >>> it.linalg.outer(it.arange(2), it.arange(3)).numpy().tolist()
    [[0, 0, 0], [0, 1, 2]]
    """
    if len(x1.shape) != 1 or len(x2.shape) != 1:
        raise ValueError(
            "Input arrays must be one-dimensional, but they are "
            f"x1.ndim={len(x1.shape)} and x2.ndim={len(x2.shape)}."
        )
    return xp.outer(x1, x2)


@linalg(
    cases=lambda rng: [
        ((rng.standard_normal((4, 3)), rng.standard_normal(3)), {}),
        ((rng.standard_normal((3, 4)), rng.standard_normal((3, 4))), {"axis": 0}),
        ((rng.integers(0, 9, (2, 3)), rng.integers(0, 9, (5, 1, 3))), {}),
    ]
)
def cross(xp: Any, x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three components along an axis.

    >>> import infinitensor as it
    >>> it.linalg.cross(it.asarray([1, 0, 0]), it.asarray([0, 1, 0])).numpy().tolist()
    [0, 0, 1]
    """
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{x1.shape[axis]} and {x2.shape[axis]} dimensional instead."
        )
    a, b = xp.moveaxis(x1, axis, -1), xp.moveaxis(x2, axis, -1)
    product = xp.roll(a, -1, -1) * xp.roll(b, -2, -1) - xp.roll(a, -2, -1) * xp.roll(b, -1, -1)
    return xp.moveaxis(product, -1, axis)
