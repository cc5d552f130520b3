"""Views as tensors: a part of complex values, and another shape where NumPy would give a view."""

from __future__ import annotations

import operator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access import view_strides
from infinitensor.api.access.copies import copy_tensor
from infinitensor.api.access.scalars import as_value
from infinitensor.api.access.view_strides import tight
from infinitensor.api.record.late import call_op
from infinitensor.api.session.array_api import MAX_AXES
from infinitensor.ir.view import View

if TYPE_CHECKING:
    from infinitensor.api.session.cell import AnyTensor


def part(tensor: AnyTensor, which: str) -> AnyTensor:
    """Real or imaginary part."""
    if tensor.dtype.kind != "c":
        if which == "real":
            return tensor
        zeros: AnyTensor = call_op("zeros", tensor.shape, dtype=tensor.dtype)
        zeros._is_value = tensor._is_value
        return zeros
    view = tensor._whole()
    return tensor._seen_as(View(view.base_shape, view.shape, view.offset, view.strides, which))


def bits(tensor: AnyTensor, dtype: np.dtype[Any]) -> AnyTensor:
    """The bits of the values read as another dtype, along the last axis where its size differs.

    They are a copy, so they are read-only: a write to them could not reach the tensor.
    """
    before, after = tensor.dtype.itemsize, dtype.itemsize
    if before != after:
        if not tensor.ndim:
            raise ValueError(
                "Changing the dtype of a 0d array is only supported if the itemsize is unchanged"
            )
        n, step = tensor.shape[-1], tensor._whole().strides[-1]
        if (n != 1 and step != 1 and tensor.size) or tensor._whole().part:
            raise ValueError(
                "To change to a dtype of a different size, the last axis must be contiguous"
            )
        if n * before % after:
            raise ValueError(
                "When changing to a larger dtype, its size must be a divisor of the total size in "
                "bytes of the last axis of the array."
            )
    made: AnyTensor = call_op("_bits", tensor, dtype)
    made.flags.writeable = False
    return made


def swapped_bytes(tensor: AnyTensor) -> AnyTensor:
    """A tensor whose elements have the bytes of this one's in reverse order."""
    parts = 2 if tensor.dtype.kind == "c" else 1
    width = tensor.dtype.itemsize // parts
    if width == 1:
        return copy_tensor(tensor)
    line = copy_tensor(tensor).reshape(-1)  # side by side: a part of an element has another width
    words: Any = bits(line, np.dtype(f"u{width}"))
    swapped = (words & 0xFF) << (8 * (width - 1))
    for k in range(1, width):
        swapped = swapped | (((words >> (8 * k)) & 0xFF) << (8 * (width - 1 - k)))
    made: AnyTensor = bits(swapped, tensor.dtype)
    return copy_tensor(made).reshape(tensor.shape)


def field(tensor: AnyTensor, dtype: np.dtype[Any], offset: int) -> AnyTensor:
    """The bytes of each element from an offset on, read as a dtype: a copy, read-only."""
    width, part = tensor.dtype.itemsize, dtype.itemsize
    if offset < 0:
        raise ValueError(
            "new type is larger than original type" if part > width else "offset is negative"
        )
    if offset + part > width:
        raise ValueError(
            "new type is larger than original type"
            if part > width
            else "new type plus offset is larger than original type"
        )
    octets = bits(copy_tensor(tensor).reshape(-1), np.dtype("u1")).reshape(-1, width)
    found = bits(copy_tensor(octets[:, offset : offset + part]), dtype)
    return found.reshape(tensor.shape)


def element(tensor: AnyTensor, index: tuple[Any, ...]) -> AnyTensor:
    """One element, by a number in C order, or by a number for each axis, also as a tuple."""
    items = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
    places = tuple(operator.index(i) for i in items)
    if len(places) == 1 and tensor.ndim != 1:
        n = tensor.size
        if not -n <= places[0] < n:
            raise IndexError(f"index {places[0]} is out of bounds for size {n}")
        places = tuple(map(int, np.unravel_index(places[0] % n, tensor.shape)))
    if len(places) != tensor.ndim:
        raise ValueError("incorrect number of indices for array")
    return tensor[places]


@lru_cache(maxsize=4096)
def full_shape(n_elements: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that so many elements get; any negative length is the unknown one."""
    if len(shape) > MAX_AXES:
        raise ValueError(
            f"reshape: maximum supported dimension for an ndarray is {MAX_AXES}, found {len(shape)}"
        )
    shape = tuple(-1 if n < 0 else n for n in shape)
    known = prod(n for n in shape if n != -1)
    if -1 in shape:
        if shape.count(-1) > 1:
            raise ValueError("can only specify one unknown dimension")
        if (not known or n_elements % known) and (n_elements or not known):
            raise ValueError(f"cannot reshape array of size {n_elements} into shape {tight(shape)}")
        shape = tuple(n_elements // known if n == -1 else n for n in shape)
    if prod(shape) != n_elements:
        raise ValueError(f"cannot reshape array of size {n_elements} into shape {tight(shape)}")
    return shape


def reshape(tensor: AnyTensor, shape: tuple[int, ...], copy: bool | None) -> AnyTensor:
    """A view where NumPy's rule allows one; any negative length is the unknown one."""
    shape = full_shape(tensor.size, shape)
    if not copy:
        view = view_strides.reshaped(tensor._whole(), shape)
        if view is not None:
            return tensor._seen_as(view)
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
    made = copy_tensor(tensor).reshape(shape)
    return as_value(made) if tensor._is_value else made
