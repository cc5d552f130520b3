"""Running sums along an axis that is not cut, as tasks that C runs."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.ir.call_tables import BY_ITSELF, Calls, Form, InC
from infinitensor.native import CompilerError
from infinitensor.ops.backend.c_loops import compile_loop

if TYPE_CHECKING:
    from infinitensor.ir.call_tables import Operands, StridedArrays


class Scanned(InC):
    """The C of a family of running sums over one axis of tiles that are in C order; in blocks of
    so many elements, if not 0."""

    def __init__(self, dtype: np.dtype[Any], axis: int, block: int) -> None:
        self._dtype = dtype
        self._axis = axis
        self._block = block

    def calls(self, asked: Operands) -> Calls:
        """One call a task; `CompilerError` where lines are not contiguous."""
        (x,), (out,) = asked.ins, asked.outs
        if not (_is_in_order(x, self._dtype.itemsize) and _is_in_order(out, self._dtype.itemsize)):
            raise CompilerError("lines that are not contiguous")
        function = compile_loop("scan", "scan_called", self._dtype)
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
        axis, shapes = self._axis, x.shapes
        around = np.stack(
            [shapes[:, :axis].prod(axis=1), shapes[:, axis], shapes[:, axis + 1 :].prod(axis=1)],
            axis=1,
        )
        each, kind = np.unique(around, axis=0, return_inverse=True)
        of = []
        for how in each.tolist():
            held = (ctypes.c_int64 * 4)(*how, self._block)
            numbers = (address, 1, 0, 0, ctypes.addressof(held), 0, 0, 0)
            of.append(Form(numbers, 2, 0, held, BY_ITSELF))
        return Calls.one_each(kind, of, (x, out))


def _is_in_order(arrays: StridedArrays, itemsize: int) -> bool:
    """Whether every array is contiguous, its last axis element by element."""
    behind = np.cumprod(arrays.shapes[:, ::-1], axis=1)[:, ::-1] // np.maximum(arrays.shapes, 1)
    return bool(((arrays.strides == behind * itemsize) | (arrays.shapes <= 1)).all())


@cache
def scanned(dtype: np.dtype[Any], axis: int, block: int = 0) -> Scanned:
    """The C of running sums in a dtype along an axis: families of it are of one kind."""
    return Scanned(dtype, axis, block)
