"""Tensors as text: NumPy's settings hold, and of a large tensor only the corner is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.copying import copied
from infinitensor.api.evaluate import evaluate
from infinitensor.api.forward import call_op

if TYPE_CHECKING:
    from infinitensor.api.tensor import Tensor

EDGE = 3
"""Elements shown at each end of an axis by `repr`, as NumPy does."""


def shown(tensor: Tensor, **options: Any) -> str:
    """The text of the values.

    Of a large tensor only the corners that are shown are computed, and the tensor itself stays as
    it is.
    """
    settings = np.get_printoptions()
    limit = options.get("threshold", settings["threshold"])
    if tensor.size <= (settings["threshold"] if limit is None else limit):
        return np.array2string(tensor.numpy(), **options)
    ends = [
        (slice(0, EDGE + 1), slice(n - EDGE, n)) if n > 2 * EDGE else (slice(None),)
        for n in tensor.shape
    ]
    corners = np.empty(tuple(len(pair) for pair in ends), object)
    for at in np.ndindex(corners.shape):
        piece = copied(tensor[tuple(pair[k] for pair, k in zip(ends, at, strict=True))])
        if piece._version.node is not None:
            evaluate(piece._session, [piece._version], peek=True)
        corners[at] = piece.numpy()
    seen = np.block(corners.tolist())
    return np.array2string(seen, **{**options, "threshold": 0, "edgeitems": EDGE})


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
