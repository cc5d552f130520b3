"""Householder's reflectors of tall matrices on a CPU, by loops of our own (`tall_qr.c`).

LAPACK goes over all columns behind it for each column of a panel, from memory that is the other
way round. With up to 128 columns ours takes half the time or less, with LAPACK's signs.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from infinitensor.native import address
from infinitensor.ops.backend.c_loops import loop
from infinitensor.ops.linalg.matmul import product
from infinitensor.ops.linalg.triangles import linalg_dtype

WIDEST = 512
"""Columns up to which our loops are faster than LAPACK, for both dtypes."""


def factored(a: np.ndarray, v: Any, t: Any, r: np.ndarray) -> bool:
    """Fill in V, T and R of tall matrices: Q is I - V T V^H. R alone where the others are None.

    V has ones on its diagonal and zeros above. False, and nothing done, where there is no loop for
    it.
    """
    *batch, m, n = a.shape
    dtype = linalg_dtype(a.dtype)
    if not 0 < n <= min(m, WIDEST) or not prod(batch) or dtype.kind != "f":
        return False
    if not all(out.flags.c_contiguous for out in (v, t, r) if out is not None):
        return False
    factor = loop("tall_qr", "factor", dtype)
    if factor is None:
        return False
    matrices = a.astype(dtype, copy=False).reshape(-1, m, n)
    if matrices.strides[2] != dtype.itemsize or not matrices.flags.aligned:
        matrices = np.ascontiguousarray(matrices)
    between, step, _ = matrices.strides
    if factor(address(matrices), between, step, len(matrices), m, n, v, t, r):
        raise MemoryError(f"no memory to factor a matrix of {m} x {n}")
    return True


def reflected(v: np.ndarray, t: np.ndarray, top: np.ndarray, out: np.ndarray) -> None:
    """out = (I - V T V^H) @ top, which has zeros below it."""
    *batch, _, k = v.shape
    inner, weights = (np.empty((k, top.shape[-1]), out.dtype) for _ in range(2))
    for i in np.ndindex(*batch):
        product(np, np.conj(v[i][:k]).T, top[i], inner)
        product(np, -t[i], inner, weights)
        product(np, v[i], weights, out[i])
        out[i][:k] += top[i]
