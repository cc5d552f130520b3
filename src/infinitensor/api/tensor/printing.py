"""Tensors as text: NumPy's settings hold, and of a large tensor only the corner is computed."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access.copies import copy_tensor
from infinitensor.api.evaluate.evaluate import evaluate
from infinitensor.api.record.late import call_op
from infinitensor.api.session.signatures import signed_as

if TYPE_CHECKING:
    from infinitensor.api.session.cell import BaseTensor


def represented(tensor: BaseTensor, **options: Any) -> str:
    """The text of `repr`: values, shape and dtype."""
    text = str(tensor)
    if tensor.shape:
        text = show(tensor, separator=", ", prefix="Tensor(", **options)
    return f"Tensor({text}, shape={tensor.shape}, dtype={tensor.dtype})"


def show(tensor: BaseTensor, **options: Any) -> str:
    """The text of the values.

    Of a large tensor only the corners that are shown are computed, and the tensor itself stays as
    it is.
    """
    settings = np.get_printoptions()
    limit = options.get("threshold", settings["threshold"])
    if tensor.size <= (settings["threshold"] if limit is None else limit):
        return np.array2string(tensor.numpy(), **options)
    given = options.get("edgeitems")
    edge = settings["edgeitems"] if given is None else given
    ends = [
        (slice(0, edge + 1), slice(n - edge, n)) if n > 2 * edge else (slice(None),)
        for n in tensor.shape
    ]
    corners = np.empty(tuple(len(pair) for pair in ends), object)
    for at in np.ndindex(corners.shape):
        piece = copy_tensor(tensor[tuple(pair[k] for pair, k in zip(ends, at, strict=True))])
        if piece._version.node is not None:
            evaluate(piece._session, [piece._version], peek=True)
        corners[at] = piece.numpy()
    seen = np.block(corners.tolist())
    return np.array2string(seen, **{**options, "threshold": 0, "edgeitems": edge})


@signed_as(np.array2string)
def array2string(*args: Any, **options: Any) -> str:
    """The values as text; the options of `numpy.array2string`.

    >>> import infinitensor as it
    >>> it.array2string(it.arange(3), separator=",")
    '[0,1,2]'
    """
    given = inspect.signature(np.array2string).bind(*args, **options).arguments
    return show(call_op("asarray", given.pop("a")), **given)


def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of `repr`, with lines of a width and numbers of a precision."""
    return represented(
        call_op("asarray", arr),
        max_line_width=max_line_width,
        precision=precision,
        suppress_small=suppress_small,
    )


def array_str(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of `str`, with lines of a width and numbers of a precision."""
    x = call_op("asarray", a)
    if not x.shape:
        return str(x)
    return show(
        x, max_line_width=max_line_width, precision=precision, suppress_small=suppress_small
    )


@signed_as(np.set_printoptions)
def set_printoptions(*args: Any, **options: Any) -> None:
    """NumPy's settings of how numbers are shown, which hold for tensors too."""
    np.set_printoptions(*args, **options)


def get_printoptions() -> dict[str, Any]:
    """NumPy's settings of how numbers are shown."""
    return dict(np.get_printoptions())


@signed_as(np.set_printoptions)
def printoptions(*args: Any, **options: Any) -> Any:
    """`set_printoptions` for a block.

    >>> import infinitensor as it
    >>> with it.printoptions(precision=2):
    ...     print(it.asarray([1 / 3]))
    [0.33]
    """
    return np.printoptions(*args, **options)


FUNCTIONS = (
    array2string,
    array_repr,
    array_str,
    get_printoptions,
    printoptions,
    set_printoptions,
)
