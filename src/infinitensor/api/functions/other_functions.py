"""Public functions that are not in the op table, by what kind they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.convert import files
from infinitensor.api.functions import conversions, index_makers, vectorize
from infinitensor.api.small import errstate
from infinitensor.api.tensor import printing

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES: dict[str, tuple[Callable[..., Any], ...]] = {
    "conversion": conversions.CONVERSIONS,
    "update": (conversions.copyto, conversions.fill_diagonal),
    "question": conversions.QUESTIONS,
    "text": printing.FUNCTIONS,
    "setting": (errstate.errstate, errstate.geterr, errstate.seterr),
    "indices": (
        index_makers.ix_,
        index_makers.broadcast,
        index_makers.ndenumerate,
        index_makers.ndindex,
        index_makers.nditer,
    ),
    "user's function": (
        index_makers.apply_along_axis,
        index_makers.apply_over_axes,
        vectorize.frompyfunc,
        vectorize.vectorize,
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
    "c_": (index_makers.c_, "`c_[x, y]`: columns put together."),
    "euler_gamma": (np.euler_gamma, "Euler's constant."),
    "index_exp": (index_makers.index_exp, "`index_exp[2:4]`: an index as a tuple."),
    "mgrid": (index_makers.mgrid, "`mgrid[0:2, 0:3]`: coordinates of all points."),
    "ogrid": (index_makers.ogrid, "`ogrid[0:2, 0:3]`: coordinates, one axis each."),
    "r_": (index_makers.r_, "`r_[0:3, 7, x]`: slices, numbers and arrays put together."),
    "s_": (index_makers.s_, "`s_[2:4]`: an index."),
}
"""Public objects that are no functions, and what they are."""
