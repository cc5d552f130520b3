"""Writing through indices and views: what `x[...] = v` and `ufunc.at` record, or do at once."""

from __future__ import annotations

import dis
import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access import masked_items, view_strides
from infinitensor.api.access.compute_first import compute_before_write, is_for_later
from infinitensor.api.access.copies import cast, copy_tensor
from infinitensor.api.access.getitem import advanced, is_basic, leading_mask
from infinitensor.api.access.scalars import become_array
from infinitensor.api.access.small_items import numpy_index, was_put
from infinitensor.api.access.view_strides import tight
from infinitensor.api.eager.changing_places import has_changing_shapes
from infinitensor.api.record.late import call_op, is_tensor, new_tensor
from infinitensor.api.record.record import host_view, record_write, store_on_host
from infinitensor.api.session.cell import Ref, guard
from infinitensor.api.session.version import user_site
from infinitensor.api.small.errstate import quietly
from infinitensor.api.small.host_values import values_of
from infinitensor.config import config
from infinitensor.dtypes import can_cast, held_as, resolve_dtypes
from infinitensor.ir.view import in_other_shape, structure, whole_view

if TYPE_CHECKING:
    from types import FrameType

    from infinitensor.api.session.cell import BaseTensor
    from infinitensor.api.session.version import Site, Version
    from infinitensor.ir.view import View

STORE_SUBSCR = dis.opmap["STORE_SUBSCR"]
"""The instruction of `x[index] = value`."""


@guard
def put(tensor: BaseTensor, index: Any, value: Any) -> None:
    """`tensor[index] = value`."""
    items = index if isinstance(index, tuple) else (index,)
    if tensor._is_value:
        if not _is_update(items):
            check_writable(tensor, tensor._whole())
        become_array(tensor)
    if all([type(item) is slice for item in items]) or all([is_basic(item) for item in items]):
        view = view_strides.basic(tensor._whole(), items)
        if type(value) is float and fill(tensor, view, value):
            return
        given = _shape(value) if view.shape == () else ()
        if given and not any(
            [item is None or item is Ellipsis or isinstance(item, slice) for item in items]
        ):
            check_writable(tensor, view)
            _check_item(tensor.dtype, given)
        if is_tensor(value) and value._is_value:
            value = _scalar_for(tensor.dtype, value)
        write(tensor, view, value)
        return
    check_writable(tensor, tensor._whole())
    mask = leading_mask(items, tensor.ndim)
    has_settled = mask is None and masked_items.compute_masks(*items, value)
    waits = has_settled or tensor._version.node is not None
    if waits and numpy_index(tensor.shape, index, tensor._session) is not None:
        compute_before_write(tensor, (1,), value)
        if was_put(tensor, index, value):
            return
    if mask is not None and len(items) == 1 and mask.shape == tensor.shape:
        n_axes = len(_shape(value))
        if n_axes > 1:
            raise TypeError(
                "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, "
                f"input has {n_axes} dimensions"
            )
    if mask is not None and _put_masked(tensor, mask, value):
        return
    _scatter(tensor, items, value, "set", tensor.dtype)


def check_swap(tensor: BaseTensor, value: BaseTensor, caller: FrameType) -> None:
    """Refuse `x[i] = x[j]` of a view of x that no statement of Python's says, but compiled code.

    NumPy's `shuffle` swaps rows so, `x[i], x[j] = x[j], x[i]`, and takes the views for values: two
    rows would be one. (It knows better of NumPy's arrays, and only warns of others.)
    """
    if value._owner is not None or value._cell is not tensor._cell:
        return
    if caller.f_code.co_code[caller.f_lasti] != STORE_SUBSCR:
        raise TypeError(
            "compiled code writes a row of a tensor to another: where it swaps rows, as NumPy's "
            "shuffle does, one would be lost. Shuffle with it.random.shuffle(x) or take "
            "x[rng.permutation(len(x))]; write a row with x[i] = x[j].copy()"
        )


def fill(tensor: BaseTensor, view: View | None, value: Any, site: Site | None = None) -> bool:
    """A number, or a tensor that fits as it is, written through a large view: recorded at once.

    False, and nothing done, where there are questions that `put` has to ask.
    """
    if view is None or tensor._frozen:
        return False
    n = prod(view.shape)
    if view.is_whole or view.is_broadcast:
        return False
    if n <= config.small_elements and not is_for_later(tensor, value):
        return False
    session = tensor._session
    if type(value) is float:
        if tensor._dtype.kind != "f":
            return False
        operand = quietly(tensor._dtype.type, value)
    elif (
        value._owner is None
        and value._shape == view.shape
        and value._dtype == tensor._dtype
        and value._cell is not tensor._cell
        and value._cell.session is session
        and (value._view is None or structure(value._view) is not None)
    ):
        operand = value._ref()
    else:
        return False
    site = site or user_site()
    if structure(view) is None or has_changing_shapes(session, n, site):
        return False
    with session.guard():
        tensor._cell.show(record_write(session, tensor._version, view, operand, site))
    return True


def _scatter(
    tensor: BaseTensor, items: tuple[Any, ...], value: Any, mode: str, loop: np.dtype[Any]
) -> None:
    """Set entries by index arrays, or change them by the ufunc that `mode` names."""
    seen, indices, axes, position = advanced(tensor, items)
    kept = tuple(n for axis, n in enumerate(seen.shape) if axis not in axes)
    selection = (*kept[:position], *indices[0].shape, *kept[position:])
    rows = _fit_value(
        tensor.dtype if mode == "set" else value.dtype,
        value,
        selection,
        "shape mismatch: value array of shape {} could not be "
        "broadcast to indexing result of shape {}",
    )
    changed = call_op("_scattered", seen, indices, rows, axes, position, mode, loop)
    if 0 in seen.shape:
        changed._compute()  # nothing will read it, so its index is checked now
    _become(seen, changed)


def _become(tensor: BaseTensor, changed: BaseTensor) -> None:
    """Write all of a tensor, from a new one of its shape and dtype that nobody else has."""
    if tensor._whole().is_whole and changed._session is tensor._session:
        tensor._cell.show(changed._version)
    else:
        write(tensor, tensor._whole(), changed)


@guard
def apply_at(tensor: BaseTensor, index: Any, value: BaseTensor, ufunc: np.ufunc) -> None:
    """`ufunc.at(tensor, index, value)`: entries that repeat are changed again and again."""
    check_writable(tensor, tensor._whole())
    given = (tensor.dtype, *(value.dtype,) * (ufunc.nin - 1))
    loop = resolve_dtypes(ufunc, (*given, None))
    value = cast(value, loop[-2], False, "unsafe") if ufunc.nin > 1 else value
    items = index if isinstance(index, tuple) else (index,)
    if not all(is_basic(item) for item in items):
        _scatter(tensor, items, value, ufunc.__name__, loop[0])
        return
    seen = tensor._seen_as(view_strides.basic(tensor._whole(), items))
    changed = call_op(ufunc.__name__, *(seen, value)[: ufunc.nin])
    if changed.shape != seen.shape:
        raise ValueError(
            f"shape mismatch: value array of shape {tight(value.shape)} could not be broadcast to "
            f"indexing result of shape {tight(seen.shape)}"
        )
    write(seen, seen._whole(), changed)


def _put_masked(tensor: BaseTensor, mask: Any, value: Any) -> bool:
    """x[mask] = v as x[...] = where(mask, v, x), where v is no list of values to be dealt out."""
    if not mask.ndim or mask.shape != tensor.shape[: mask.ndim]:
        return False
    shape = _shape(value)
    rest = target = tensor.shape[mask.ndim :]
    if len(shape) > len(rest) and prod(shape) != 1:
        found = is_tensor(value) and is_tensor(mask) and masked_items.spread(tensor, mask, value)
        if not found:
            return False
        value, target = new_tensor(tensor, found[1]), tensor.shape
        if found[0] is not mask._version:
            mask = new_tensor(tensor, found[0])
    rows = _fit_value(
        tensor.dtype,
        value,
        target,
        "shape mismatch: value array of shape {} could not be "
        "broadcast to indexing result of shape {}",
    )
    chosen = call_op("asarray", mask).reshape((*mask.shape, *(1,) * len(rest)))
    made = call_op("where", chosen, rows, tensor)
    if tensor.size > config.small_elements:
        _become(tensor, made)
    else:
        write(tensor, tensor._whole(), made)
    return True


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape if is_tensor(value) else np.shape(value)


def _fit_value(dtype: np.dtype[Any], value: Any, shape: tuple[int, ...], text: str) -> Any:
    """The value as a tensor of the target's dtype, broadcast to a shape."""
    if isinstance(value, np.generic):
        value = np.asarray(value)  # by index arrays and masks NumPy's scalars wrap, as arrays do
    given = value if is_tensor(value) else call_op("asarray", host_value(value, dtype))
    if is_tensor(value) and value.dtype != dtype:
        given = cast(value, dtype, False, "unsafe")
    while given.ndim > len(shape) and given.shape[0] == 1:
        given = given.reshape(given.shape[1:])
    if given.shape == shape:
        return given
    try:
        return call_op("broadcast_to", given, shape)
    except ValueError:
        raise ValueError(text.format(tight(given.shape), tight(shape))) from None


def host_value(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A value from outside in its target's dtype, with NumPy's errors for what does not fit."""
    if type(value) is float and dtype.kind == "f":
        return quietly(np.array, value, dtype)  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray | np.generic):
        held_as(value.dtype)
    target = np.empty(np.shape(value), dtype)
    quietly(operator.setitem, target, ..., value)
    return target


def check_writable(tensor: BaseTensor, view: View) -> None:
    """Raise what NumPy raises where a scalar or a read-only part would be written to."""
    if tensor._is_value:
        raise TypeError(
            "a scalar does not support item assignment, as NumPy's do not: np.array(s) is an array"
        )
    if tensor._frozen or view.is_broadcast:
        raise ValueError("assignment destination is read-only")


def write(tensor: BaseTensor, view: View, value: Any) -> None:
    """Write through a view of the tensor's cell: the cell then shows the next version."""
    check_writable(tensor, view)
    session = tensor._session
    with session.guard():
        if is_tensor(value) and value._cell is tensor._cell:
            if value._whole() == view:
                return
            if _may_meet(value._whole(), view):
                value = copy_tensor(value)
        if is_tensor(value):
            fitted = _fit_value(
                tensor.dtype,
                value,
                view.shape,
                "could not broadcast input array from shape {} into shape {}",
            )
        else:
            fitted = host_value(value, tensor.dtype)
            _check_fits(fitted.shape, view.shape)
            if fitted.ndim > len(view.shape):  # axes of length 1 in front
                fitted = fitted.reshape(fitted.shape[fitted.ndim - len(view.shape) :])
        if 0 in view.shape:
            return
        compute_before_write(tensor, view.shape, fitted)
        if _write_small(tensor, view, fitted):
            return
        _write_large(tensor, view, fitted)


def _is_update(items: tuple[Any, ...]) -> bool:
    """Whether `s[mask] = v` is as libraries write it that know `s` only by the Array API.

    There results without axes are arrays; NumPy has no such masks.
    """
    return len(items) == 1 and is_tensor(items[0]) and items[0].dtype == np.bool_


def _scalar_for(dtype: np.dtype[Any], value: BaseTensor) -> Any:
    """A value that is to be written: as NumPy's scalars, an integer must fit (arrays wrap)."""
    are_integers = value.dtype.kind in "iu" and dtype.kind in "iu"
    if not are_integers or can_cast(value.dtype, dtype, "safe"):
        return value
    found = values_of(value)
    if found is not None:
        return found[()]
    return call_op("_narrowed", value, dtype)


def _check_item(dtype: np.dtype[Any], given: tuple[int, ...]) -> None:
    """An element takes a number, not an array, however short: NumPy's errors, kind by kind."""
    if dtype.kind == "c":
        raise TypeError(
            "only 0-dimensional arrays can be converted to Python scalars: an element is set to "
            f"a value of shape {tight(given)}"
        )
    if dtype.kind != "b" or prod(given) != 1:
        raise ValueError(
            f"setting an array element with a sequence: the value has shape {tight(given)}"
        )


def _check_fits(given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if not given or given == wanted:
        return
    shape = given
    while len(shape) > len(wanted) and shape[0] == 1:
        shape = shape[1:]
    try:
        fits = np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"could not broadcast input array from shape {tight(given)} into shape {tight(wanted)}"
        )


def _may_meet(a: View, b: View) -> bool:
    """Whether two views of one base may share elements (their flat ranges overlap)."""
    ranges = []
    for view in (a, b):
        if 0 in view.shape:
            return False
        spans = [s * (n - 1) for s, n in zip(view.strides, view.shape, strict=True)]
        low = view.offset + sum(s for s in spans if s < 0)
        ranges.append((low, view.offset + sum(s for s in spans if s > 0)))
    return ranges[0][0] <= ranges[1][1] and ranges[1][0] <= ranges[0][1]


def _write_small(tensor: BaseTensor, view: View, value: Any) -> bool:
    """At once on a host value, in place if nothing waits to read it."""
    version = tensor._version
    n = prod(view.shape)
    if version.host is None:
        return False
    if n > config.small_elements and not has_changing_shapes(tensor._session, n):
        return False
    if is_tensor(value):
        if value._version.host is None:
            return False
        value = host_view(value._ref())
    if version.readers or version.exported or not version.host.flags.writeable:
        if version.table is not None:
            return False
        version = store_on_host(tensor._session, np.array(version.host))
        tensor._cell.show(version)
    target = host_view(Ref(version, view, tensor.dtype))
    with np.errstate(all="ignore"):
        target[...] = value
    tensor._session.ways["write"] += 1
    return True


def _write_large(tensor: BaseTensor, view: View, value: Any) -> None:
    session = tensor._session
    site = user_site()
    base = tensor._version
    if is_tensor(value) and value._session is not session:
        value = call_op("asarray", value.numpy())
    if view.is_reshape:
        tensor._cell.show(_whole_value(value, view))
        return
    if structure(view) is None:
        _write_unstructured(tensor, view, value)
        return
    if not is_tensor(value) and value.ndim == 0:
        operand: Any = value[()]
    else:
        given = value if is_tensor(value) else call_op("asarray", value)
        operand = given._ref()
        if given.shape != view.shape:
            operand = call_op("broadcast_to", given, view.shape)._ref()
        if operand.view is not None and structure(operand.view) is None:
            operand = copy_tensor(call_op("broadcast_to", given, view.shape))._ref()
    tensor._cell.show(record_write(session, base, view, operand, site))


def _whole_value(value: Any, view: View) -> Version:
    """The next version of a base that is written through a view of all of it."""
    if is_tensor(value):
        value = call_op("broadcast_to", value, view.shape)
    elif value.ndim == 0:
        return call_op("full", view.base_shape, value[()], dtype=value.dtype)._version  # type: ignore[no-any-return]
    else:
        value = call_op("asarray", np.broadcast_to(value, view.shape))
    dense: BaseTensor = copy_tensor(value.reshape(view.base_shape))
    return dense._version


COPIES_PER_INDEX = 8
"""An index of an element takes as long as to copy so many."""


def _write_unstructured(tensor: BaseTensor, view: View, value: Any) -> None:
    """A view that is no box: much of a reshape, in that shape; else by each element's index."""
    whole = tensor._seen_as(whole_view(tensor._version.shape))
    is_much = COPIES_PER_INDEX * prod(view.shape) >= whole.size and not view.part
    inside = in_other_shape(view) if is_much else None
    if inside is None:
        _write_by_flat_index(whole, view, value)
        return
    reshaped = copy_tensor(whole.reshape(inside.base_shape))
    write(reshaped, inside, value)
    whole._cell.show(copy_tensor(reshaped.reshape(whole.shape))._version)


def _write_by_flat_index(whole: BaseTensor, view: View, value: Any) -> None:
    steps = np.ix_(*(np.arange(n) for n in view.shape)) if view.shape else ()
    flat = sum((i * s for i, s in zip(steps, view.strides, strict=True)), np.asarray(view.offset))
    # as a line: NumPy's unravel_index is wrong for many indices that end in an axis of length one
    lines = np.unravel_index(flat.reshape(-1), view.base_shape)
    index = [line.reshape(view.shape) for line in lines]
    if view.part:
        current = whole[tuple(index)]
        current = copy_tensor(current)
        seen = current.real if view.part == "real" else current.imag
        seen[...] = value
        value = current
    put(whole, tuple(index), value)


def replace(tensor: BaseTensor, value: BaseTensor) -> None:
    """Every element of a tensor (a view or not) from another of its shape."""
    write(tensor, tensor._whole(), value)
