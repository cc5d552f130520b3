"""Values of tensors on the host: they can be used at once, small ones by NumPy itself.

A tensor remembers the NumPy array that it shows, so a slice is NumPy's slice and an operator is
NumPy's operator; what a lazy reader would need (the view's strides) is worked out when one comes. A
tensor that an operator made has nothing but its values (it is *its own*): its cell and version are
made when somebody asks for them. Calls on such values are in `api/small/small_calls.py`, indices in
`api/access/small_items.py`; the same in C is `host_values.h`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.record.record import host_view
from infinitensor.api.session.cell import Cell
from infinitensor.api.session.version import Version
from infinitensor.config import config
from infinitensor.dtypes import NUMPYS, bfloat16
from infinitensor.ir.view import View
from infinitensor.native import address

if TYPE_CHECKING:
    from infinitensor.api.session.cell import BaseTensor
    from infinitensor.api.session.session import Session

NUMBERS = frozenset((int, float, complex, bool, *(dtype.type for dtype in NUMPYS)))
"""The types of numbers that stand beside tensors in calls at once."""
UNKNOWN = View((), (), -1, ())
"""Stands for a view that nobody has asked for yet."""
tensors: list[Any] = []
"""The class Tensor, once it is there."""
_ndarray = np.ndarray
_new = object.__new__


def values_of(tensor: BaseTensor) -> Any:
    """The values of a tensor, of any size: a NumPy array, or a scalar of NumPy's.

    None if it waits or is stored elsewhere, and for bfloat16, whose promotion is not NumPy's.
    """
    if tensor._owner is not None:
        return tensor._seen
    version = tensor._cell.version
    host = version.host
    if host is None:
        return None
    if tensor._seen_of is host:
        return tensor._seen
    if version.dtype is bfloat16:
        return None
    if tensor._lazy_view is None:
        return host
    found = host_view(tensor._ref())
    tensor._seen, tensor._seen_of = found, host
    return found


def near(tensor: BaseTensor) -> np.ndarray | None:
    """The NumPy array that a small tensor on the host shows."""
    found = values_of(tensor)
    if found is None or found.size > config.small_elements:
        return None
    return found if type(found) is _ndarray else np.array(found)


def kernel_input(tensor: BaseTensor) -> np.ndarray | None:
    """The same for our own kernels: bfloat16 too."""
    if tensor._dtype is not bfloat16:
        return near(tensor)
    is_here = tensor._cell.version.host is not None and tensor.size <= config.small_elements
    return host_view(tensor._ref()) if is_here else None


def host_values(tensor: BaseTensor) -> np.ndarray:
    """The NumPy array, of any size, that a tensor whose version is on the host shows."""
    found = values_of(tensor) if tensor._dtype is not bfloat16 else host_view(tensor._ref())
    return found if type(found) is _ndarray else np.array(found)


def own(session: Session, values: Any) -> Any:
    """A tensor of a small NumPy array in C order that nobody else has, or of a scalar."""
    made: BaseTensor = _new(tensors[0])
    made._owner = session
    made._seen = values
    made._seen_of = None
    made._shape = values.shape
    made._dtype = values.dtype
    made._frozen = False
    made._is_value = type(values) is not _ndarray
    made._lent = ()
    made._lazy_view = made._index = None
    return made


def small_tensor(session: Session, values: Any) -> Any:
    """A tensor of a small NumPy array that nobody else has, or of a scalar."""
    if values.ndim and not values.flags.c_contiguous:
        values = np.ascontiguousarray(values)
    made = own(session, values)
    if values.dtype.kind == "V":  # bfloat16: as `values_of` says
        settle_cell(made)
        made._seen = made._seen_of = None
    return made


def settle_cell(tensor: BaseTensor) -> Cell:
    """The cell of a tensor that had only its values."""
    session = tensor._owner
    if session is None:  # another thread was here first
        return tensor._cell
    with session.lock:
        if tensor._owner is not None:
            values = tensor._seen
            if type(values) is not _ndarray:
                values = np.array(values)
            version = Version(session, values.shape, values.dtype)
            version.host = values
            tensor._cell = Cell(session, version)
            tensor._seen = values  # stays, for threads that have just seen an owner
            tensor._owner = None
    return tensor._cell


def view_of(tensor: BaseTensor) -> View | None:
    """The view that the array of a tensor is of its base, as strides over the base in C order."""
    seen, base = tensor._seen, tensor._seen_of
    assert seen is not None
    assert base is not None
    offset = 0 if 0 in seen.shape else address(seen) - address(base)
    return _view_at(base.shape, seen.shape, offset, seen.strides, seen.itemsize)


@lru_cache(4096)
def _view_at(
    base_shape: tuple[int, ...],
    shape: tuple[int, ...],
    offset: int,
    steps: tuple[int, ...],
    size: int,
) -> View | None:
    """A view from so many bytes on, with steps in bytes: one object for all that are alike."""
    strides = tuple(step // size for step in steps)
    view = View(base_shape, shape, offset // size, strides)
    return None if view.is_whole else view


def writeable(tensor: BaseTensor) -> np.ndarray | None:
    """The values of a tensor, if they may be changed where they are: nobody has the old ones."""
    if tensor._frozen or tensor._is_value:
        return None
    if tensor._owner is not None:
        return tensor._seen  # type: ignore[no-any-return]
    version = tensor._cell.version
    if version.readers or version.exported or (version.table is not None and version.live != 1):
        return None
    values = values_of(tensor)
    return values if values is not None and values.flags.writeable else None
