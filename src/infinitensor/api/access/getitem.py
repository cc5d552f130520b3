"""Reading through indices: what `x[...]` gives, and what index arrays and masks select."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access import masked_items, view_strides
from infinitensor.api.access.copies import cast, copy_tensor
from infinitensor.api.access.scalars import as_value
from infinitensor.api.access.view_strides import tight
from infinitensor.api.record.late import call_op, is_tensor
from infinitensor.api.session.cell import guard

if TYPE_CHECKING:
    from infinitensor.api.session.cell import AnyTensor, BaseTensor


@guard
def get(tensor: AnyTensor, index: Any) -> AnyTensor:
    """`tensor[index]`: a view for basic indices, a value for full integer ones, else a gather."""
    if is_tensor(index) and index.shape:
        if index.dtype == np.bool_:
            return masked_items.select(tensor, index)
        if index.dtype == np.int64 and tensor.shape:  # there is nothing more to look at
            return call_op("_take", tensor, [index], (0,), 0)  # type: ignore[no-any-return]
    items = index if isinstance(index, tuple) else (index,)
    if tensor._is_value:  # it has no memory that others could see
        return copy_tensor(tensor)[index] if items else tensor
    if all([type(item) is slice for item in items]) or all([is_basic(item) for item in items]):
        seen = tensor._seen_as(view_strides.basic(tensor._whole(), items))
        full = len(items) == tensor.ndim and not seen.shape
        if full and all(
            not isinstance(i, slice) and i is not Ellipsis and i is not None for i in items
        ):
            return as_value(copy_tensor(seen))
        if any([_is_array(item) for item in items]):
            return copy_tensor(seen)  # only integers and scalars make views
        return seen
    mask = leading_mask(items, tensor.ndim)
    if mask is not None:
        return masked_items.select(tensor, mask)
    seen, indices, axes, position = advanced(tensor, items)
    return call_op("_take", seen, indices, axes, position)  # type: ignore[no-any-return]


def _is_array(item: Any) -> bool:
    """Whether an integer of an index is an array without axes."""
    return (is_tensor(item) and not item._is_value) or isinstance(item, np.ndarray)


def is_basic(item: Any) -> bool:
    """Whether an index is one that NumPy answers with a view."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return True
    if isinstance(item, bool | np.bool_):
        return False
    if isinstance(item, int | np.integer):
        return True
    if is_tensor(item) or isinstance(item, np.ndarray):
        return bool(item.ndim == 0 and item.dtype.kind in "iu")
    return hasattr(item, "__index__")


def leading_mask(items: tuple[Any, ...], ndim: int) -> Any:
    """The mask of x[mask] or x[mask, ...] for x of so many axes; None for any other index."""
    first, rest = items[0], items[1:]
    if any(r is not Ellipsis and r != slice(None) for r in rest if not hasattr(r, "dtype")):
        return None
    if any(hasattr(r, "dtype") for r in rest) or sum(r is Ellipsis for r in rest) > 1:
        return None
    array = _as_index(first)
    if array is None or array.dtype != np.bool_:
        return None
    n_slices = sum(r is not Ellipsis for r in rest)
    return array if not n_slices or array.ndim + n_slices <= ndim else None


def _as_index(item: Any) -> Any:
    """An index array (tensor or ndarray), or None for a basic index."""
    if is_tensor(item):
        return item
    if item is None or item is Ellipsis or isinstance(item, slice):
        return None
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    return array


def _expanded(tensor: BaseTensor, items: tuple[Any, ...]) -> list[Any]:
    """Items with the ellipsis written out and masks replaced by their index arrays."""
    out: list[Any] = []
    for item in items:
        array = None if is_basic(item) else _as_index(item)
        if array is None:
            out.append(item)
        elif array.dtype == np.bool_:
            out.append(("mask", array))
        elif array.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        else:
            out.append(("index", array))
    used = 0
    for item in out:
        if isinstance(item, tuple):
            used += item[1].ndim if item[0] == "mask" else 1
        elif item is not None and item is not Ellipsis:
            used += 1
    if used > tensor.ndim:
        raise IndexError(
            f"too many indices for array: array is {tensor.ndim}-dimensional, "
            f"but {used} were indexed"
        )
    n_dots = sum(item is Ellipsis for item in out)
    if n_dots > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not n_dots:
        out.append(Ellipsis)
    at = next(i for i, item in enumerate(out) if item is Ellipsis)
    return [*out[:at], *(slice(None),) * (tensor.ndim - used), *out[at + 1 :]]


def advanced(
    tensor: AnyTensor, items: tuple[Any, ...]
) -> tuple[AnyTensor, list[Any], tuple[int, ...], int]:
    """The view that basic items give, and for `_take`: index arrays, their axes, where they go."""
    if len(items) == 1 and is_tensor(items[0]) and tensor.ndim and items[0].dtype == np.int64:
        return tensor, [items[0]], (0,), 0
    expanded = _expanded(tensor, items)
    base: list[Any] = []
    arrays: list[tuple[int, Any]] = []
    checks: list[tuple[Any, int, int]] = []
    axis = 0
    for item in expanded:
        if isinstance(item, tuple) and item[0] == "mask":
            mask = item[1]
            for k, n in enumerate(mask.shape):
                if n not in (0, tensor.shape[axis + k]):  # NumPy lets an empty mask pass
                    raise IndexError(
                        f"boolean index did not match indexed array along axis {axis + k}; size of "
                        f"axis is {tensor.shape[axis + k]} but size of corresponding boolean "
                        f"axis is {n}"
                    )
            found = mask.nonzero() if isinstance(mask, np.ndarray) and mask.ndim else _nonzero(mask)
            for where in found:
                arrays.append((len(base), where))
                base.append(slice(None))
                axis += 1 if mask.ndim else 0
                if not mask.ndim:
                    base[-1] = None
        elif isinstance(item, tuple):
            arrays.append((len(base), item[1]))
            checks.append((item[1], tensor.shape[axis], axis))
            base.append(slice(None))
            axis += 1
        elif item is None:
            base.append(None)
        elif isinstance(item, slice):
            base.append(item)
            axis += 1
        else:
            at = np.asarray(int(item), np.int64)
            arrays.append((len(base), at))
            checks.append((at, tensor.shape[axis], axis))
            base.append(slice(None))
            axis += 1
    seen = tensor._seen_as(view_strides.basic(tensor._whole(), tuple(base)))
    places = tuple(place for place, _ in arrays)
    shapes = [tuple(a.shape) for _, a in arrays]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        texts = " ".join(tight(s) for s in shapes)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {texts}"
        ) from None
    if prod(shape):  # NumPy lets any index pass beside one that selects nothing
        for array, n, axis in checks:
            check_range(array, n, axis)
    indices = [call_op("broadcast_to", call_op("asarray", a), shape) for _, a in arrays]
    indices = [
        i if i.dtype == np.int64 else cast(i, np.dtype(np.int64), False, "unsafe") for i in indices
    ]
    together = places == tuple(range(places[0], places[0] + len(places)))
    return seen, indices, places, places[0] if together else 0


def _nonzero(mask: Any) -> tuple[Any, ...]:
    if not mask.ndim:
        return (np.zeros(int(bool(mask)), np.int64),)
    return tuple(call_op("nonzero", mask))


def check_range(array: Any, n: int, axis: int) -> Any:
    """Host-known indices are checked now; a tensor's when it is computed."""
    if isinstance(array, np.ndarray) and array.size and array.dtype.kind in "iu":
        low, high = int(array.min()), int(array.max())
        if low < -n or high >= n:
            wrong = low if low < -n else high
            raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {n}")
    return array
