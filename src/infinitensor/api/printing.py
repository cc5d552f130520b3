"""Tensors as text: NumPy's settings hold, and of a large tensor only the corner is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.api.forward import call_op
from infinitensor.api.tensor import shown


def array2string(a: Any, **options: Any) -> str:
    """The values as text; the options of `numpy.array2string`.

    >>> import infinitensor as it
    >>> it.array2string(it.arange(3), separator=",")
    '[0,1,2]'
    """
    return shown(call_op("asarray", a), **options)


def array_repr(arr: Any) -> str:
    """What `repr` gives."""
    return repr(call_op("asarray", arr))


def array_str(a: Any) -> str:
    """What `str` gives."""
    return str(call_op("asarray", a))


def set_printoptions(**options: Any) -> None:
    """NumPy's settings of how numbers are shown, which hold for tensors too."""
    np.set_printoptions(**options)


def get_printoptions() -> dict[str, Any]:
    """NumPy's settings of how numbers are shown."""
    return dict(np.get_printoptions())


def printoptions(**options: Any) -> Any:
    """`set_printoptions` for a block.

    >>> import infinitensor as it
    >>> with it.printoptions(precision=2):
    ...     print(it.asarray([1 / 3]))
    [0.33]
    """
    return np.printoptions(**options)


FUNCTIONS = (
    array2string,
    array_repr,
    array_str,
    get_printoptions,
    printoptions,
    set_printoptions,
)
