"""Products of vectors and matrices that are no matmul."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.dtypes import result_type
from infinitensor.ops.registry import program


@program(
    "kron",
    "a b",
    cases=lambda rng: [
        ((rng.normal(size=(2, 3)), rng.normal(size=(3, 2))), {}),
        ((rng.normal(size=3), rng.normal(size=(2, 2))), {}),
        ((rng.normal(size=(2, 1, 3)), rng.integers(0, 9, 2)), {}),
        ((np.arange(3), np.int64(2)), {}),
        ((np.zeros((0, 2)), np.ones((2, 2))), {}),
    ],
    same="equal",
)
def kron(xp: Any, a: Any, b: Any) -> Any:
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


@program("cross", "a b", cases=_vectors)
def cross(
    xp: Any,
    a: Any,
    b: Any,
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
            f"cross: incompatible dimensions for cross product\n(dimension must be 2 or 3, "
            f"not {sizes[0]} and {sizes[1]})"
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
