"""Reading and writing through indices: what `x[...]`, `x[...] = v` and `x += v` record."""

from __future__ import annotations

import functools
import operator
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from infinitensor.api import masked, views
from infinitensor.api.evaluate import evaluate
from infinitensor.api.near import quietly, taken, was_put
from infinitensor.api.record import Ref, host_view, record, record_write, stored
from infinitensor.api.rule import cached_rule
from infinitensor.api.unplanned import LITTLE, is_hasty
from infinitensor.api.version import Shown, Version, user_site
from infinitensor.api.whole import is_for_company
from infinitensor.config import config
from infinitensor.dtypes import as_dtype, can_cast, dtype_of, resolve_dtypes
from infinitensor.errors import LayoutError
from infinitensor.ir.layout import Layout
from infinitensor.ir.op import Spec
from infinitensor.ir.region import grid_shape, whole_box
from infinitensor.ir.view import View, structure, take
from infinitensor.ops.registry import TABLE
from infinitensor.partition import canonical_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infinitensor.api.session import Session
    from infinitensor.api.tensor import Tensor
    from infinitensor.api.version import Site


Made = TypeVar("Made")


def _make(session: Session, version: Version) -> Tensor:
    from infinitensor.api.tensor import fresh

    return fresh(session, version)


def named(name: str) -> Any:
    """A function of the table, internal ones too, by its name."""
    from infinitensor.api.functions import namespace

    return getattr(namespace, name)


def call_op(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the table by its name."""
    return named(name)(*args, **kwargs)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Shown)


def guarded(function: Callable[..., Made]) -> Callable[..., Made]:
    """A function of a tensor, under the lock of the tensor's session."""

    @functools.wraps(function)
    def locked(tensor: Tensor, *args: Any, **kwargs: Any) -> Made:
        with tensor._session.guard():
            return function(tensor, *args, **kwargs)

    return locked


# --- copies -----------------------------------------------------------------------------------


@guarded
def copied(tensor: Tensor) -> Tensor:
    """A tensor of its own with the same values."""
    values = _at_hand(tensor)
    if values is None and was_read_often(tensor._session, (tensor,)):
        values = _at_hand(tensor)
    if values is not None:
        tensor._session.counts["small_calls"] += 1
        return _make(tensor._session, stored(tensor._session, values))
    op = TABLE["_copy"]
    call = cached_rule(op, (Spec(tensor.shape, tensor.dtype),))
    return _make(tensor._session, record(tensor._session, op, call, [tensor._ref()])[0])


def _at_hand(tensor: Tensor) -> np.ndarray | None:
    """A copy of few values that are stored where NumPy can read them; None for any others."""
    version = tensor._version
    if tensor.size > config.small_elements or not config.small_elements:
        return None
    if version.host is not None:
        return np.array(host_view(tensor._ref()), order="C")
    if version.table is None or tensor._session.engine.mesh.kind != "cpu":
        return None
    if tensor._view is not None and structure(tensor._view) is None:
        return None
    return read_view(tensor)


@guarded
def cast(tensor: Tensor, dtype: np.dtype[Any], copy: bool, casting: str) -> Tensor:
    """The values as another dtype."""
    if not can_cast(tensor.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {tensor.dtype!r} to {dtype!r} "
            f"according to the rule {casting!r}"
        )
    if dtype == tensor.dtype:
        return copied(tensor) if copy else tensor
    if tensor.dtype.kind == "c" and dtype.kind not in "cb":
        import warnings

        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=3,
        )
    op = TABLE["_cast"]
    call = cached_rule(op, (Spec(tensor.shape, tensor.dtype),), dtype)
    return _make(tensor._session, record(tensor._session, op, call, [tensor._ref()])[0])


def scattered(session: Session, values: Any) -> Version:
    """A version in tiles on the session's devices, with a copy of the values (NumPy or torch)."""
    with session.guard():
        session.check_open()
        session.drain()
        engine = session.engine
        layout = canonical_layout(tuple(values.shape), engine.mesh, config.tile_elements)
        return _into(session, values, layout)


def _into(session: Session, values: Any, layout: Layout) -> Version:
    version = Version(session, tuple(values.shape), dtype_of(values))
    session.keep(version, session.store(values, layout), "asarray")
    return version


def relayout(tensor: Tensor, pieces: tuple[int, ...]) -> Tensor:
    """The same values in other tiles."""
    if len(pieces) != tensor.ndim or any(p < 1 for p in pieces):
        raise LayoutError(
            f"relayout{pieces}: a tensor of shape {tensor.shape} needs {tensor.ndim} counts >= 1"
        )
    session = tensor._session
    cuts = tuple(
        tuple(n * k // p for k in range(p + 1)) for n, p in zip(tensor.shape, pieces, strict=True)
    )
    n_tiles = prod(grid_shape(cuts))
    n_devices = session.engine.mesh.n_devices
    owners = tuple(i * n_devices // n_tiles for i in range(n_tiles))
    with session.guard():
        return _make(session, _into(session, tensor.numpy(), Layout(cuts, owners)))


def read_view(tensor: Tensor) -> np.ndarray:
    """The values of a stored tensor, from its tiles."""
    session = tensor._session
    version = tensor._version
    table = version.table
    assert table is not None
    devices = session.engine.devices
    view = tensor._view
    if view is None:
        return table.read(whole_box(version.shape), devices)
    if 0 in view.shape:
        return np.empty(view.shape, tensor.dtype)
    access = structure(view)
    if access is not None:
        box = whole_box(view.shape)
        hull = access.base_box(box)
        return np.array(take(table.read(hull, devices), access, box, hull))
    whole = Version(session, version.shape, version.dtype)
    whole.host = table.read(whole_box(version.shape), devices)
    return np.array(host_view(Ref(whole, view, tensor.dtype)))


# --- views ------------------------------------------------------------------------------------


def part(tensor: Tensor, which: str) -> Tensor:
    """Real or imaginary part."""
    if tensor.dtype.kind != "c":
        if which == "real":
            return tensor
        zeros: Tensor = call_op("zeros", tensor.shape, dtype=tensor.dtype)
        return zeros
    view = tensor._whole()
    return tensor._seen_as(View(view.base_shape, view.shape, view.offset, view.strides, which))


def reshape(tensor: Tensor, shape: tuple[int, ...], copy: bool | None) -> Tensor:
    """A view where NumPy's rule allows one."""
    known = prod(n for n in shape if n != -1)
    if -1 in shape:
        if shape.count(-1) > 1:
            raise ValueError("can only specify one unknown dimension")
        if (not known or tensor.size % known) and (tensor.size or not known):
            raise ValueError(
                f"cannot reshape array of size {tensor.size} into shape {_tight(shape)}"
            )
        shape = tuple(tensor.size // known if n == -1 else n for n in shape)
    if any(n < 0 for n in shape) or prod(shape) != tensor.size:
        raise ValueError(f"cannot reshape array of size {tensor.size} into shape {_tight(shape)}")
    if not copy:
        view = views.reshaped(tensor._whole(), shape)
        if view is not None:
            return tensor._seen_as(view)
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
    return copied(tensor).reshape(shape)


def _tight(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"


# --- indices ----------------------------------------------------------------------------------


def _is_basic(item: Any) -> bool:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return True
    if isinstance(item, bool | np.bool_):
        return False
    if isinstance(item, int | np.integer):
        return True
    if _is_tensor(item) or isinstance(item, np.ndarray):
        return bool(item.ndim == 0 and item.dtype.kind in "iu")
    return hasattr(item, "__index__")


@guarded
def get(tensor: Tensor, index: Any) -> Tensor:
    """`tensor[index]`: a view for basic indices, a value for full integer ones, else a gather."""
    if _is_tensor(index) and index.dtype == np.bool_ and index.ndim:
        return masked.select(tensor, index)
    items = index if isinstance(index, tuple) else (index,)
    if all([type(item) is slice for item in items]) or all([_is_basic(item) for item in items]):
        seen = tensor._seen_as(views.basic(tensor._whole(), items))
        full = len(items) == tensor.ndim and not seen.shape
        if full and all(
            not isinstance(i, slice) and i is not Ellipsis and i is not None for i in items
        ):
            value = copied(seen)
            value._is_value = True
            return value
        return seen
    mask = _leading_mask(items)
    if mask is not None:
        return masked.select(tensor, mask)
    seen, indices, axes, position = _advanced(tensor, items)
    return call_op("_take", seen, indices, axes, position)  # type: ignore[no-any-return]


def _leading_mask(items: tuple[Any, ...]) -> Any:
    """The mask of x[mask] or x[mask, ...]; None for any other index."""
    first, rest = items[0], items[1:]
    if any(r is not Ellipsis and r != slice(None) for r in rest if not hasattr(r, "dtype")):
        return None
    if any(hasattr(r, "dtype") for r in rest) or sum(r is Ellipsis for r in rest) > 1:
        return None
    array = _as_index(first)
    return array if array is not None and array.dtype == np.bool_ else None


def _as_index(item: Any) -> Any:
    """An index array (tensor or ndarray), or None for a basic index."""
    if _is_tensor(item):
        return item
    if item is None or item is Ellipsis or isinstance(item, slice):
        return None
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    return array


def _expanded(tensor: Tensor, items: tuple[Any, ...]) -> list[Any]:
    """Items with the ellipsis written out and masks replaced by their index arrays."""
    out: list[Any] = []
    for item in items:
        array = None if _is_basic(item) else _as_index(item)
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


def _advanced(
    tensor: Tensor, items: tuple[Any, ...]
) -> tuple[Tensor, list[Any], tuple[int, ...], int]:
    """The view that basic items give, and for `_take`: index arrays, their axes, where they go."""
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
    seen = tensor._seen_as(views.basic(tensor._whole(), tuple(base)))
    places = tuple(place for place, _ in arrays)
    shapes = [tuple(a.shape) for _, a in arrays]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        texts = " ".join(_tight(s) for s in shapes)
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


# --- writes -----------------------------------------------------------------------------------


@guarded
def put(tensor: Tensor, index: Any, value: Any) -> None:
    """`tensor[index] = value`."""
    items = index if isinstance(index, tuple) else (index,)
    if all([type(item) is slice for item in items]) or all([_is_basic(item) for item in items]):
        view = views.basic(tensor._whole(), items)
        if type(value) is float and fill(tensor, view, value):
            return
        given = _shape(value) if view.shape == () else ()
        if given and not any(
            [item is None or item is Ellipsis or isinstance(item, slice) for item in items]
        ):
            _check_writable(tensor, view)
            _check_item(tensor.dtype, given)
        write(tensor, view, value)
        return
    _check_writable(tensor, tensor._whole())
    mask = _leading_mask(items)
    has_settled = mask is None and masked.settle(*items, value)
    waits = has_settled or tensor._version.node is not None
    if waits and taken(tensor.shape, index, tensor._session) is not None:
        settle(tensor, (1,), value)
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


def fill(tensor: Tensor, view: View | None, value: Any, site: Site | None = None) -> bool:
    """A number, or a tensor that fits as it is, written through a large view: recorded at once.

    False, and nothing done, where there are questions that `put` has to ask.
    """
    if view is None or tensor._frozen:
        return False
    n = prod(view.shape)
    if n <= config.small_elements or view.is_whole or view.is_broadcast:
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
    if structure(view) is None or is_hasty(session, n, site):
        return False
    with session.guard():
        tensor._cell.show(record_write(session, tensor._version, view, operand, site))
    return True


def _scatter(
    tensor: Tensor, items: tuple[Any, ...], value: Any, mode: str, loop: np.dtype[Any]
) -> None:
    """Set entries by index arrays, or change them by the ufunc that `mode` names."""
    seen, indices, axes, position = _advanced(tensor, items)
    kept = tuple(n for axis, n in enumerate(seen.shape) if axis not in axes)
    selection = (*kept[:position], *indices[0].shape, *kept[position:])
    rows = _fitted(
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


def _become(tensor: Tensor, changed: Tensor) -> None:
    """Write all of a tensor, from a new one of its shape and dtype that nobody else has."""
    if tensor._whole().is_whole and changed._session is tensor._session:
        tensor._cell.show(changed._version)
    else:
        write(tensor, tensor._whole(), changed)


@guarded
def apply_at(tensor: Tensor, index: Any, value: Tensor, ufunc: np.ufunc) -> None:
    """`ufunc.at(tensor, index, value)`: entries that repeat are changed again and again."""
    _check_writable(tensor, tensor._whole())
    given = (tensor.dtype, *(value.dtype,) * (ufunc.nin - 1))
    loop = resolve_dtypes(ufunc, (*given, None))
    value = cast(value, loop[-2], False, "unsafe") if ufunc.nin > 1 else value
    items = index if isinstance(index, tuple) else (index,)
    if not all(_is_basic(item) for item in items):
        _scatter(tensor, items, value, ufunc.__name__, loop[0])
        return
    seen = tensor._seen_as(views.basic(tensor._whole(), items))
    changed = call_op(ufunc.__name__, *(seen, value)[: ufunc.nin])
    if changed.shape != seen.shape:
        raise ValueError(
            f"shape mismatch: value array of shape {_tight(value.shape)} could not be broadcast to "
            f"indexing result of shape {_tight(seen.shape)}"
        )
    write(seen, seen._whole(), changed)


def _put_masked(tensor: Tensor, mask: Any, value: Any) -> bool:
    """x[mask] = v as x[...] = where(mask, v, x), where v is no list of values to be dealt out."""
    if not mask.ndim or mask.shape != tensor.shape[: mask.ndim]:
        return False
    shape = _shape(value)
    rest = target = tensor.shape[mask.ndim :]
    if len(shape) > len(rest) and prod(shape) != 1:
        found = _is_tensor(value) and _is_tensor(mask) and masked.spread(tensor, mask, value)
        if not found:
            return False
        value, target = _make(tensor._session, found[1]), tensor.shape
        if found[0] is not mask._version:
            mask = _make(tensor._session, found[0])
    rows = _fitted(
        tensor.dtype,
        value,
        target,
        "shape mismatch: value array of shape {} could not be "
        "broadcast to indexing result of shape {}",
    )
    chosen = call_op("asarray", mask).reshape(*mask.shape, *(1,) * len(rest))
    made = call_op("where", chosen, rows, tensor)
    if tensor.size > config.small_elements:
        _become(tensor, made)
    else:
        write(tensor, tensor._whole(), made)
    return True


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape if _is_tensor(value) else np.shape(value)


def _fitted(dtype: np.dtype[Any], value: Any, shape: tuple[int, ...], text: str) -> Any:
    """The value as a tensor of the target's dtype, broadcast to a shape."""
    if isinstance(value, np.generic):
        value = np.asarray(value)  # by index arrays and masks NumPy's scalars wrap, as arrays do
    given = value if _is_tensor(value) else call_op("asarray", _host_value(value, dtype))
    if _is_tensor(value) and value.dtype != dtype:
        given = cast(value, dtype, False, "unsafe")
    while given.ndim > len(shape) and given.shape[0] == 1:
        given = given.reshape(given.shape[1:])
    if given.shape == shape:
        return given
    try:
        return call_op("broadcast_to", given, shape)
    except ValueError:
        raise ValueError(text.format(_tight(given.shape), _tight(shape))) from None


def _host_value(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A value from outside in its target's dtype, with NumPy's errors for what does not fit."""
    if type(value) is float and dtype.kind == "f":
        return quietly(np.array, value, dtype)  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray | np.generic):
        as_dtype(value.dtype)
    target = np.empty(np.shape(value), dtype)
    quietly(operator.setitem, target, ..., value)
    return target


def _check_writable(tensor: Tensor, view: View) -> None:
    if tensor._frozen or view.is_broadcast:
        raise ValueError("assignment destination is read-only")


def write(tensor: Tensor, view: View, value: Any) -> None:
    """Write through a view of the tensor's cell: the cell then shows the next version."""
    _check_writable(tensor, view)
    session = tensor._session
    with session.guard():
        if _is_tensor(value) and value._cell is tensor._cell:
            if value._whole() == view:
                return
            if _may_meet(value._whole(), view):
                value = copied(value)
        if _is_tensor(value):
            fitted = _fitted(
                tensor.dtype,
                value,
                view.shape,
                "could not broadcast input array from shape {} into shape {}",
            )
        else:
            fitted = _host_value(value, tensor.dtype)
            _check_fits(fitted.shape, view.shape)
            if fitted.ndim > len(view.shape):  # axes of length 1 in front
                fitted = fitted.reshape(fitted.shape[fitted.ndim - len(view.shape) :])
        if 0 in view.shape:
            return
        settle(tensor, view.shape, fitted)
        if _write_small(tensor, view, fitted):
            return
        _write_large(tensor, view, fitted)


def _check_item(dtype: np.dtype[Any], given: tuple[int, ...]) -> None:
    """An element takes a number, not an array, however short: NumPy's errors, kind by kind."""
    if dtype.kind == "c":
        raise TypeError(
            "only 0-dimensional arrays can be converted to Python scalars: an element is set to "
            f"a value of shape {_tight(given)}"
        )
    if dtype.kind != "b" or prod(given) != 1:
        raise ValueError(
            f"setting an array element with a sequence: the value has shape {_tight(given)}"
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
            f"could not broadcast input array from shape {_tight(given)} "
            f"into shape {_tight(wanted)}"
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


LIGHT = 32
"""Waiting calls up to which a value may be computed for the sake of a small write."""


def settle(tensor: Tensor, shape: tuple[int, ...], value: Any) -> None:
    """Compute a tensor that waits before a small part of it is changed.

    A program that writes rows or elements goes on writing them; once the tensor lies in the one
    memory that NumPy can reach, each write costs what NumPy's does, and no plan. A value that is
    still much work is left to wait, and the write with it.
    """
    version = tensor._version
    if version.node is None or not 0 < prod(shape) <= config.small_elements:
        return
    if masked.is_selection(version):
        return
    session = tensor._session
    if not session.engine.mesh.is_one_memory:
        return
    waiting = [version]
    if _is_tensor(value) and value._version.node is not None:
        if not _is_light(value._version, version):
            return
        waiting.append(value._version)
    evaluate(session, waiting)


READ_OFTEN = 8
"""Calls that wait to read parts of a tensor, from which it is computed for the next."""


def was_read_often(session: Session, args: tuple[Any, ...]) -> bool:
    """Whether small parts of tensors that wait are read in a loop: then these are computed now.

    Each further read costs what NumPy's does, and no plan. What is large may never be needed whole.
    """
    waiting = []
    for x in args:
        if _is_tensor(x) and x._owner is None and x._version.node is not None:
            version = x._version
            if version.readers < READ_OFTEN or version.session is not session:
                return False
            if not x.size <= config.small_elements < prod(version.shape) <= LITTLE:
                return False
            waiting.append(version)
    if not waiting or session.closed or not session.engine.mesh.is_one_memory:
        return False
    evaluate(session, waiting)
    return True


def _is_light(version: Version, base: Version) -> bool:
    """Whether what a version waits for, beside a base, is a few small calls."""
    seen: set[int] = set()
    stack = [version]
    while stack:
        node = stack.pop().node
        if node is None or node.seq in seen:
            continue
        seen.add(node.seq)
        work = max(prod(node.call.form.sizes), *(spec.n_elements for spec in node.call.outs))
        if len(seen) > LIGHT or work > config.small_elements:
            return False
        stack += [v for v in node.inputs if type(v) is Version and v is not base]
    return True


def _write_small(tensor: Tensor, view: View, value: Any) -> bool:
    """At once on a host value, in place if nothing waits to read it."""
    version = tensor._version
    n = prod(view.shape)
    if version.host is None:
        return False
    if n > config.small_elements and not is_hasty(tensor._session, n):
        return False
    if _is_tensor(value):
        if value._version.host is None:
            return False
        value = host_view(value._ref())
    if version.readers or version.exported or not version.host.flags.writeable:
        if version.table is not None:
            return False
        version = stored(tensor._session, np.array(version.host))
        tensor._cell.show(version)
    target = host_view(Ref(version, view, tensor.dtype))
    with np.errstate(all="ignore"):
        target[...] = value
    return True


def _write_large(tensor: Tensor, view: View, value: Any) -> None:
    session = tensor._session
    site = user_site()
    base = tensor._version
    if _is_tensor(value) and value._session is not session:
        value = call_op("asarray", value.numpy())
    if view.is_whole:
        tensor._cell.show(_whole_value(session, value, view.shape))
        return
    if structure(view) is None:
        _write_by_flat_index(tensor, view, value)
        return
    if not _is_tensor(value) and value.ndim == 0:
        operand: Any = value[()]
    else:
        given = value if _is_tensor(value) else call_op("asarray", value)
        operand = call_op("broadcast_to", given, view.shape)._ref()
        if operand.view is not None and structure(operand.view) is None:
            operand = copied(call_op("broadcast_to", given, view.shape))._ref()
    tensor._cell.show(record_write(session, base, view, operand, site))


def _whole_value(session: Session, value: Any, shape: tuple[int, ...]) -> Version:
    if not _is_tensor(value):
        if value.ndim == 0:
            return call_op("full", shape, value[()], dtype=value.dtype)._version  # type: ignore[no-any-return]
        value = call_op("asarray", value)
    return copied(call_op("broadcast_to", value, shape))._version


def _write_by_flat_index(tensor: Tensor, view: View, value: Any) -> None:
    """A view that is no box (a diagonal, say): written by the index of each element."""
    steps = np.ix_(*(np.arange(n) for n in view.shape)) if view.shape else ()
    flat = sum((i * s for i, s in zip(steps, view.strides, strict=True)), np.asarray(view.offset))
    index = np.unravel_index(np.broadcast_to(flat, view.shape), view.base_shape)
    from infinitensor.api.tensor import tensor_of

    whole = tensor_of(tensor._cell, None, tensor._version.dtype)
    if view.part:
        current = whole[tuple(index)]
        current = copied(current)
        seen = current.real if view.part == "real" else current.imag
        seen[...] = value
        value = current
    put(whole, tuple(index), value)


def replace(tensor: Tensor, value: Tensor) -> None:
    """Every element of a tensor (a view or not) from another of its shape."""
    write(tensor, tensor._whole(), value)


@guarded
def in_place(tensor: Tensor, name: str, other: Any) -> Tensor:
    """`x op= y`, with NumPy's casting rule and errors."""
    if tensor._is_value:  # a scalar in NumPy: `x[0] += 1.5` computes, then writes and casts
        return call_op(name, tensor, other)  # type: ignore[no-any-return]
    _check_writable_operand(tensor)
    settle(tensor, tensor.shape, other)
    if tensor.size <= config.small_elements and not is_for_company(
        tensor._version, tensor._session.engine.mesh.n_concurrent
    ):
        settle(tensor, tensor.shape, None)  # where the other is still much work
    if not (_is_tensor(other) or isinstance(other, bool | int | float | complex)):
        other = np.asarray(other)
    if name == "matmul":
        result = call_op(name, tensor, other)
        _check_cast("add", tensor.dtype, result.dtype)
    else:
        if hasattr(other, "dtype"):
            _check_cast(name, tensor.dtype, other.dtype)
        else:
            _try(name, tensor.dtype, other)
        result = call_op(name, tensor, other)
    if result.shape != tensor.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {_tight(tensor.shape)} doesn't match the "
            f"broadcast shape {_tight(result.shape)}"
        )
    if _may_become(tensor, result):
        tensor._cell.show(result._version)
    else:
        write(tensor, tensor._whole(), result)
    return tensor


def _may_become(tensor: Tensor, result: Tensor) -> bool:
    """Whether a tensor can show what was just computed for it, which nobody else has, as it is.

    So it is part of one pass with what it is computed from and what is computed from it.
    """
    return (
        tensor.size > config.small_elements
        and result.dtype == tensor.dtype
        and result._version.node is not None
        and result._view is None
        and result._session is tensor._session
        and not tensor._frozen
        and tensor._whole().is_whole
    )


@functools.cache
def _check_cast(name: str, target: np.dtype[Any], given: np.dtype[Any]) -> None:
    """NumPy's error if `x op= y` cannot be cast back; what is cached is that there is none."""
    _try(name, target, np.empty(0, given))


def _try(name: str, target: np.dtype[Any], other: Any) -> None:
    ghost = np.empty(0, target)
    with np.errstate(all="ignore"):
        getattr(np, name)(ghost, other, out=ghost)


def _check_writable_operand(tensor: Tensor) -> None:
    if tensor._frozen:
        raise ValueError("output array is read-only")


class Flat:
    """`x.flat`: the elements in C order."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __len__(self) -> int:
        return self._tensor.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tensor.ravel())

    def __getitem__(self, index: Any) -> Tensor:
        return copied(self._tensor.ravel()[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        tensor = self._tensor
        if tensor._frozen:
            raise ValueError("underlying array is read-only")
        given = value.numpy() if _is_tensor(value) else value
        single = isinstance(index, int | np.integer)
        if isinstance(given, np.generic) and not single:
            given = np.asarray(given)
        try:
            given = _host_value(given, tensor.dtype)
        except (TypeError, OverflowError) as error:
            if not single:
                raise
            raise ValueError("Error setting single item of array.") from error
        view = views.reshaped(tensor._whole(), (tensor.size,))
        flat = tensor._seen_as(view) if view is not None else copied(tensor).reshape(-1)
        where = np.arange(tensor.size)[index]
        if given.ndim and where.ndim:
            # fewer values than places repeat, as NumPy's flat does
            given = np.resize(given.reshape(-1), where.shape)
        elif given.size == 1:
            given = given.reshape(())
        flat[index] = given
        if view is None:
            replace(tensor, flat.reshape(tensor.shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._tensor.ravel().__array__(dtype, copy)


# --- drawing ----------------------------------------------------------------------------------

_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")


def drawn(tensor: Tensor, text: str) -> str:
    """The corner of the values, and the layout: one rectangle a tile, one colour a device."""
    layout = tensor.layout
    head = f"Tensor {tensor.shape} {tensor.dtype}"
    if layout is None or layout.n_tiles > 4096:
        state = "waiting" if tensor._version.is_waiting else str(layout or "on the host")
        return f"<div><b>{head}</b>, {state}<pre>{text}</pre></div>"
    shape = tensor._version.shape
    rows = shape[0] if len(shape) > 1 else 1
    columns = shape[-1] if shape else 1
    boxes = []
    for index in range(layout.n_tiles):
        box = layout.tile(index)
        ylo, yhi = box[0] if len(box) > 1 else (0, 1)
        xlo, xhi = box[-1] if box else (0, 1)
        x, y = 240 * xlo / max(columns, 1), 120 * ylo / max(rows, 1)
        w, h = 240 * (xhi - xlo) / max(columns, 1), 120 * (yhi - ylo) / max(rows, 1)
        colour = _COLOURS[layout.owner(index) % len(_COLOURS)]
        boxes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
            f'fill="{colour}" stroke="white"/>'
        )
    svg = f'<svg width="240" height="120" role="img">{"".join(boxes)}</svg>'
    return f"<div><b>{head}</b>, {layout}<br>{svg}<pre>{text}</pre></div>"
