"""Small tensors on the host: NumPy itself works on them, at once, under the same version rules.

A tensor remembers the NumPy array that it shows, so a slice is NumPy's slice and an operator is
NumPy's operator; what a lazy reader would need (the view's strides) is worked out when one comes. A
tensor that an operator made has nothing but its values (it is *its own*): its cell and version are
made when somebody asks for them. What counts is the size of what a call touches, not that of the
base it lies in. Every function here answers None (or False) where the machinery has to do it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api import cores, tally
from infinitensor.api.compiled import compiled
from infinitensor.api.record import host_view
from infinitensor.api.unplanned import is_hasty
from infinitensor.api.version import Cell, Version
from infinitensor.config import config
from infinitensor.dtypes import NUMPYS, bfloat16
from infinitensor.ir.view import View
from infinitensor.ops import blas

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.quick import Quick
    from infinitensor.api.session import Session
    from infinitensor.api.tensor import Tensor

try:  # what np.errstate sets, at an eighth of its cost
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _variable: Any = _extobj_contextvar
    _SILENT: Any = _make_extobj(all="ignore")
    _silence: Callable[[Any], Any] = _extobj_contextvar.set
    _restore: Callable[[Any], Any] = _extobj_contextvar.reset
except ImportError:
    _variable, _SILENT = None, {"all": "ignore"}
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
_ITEMS = frozenset((int, slice, type(None), type(Ellipsis), np.int64, np.int32))
"""What an index that makes views is made of."""
_INTEGERS = frozenset((int, np.int64, np.int32))
UNKNOWN = View((), (), -1, ())
"""Stands for a view that nobody has asked for yet."""
_tensors: list[Any] = []
"""The class Tensor, once it is there."""
_ndarray = np.ndarray
_new = object.__new__


# --- what a tensor shows ----------------------------------------------------------------------


def seen(tensor: Tensor) -> Any:
    """What a tensor shows, of any size: a NumPy array, or a scalar of NumPy's.

    None if it waits or lies elsewhere, and for bfloat16, whose promotion is not NumPy's.
    """
    if tensor._owner is not None:
        return tensor._seen
    version = tensor._cell.version
    if tensor._seen_of is version:
        return tensor._seen
    host = version.host
    if host is None or version.dtype is bfloat16:
        return None
    if tensor._lazy_view is None:
        return host
    found = host_view(tensor._ref())
    tensor._seen, tensor._seen_of = found, version
    return found


def near(tensor: Tensor) -> np.ndarray | None:
    """The NumPy array that a small tensor on the host shows."""
    found = seen(tensor)
    if found is None or found.size > config.small_elements:
        return None
    return found if type(found) is _ndarray else _array(tensor, found)


def _array(tensor: Tensor, scalar: Any) -> np.ndarray:
    """The array of a tensor of its own, which had a scalar."""
    made = np.array(scalar)
    if tensor._owner is not None:
        tensor._seen = made
    return made


def _made(session: Session, values: Any) -> Tensor:
    """A tensor of a small NumPy array in C order that nobody else has, or of a scalar."""
    made: Tensor = _new(_tensors[0])
    made._owner = session
    made._seen = values
    made._seen_of = None
    made._shape = values.shape
    made._dtype = values.dtype
    made._frozen = made._is_value = False
    made._lent = ()
    made._lazy_view = made._index = None
    return made


def at_hand(session: Session, values: Any) -> Tensor:
    """A tensor of a small NumPy array that nobody else has, or of a scalar."""
    if values.ndim > 1 and not values.flags.c_contiguous:
        values = np.ascontiguousarray(values)
    made = _made(session, values)
    if values.dtype.kind == "V":  # bfloat16: as `seen` says
        settle(made)
        made._seen = made._seen_of = None
    return made


def settle(tensor: Tensor) -> Cell:
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


# --- calls ------------------------------------------------------------------------------------


def operated(like: Callable[[Any, Any], Any], a: Any, b: Any) -> Tensor | None:
    """A binary operator of a small tensor and another, or a number, by NumPy."""
    limit = config.small_elements
    session = None
    if type(a) is _tensors[0]:
        session = a._owner or a._cell.session
        a = seen(a)
        if a is None or a.size > limit:
            return None
    elif type(a) not in _NUMBERS:
        return None
    if type(b) is _tensors[0]:
        home = b._owner or b._cell.session
        b = seen(b)
        if b is None or b.size > limit:
            return None
        if session is None:
            session = home
        elif session is not home or (a.size * b.size > limit and _too_large(a.shape, b.shape)):
            return None
    elif type(b) not in _NUMBERS:
        return None
    if not limit:
        return None
    assert session is not None
    session.counts["small_calls"] += 1
    token = _silence(_SILENT)
    try:
        made = like(a, b)
    finally:
        _restore(token)
    if made.ndim > 1 and not made.flags.c_contiguous:
        made = np.ascontiguousarray(made)
    return _made(session, made)


def applied(like: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A ufunc of small tensors and scalars, by NumPy."""
    if len(args) == 2:
        return operated(like, *args)
    limit = config.small_elements
    given = []
    shapes = []
    session = None
    for x in args:
        if type(x) is _tensors[0]:
            values = seen(x)
            home = x._owner or x._cell.session
            if values is None or values.size > limit or (session or home) is not home:
                return None
            session = home
            shapes.append(values.shape)
            given.append(values)
        elif type(x) in _NUMBERS:
            given.append(x)
        else:
            return None
    if session is None or not limit or (len(shapes) > 1 and _too_large(*shapes)):
        return None
    session.counts["small_calls"] += 1
    return _handed(session, quietly(like, *given))


def _handed(session: Session, made: Any) -> Any:
    return (
        tuple(at_hand(session, m) for m in made) if type(made) is tuple else at_hand(session, made)
    )


def _too_large(*shapes: tuple[int, ...]) -> bool:
    """Whether shapes broadcast to more than is small; those that do not are NumPy's error."""
    if len({shape for shape in shapes if shape}) < 2:
        return False
    try:
        return prod(np.broadcast_shapes(*shapes)) > config.small_elements
    except ValueError:
        return False


def _product_fits(a: Any, b: Any) -> bool:
    """Whether the product of two arrays is small, and few multiplications."""
    if a.ndim < 2 or b.ndim < 2:
        return True
    size = a.size // a.shape[-1] * (b.size // b.shape[-2]) if a.shape[-1] and b.shape[-2] else 0
    return size <= config.small_elements and size * a.shape[-1] <= 16 * config.small_elements


def _outer_fits(a: Any, b: Any) -> bool:
    return bool(a.size * b.size <= config.small_elements)


def _dot_fits(a: Any, b: Any) -> bool:
    return max(a.ndim, b.ndim) <= 2 and min(a.ndim, b.ndim) > 0 and _product_fits(a, b)


ONE_CORE = 1 << 18
"""Multiplications of a product of matrices up to which NumPy's library keeps to one core."""
ONE_CORE_DOT = 10_000
"""Likewise of two vectors."""


def _product(a: Any, b: Any) -> Any:
    """A @ b as `matmul`: by our library where NumPy's would use all cores.

    Its threads go on looking for work for 20 to 30 ms, on cores that our workers need.
    """
    if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]:
        shape = (a.shape[0], b.shape[1])
        if shape[0] * shape[1] * a.shape[1] > ONE_CORE:
            out = np.empty(shape, a.dtype)
            if blas.multiply(a, b, out):
                return out
    elif a.ndim == b.ndim == 1 and a.size == b.size > ONE_CORE_DOT:
        out = np.empty((1, 1), a.dtype)
        if blas.multiply(a[None], b[:, None], out):
            return out[0, 0]
    return np.matmul(a, b)


def _dot(a: Any, b: Any) -> Any:
    """A @ b as `dot`, which is quicker than `matmul` where little is to be done."""
    return np.dot(a, b) if a.size * b.size <= ONE_CORE else _product(a, b)


def _where_fits(*given: Any) -> bool:
    return len(given) == 3 and not _too_large(*(np.shape(x) for x in given))


def _reduced(ufunc: np.ufunc) -> Callable[..., Any]:
    reduce: Any = ufunc.reduce

    def reduction(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduce(a, axis, None, None, keepdims)

    return reduction


LINE = 1 << 13
"""Elements of a line that a running sum takes one after the other; longer ones are cut."""


def _moment(like: Callable[..., Any]) -> Callable[..., Any]:
    """A mean or a variance by its plain arguments.

    Of nothing NumPy's has a warning to say, and of halves ours rounds once more.
    """

    def moment(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if not a.size or a.dtype == np.float16:
            raise ValueError("ours")
        return like(a, axis, keepdims=keepdims)

    return moment


def _norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The 2-norm of all elements by NumPy's sum, as ours is: NumPy's own has the bits of a product.

    What else there is is ours.
    """
    if ord is not None or axis is not None or keepdims or a.dtype.char not in "fd":
        raise ValueError("ours")
    flat = a.reshape(-1)
    return np.sqrt(np.add.reduce(flat * flat))


def _repeat_fits(a: Any, times: Any, *_: Any) -> bool:
    return type(times) is int and a.size * times <= config.small_elements


def _counts_fit(a: Any, *more: Any) -> bool:
    return not more and a.size > 0 and int(a.max()) < config.small_elements


NUMPYS_OWN: dict[str, tuple[Callable[..., Any], Callable[..., bool] | None]] = {
    "mean": (_moment(np.mean), None),
    "var": (_moment(np.var), None),
    "std": (_moment(np.std), None),
    "median": (_moment(np.median), None),
    "linalg.norm": (_norm, None),
    "count_nonzero": (lambda a, axis=None: np.asarray(np.count_nonzero(a, axis)), None),
    "bincount": (np.bincount, _counts_fit),
    "nonzero": (np.nonzero, None),
    "cumsum": (np.cumsum, lambda a, *_: a.size <= LINE),
    "sort": (np.sort, None),
    "argsort": (lambda a, axis=-1: np.argsort(a, axis, "stable"), None),
    "searchsorted": (np.searchsorted, None),
    "take": (np.take, None),
    "clip": (np.clip, None),
    "diff": (np.diff, None),
    "repeat": (np.repeat, _repeat_fits),
    "tile": (np.tile, _repeat_fits),
    "tril": (np.tril, None),
    "triu": (np.triu, None),
    "trace": (np.trace, None),
    "sum": (_reduced(np.add), None),
    "prod": (_reduced(np.multiply), None),
    **dict.fromkeys(("max", "amax"), (_reduced(np.maximum), None)),
    **dict.fromkeys(("min", "amin"), (_reduced(np.minimum), None)),
    "any": (_reduced(np.logical_or), None),
    "all": (_reduced(np.logical_and), None),
    "argmax": (np.argmax, None),
    "argmin": (np.argmin, None),
    "dot": (_dot, _dot_fits),
    "outer": (np.outer, _outer_fits),
    "roll": (np.roll, None),
    "where": (np.where, _where_fits),
    "zeros_like": (np.zeros_like, None),
    "ones_like": (np.ones_like, None),
    "empty_like": (np.empty_like, None),
}
"""Functions that are NumPy's own on small tensors, and which arguments have a small result.

What they are made of besides is arrays of theirs (no views), and the same bits as ours.
"""


def called(
    like: Callable[..., Any], fits: Callable[..., bool] | None, args: Any, kwargs: Any
) -> Any:
    """A function of NumPy's of small tensors, numbers and options; None where it raises, too."""
    limit = config.small_elements
    given = []
    session = None
    for x in args:
        if type(x) is _tensors[0]:
            home = x._owner or x._cell.session
            x = seen(x)
            if x is None or x.size > limit or (session or home) is not home:
                return None
            session = home
        elif type(x) not in _NUMBERS and x is not None:
            return None
        given.append(x)
    if session is None or not limit:
        return None
    for x in kwargs.values():
        if type(x) is not int and type(x) is not bool and x is not None:
            return None
    token = _silence(_SILENT)
    try:
        if fits is not None and not fits(*given):
            return None
        made = like(*given, **kwargs)
    except Exception:  # ours has the better words
        return None
    finally:
        _restore(token)
    session.counts["small_calls"] += 1
    return _handed(session, made)


_DTYPES = frozenset((None, bool, int, float, complex, *(dtype.type for dtype in NUMPYS), *NUMPYS))
CREATIONS = {name: getattr(np, name) for name in ("zeros", "ones", "empty")}
"""Functions of a shape and a dtype."""


def created(
    session: Session,
    like: Callable[..., Any],
    shape: Any,
    dtype: Any = None,
    *args: Any,
    **more: Any,
) -> Tensor | None:
    """A small new tensor of a shape."""
    if args or more:
        return None
    n = shape if type(shape) is int else prod(shape) if type(shape) is tuple else -1
    if not 0 <= n <= config.small_elements or not config.small_elements:
        return None
    try:
        if dtype not in _DTYPES:
            return None
        made = _made(session, like(shape) if dtype is None else like(shape, dtype))
    except Exception:  # ours has the better words
        return None
    session.counts["small_calls"] += 1
    return made


JOINS: dict[str, Callable[..., Any]] = {
    "concatenate": np.concatenate,
    "concat": np.concatenate,
    "stack": np.stack,
}
"""Functions of several tensors and an axis."""


def joined(like: Callable[..., Any], args: Any, kwargs: Any) -> Tensor | None:
    """Small tensors, joined along an axis."""
    limit = config.small_elements
    if not 1 <= len(args) <= 2 or type(args[0]) not in (list, tuple):
        return None
    axis = args[1] if len(args) == 2 else kwargs.get("axis", 0)
    if (
        len(args) - 1 + len(kwargs) > 1
        or (kwargs and "axis" not in kwargs)
        or type(axis) is not int
    ):
        return None
    session = None
    n = 0
    given = []
    for x in args[0]:
        if type(x) is not _tensors[0]:
            return None
        home = x._owner or x._cell.session
        values = seen(x)
        if values is None or (session or home) is not home:
            return None
        session = home
        n += values.size
        given.append(values)
    if session is None or n > limit:
        return None
    try:
        made = like(given, axis)
    except Exception:  # ours has the better words
        return None
    session.counts["small_calls"] += 1
    return at_hand(session, made)


def _range_size(*ends: Any) -> int:
    if not all([type(end) is int for end in ends]):
        raise TypeError("ends that are not whole take care of their own")
    return len(range(*ends))


COUNTED: dict[str, tuple[Callable[..., Any], Callable[..., int]]] = {
    "arange": (np.arange, _range_size),
    "linspace": (np.linspace, lambda start, stop, n=50: n),
    "eye": (np.eye, lambda n, m=None: n * (n if m is None else m)),
    "full": (np.full, lambda n, value: n),
}
"""Functions of plain numbers alone, and how many elements they make."""


def counted(
    like: Callable[..., Any], size: Callable[..., int], session: Session, args: Any, kwargs: Any
) -> Tensor | None:
    """A small new tensor that numbers describe."""
    if kwargs or not config.small_elements or not all([type(x) in (int, float) for x in args]):
        return None
    try:
        if size(*args) > config.small_elements:
            return None
        made = like(*args)
    except Exception:  # ours has the better words
        return None
    if made.dtype not in (np.int64, np.float64):  # beyond them, or what this machine has instead
        return None
    session.counts["small_calls"] += 1
    return _made(session, made)


def multiplied(like: Callable[..., Any], a: Any, b: Any) -> Any:
    """The matrix product of small tensors; `like` is `matmul`, as others have theirs."""
    return called(_product, _product_fits, (a, b), {})


# --- indices ----------------------------------------------------------------------------------


def _is_plain(index: Any) -> bool:
    """Whether an index is made of integers and slices (an ellipsis and None too)."""
    kind = type(index)
    return kind in _ITEMS or (kind is tuple and _ITEMS.issuperset(map(type, index)))


_MISSING = object()


def _with_integers(index: Any) -> Any:
    """An index with integers where it has tensors that are one each; `_MISSING` for any other.

    NumPy has scalars there, which make views as integers do.
    """
    items = index if type(index) is tuple else (index,)
    plain = tuple([_integer(x) if type(x) is _tensors[0] else x for x in items])
    if not _ITEMS.issuperset(map(type, plain)):
        return _MISSING
    return plain if type(index) is tuple else plain[0]


def _integer(tensor: Tensor) -> Any:
    is_one = tensor._owner is not None and isinstance(tensor._seen, np.integer)
    return int(tensor._seen) if is_one else tensor


def is_element(index: Any, ndim: int) -> bool:
    """Whether an index is one integer for every axis."""
    if type(index) in _INTEGERS:
        return ndim == 1
    return type(index) is tuple and len(index) == ndim and _INTEGERS.issuperset(map(type, index))


def _has_axes(index: Any) -> bool:
    """Whether an index names axes: integers and slices."""
    items = index if type(index) is tuple else (index,)
    return not items or not all(item is None or item is Ellipsis for item in items)


def got(tensor: Tensor, index: Any) -> Tensor | None:
    """`tensor[index]` for integers and slices: a view, or a value (an integer for every axis)."""
    limit = config.small_elements
    if not limit:
        return None
    plain = index if type(index) is int or _is_plain(index) else _with_integers(index)
    if plain is _MISSING:
        return gathered(tensor, index)
    values = seen(tensor)
    if values is None:
        return _element(tensor, plain)
    if type(values) is not _ndarray:
        if tensor._owner is not None and not _has_axes(plain):
            return at_hand(tensor._owner, np.array(values)[plain].copy())  # a scalar has no views
        values = _array(tensor, values)
    found = values[plain]
    if type(found) is not _ndarray:
        session = tensor._owner or tensor._cell.session
        session.counts["small_calls"] += 1
        value = _made(session, found)
        value._is_value = True
        return value
    cell = tensor._cell
    version = cell.version
    if not 0 < found.size <= limit or found.dtype is not version.dtype:
        return None  # strides of nothing mean nothing, those of a real part are not elements'
    view = _view(tensor, cell, found)
    if plain is index and tensor._lazy_view is None:
        view._index = index
    return view


def _view(tensor: Tensor, cell: Cell, found: np.ndarray) -> Tensor:
    view: Tensor = _new(_tensors[0])
    view._owner = view._index = None
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


def viewed(tensor: Tensor, change: Callable[..., Any], *args: Any) -> Tensor | None:
    """What a change of strides (a transpose, a reshape without a copy) makes of a small tensor."""
    values = near(tensor)
    if values is None or not values.size or values.dtype is not tensor._cell.version.dtype:
        return None
    try:
        found = change(values, *args)
    except Exception:  # ours has the better words, or a copy
        return None
    return _view(tensor, tensor._cell, found)


def copied(tensor: Tensor, dtype: Any = None) -> Tensor | None:
    """A small tensor of its own with the same values, or with another dtype's."""
    values = near(tensor)
    if values is None or not config.small_elements:
        return None
    session = tensor._owner or tensor._cell.session
    session.counts["small_calls"] += 1
    if dtype is None:
        return _made(session, values.copy())
    return at_hand(session, quietly(values.astype, dtype, "C"))


def taken(shape: tuple[int, ...], index: Any, session: Session | None = None) -> Any:
    """An index with arrays in it as NumPy's, if what it selects is small; None for any other.

    Where a session is given, also what is not small, at a hasty place.
    """
    items = index if type(index) is tuple else (index,)
    plain = []
    n_arrays = n_most = 0
    for given in items:
        item = given
        if type(given) is _tensors[0]:
            item = seen(given)
            if item is None:
                return None
            n_most = max(n_most, item.size)
            if type(item) is not _ndarray:
                item = _array(given, item)
        elif type(item) is list:
            try:
                item = np.array(item)
            except ValueError:  # lists of several lengths, or of tensors: ours has the better words
                return None
        elif type(item) is not _ndarray and type(item) not in _ITEMS:
            return None
        if type(item) is _ndarray:
            n_arrays += 1
            if item.dtype.kind not in "iub" or not (item.size or type(given) is _tensors[0]):
                return None
        elif item is None and n_arrays:
            return None
        plain.append(item)
    limit = config.small_elements
    if prod(shape) > limit:
        n_most = max(n_most, _selected(shape, plain))
    if n_most > limit and (session is None or not is_hasty(session, n_most)):
        return None
    return plain[0] if len(plain) == 1 else tuple(plain)


def _selected(shape: tuple[int, ...], items: list[Any]) -> int:
    """At most so many values are selected by integers, slices and arrays of integers or a mask."""
    if any(item is None or item is Ellipsis for item in items):
        return prod(shape)
    n, axis = 1, 0
    rest = 1
    for item in items:
        if type(item) is _ndarray:
            n = max(n, item.size)
            axis += item.ndim if item.dtype.kind == "b" else 1
        else:
            rest *= prod(shape[axis : axis + 1]) if type(item) is slice else 1
            axis += 1
    return n * rest * prod(shape[axis:])


def gathered(tensor: Tensor, index: Any) -> Tensor | None:
    """`tensor[index]` for arrays of integers or a mask: the few values they select."""
    values = seen(tensor)
    if values is None or type(values) is not _ndarray or not values.ndim:
        return None
    try:
        plain = taken(values.shape, index)
        found = None if plain is None else _chosen(values, plain)
    except Exception:  # ours has the better words
        return None
    if found is None or type(found) is not _ndarray:
        return None
    session = tensor._owner or tensor._cell.session
    session.counts["small_calls"] += 1
    return at_hand(session, found)


FEW_CHOSEN = 256
"""Entries of a mask below which NumPy's way of choosing is as good."""


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


def _chosen(values: np.ndarray, index: Any) -> Any:
    """`values[index]` for an index with arrays; our loop for masks is several times NumPy's."""
    over = _over(values, index)
    if over is not None:
        mask, view = over
        n = cores.count(mask)
        if n >= 0:
            found = np.empty((n, *view.shape[mask.ndim :]), view.dtype)
            if cores.choose(mask, view, found):
                return found
    return values[index]


def _deal(values: np.ndarray, index: Any, value: Any) -> None:
    """`values[index] = value` for an index with arrays; our loop for masks likewise."""
    dtype, given = values.dtype, value
    if type(value) is float and dtype.kind in "fc":
        given = np.array(value, dtype)
    if type(given) is _ndarray and given.dtype is dtype:
        over = _over(values, index)
        if over is not None and cores.put(*over, given):
            return
    values[index] = value


def _element(tensor: Tensor, index: Any) -> Tensor | None:
    """One element of a stored tensor that lies in one tile on another device of this memory."""
    version = tensor._cell.version
    table = version.table
    if table is None or table.in_reach is None or tensor._lazy_view is not None:
        return None
    session = version.session
    if session.closed or not is_element(index, len(tensor._shape)):
        return None
    session.counts["small_calls"] += 1
    value = at_hand(session, np.array(table.in_reach[index]))
    value._is_value = True
    return value


def _writeable(tensor: Tensor) -> np.ndarray | None:
    """The values of a tensor, if they may be changed where they are: nobody has the old ones."""
    if tensor._frozen:
        return None
    if tensor._owner is not None:
        values = tensor._seen
        return values if type(values) is _ndarray else _array(tensor, values)
    version = tensor._cell.version
    if version.readers or version.exported or (version.table is not None and version.live != 1):
        return None
    values = seen(tensor)
    return values if values is not None and values.flags.writeable else None


def was_put(tensor: Tensor, index: Any, value: Any) -> bool:
    """`tensor[index] = value` in place, if nothing else has or waits for the old values."""
    limit = config.small_elements
    if not limit:
        return False
    plain = index if type(index) is int or _is_plain(index) else _with_integers(index)
    if type(value) is _tensors[0]:
        if (
            value._index is index is not None
            and tensor._lazy_view is None
            and value._owner is None
            and value._cell is tensor._cell
        ):
            return not tensor._frozen  # `x[i] += 1` has changed the view `x[i]` already
        value = seen(value)
        if value is None:
            return False
    elif type(value) not in _NUMBERS:
        return False
    values = _writeable(tensor)
    if values is None:
        return False
    if plain is _MISSING:
        return _scattered(tensor, values, index, value)
    if values.size > limit:
        target = values[plain]
        if type(target) is _ndarray:
            if target.size > limit and not is_hasty(tensor._cell.session, target.size):
                return False
            values, plain = target, ...
    token = _silence(_SILENT)
    try:
        if plain is not ... or not _was_copied(values, value):
            values[plain] = value
    finally:
        _restore(token)
    if values.dtype.char == "d" and tensor._owner is None and tensor._lazy_view is None:
        tensor._cell.version.opened = tensor._cell.version.host
    return True


def _was_copied(target: np.ndarray, value: Any) -> bool:
    """Whether all cores copied it."""
    return target.size >= cores.LEAST and cores.into(None, target, value)


def _scattered(tensor: Tensor, values: np.ndarray, index: Any, value: Any) -> bool:
    """The same for arrays of integers or a mask."""
    if not values.ndim:
        return False
    try:
        plain = taken(values.shape, index, tensor._owner or tensor._cell.session)
        if plain is None:
            return False
        quietly(_deal, values, plain, value)
    except Exception:  # ours has the better words; NumPy looks at indices and shapes first
        return False
    return True


def changed(
    tensor: Tensor, like: np.ufunc, by: Callable[[Any, Any], Any], other: Any
) -> Tensor | None:
    """`tensor op= other`: in place, likewise; a scalar is made anew, as NumPy's are."""
    if tensor._is_value or (tensor._owner is not None and type(tensor._seen) is not _ndarray):
        return operated(by, tensor, other)
    limit = config.small_elements
    if not limit:
        return None
    if type(other) is _tensors[0]:
        other = seen(other)
        if other is None:
            return None
    elif type(other) not in _NUMBERS:
        return None
    values = _writeable(tensor)
    if values is None:
        return None
    if values.size > limit and not is_hasty(tensor._cell.session, values.size):
        return None
    quietly(cores.stored, like, values, values, other)
    return tensor


def stored_in(like: np.ufunc, args: tuple[Any, ...], out: Any) -> Tensor | None:
    """`like(*args, out=out)`: in place, likewise."""
    if type(out) is not _tensors[0] or out._is_value:
        return None
    limit = config.small_elements
    values = _writeable(out) if limit else None
    if type(values) is not _ndarray:
        return None
    given = []
    for x in args:
        if type(x) is _tensors[0]:
            x = seen(x)
            if x is None:
                return None
        elif type(x) not in _NUMBERS:
            return None
        given.append(x)
    session = out._owner or out._cell.session
    if values.size > limit and not is_hasty(session, values.size):
        return None
    try:
        quietly(cores.stored, like, values, *given)
    except (TypeError, ValueError):  # ours has the better words
        return None
    session.counts["small_calls"] += 1
    return out  # type: ignore[no-any-return]


# --- in C -------------------------------------------------------------------------------------


IN_C = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")
"""The arithmetic operators that are, by their short names; `matmul` follows."""
COMPARED = ("lt", "le", "eq", "ne", "gt", "ge")
"""Then the comparisons."""
_UFUNCS = (
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift, np.matmul, np.less, np.less_equal,
    np.equal, np.not_equal, np.greater, np.greater_equal,
)  # fmt: skip
"""What these are of arrays."""


def in_c(
    tensor: type[Tensor],
    quicks: tuple[Quick | None, ...],
    recorded: Any,
    fill: Callable[..., bool],
) -> bool:
    """Put the C form of the shortest ways (`near.c`) before the methods of Tensor.

    `quicks` are the known calls of the operators, and `recorded` points to the C function which
    records one of them (None: Python does); `fill` writes a number through a large view, or answers
    False.
    False, and nothing is changed, without a compiler or the headers of Python and NumPy.
    """
    module = None if _variable is None else compiled(__file__, "numbers.h", "near.h", "indices.h")
    if module is None:
        return False
    shared = (config, bfloat16, UNKNOWN, _NUMBERS, _variable, _SILENT)
    global applied, called
    slow = (applied, called, _outer_fits, _dot_fits, quicks, recorded, fill)
    on_cores = (cores.made, cores.into, cores.LEAST, _UFUNCS)
    module.install(tensor, Version, Cell, *shared, *slow, *on_cores)
    applied, called = module.applied, module.called
    tally.putters.append(module.tallied)
    return True
