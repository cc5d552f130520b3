"""Public functions that are not in the op table, by what kind they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.convert import conversion, files
from infinitensor.api.functions import grids, hosted
from infinitensor.api.small import floating
from infinitensor.api.tensor import printing

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES: dict[str, tuple[Callable[..., Any], ...]] = {
    "conversion": conversion.CONVERSIONS,
    "update": (conversion.copyto, conversion.fill_diagonal),
    "question": conversion.QUESTIONS,
    "text": printing.FUNCTIONS,
    "setting": (floating.errstate, floating.geterr, floating.seterr),
    "indices": (grids.ix_, grids.broadcast, grids.ndenumerate, grids.ndindex, grids.nditer),
    "user's function": (
        grids.apply_along_axis,
        grids.apply_over_axes,
        hosted.frompyfunc,
        hosted.vectorize,
    ),
    "file": (
        files.fromfile,
        files.genfromtxt,
        files.load,
        files.open,
        files.loadtxt,
        files.save,
        files.savetxt,
        files.savez,
        files.savez_compressed,
    ),
}
FUNCTIONS = {function.__name__: function for some in FAMILIES.values() for function in some}
KINDS = {function.__name__: kind for kind, some in FAMILIES.items() for function in some}

OBJECTS: dict[str, tuple[Any, str]] = {
    "False_": (np.False_, "NumPy's false."),
    "True_": (np.True_, "NumPy's true."),
    "c_": (grids.c_, "`c_[x, y]`: columns put together."),
    "euler_gamma": (np.euler_gamma, "Euler's constant."),
    "index_exp": (grids.index_exp, "`index_exp[2:4]`: an index as a tuple."),
    "mgrid": (grids.mgrid, "`mgrid[0:2, 0:3]`: coordinates of all points."),
    "ogrid": (grids.ogrid, "`ogrid[0:2, 0:3]`: coordinates, one axis each."),
    "r_": (grids.r_, "`r_[0:3, 7, x]`: slices, numbers and arrays put together."),
    "s_": (grids.s_, "`s_[2:4]`: an index."),
}
"""Public objects that are no functions, and what they are."""
