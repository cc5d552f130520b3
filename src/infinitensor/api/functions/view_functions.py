"""Functions that change views: they cost nothing; writes to their results reach the original."""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor.api.access import small_items, view_strides
from infinitensor.api.convert.asarray import asarray
from infinitensor.api.functions.op_function import check_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.tensor.tensor import Tensor


def _view_function(change: Callable[..., Any]) -> Callable[..., Any]:
    """A function over the view of its first argument, by what NumPy does to strides."""

    def function(*args: Any, **kwargs: Any) -> Tensor:
        if args:
            tensor, args = asarray(args[0]), args[1:]
        else:
            tensor = asarray(_argument_of(first.name, change.__name__, kwargs))
        found = None if kwargs else small_items.viewed(tensor, change, *args)
        if found is not None:
            return found
        return tensor._seen_as(view_strides.change_view(tensor._whole(), change, *args, **kwargs))

    first, *rest = inspect.signature(change).parameters.values()
    function.__signature__ = inspect.Signature([first, *rest])  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = change.__name__
    function.__doc__ = (
        f"As `numpy.{change.__name__}`; a view: it costs nothing, and writes reach the original."
    )
    return function


def _argument_of(first: str, name: str, kwargs: dict[str, Any]) -> Any:
    """The array of a call that gives it by its name."""
    if first not in kwargs:
        raise TypeError(f"{name}() missing 1 required positional argument: {first!r}")
    return kwargs.pop(first)


def sliding_window_view(
    x: Any,
    window_shape: int | tuple[int, ...],
    axis: Any = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Tensor:
    """Every window of a shape, as new last axes: a view, read-only unless `writeable`.

    >>> import infinitensor as it
    >>> it.lib.stride_tricks.sliding_window_view(it.arange(4), 3).tolist()
    [[0, 1, 2], [1, 2, 3]]
    """
    tensor, windows = asarray(x), np.lib.stride_tricks.sliding_window_view
    view = view_strides.change_view(tensor._whole(), windows, window_shape, axis)
    seen = tensor._seen_as(view)
    seen._frozen = seen._frozen or not writeable
    return seen


def permute_dims(a: Any, axes: tuple[int, ...] | None = None) -> np.ndarray:
    """NumPy has this name since 2.1, as another of `transpose`."""
    return np.transpose(a, axes)


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    """A read-only view in which size-1 axes are repeated to fill a shape.

    >>> import infinitensor as it
    >>> it.broadcast_to(it.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    tensor = asarray(array)
    given = (shape,) if isinstance(shape, int | np.integer) else shape
    wanted = tuple(operator.index(n) for n in given)
    check_shape("broadcast_to", wanted, tensor.dtype)
    seen = tensor._seen_as(view_strides.change_view(tensor._whole(), np.broadcast_to, wanted))
    seen._frozen = True
    return seen


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """Views of all arrays with one shape."""
    tensors = [asarray(a) for a in args]
    shape = np.broadcast_shapes(*(t.shape for t in tensors))
    if all(t.shape == shape for t in tensors):
        return tuple(tensors)
    return tuple(t[...] if t.shape == shape else broadcast_to(t, shape) for t in tensors)


def reshape(a: Any, shape: Any, order: str | None = "C", *, copy: bool | None = None) -> Tensor:
    """Another shape; a view where NumPy would give one.

    >>> import infinitensor as it
    >>> it.reshape(it.arange(4), (2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    wanted = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    return asarray(a).reshape(wanted, order=order, copy=copy)


def ravel(a: Any, order: str | None = "C") -> Tensor:
    """One axis; a view where NumPy would give one."""
    return asarray(a).ravel(order)


def real(val: Any) -> Tensor:
    """The real part; a view of a complex tensor, a real one itself.

    >>> import infinitensor as it
    >>> z = it.asarray([1 + 2j, 3j])
    >>> it.real(z)[1] = 9
    >>> z.tolist()
    [(1+2j), (9+3j)]
    """
    return asarray(val).real


def imag(val: Any) -> Tensor:
    """The imaginary part; a view of a complex tensor, zeros of a real one."""
    return asarray(val).imag


def expand_dims(a: Any, axis: Any = 0) -> Tensor:
    """New axes of length one; a view."""
    tensor = asarray(a)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    normal = normalize_axis_tuple(axes, tensor.ndim + len(axes))
    rest = iter(tensor.shape)
    shape = tuple(1 if i in normal else next(rest) for i in range(tensor.ndim + len(axes)))
    return tensor.reshape(shape)


VIEWS: dict[str, Callable[..., Any]] = {
    function.__name__: _view_function(function)
    for function in (
        np.transpose,
        np.matrix_transpose,
        np.moveaxis,
        np.swapaxes,
        np.rollaxis,
        np.flip,
        np.fliplr,
        np.flipud,
        np.rot90,
        np.squeeze,
        np.diagonal,
    )
}
VIEWS["real"], VIEWS["imag"] = real, imag
VIEWS["permute_dims"] = _view_function(permute_dims)
VIEWS["lib.stride_tricks.sliding_window_view"] = sliding_window_view
