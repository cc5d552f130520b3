# Written by tools/stubs.py; do not edit.
import builtins as _b
from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as _np
import numpy.typing as _npt

from infinitensor.api.tensor.tensor import Tensor

_ArrayLike: TypeAlias = Tensor | _npt.ArrayLike
_Axis: TypeAlias = SupportsIndex | _Sequence[SupportsIndex] | None
_Shape: TypeAlias = SupportsIndex | _Sequence[SupportsIndex]

def sliding_window_view(x: Any, window_shape: _b.int | _b.tuple[_b.int, ...], axis: _Axis = ..., *, subok: _b.bool = ..., writeable: _b.bool = ...) -> Tensor: ...
