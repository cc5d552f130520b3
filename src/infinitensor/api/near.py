"""Small tensors on the host: NumPy itself works on them, at once, under the same version rules.

A tensor remembers the NumPy array that it shows, so a slice is NumPy's slice and an operator is
NumPy's ufunc; what a lazy reader would need (the view's strides) is worked out when one comes. A
tensor that an operator made has nothing but its array (it is *its own*): its cell and version are
made when somebody asks for them. Every function here answers None where the machinery has to do it.
"""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.record import host_view
from infinitensor.api.version import Cell, Version
from infinitensor.config import config
from infinitensor.dtypes import NUMPYS, bfloat16
from infinitensor.ir.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session import Session
    from infinitensor.api.tensor import Tensor

try:  # what np.errstate sets, at an eighth of its cost
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _SILENT: Any = _make_extobj(all="ignore")
    _silence: Callable[[Any], Any] = _extobj_contextvar.set
    _restore: Callable[[Any], Any] = _extobj_contextvar.reset
except ImportError:
    _SILENT = {"all": "ignore"}
    _silence = lambda how: np.seterr(**how)  # noqa: E731
    _restore = lambda how: np.seterr(**how)  # noqa: E731


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """The function without floating-point warnings: lazy calls could give none either."""
    token = _silence(_SILENT)
    try:
        return function(*args)
    finally:
        _restore(token)


_NUMBERS = frozenset((int, float, complex, bool, *(dtype.type for dtype in NUMPYS)))
UNKNOWN = View((), (), -1, ())
"""Stands for a view that nobody has asked for yet."""
_tensors: list[Any] = []
"""The class Tensor, once it is there."""


def near(tensor: Tensor) -> np.ndarray | None:
    """The NumPy array that a small tensor on the host shows.

    None for bfloat16, whose promotion is not NumPy's.
    """
    if not config.small_elements:
        return None
    if tensor._owner is not None:
        return tensor._seen
    version = tensor._cell.version
    if tensor._seen_of is version:
        return tensor._seen
    if version.host is None or version.node is not None:
        return None
    if prod(tensor._shape) > config.small_elements or version.dtype == bfloat16:
        return None
    seen = host_view(tensor._ref())
    tensor._seen, tensor._seen_of = seen, version
    return seen


def at_hand(session: Session, values: np.ndarray) -> Tensor:
    """A tensor of a small NumPy array that nobody else has."""
    if not values.flags.c_contiguous:
        values = np.ascontiguousarray(values).reshape(values.shape)
    made: Tensor = object.__new__(_tensors[0])
    made._owner = session
    made._seen = values
    made._seen_of = None
    made._shape = values.shape
    made._dtype = values.dtype
    made._frozen = made._is_value = False
    made._lent = ()
    made._lazy_view = None
    if values.dtype.kind == "V":  # bfloat16: as `near` says
        settle(made)
        made._seen = made._seen_of = None
    return made


def settle(tensor: Tensor) -> Cell:
    """The cell of a tensor that had only its array."""
    session, values = tensor._owner, tensor._seen
    assert session is not None
    assert values is not None
    with session.lock:
        if tensor._owner is not None:
            version = Version(session, values.shape, values.dtype)
            version.host = values
            tensor._cell = Cell(session, version)
            tensor._seen_of = version
            tensor._owner = None
    return tensor._cell


def view_of(tensor: Tensor) -> View | None:
    """The view that the array of a tensor is of its base, as strides over the base in C order."""
    seen, version = tensor._seen, tensor._seen_of
    assert seen is not None
    assert version is not None
    base = seen.base if version.host is None else version.host  # tiles may be used up by now
    assert base is not None
    width = seen.itemsize
    offset = seen.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    if 0 in seen.shape:
        offset = 0
    strides = tuple(stride // width for stride in seen.strides)
    view = View(version.shape, seen.shape, offset // width, strides)
    return None if view.is_whole else view


def applied(like: np.ufunc, args: tuple[Any, ...]) -> Tensor | None:
    """A ufunc of small tensors and scalars, by NumPy."""
    given = []
    session = None
    shape = None
    for x in args:
        kind = type(x)
        if kind is _tensors[0]:
            home = x._owner
            if home is not None:
                values = x._seen
            else:
                cell = x._cell
                version = cell.version
                if version.host is None:
                    return None
                values = x._seen if x._seen_of is version else near(x)
                if values is None:
                    return None
                home = cell.session
            if session is None:
                session, shape = home, values.shape
            elif session is not home or (values.shape != shape and _too_large(values.shape, shape)):
                return None
            given.append(values)
        elif kind in _NUMBERS:
            given.append(x)
        else:
            return None
    if session is None or not config.small_elements:
        return None
    session.counts["small_calls"] += 1
    token = _silence(_SILENT)
    try:
        made = like(*given)
    finally:
        _restore(token)
    return at_hand(session, made if type(made) is np.ndarray else np.asarray(made))


def _too_large(a: tuple[int, ...], b: Any) -> bool:
    """Whether two shapes broadcast to more than is small; those that do not are NumPy's error."""
    try:
        return prod(np.broadcast_shapes(a, b)) > config.small_elements
    except ValueError:
        return False


def _is_plain(index: Any) -> bool:
    """Whether an index is made of integers and slices (an ellipsis and None too)."""
    kind = type(index)
    if kind is int or kind is slice:
        return True
    if kind is tuple:
        return all(
            type(item) is int or type(item) is slice or item is None or item is Ellipsis
            for item in index
        )
    return False


def got(tensor: Tensor, index: Any) -> Tensor | None:
    """`tensor[index]` for integers and slices: a view, or a value (an integer for every axis)."""
    seen = near(tensor)
    if seen is None:
        return _part(tensor, index)
    if not _is_plain(index):
        return None
    found = seen[index]
    if not isinstance(found, np.ndarray):
        return _value(tensor._owner or tensor._cell.session, found)
    return _view(tensor, found)


def _view(tensor: Tensor, found: np.ndarray) -> Tensor | None:
    cell = tensor._cell
    if not found.size or tensor._dtype != cell.version.dtype:
        return None  # strides of nothing mean nothing, those of a real part are not elements'
    view: Tensor = object.__new__(_tensors[0])
    view._owner = None
    view._cell = cell
    view._seen = found
    view._seen_of = cell.version
    view._shape = found.shape
    view._dtype = found.dtype
    view._frozen = tensor._frozen
    view._is_value = False
    view._lent = ()
    view._lazy_view = UNKNOWN
    return view


def _value(session: Session, found: Any) -> Tensor:
    session.counts["small_calls"] += 1
    made = at_hand(session, np.array(found))
    made._is_value = True
    return made


def _part(tensor: Tensor, index: Any) -> Tensor | None:
    """One element of a stored tensor, or a small part of one, straight from its memory."""
    version = tensor._cell.version
    if (
        version.table is None
        or version.table.in_reach is None
        or tensor._lazy_view is not None
        or not config.small_elements
        or version.session.closed
    ):
        return None
    if is_element(index, len(tensor._shape)):
        return _value(version.session, version.table.in_reach[index])
    if version.host is None or version.dtype == bfloat16 or not _is_plain(index):
        return None
    found = version.host[index]
    return _view(tensor, found) if 0 < found.size <= config.small_elements else None


def is_element(index: Any, ndim: int) -> bool:
    """Whether an index is one integer for every axis."""
    if type(index) is int:
        return ndim == 1
    return type(index) is tuple and len(index) == ndim and all([type(i) is int for i in index])


def was_put(tensor: Tensor, index: Any, value: Any) -> bool:
    """`tensor[index] = value` in place, if nothing else has or waits for the old values."""
    kind = type(value)
    if tensor._owner is None:
        version = tensor._cell.version
        if version.readers or version.exported or tensor._frozen:
            return False
        if tensor._seen_of is version:
            seen = tensor._seen
        elif version.table is not None:
            seen = _reached(tensor, version, index)
        else:
            seen = near(tensor)
    elif not tensor._frozen:
        seen = tensor._seen
    else:
        return False
    if seen is None or not config.small_elements:
        return False
    if kind is _tensors[0]:
        value = near(value)
        if value is None:
            return False
    elif kind not in _NUMBERS:
        return False
    if not (type(index) is int or _is_plain(index)) or not seen.flags.writeable:
        return False
    quietly(operator.setitem, seen, index, value)
    if seen.dtype.char == "d" and tensor._owner is None and tensor._lazy_view is None:
        tensor._cell.version.opened = seen
    return True


def _reached(tensor: Tensor, version: Version, index: Any) -> np.ndarray | None:
    """The memory of a stored tensor, for a small write that nobody else sees the old of."""
    session = version.session
    if (
        tensor._lazy_view is not None
        or version.live != 1
        or session.closed
        or version.table is None
    ):
        return None
    reach = version.table.in_reach
    if is_element(index, len(tensor._shape)):
        return reach
    if version.host is None or version.dtype == bfloat16 or not _is_plain(index):
        return None
    return reach if version.host[index].size <= config.small_elements else None


def _is_ours(tensor: Tensor, seen: np.ndarray) -> bool:
    """Whether values may be changed where they are."""
    version = tensor._cell.version
    return (
        tensor._seen_of is version
        and not version.readers
        and not version.exported
        and seen.flags.writeable
    )


def was_changed(tensor: Tensor, like: np.ufunc, other: Any) -> bool:
    """`tensor op= other` in place, likewise."""
    seen = near(tensor)
    if seen is None or tensor._frozen or tensor._is_value:
        return False
    if type(other) is _tensors[0]:
        other = near(other)
        if other is None:
            return False
    elif type(other) not in _NUMBERS:
        return False
    if tensor._owner is not None:
        quietly(like, seen, other, seen)
        return True
    with tensor._cell.session.guard():
        if not _is_ours(tensor, seen):
            return False
        quietly(like, seen, other, seen)
    return True
