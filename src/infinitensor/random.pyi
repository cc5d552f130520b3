# Written by tools/stubs.py; do not edit.
import builtins as _b
from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as _np
import numpy.typing as _npt

from infinitensor.api.tensor import Tensor
from infinitensor.api.functions import seed as seed

_ArrayLike: TypeAlias = Tensor | _npt.ArrayLike
_Axis: TypeAlias = SupportsIndex | _Sequence[SupportsIndex] | None
_Shape: TypeAlias = SupportsIndex | _Sequence[SupportsIndex]

def integers(low: _b.int, high: _b.int | None = ..., size: _Shape | None = ..., dtype: _npt.DTypeLike | None = ..., endpoint: _b.bool = ...) -> Any: ...
def normal(loc: Any = ..., scale: Any = ..., size: _Shape | None = ..., *, dtype: _npt.DTypeLike | None = ...) -> Any: ...
def permutation(x: Any, axis: _b.int = ...) -> Any: ...
def random(size: _Shape | None = ..., dtype: _npt.DTypeLike | None = ...) -> Any: ...
def standard_normal(size: _Shape | None = ..., dtype: _npt.DTypeLike | None = ...) -> Any: ...
def uniform(low: Any = ..., high: Any = ..., size: _Shape | None = ..., *, dtype: _npt.DTypeLike | None = ...) -> Any: ...
