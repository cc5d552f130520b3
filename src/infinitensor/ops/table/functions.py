"""Functions such as exp on CPUs: NumPy's ufuncs, with the loops that generated code calls.

So a result has the same bits whether its group runs step by step, compiled, or at once because it
is small or runs for the first time. Where the processor has no fused multiply-adds, or the C is not
there, functions are NumPy's, and groups with them are compiled only if they are so at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infinitensor.config import config
from infinitensor.dtypes import bfloat16
from infinitensor.native import extension

if TYPE_CHECKING:
    import numpy as np

_in_c = None if config.compile == "never" else extension("ops/table/functions")

_made: dict[np.ufunc, np.ufunc] = {}


def has_functions() -> bool:
    """Whether functions have the bits of generated code on this machine."""
    return _in_c is not None


def own_loops_address() -> int:
    """The address of the C function that finds our loops for ufuncs; 0 without."""
    return _in_c.own_loops() if _in_c is not None else 0


def half_cast_addresses() -> tuple[int, int, int, int]:
    """The addresses of the C functions that make floats of float16 and back, and of bfloat16; 0
    without.
    """
    return _in_c.half_casts() if _in_c is not None else (0, 0, 0, 0)


def as_generated(ufunc: np.ufunc, block: str) -> np.ufunc:
    """A ufunc with the loops of a function of `tasking/c/vector.h`, or of `complex.h`.

    >>> import numpy as np
    >>> exp = as_generated(np.exp, "exp")
    >>> abs(float(exp(1.0)) - np.e) < 1e-15
    True
    """
    if _in_c is None:
        return ufunc
    if ufunc not in _made:
        _made[ufunc] = _in_c.like(ufunc, block, bfloat16.num)
    return _made[ufunc]


def with_half_loops(ufunc: np.ufunc) -> np.ufunc:
    """NumPy's ufunc with our loops for float16 and bfloat16, of which NumPy takes one by one.

    The bits are NumPy's; what is no arithmetic of halves is the ufunc itself.

    >>> import numpy as np
    >>> half = np.float16([1, 2])
    >>> with_half_loops(np.add)(half, half).tolist()
    [2.0, 4.0]
    >>> with_half_loops(np.left_shift) is np.left_shift
    True
    """
    return ufunc if _in_c is None else _in_c.with_halves(ufunc, bfloat16.num)


def with_our_loops(ufunc: np.ufunc) -> np.ufunc:
    """What NumPy's ufunc is on CPUs, in every call.

    >>> import numpy as np
    >>> with_our_loops(np.add) is np.add
    True
    """
    return _made.get(ufunc, ufunc)
