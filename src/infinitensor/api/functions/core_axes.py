"""`axes`, `axis` and `keepdims` of ufuncs with a signature: which axes are the cores."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from numpy.exceptions import AxisError
from numpy.lib.array_utils import normalize_axis_index

from infinitensor.api.record.late import call_op

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from infinitensor.api.tensor.tensor import Tensor

CORE_OPTIONS = ("axes", "axis", "keepdims")


def _cores(like: np.ufunc, n_axes: Sequence[int]) -> list[list[str]]:
    """The names of the core axes of every operand; an optional one that an input lacks is gone."""
    assert like.signature is not None
    cores = [re.findall(r"\w+\??", one) for one in re.findall(r"\(([^)]*)\)", like.signature)]
    gone = set()
    for core, n in zip(cores, n_axes, strict=False):
        optional = [name for name in core if name.endswith("?")]
        gone.update(optional[: max(len(core) - n, 0)])
    return [[name for name in core if name not in gone] for core in cores]


class Places:
    """The core axes of a call; the ufunc has them at the end."""

    def __init__(
        self, like: np.ufunc, n_axes: list[int], axes: Any, axis: Any, keepdims: Any
    ) -> None:
        self._name = like.__name__
        self._n_axes = n_axes
        cores = _cores(like, n_axes)
        names = {name for core in cores for name in core}
        self._is_kept = bool(keepdims)
        if axes is not None and axis is not None:
            raise TypeError("cannot specify both 'axis' and 'axes'")
        if axis is not None and (len(names) != 1 or cores[-1]):
            raise TypeError(
                f"{self._name}: axis can only be used with a single shared core dimension, not "
                f"with the {len(names)} distinct ones implied by signature {like.signature}."
            )
        if self._is_kept and (cores[-1] or len({len(core) for core in cores[:-1]}) > 1):
            raise TypeError(
                f"{self._name} does not support keepdims: its signature {like.signature} requires "
                "that all inputs have the same number of core dimensions, and outputs none"
            )
        counts = [len(core) for core in cores]
        if self._is_kept:
            counts[-1] = counts[0]
        self._axes = self._list_axes(axes, axis, counts)

    def _list_axes(self, axes: Any, axis: Any, counts: list[int]) -> list[tuple[int, ...]]:
        if axis is not None:
            place = operator.index(axis)
            return [(place,) if n else () for n in counts]
        if axes is None:
            return [tuple(range(-n, 0)) for n in counts]
        if not isinstance(axes, list):
            raise TypeError("axes should be a list.")
        if len(axes) == len(counts) - 1 and (not counts[-1] or self._is_kept):
            axes = [*axes, tuple(range(-counts[-1], 0))]
        if len(axes) != len(counts):
            raise ValueError(
                "axes should be a list with an entry for all inputs and outputs; entries for "
                "outputs can only be omitted if none of them has core axes."
            )
        found = []
        for entry, n in zip(axes, counts, strict=True):
            places = entry if isinstance(entry, tuple) else (entry,)
            if len(places) != n:
                raise AxisError(
                    f"{self._name}: operand has {n} core dimensions, but {len(places)} dimensions "
                    "are specified by axes tuple."
                )
            found.append(tuple(operator.index(place) for place in places))
        return found

    def move_axes(self, inputs: Sequence[Tensor]) -> list[Any]:
        """The inputs with their core axes at the end."""
        pairs = zip(inputs, self._axes, strict=False)
        return [
            call_op("moveaxis", x, self._inside(places, x.ndim), tuple(range(-len(places), 0)))
            for x, places in pairs
        ]

    def _inside(self, places: tuple[int, ...], ndim: int) -> tuple[int, ...]:
        inside = tuple(normalize_axis_index(place, ndim) for place in places)
        if len(set(inside)) < len(inside):
            raise ValueError(f"{self._name}: axes tuple {places} has repeated entries")
        return inside

    def put_back(self, made: Tensor) -> Any:
        """The result with its core axes where they were asked for."""
        places = self._axes[-1]
        if self._is_kept:
            made = made.reshape((*made.shape, *(1,) * len(places)))
        here = tuple(range(-len(places), 0))
        return call_op("moveaxis", made, here, self._inside(places, made.ndim))
