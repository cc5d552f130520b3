"""NumPy's named products that are no matmul: of vectors, along axes, and of all pairs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import result_type
from infinitensor.ops.linalg.einsum import LETTERS, product_of
from infinitensor.ops.table.registry import Array, program

if TYPE_CHECKING:
    from collections.abc import Sequence


@program(
    cases=lambda rng: [
        ((rng.normal(size=(2, 3)), rng.normal(size=(3, 2))), {}),
        ((rng.normal(size=3), rng.normal(size=(2, 2))), {}),
        ((rng.normal(size=(2, 1, 3)), rng.integers(0, 9, 2)), {}),
        ((np.arange(3), np.int64(2)), {}),
        ((np.zeros((0, 2)), np.ones((2, 2))), {}),
    ],
    same="equal",
)
def kron(xp: Any, a: Array, b: Array) -> Any:
    """The Kronecker product: every element of a times all of b, laid out in blocks.

    >>> import infinitensor as it
    >>> it.kron(it.asarray([1, 10]), it.asarray([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    ndim = max(len(a.shape), len(b.shape))
    left, right = ((1,) * (ndim - len(x.shape)) + tuple(x.shape) for x in (a, b))
    a = a.reshape(tuple(n for size in left for n in (size, 1)))
    b = b.reshape(tuple(n for size in right for n in (1, size)))
    return (a * b).reshape(tuple(m * n for m, n in zip(left, right, strict=True)))


def _vectors(rng: Any) -> list[Any]:
    a, b = rng.normal(size=(4, 3)), rng.integers(0, 9, (4, 3))
    return [
        ((a, b), {}),
        ((a, a[0]), {}),
        ((a.T, b), {"axisa": 0}),
        ((a.T, b.T), {"axis": 0}),
        ((a[:, None], b), {"axisc": 0}),
        ((b.astype(np.uint8), b), {}),
        ((a, np.ones(4)), {}),
        ((a, np.float64(1)), {}),
    ]


@program(cases=_vectors)
def cross(
    xp: Any,
    a: Array,
    b: Array,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Any:
    """The vector product of vectors with three components.

    >>> import infinitensor as it
    >>> it.cross(it.asarray([1, 0, 0]), it.asarray([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    if not len(a.shape) or not len(b.shape):
        raise ValueError("At least one array has zero dimension")
    a = xp.moveaxis(a, normalize_axis_index(axisa, len(a.shape), "axisa"), -1)
    b = xp.moveaxis(b, normalize_axis_index(axisb, len(b.shape), "axisb"), -1)
    sizes = (a.shape[-1], b.shape[-1])
    if not set(sizes) <= {2, 3}:
        raise ValueError(
            "incompatible dimensions for cross product\n(dimension must be 2 or 3), "
            f"not {sizes[0]} and {sizes[1]}"
        )
    if 2 in sizes:
        warnings.warn(
            "Arrays of 2-dimensional vectors are deprecated. Use arrays of "
            "3-dimensional vectors instead. (deprecated in NumPy 2.0)",
            DeprecationWarning,
            stacklevel=2,
        )
    dtype = result_type(a.dtype, b.dtype)
    (a0, a1, a2), (b0, b1, b2) = (
        [x[..., i].astype(dtype) if i < x.shape[-1] else dtype.type(0) for i in range(3)]
        for x in (a, b)
    )
    last = a0 * b1 - a1 * b0
    if sizes == (2, 2):
        return last
    made = xp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, last], axis=-1)
    return xp.moveaxis(made, -1, normalize_axis_index(axisc, len(made.shape), "axisc"))


def _axes_of(name: str, x: Any, axes: Any) -> list[int]:
    given = [axes] if isinstance(axes, int | np.integer) else list(axes)
    ndim = len(x.shape)
    for axis in given:
        if not -ndim <= axis < ndim:
            raise np.exceptions.AxisError(
                f"{name}: axis {axis} is out of bounds for shape {tuple(x.shape)}"
            )
    return [int(axis) % ndim for axis in given]


@program(
    cases=lambda rng: [
        ((rng.normal(size=(3, 4, 5)), rng.normal(size=(4, 5, 2))), {}),
        ((rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), 1), {}),
        ((rng.normal(size=(3, 4)), rng.normal(size=(2, 3)), ([0], [1])), {}),
        ((rng.normal(size=3), rng.normal(size=2), 0), {}),
    ]
)
def tensordot(xp: Any, a: Array, b: Array, axes: Any = 2) -> Any:
    """Sums of products over the last `axes` axes of a and the first of b, or over given pairs.

    >>> import infinitensor as it
    >>> int(it.tensordot(it.ones((2, 3)), it.ones((2, 3))))
    6
    """
    a, b = xp.asarray(a), xp.asarray(b)
    if isinstance(axes, int | np.integer):
        n = int(axes)
        if n > min(len(a.shape), len(b.shape)):
            raise ValueError(f"tensordot: {n} axes of shapes {tuple(a.shape)} and {tuple(b.shape)}")
        first, second = list(range(len(a.shape) - n, len(a.shape))), list(range(n))
    else:
        of_a, of_b = axes
        first, second = _axes_of("tensordot", a, of_a), _axes_of("tensordot", b, of_b)
    if len({*first}) < len(first) or len({*second}) < len(second):
        raise ValueError(f"duplicate axes are not allowed in tensordot: {axes}")
    if len(first) != len(second) or any(
        a.shape[i] != b.shape[j] for i, j in zip(first, second, strict=False)
    ):
        raise ValueError(
            f"tensordot: shape-mismatch for sum: {tuple(a.shape)} and {tuple(b.shape)} over {axes}"
        )
    return _sum_over_pairs(xp, a, b, first, second)


def _sum_over_pairs(xp: Any, a: Any, b: Any, first: Sequence[int], second: Sequence[int]) -> Any:
    """Sum of products over paired axes; the free axes of a, then of b, are kept."""
    left = LETTERS[: len(a.shape)]
    letters = list(LETTERS[len(a.shape) : len(a.shape) + len(b.shape)])
    for i, j in zip(first, second, strict=True):
        letters[j] = left[i]
    right = "".join(letters)
    kept = "".join(c for c in left if c not in right) + "".join(c for c in right if c not in left)
    return product_of(xp, a, b, left, right, kept)


@program(
    cases=lambda rng: [
        ((rng.normal(size=4), rng.normal(size=4)), {}),
        ((rng.normal(size=(3, 4)), rng.normal(size=(4, 2))), {}),
        ((rng.normal(size=(2, 3, 4)), rng.normal(size=(5, 4, 2))), {}),
        ((rng.normal(size=(3, 4)), 2.0), {}),
    ],
    method=True,
)
def dot(xp: Any, a: Array, b: Array) -> Any:
    """NumPy's dot: last axis of a with the last but one of b; a scalar multiplies.

    >>> import infinitensor as it
    >>> int(it.dot(it.arange(3), it.arange(3)))
    5
    """
    a, b = xp.asarray(a), xp.asarray(b)
    if len(a.shape) == 0 or len(b.shape) == 0:
        return xp.multiply(a, b)
    i, j = len(a.shape) - 1, max(len(b.shape) - 2, 0)
    if a.shape[i] != b.shape[j]:
        raise ValueError(
            f"shapes {tuple(a.shape)} and {tuple(b.shape)} not aligned: "
            f"{a.shape[i]} (dim {i}) != {b.shape[j]} (dim {j})"
        )
    return _sum_over_pairs(xp, a, b, [i], [j])


@program(
    cases=lambda rng: [
        ((rng.normal(size=(3, 4)), rng.normal(size=(2, 4))), {}),
        ((np.arange(3), 2), {}),
    ]
)
def inner(xp: Any, a: Array, b: Array) -> Any:
    """Sums of products over the last axes of both.

    >>> import infinitensor as it
    >>> int(it.inner(it.arange(3), it.arange(3)))
    5
    """
    a, b = xp.asarray(a), xp.asarray(b)
    if len(a.shape) == 0 or len(b.shape) == 0:
        return xp.multiply(a, b)
    i, j = len(a.shape) - 1, len(b.shape) - 1
    if a.shape[i] != b.shape[j]:
        raise ValueError(
            f"shapes {tuple(a.shape)} and {tuple(b.shape)} not aligned: "
            f"{a.shape[i]} (dim {i}) != {b.shape[j]} (dim {j})"
        )
    return _sum_over_pairs(xp, a, b, [i], [j])


@program(cases=lambda rng: [((rng.normal(size=(2, 3)), rng.normal(size=4)), {})])
def outer(xp: Any, a: Array, b: Array) -> Any:
    """Every product of an element of a and one of b, both flattened.

    >>> import infinitensor as it
    >>> it.outer(it.arange(2), it.arange(3)).numpy()
    array([[0, 0, 0],
           [0, 1, 2]])
    """
    return xp.multiply(xp.asarray(a).reshape((-1, 1)), xp.asarray(b).reshape((1, -1)))


@program(cases=lambda rng: [((rng.normal(size=(2, 3)) + 1j, rng.normal(size=(2, 3)) - 2j), {})])
def vdot(xp: Any, a: Array, b: Array) -> Any:
    """The sum of conj(a) * b over all elements, both flattened.

    >>> import infinitensor as it
    >>> int(it.vdot(it.arange(3), it.arange(3)))
    5
    """
    a, b = xp.asarray(a).reshape((-1,)), xp.asarray(b).reshape((-1,))
    if a.shape != b.shape:
        raise ValueError(f"vdot: {a.shape[0]} and {b.shape[0]} elements do not pair up")
    return _sum_over_pairs(xp, xp.conjugate(a) if a.dtype.kind == "c" else a, b, [0], [0])


@program(cases=lambda rng: [((rng.normal(size=(4, 3)) + 1j, rng.normal(size=3)), {})])
def vecdot(xp: Any, x1: Array, x2: Array, *, axis: int = -1) -> Any:
    """The sum of conj(x1) * x2 along one axis, the others broadcast.

    >>> import infinitensor as it
    >>> int(it.vecdot(it.arange(3), it.arange(3)))
    5
    """
    x1, x2 = xp.asarray(x1), xp.asarray(x2)
    if not x1.shape or not x2.shape:
        raise ValueError(
            "vecdot: Input operand does not have enough dimensions: shapes "
            f"{tuple(x1.shape)} and {tuple(x2.shape)}"
        )
    if axis != -1:
        x1, x2 = xp.moveaxis(x1, axis, -1), xp.moveaxis(x2, axis, -1)
    if x1.shape[-1] != x2.shape[-1]:
        raise ValueError(
            f"vecdot: axis {axis} of {tuple(x1.shape)} and {tuple(x2.shape)} differ in size"
        )
    x1 = xp.conjugate(x1) if x1.dtype.kind == "c" else x1
    return xp.einsum("...i,...i->...", x1, x2)


def _matrix_and_vector(name: str, matrix: Any, vector: Any, axis: int) -> None:
    if len(matrix.shape) < 2 or not vector.shape or matrix.shape[axis] != vector.shape[-1]:
        raise ValueError(
            f"{name}: a matrix of shape {tuple(matrix.shape)} and a vector of shape "
            f"{tuple(vector.shape)} do not fit together"
        )


@program(
    cases=lambda rng: [
        ((rng.normal(size=(4, 3)), rng.normal(size=3)), {}),
        ((rng.normal(size=(2, 1, 4, 3)), rng.normal(size=(5, 3))), {}),
    ]
)
def matvec(xp: Any, x1: Array, x2: Array) -> Any:
    """Matrices times vectors, stacks of either broadcast.

    >>> import infinitensor as it
    >>> it.matvec([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    _matrix_and_vector("matvec", x1, x2, -1)
    return xp.einsum("...ij,...j->...i", x1, x2)


@program(
    cases=lambda rng: [
        ((rng.normal(size=4) + 1j, rng.normal(size=(4, 3))), {}),
        ((rng.normal(size=(5, 4)), rng.normal(size=(2, 1, 4, 3))), {}),
    ]
)
def vecmat(xp: Any, x1: Array, x2: Array) -> Any:
    """Conjugated vectors times matrices, stacks of either broadcast.

    >>> import infinitensor as it
    >>> it.vecmat([1, 1], [[1, 2], [3, 4]]).tolist()
    [4, 6]
    """
    _matrix_and_vector("vecmat", x2, x1, -2)
    x1 = xp.conjugate(x1) if x1.dtype.kind == "c" else x1
    return xp.einsum("...i,...ij->...j", x1, x2)
