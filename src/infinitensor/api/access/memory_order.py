"""`order=`: the order in which elements are read, or stored in a new tensor.

The base of a tensor is in C order. A tensor in any other order is a view of one: in Fortran's order
it is the transpose of a base with its axes reversed, so that flags and strides say what NumPy's do.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access import copies
from infinitensor.api.record.late import call_op
from infinitensor.ops.create.creation import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.cell import AnyTensor, BaseTensor

Axes = tuple[int, ...]


def letter(order: Any, default: str) -> str:
    """One of C, F, A and K, of the words NumPy takes for them; its errors for others."""
    if order is None:
        return default
    if not isinstance(order, str):
        raise TypeError(f"order must be str, not {type(order).__name__}")
    upper = order.upper()
    if upper not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return upper


def _is_fortran(tensor: BaseTensor) -> bool:
    return bool(tensor.flags.fnc)


def _axes(flags: Any, strides: tuple[int, ...], order: str) -> Axes | None:
    n = len(strides)
    if order in "AK" and (flags.c_contiguous or flags.f_contiguous or order == "A"):
        order = "F" if flags.fnc else "C"
    if order == "C":
        return None
    backwards = tuple(reversed(range(n)))
    axes = backwards if order == "F" else tuple(sorted(range(n), key=lambda i: -abs(strides[i])))
    return None if axes == tuple(range(n)) else axes


def _by_steps(strides: tuple[int, ...]) -> Axes:
    """The axes with the longest steps first, as NumPy reads them.

    One without steps says nothing, and stays among the others where it is.
    """
    found: list[int] = []
    for axis in reversed(range(len(strides))):
        step, at = abs(strides[axis]), len(found)
        for place in reversed(range(len(found))):
            other = abs(strides[found[place]])
            if step and other:
                if other <= step:
                    break
                at = place
        found.insert(at, axis)
    return tuple(reversed(found))


def is_transposed(tensor: BaseTensor) -> bool:
    """Whether an axis has longer steps than one before it."""
    if len(tensor._shape) < 2 or tensor._lazy_view is None:
        return False
    seen = tensor._seen
    strides = tensor._whole().strides if seen is None else seen.strides
    return any([abs(strides[i]) < abs(strides[i + 1]) for i in range(len(strides) - 1)])


def axes_of(tensor: BaseTensor, order: str) -> Axes | None:
    """The axes of a tensor, slowest first, in an order; None: as they are."""
    if order == "C" or tensor.ndim < 2:
        return None
    return _axes(tensor.flags, tensor._whole().strides, order)


def axes_of_array(values: np.ndarray, order: str) -> Axes | None:
    """Likewise, of an array of NumPy's."""
    return None if order == "C" or values.ndim < 2 else _axes(values.flags, values.strides, order)


def transposed_back(tensor: AnyTensor, axes: Axes) -> AnyTensor:
    """The tensor whose transpose by these axes is given."""
    places = [0] * len(axes)
    for place, axis in enumerate(axes):
        places[axis] = place
    return tensor.transpose(tuple(places))


def copy_in_order(tensor: AnyTensor, order: Any) -> AnyTensor:
    """A tensor of its own with the same values, stored in an order."""
    axes = axes_of(tensor, letter(order, "C"))
    if axes is None:
        return copies.copy_tensor(tensor)
    return transposed_back(copies.copy_tensor(tensor.transpose(axes)), axes)


def convert_order(tensor: AnyTensor, order: Any) -> AnyTensor:
    """The tensor if its elements are in an order (A and K: any), else a copy in that order."""
    wanted = letter(order, "K")
    if wanted == "C":
        return tensor if tensor.flags.c_contiguous else copies.copy_tensor(tensor)
    if wanted == "F":
        return tensor if tensor.flags.f_contiguous else copy_in_order(tensor, "F")
    return tensor


def cast(tensor: AnyTensor, dtype: Any, copy: bool, casting: str, order: str) -> AnyTensor:
    """The values as another dtype, in an order."""
    if dtype == tensor.dtype and not copy:
        if order == "A" and not tensor.flags.forc:
            return copies.copy_tensor(tensor)
        return convert_order(tensor, order)
    axes = axes_of(tensor, order)
    if axes is None:
        return copies.cast(tensor, dtype, copy, casting)
    return transposed_back(copies.cast(tensor.transpose(axes), dtype, copy, casting), axes)


def read_in(tensor: AnyTensor, order: Any) -> AnyTensor:
    """The tensor with its axes transposed so that C order reads its elements in another order."""
    wanted = letter(order, "C")
    if wanted == "K" and tensor.ndim > 1:
        return tensor.transpose(_by_steps(tensor._whole().strides))
    axes = axes_of(tensor, wanted)
    return tensor if axes is None else tensor.transpose(axes)


def reshaped(tensor: AnyTensor, shape: tuple[int, ...], order: Any, copy: bool | None) -> AnyTensor:
    """Another shape, where elements are read and put in an order."""
    wanted = letter(order, "C")
    if wanted == "K":
        raise ValueError("order 'K' is not permitted for reshaping")
    if wanted == "A":
        wanted = "F" if _is_fortran(tensor) else "C"
    if wanted == "C":
        return tensor.reshape(shape, copy=copy)
    return tensor.transpose().reshape(shape[::-1], copy=copy).transpose()


# --- new tensors ------------------------------------------------------------------------------


def _fortran(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """The result of a function of a shape, in Fortran's order."""
    if "N" in given:  # eye
        n = given["N"]
        m = n if given.get("M") is None else given["M"]
        return function(m, n, **{**_rest(given, "N", "M"), "k": -given.get("k", 0)}).transpose()
    if np.ndim(given.get("fill_value", 0)):
        return copy_in_order(function(**given), "F")
    sizes = shape_of(given["shape"])
    return function(shape=sizes[::-1], **_rest(given, "shape")).transpose()


def _rest(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}


def _like(function: Callable[..., Any], first: str, given: dict[str, Any], order: str) -> Any:
    """The result of a function of a prototype, with the order of its axes."""
    model = call_op("asarray", given[first])
    shape = given.get("shape")
    sizes = model.shape if shape is None else shape_of(shape)
    if order == "K" and len(sizes) != model.ndim:
        order = "C"
    axes = axes_of(model, order) if len(sizes) == model.ndim else None
    if order == "F" or (order == "A" and _is_fortran(model)):
        axes = tuple(reversed(range(len(sizes))))
    if axes is None:
        return function(**given)
    if np.ndim(given.get("fill_value", 0)):
        made = function(**given)
        return transposed_back(copies.copy_tensor(made.transpose(axes)), axes)
    given["shape"] = tuple(sizes[axis] for axis in axes)
    return transposed_back(function(**given), axes)


CREATIONS = ("empty", "eye", "full", "ones", "zeros")
LIKES = ("empty_like", "full_like", "ones_like", "zeros_like")


def with_order(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a tensor, with `order` where NumPy has it; likes take `subok` too."""
    kinds = inspect.Parameter
    ours = inspect.signature(function)
    is_like = name in LIKES
    more = [kinds("order", kinds.POSITIONAL_OR_KEYWORD, default="K" if is_like else "C")]
    if is_like:
        more.append(kinds("subok", kinds.POSITIONAL_OR_KEYWORD, default=True))
    plain = [p for p in ours.parameters.values() if p.kind is not kinds.KEYWORD_ONLY]
    rest = [p for p in ours.parameters.values() if p.kind is kinds.KEYWORD_ONLY]
    if is_like:  # NumPy has the shape by position
        rest = [p for p in rest if p.name != "shape"]
        more.append(ours.parameters["shape"].replace(kind=kinds.POSITIONAL_OR_KEYWORD))
    public = inspect.Signature([*plain, *more, *rest])
    n_plain = len(plain)
    first = plain[0].name

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_like and len(args) <= n_plain and "order" not in kwargs:
            return function(*args, **kwargs)
        try:
            given = dict(public.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        given.pop("subok", None)
        order = letter(given.pop("order", None), "K" if is_like else "C")
        if is_like:
            return _like(function, first, given, order)
        if order in ("A", "K"):
            raise ValueError("only 'C' or 'F' order is permitted")
        return _fortran(function, given) if order == "F" else function(**given)

    wrapper.__signature__ = public  # type: ignore[attr-defined]
    return wrapper
