"""Calls that run at once and have many elements: NumPy's own loops, on all cores.

A loop whose shapes change at every step has no plan, and calls NumPy call by call. Of a call of
`LEAST_SHARED_ELEMENTS` or more every core takes a part (`numpy_loops.c`): the same loops, the same
bits. Arithmetic and comparisons of halves, signs, and integers that one number divides have loops
of ours, of the same bits (`functions.c`). What would have to be cast or copied first, and
everything without a compiler, is left to NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.api.session.extensions import load_beside
from infinitensor.dtypes import bfloat16
from infinitensor.ops.table.functions import own_loops_address
from infinitensor.threads import number_address, share_address

if TYPE_CHECKING:
    import numpy as np

LEAST_SHARED_ELEMENTS = 1 << 14
"""Elements from which a call is worth another core: the time in which it is there."""


def into(ufunc: np.ufunc | None, out: np.ndarray, *ins: Any) -> bool:
    """Whether `out[...] = ufunc(*ins)` was done, or a copy (None); NumPy has to do the rest."""
    return False


def compute(ufunc: np.ufunc, *ins: Any) -> np.ndarray | None:
    """A new array `ufunc(*ins)`, or None."""
    return None


def count(mask: np.ndarray) -> int:
    """Entries of a mask in C order; -1 of anything else."""
    return -1


def choose(mask: np.ndarray, x: np.ndarray, out: np.ndarray) -> bool:
    """Whether `out[...] = x[mask]` was done, for a mask over leading axes.

    All in C order; a vector x may have its elements apart.
    """
    return False


def put(mask: np.ndarray, out: np.ndarray, x: np.ndarray) -> bool:
    """Whether `out[mask] = x` was done, for x a vector of as many as the mask has, or one number.

    Of one dtype, all in C order; a vector `out` may have its elements apart.
    """
    return False


def compute_into(ufunc: np.ufunc, out: np.ndarray, *ins: Any) -> None:
    """`out[...] = ufunc(*ins)`, by all cores where that is worth it."""
    if out.size < LEAST_SHARED_ELEMENTS or not into(ufunc, out, *ins):
        ufunc(*ins, out=out)


def _in_c() -> None:
    global into, compute, count, choose, put
    module = load_beside(__file__)
    if module is None:
        return
    module.use(share_address("share_parts"), number_address(), own_loops_address(), bfloat16.num)
    into, compute, count = module.into, module.compute, module.count
    choose, put = module.choose, module.put
    module.align_arrays()


_in_c()
