"""Reading and writing small parts of host values through indices, by NumPy, at once.

What `tensor[index]` and `tensor[index] = value` do under the same version rules as everywhere.
Every function here answers None (or False) where the machinery has to do it
(`api/access/getitem.py`, `api/access/setitem.py`). The shortest ways are C before these
(`small_items.h`).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access.scalars import as_value
from infinitensor.api.eager import numpy_loops
from infinitensor.api.eager.changing_places import MEDIUM, has_changing_shapes
from infinitensor.api.eager.moved import move
from infinitensor.api.record.late import late
from infinitensor.api.small import small_calls
from infinitensor.api.small.errstate import SILENT, quietly, restore, silence
from infinitensor.api.small.host_values import (
    NUMBERS,
    UNKNOWN,
    near,
    own,
    small_tensor,
    tensors,
    values_of,
    writeable,
)
from infinitensor.config import config
from infinitensor.ir.op import Spec
from infinitensor.ops.move import moved_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.cell import AnyTensor, BaseTensor, Cell
    from infinitensor.api.session.session import Session

_ITEMS = frozenset((int, slice, type(None), type(Ellipsis), np.int64, np.int32))
"""The types of an index that makes views."""
_INTEGERS = frozenset((int, np.int64, np.int32))
_MISSING = object()
FEW_CHOSEN = 256
"""Entries of a mask below which NumPy's way of choosing is as good."""
_ndarray = np.ndarray
_new = object.__new__


# --- kinds of indices -------------------------------------------------------------------------


def _is_plain(index: Any) -> bool:
    """Whether an index is made of integers and slices (an ellipsis and None too)."""
    kind = type(index)
    return kind in _ITEMS or (kind is tuple and _ITEMS.issuperset(map(type, index)))


def _with_integers(index: Any) -> Any:
    """An index with integers where it has tensors that are one each; `_MISSING` for any other.

    NumPy has scalars there, which make views as integers do.
    """
    items = index if type(index) is tuple else (index,)
    plain = tuple([_integer(x) if type(x) is tensors[0] else x for x in items])
    if not _ITEMS.issuperset(map(type, plain)):
        return _MISSING
    return plain if type(index) is tuple else plain[0]


def _integer(tensor: BaseTensor) -> Any:
    is_one = tensor._owner is not None and isinstance(tensor._seen, np.integer)
    return int(tensor._seen) if is_one else tensor


def is_element(index: Any, ndim: int) -> bool:
    """Whether an index is one integer for every axis."""
    if type(index) in _INTEGERS:
        return ndim == 1
    return type(index) is tuple and len(index) == ndim and _INTEGERS.issuperset(map(type, index))


def numpy_index(shape: tuple[int, ...], index: Any, session: Session | None = None) -> Any:
    """An index with arrays in it as NumPy's, if what it selects is small; None for any other.

    Where a session is given, also what is not small, at a place whose shapes change.
    """
    if type(index) is tensors[0] and len(shape) == 1:
        item = values_of(index)
        is_short = type(item) is _ndarray and 0 < item.size <= config.small_elements
        if is_short and item.dtype.kind in "iu":
            return item
    items = index if type(index) is tuple else (index,)
    plain = []
    n_arrays = n_most = 0
    for given in items:
        item = given
        if type(given) is tensors[0]:
            item = values_of(given)
            if item is None:
                return None
            n_most = max(n_most, item.size)
            if type(item) is not _ndarray:
                item = np.array(item)
        elif type(item) is list:
            try:
                item = np.array(item)
            except ValueError:  # lists of several lengths, or of tensors: ours has the better words
                return None
        elif type(item) is not _ndarray and type(item) not in _ITEMS:
            return None
        if type(item) is _ndarray:
            n_arrays += 1
            if item.dtype.kind not in "iub" or not (item.size or type(given) is tensors[0]):
                return None
        elif item is None and n_arrays:
            return None
        plain.append(item)
    limit = config.small_elements
    if prod(shape) > limit:
        n_most = max(n_most, _count_selected(shape, plain))
    if n_most > limit and (session is None or not has_changing_shapes(session, n_most)):
        return None
    return plain[0] if len(plain) == 1 else tuple(plain)


def _count_selected(shape: tuple[int, ...], items: list[Any]) -> int:
    """At most so many values are selected by integers, slices and arrays of integers or a mask."""
    if any(item is None or item is Ellipsis for item in items):
        return prod(shape)
    n, axis = 1, 0
    rest = 1
    for item in items:
        if type(item) is _ndarray:
            is_mask = item.dtype.kind == "b"
            n = max(n, int(np.count_nonzero(item)) if is_mask else item.size)
            axis += item.ndim if is_mask else 1
        else:
            rest *= prod(shape[axis : axis + 1]) if type(item) is slice else 1
            axis += 1
    return n * rest * prod(shape[axis:])


def _over(values: np.ndarray, index: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """(mask, view) such that `values[index]` is `view[mask]`, for a mask and integers behind it.

    None for any other index, and for few entries.
    """
    mask, view = index, values
    if type(index) is tuple:
        mask, rest = index[0], index[1:]
        if type(mask) is not _ndarray or not _INTEGERS.issuperset(map(type, rest)):
            return None
        view = values[(slice(None),) * mask.ndim + rest]
    if type(mask) is not _ndarray or mask.dtype.kind != "b" or mask.size < FEW_CHOSEN:
        return None
    return (mask, view) if mask.shape == view.shape[: mask.ndim] else None


# --- reading ----------------------------------------------------------------------------------


def get_item(tensor: AnyTensor, index: Any) -> AnyTensor | None:
    """`tensor[index]` for integers and slices: a view, or a value (an integer for every axis)."""
    limit = config.small_elements
    if not limit or tensor._is_value:
        return None
    plain = index if type(index) is int or _is_plain(index) else _with_integers(index)
    if plain is _MISSING:
        return gather_items(tensor, index)
    values = values_of(tensor)
    if values is None:
        return _element(tensor, plain)
    found = values[plain]
    if type(found) is not _ndarray:
        session = tensor._owner or tensor._cell.session
        session.ways["read"] += 1
        return own(session, found)  # type: ignore[no-any-return]
    cell = tensor._cell
    version = cell.version
    if not 0 < found.size <= limit or found.dtype is not version.dtype:
        return None  # strides of nothing mean nothing, those of a real part are not elements'
    view = _view(tensor, cell, found)
    if plain is index and tensor._lazy_view is None:
        view._index = index
    return view


def _view(tensor: AnyTensor, cell: Cell, found: np.ndarray) -> AnyTensor:
    view: AnyTensor = _new(tensors[0])
    view._owner = view._index = None
    view._cell = cell
    view._seen = found
    view._seen_of = cell.version.host
    view._shape = found.shape
    view._dtype = found.dtype
    view._frozen = tensor._frozen
    view._is_value = False
    view._lent = ()
    view._lazy_view = UNKNOWN
    return view


def viewed(tensor: AnyTensor, change: Callable[..., Any], *args: Any) -> AnyTensor | None:
    """A small tensor with other strides: a transpose, or a reshape without a copy."""
    quick: AnyTensor | None = small_calls.viewed(tensor, change, *args)
    if quick is not None:
        return quick
    values = None if tensor._is_value else near(tensor)
    if values is None or not values.size or values.dtype is not tensor._cell.version.dtype:
        return None
    try:
        found = change(values, *args)
    except Exception:  # ours has the better words, or a copy
        return None
    return _view(tensor, tensor._cell, found)


def gather_items(tensor: AnyTensor, index: Any) -> AnyTensor | None:
    """`tensor[index]` for arrays of integers or a mask: the few values they select."""
    values = values_of(tensor)
    if values is None or type(values) is not _ndarray or not values.ndim:
        return None
    try:
        plain = numpy_index(values.shape, index)
        if plain is None:
            return _move_rows(tensor, values, index)  # type: ignore[no-any-return]
        found = _choose(values, plain)
    except Exception:  # ours has the better words
        return None
    if type(found) is not _ndarray:
        return None
    session = tensor._owner or tensor._cell.session
    session.ways["read"] += 1
    return small_tensor(session, found)  # type: ignore[no-any-return]


def _move_rows(tensor: BaseTensor, values: np.ndarray, index: Any) -> Any:
    """`tensor[index]` of medium size for a tensor of indices, at once; None: wait."""
    session = tensor._owner or tensor._cell.session
    rows = _indices(index, session)
    if rows is None:
        return None
    made = Spec((*rows.shape, *values.shape[1:]), values.dtype)
    version = move(session, made, "_take", lambda out: moved_rows.take(values, rows, 0, out))
    return None if version is None else late.fresh(session, version)


def _indices(index: Any, session: Session) -> np.ndarray | None:
    """The values of a tensor of integers on the host of a session; None for any other index."""
    if type(index) is not tensors[0] or (index._owner or index._cell.session) is not session:
        return None
    found = values_of(index)
    return found if type(found) is _ndarray and found.dtype == np.int64 else None


def _choose(values: np.ndarray, index: Any) -> Any:
    """`values[index]` for an index with arrays; our loop for masks is several times NumPy's."""
    over = _over(values, index)
    if over is not None:
        mask, view = over
        n = numpy_loops.count(mask)
        if n >= 0:
            found = np.empty((n, *view.shape[mask.ndim :]), view.dtype)
            if numpy_loops.choose(mask, view, found):
                return found
    return values[index]


def _element(tensor: AnyTensor, index: Any) -> AnyTensor | None:
    """One element of a stored tensor that is one tile on another device of this memory."""
    version = tensor._cell.version
    table = version.table
    if table is None or table.in_reach is None or tensor._lazy_view is not None:
        return None
    session = tensor._cell.session
    if session.closed or not is_element(index, len(tensor._shape)):
        return None
    session.ways["read"] += 1
    made: AnyTensor = small_tensor(session, np.array(table.in_reach[index]))
    return as_value(made)


# --- writing ----------------------------------------------------------------------------------


def was_put(tensor: BaseTensor, index: Any, value: Any) -> bool:
    """`tensor[index] = value` in place, if nothing else has or waits for the old values."""
    limit = config.small_elements
    if not limit:
        return False
    plain = index if type(index) is int or _is_plain(index) else _with_integers(index)
    if type(value) is tensors[0]:
        if (
            value._index is index is not None
            and tensor._lazy_view is None
            and value._owner is None
            and value._cell is tensor._cell
        ):
            return not tensor._frozen  # `x[i] += 1` has changed the view `x[i]` already
        is_value = value._is_value
        value = values_of(value)
        if value is None:
            return False
        if is_value:
            value = value[()]  # as a scalar it must fit
    elif type(value) not in NUMBERS:
        return False
    values = writeable(tensor)
    if values is None:
        return False
    if plain is _MISSING:
        return _put_at(tensor, values, index, value)
    if values.size > limit:
        target = values[plain]
        if type(target) is _ndarray:
            if target.size > limit and not has_changing_shapes(tensor._cell.session, target.size):
                return False
            values, plain = target, ...
    token = silence(SILENT)
    try:
        if plain is not ... or not _was_copied(values, value):
            values[plain] = value
    finally:
        restore(token)
    (tensor._owner or tensor._cell.session).ways["write"] += 1
    return True


def _was_copied(target: np.ndarray, value: Any) -> bool:
    """Whether all cores copied it."""
    return target.size >= numpy_loops.LEAST_SHARED_ELEMENTS and numpy_loops.into(
        None, target, value
    )


def _put_at(tensor: BaseTensor, values: np.ndarray, index: Any, value: Any) -> bool:
    """The same for arrays of integers or a mask."""
    if not values.ndim:
        return False
    session = tensor._owner or tensor._cell.session
    try:
        plain = numpy_index(values.shape, index, session)
        if plain is None:
            return False
        quietly(_deal, values, plain, value)
    except Exception:  # ours has the better words; NumPy looks at indices and shapes first
        return False
    session.ways["write"] += 1
    return True


def was_changed_at(tensor: BaseTensor, index: Any, value: Any, like: np.ufunc) -> bool:
    """`like.at(tensor, index, value)` in place, likewise; without a value for ufuncs of one."""
    given = values_of(value) if type(value) is tensors[0] else value
    if given is None:
        if value is not None:
            return False
    elif type(given) is not _ndarray and type(given) not in NUMBERS:
        return False
    values = writeable(tensor) if config.small_elements else None
    if values is None or not values.ndim:
        return False
    session = tensor._owner or tensor._cell.session
    if like is np.add and _were_added(values, _indices(index, session), given):
        session.ways["in_place"] += 1
        return True
    try:
        plain = numpy_index(values.shape, index, session)
        if plain is None:
            return False
        if given is None:
            quietly(like.at, values, plain)
        else:
            quietly(like.at, values, plain, _as_loop_takes(like, values.dtype, given))
    except Exception:  # likewise: NumPy looks at dtypes, too, before it changes anything
        return False
    session.ways["in_place"] += 1
    return True


def _were_added(values: np.ndarray, rows: np.ndarray | None, given: Any) -> bool:
    """Whether rows of medium size at most were added, by our loop: NumPy takes each element."""
    if rows is None or type(given) is not _ndarray or given.size > MEDIUM:
        return False
    return moved_rows.add_at(values, rows, given)


def _as_loop_takes(like: np.ufunc, dtype: np.dtype[Any], given: Any) -> Any:
    """A value as the loop of a target's dtype takes it: while it casts, NumPy is far slower."""
    value = given if type(given) is _ndarray else np.array(given)
    if value.dtype is dtype:
        return value
    _, taken, made = like.resolve_dtypes((dtype, value.dtype, None))
    return value.astype(taken) if made is dtype else value


def _apart(values: np.ndarray, given: Any) -> Any:
    """A copy of what shares memory with the target: by a mask NumPy reads what it has written."""
    if type(given) is _ndarray and np.may_share_memory(values, given):
        return given.copy()
    return given


def _deal(values: np.ndarray, index: Any, value: Any) -> None:
    """`values[index] = value` for an index with arrays; our loop for masks likewise."""
    index = (
        tuple(_apart(values, i) for i in index) if type(index) is tuple else _apart(values, index)
    )
    value = _apart(values, value)
    dtype, given = values.dtype, value
    if type(value) is float and dtype.kind in "fc":
        given = np.array(value, dtype)
    if type(given) is _ndarray and given.dtype is dtype:
        over = _over(values, index)
        if over is not None and numpy_loops.put(*over, given):
            return
    values[index] = value
