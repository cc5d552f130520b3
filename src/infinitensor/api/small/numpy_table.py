"""Functions that are NumPy's own on small tensors: which they are, and what of theirs is small."""

from __future__ import annotations

import ctypes
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager.whole_array import at_once
from infinitensor.api.session.session import current_session
from infinitensor.api.small.small_sums import (
    mean_of,
    norm_of,
    std_of,
    sum_of,
    trace_of,
    var_of,
)
from infinitensor.config import config
from infinitensor.dtypes import float16
from infinitensor.events import lane
from infinitensor.ops.backend import blas
from infinitensor.ops.move import moved_rows
from infinitensor.ops.reduce.scan import running_sums
from infinitensor.ops.sorting.sort import has_quick_order, order_by_numbers, sort_into
from infinitensor.threads import n_sharing

if TYPE_CHECKING:
    from collections.abc import Callable


def too_large(*shapes: tuple[int, ...]) -> bool:
    """Whether shapes broadcast to more than is small; those that do not are NumPy's error."""
    if len({shape for shape in shapes if shape}) < 2:
        return False
    try:
        return prod(np.broadcast_shapes(*shapes)) > config.small_elements
    except ValueError:
        return False


def broadcast_fits(*given: Any) -> bool:
    """Whether an elementwise result is small."""
    shapes = [x.shape for x in given if type(x) is np.ndarray]
    return len(shapes) < 2 or not too_large(*shapes)


FEW_MULTIPLICATIONS = 1 << 24
"""Multiplications of a product at most that is made at once, as in `small_products.h`: half a
millisecond of a core. A plan takes as long for itself as for 100³ of them, and what follows is
small too. A GPU takes less."""


def product_fits(a: Any, b: Any) -> bool:
    """Whether the product of two arrays is small, and few multiplications.

    Our library may make more of them, with all cores (`product`).
    """
    if a.ndim < 2 or b.ndim < 2:
        return True
    size = a.size // a.shape[-1] * (b.size // b.shape[-2]) if a.shape[-1] and b.shape[-2] else 0
    if size > config.small_elements or size * a.shape[-1] <= 16 * config.small_elements:
        return bool(size <= config.small_elements)
    is_ours = a.ndim == b.ndim == 2 and a.dtype == b.dtype and a.dtype in blas.CODES
    is_few = is_ours and size * a.shape[-1] <= FEW_MULTIPLICATIONS
    return is_few and current_session().engine.mesh.kind == "cpu"


def outer_fits(a: Any, b: Any) -> bool:
    """Whether the products of all elements with all are few."""
    return bool(a.size * b.size <= config.small_elements)


def dot_fits(a: Any, b: Any) -> bool:
    """Whether `dot` is a product of vectors and matrices here, and small."""
    return max(a.ndim, b.ndim) <= 2 and min(a.ndim, b.ndim) > 0 and product_fits(a, b)


ONE_CORE = 1 << 18
"""Multiplications of a product of matrices up to which NumPy's library keeps to one core."""
LEAST_OF_OURS = 1 << 12
"""Multiplications of floats from which they are ours, as in `small_calls.c`."""
ONE_CORE_DOT = 10_000
"""Of two vectors, up to which NumPy's library keeps to one core."""


def product(a: Any, b: Any) -> Any:
    """A @ b as `matmul`: by our library where NumPy's takes longer or would use all cores.

    Its threads go on looking for work for 20 to 30 ms, on cores that our workers need. Products of
    halves, which it has none for, are ours all.
    """
    are_halves = a.dtype == b.dtype == float16
    if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]:
        shape = (a.shape[0], b.shape[1])
        are_ours = a.dtype == b.dtype and a.dtype.char in ("fdFD" if 1 in shape else "fd")
        n = shape[0] * shape[1] * a.shape[1]
        if are_halves or n > ONE_CORE or (are_ours and n >= LEAST_OF_OURS):
            out = np.empty(shape, a.dtype)
            if blas.multiply(a, b, out):
                return out
    elif a.ndim == b.ndim == 1 and a.size == b.size and (are_halves or a.size > ONE_CORE_DOT):
        out = np.empty((1, 1), a.dtype)
        if blas.multiply(a[None], b[:, None], out):
            return out[0, 0]
    return at_once("matmul", a, b) if are_halves else np.matmul(a, b)


def find_products(are_many: bool) -> tuple[int, int]:
    """The address of the C function that multiplies as plans do, and of how many threads.

    0 where there is no library for it, and of many multiplications where a GPU takes less.
    """
    if are_many and current_session().engine.mesh.kind != "cpu":
        return 0, 1
    address = 0 if config.compile == "never" else _stack_address()
    return address, 1 if lane.is_worker else n_sharing()


@cache
def _stack_address() -> int:
    ours = blas.find_library()
    return 0 if ours is None else ctypes.cast(ours.stack, ctypes.c_void_p).value or 0


def _dot(a: Any, b: Any) -> Any:
    """A @ b as `dot`, which is quicker than `matmul` where little is to be done."""
    is_quick = a.size * b.size <= ONE_CORE and a.dtype != float16
    return np.dot(a, b) if is_quick else product(a, b)


def where_fits(*given: Any) -> bool:
    """Whether `where` chooses between two, and the result is small."""
    return len(given) == 3 and broadcast_fits(*given)


def counts_fit(*_: Any) -> bool:
    """Whether counts are few: that is known only once they are made."""
    return True


def take_fits(a: Any, indices: Any, axis: Any = None) -> bool:
    """Whether what `take` reads, of an array of any size, is small; another order it copies."""
    if not a.flags.c_contiguous:
        return False
    lines = 1 if axis is None else a.size // max(a.shape[axis], 1)
    return bool(max(lines, 1) * indices.size <= config.small_elements)


def take_along_fits(a: Any, indices: Any, axis: Any = -1) -> bool:
    """Likewise `take_along_axis`, where both have the same other axes."""
    if axis is None or a.ndim != indices.ndim:
        return False
    axis %= a.ndim
    others = [k for k in range(a.ndim) if k != axis]
    return bool(indices.size) and all([a.shape[k] == indices.shape[k] for k in others])


FEW_READ = {"take": take_fits, "take_along_axis": take_along_fits}
"""Functions that read few elements of their first operand, which may be large."""


def _reduce_of(ufunc: np.ufunc) -> Callable[..., Any]:
    reduce: Any = ufunc.reduce

    def reduction(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduce(a, axis, None, None, keepdims)

    return reduction


def _extreme_of(ufunc: np.ufunc) -> Callable[..., Any]:
    """The same of an extreme; of many halves ours is faster, by their bits."""
    plain = _reduce_of(ufunc)

    def extreme(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if a.dtype == float16 and a.size >= MANY_HALVES:
            raise ValueError("ours")
        return plain(a, axis, keepdims=keepdims)

    return extreme


MANY_HALVES = 1 << 13
"""Elements from which an extreme of halves takes NumPy longer than our kernel with its start."""
FEW_ADDED = 1 << 11
"""Elements up to which running sums take NumPy less than the start of ours."""
FEW_SORTED = 1 << 11
"""Elements up to which a stable sort takes NumPy less than what has to be done around another."""
LINE = 1 << 15
"""Elements of a line that a running sum takes one after the other; longer ones are cut."""


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """`np.count_nonzero`, also of all a number of NumPy's."""
    made = np.count_nonzero(a, axis, keepdims=keepdims)
    return np.int64(made) if type(made) is int else made


def _median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """`np.median` by its plain arguments.

    Of nothing NumPy's has a warning to say, and of halves ours rounds once more.
    """
    if not a.size or a.dtype == np.float16:
        raise ValueError("ours")
    return np.median(a, axis, keepdims=keepdims)


def _quantile_of(like: Callable[..., Any]) -> Callable[..., Any]:
    """`np.quantile` or `np.percentile` by its plain arguments, likewise.

    (Where q is a number of NumPy's, a quantile that is NaN has another dtype than one that is not.)
    """

    def quantile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if not a.size or a.dtype == np.float16 or type(q) not in (int, float):
            raise ValueError("ours")
        return like(a, q, axis, keepdims=keepdims)

    return quantile


def _bincount(a: Any, weights: Any = None, minlength: int = 0) -> Any:
    """`np.bincount`, of which nobody knows how long it is before.

    Of nothing there is no largest value.
    """
    if max(np.maximum.reduce(a), minlength) >= config.small_elements:
        raise ValueError("ours")
    return np.bincount(a, weights, minlength)


def _cumsum(a: Any, axis: Any = None) -> Any:
    """`np.cumsum` of lines that plans do not cut."""
    if (a.size if axis is None else a.shape[axis]) > LINE:
        raise ValueError("ours")
    if a.size < FEW_ADDED or not a.ndim or a.dtype.kind not in "biuf":
        return np.cumsum(a, axis)
    return running_sums(a.reshape(-1), 0) if axis is None else running_sums(a, axis)


def _cumprod(a: Any, axis: Any = None) -> Any:
    """`np.cumprod` of what it multiplies in one order, as plans do; of halves they round less."""
    if a.dtype.char in "eFD":
        raise ValueError("ours")
    return np.cumprod(a, axis)


def _sort(a: Any, axis: Any = -1) -> Any:
    """`np.sort`; tables as a plan sorts them: on all cores, columns as neighbours."""
    is_plain = type(axis) is int and -a.ndim <= axis < a.ndim and a.dtype.kind in "iuf"
    if a.size < FEW_SORTED or not is_plain or a.ndim == 1:
        return np.sort(a, axis)
    out = np.empty(a.shape, a.dtype)
    sort_into(np, a, out, axis % a.ndim)
    return out


def _argsort(a: Any, axis: Any = -1) -> Any:
    """`np.argsort`, stable: by a quicker sort, of numbers of key and place, where that pays."""
    is_plain = type(axis) is int and -a.ndim <= axis < a.ndim and a.dtype.kind in "iuf"
    if a.size < FEW_SORTED or not is_plain or not (has_quick_order() or a.dtype.itemsize == 4):
        return np.argsort(a, axis, "stable")
    lines = np.ascontiguousarray(a if a.ndim == 1 else a.swapaxes(axis, -1))
    order = np.empty(lines.shape, np.int64)
    if order_by_numbers(lines, None, order):
        return np.ascontiguousarray(order if a.ndim == 1 else order.swapaxes(axis, -1))
    return np.argsort(a, axis, "stable")


def _unique(a: Any, **asked: bool) -> Any:
    """`np.unique`: what is sorted, without what is like the one before.

    Facts besides only of integers: which of -0.0 and 0.0 is the first is a matter of the sort.
    """
    if asked:
        if a.dtype.kind not in "biu":
            raise ValueError("ours")
        unique: Any = np.unique
        return unique(a, **asked)
    values = np.sort(a, axis=None)
    before, after = values[:-1], values[1:]
    is_first = np.ones(values.shape, bool)
    np.not_equal(after, before, out=is_first[1:])
    if values.dtype.kind in "fc":  # all NaNs, which are last, are one
        is_first[1:] &= (after == after) | (before == before)
    return values[is_first]


def _take_along(a: Any, indices: Any, axis: Any = -1) -> Any:
    """`np.take_along_axis`: in one call of C where shapes differ along the axis alone."""
    if type(axis) is int and -a.ndim <= axis < a.ndim:
        out = np.empty(indices.shape, a.dtype)
        if moved_rows.take_along(a, indices, axis % a.ndim, out):
            return out
    return np.take_along_axis(a, indices, axis)


def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """`np.roll`: along one axis as the join of two parts."""
    if type(shift) is not int or type(axis) is not int or not a.size:
        return np.roll(a, shift, axis)
    n = a.shape[axis]
    ahead = (slice(None),) * (axis % a.ndim)
    cut = n - shift % n
    return np.concatenate((a[(*ahead, slice(cut, n))], a[(*ahead, slice(0, cut))]), axis)


def _full_like(a: Any, value: Any) -> Any:
    """`np.full_like` of a prototype in C order and a real number."""
    if not a.flags.c_contiguous or type(value) not in (bool, int, float):
        raise ValueError("ours")
    return np.full_like(a, value)


def _diagflat(a: Any, k: int = 0) -> Any:
    """`np.diagflat`, which is the square of what it is given."""
    if (a.size + abs(k)) ** 2 > config.small_elements:
        raise ValueError("ours")
    return np.diagflat(a, k)


def _diag(a: Any, k: int = 0) -> Any:
    """`np.diag` of a line; that of a matrix is a view."""
    if a.ndim != 1:
        raise ValueError("ours")
    return _diagflat(a, k)


def _compress(condition: Any, a: Any, axis: Any = None) -> Any:
    """`np.compress` of slices that a mask names."""
    if condition.dtype != bool or condition.ndim != 1:
        raise ValueError("ours")
    return np.compress(condition, a, axis)


def _extract(condition: Any, a: Any) -> Any:
    """`np.extract` by a mask of all elements."""
    if condition.dtype != bool or condition.shape != a.shape:
        raise ValueError("ours")
    return np.extract(condition, a)


def _like(like: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a prototype in C order: its result is in C order, too."""

    def wrapper(a: Any) -> Any:
        if not a.flags.c_contiguous:
            raise ValueError("ours")
        return like(a)

    return wrapper


def _repeat_fits(a: Any, times: Any, *_: Any) -> bool:
    return type(times) is int and a.size * times <= config.small_elements


NUMPYS_OWN: dict[str, tuple[Callable[..., Any], Callable[..., bool] | None]] = {
    "mean": (mean_of, None),
    "var": (var_of, None),
    "std": (std_of, None),
    "median": (_median, None),
    "quantile": (_quantile_of(np.quantile), None),
    "percentile": (_quantile_of(np.percentile), None),
    "linalg.norm": (norm_of, None),
    "count_nonzero": (_count_nonzero, None),
    "bincount": (_bincount, counts_fit),
    "nonzero": (np.nonzero, None),
    "flatnonzero": (np.flatnonzero, None),
    "argwhere": (np.argwhere, None),
    "compress": (_compress, None),
    "extract": (_extract, None),
    "diag": (_diag, None),
    "diagflat": (_diagflat, None),
    "digitize": (np.digitize, None),
    "full_like": (_full_like, None),
    "cumsum": (_cumsum, None),
    "cumprod": (_cumprod, None),
    "sort": (_sort, None),
    "argsort": (_argsort, None),
    "searchsorted": (np.searchsorted, None),
    "take": (np.take, None),
    "take_along_axis": (_take_along, None),
    "clip": (np.clip, None),
    "diff": (np.diff, None),
    "repeat": (np.repeat, _repeat_fits),
    "tile": (np.tile, _repeat_fits),
    "tril": (np.tril, None),
    "triu": (np.triu, None),
    "trace": (trace_of, None),
    "sum": (sum_of, None),
    "prod": (_reduce_of(np.multiply), None),
    **dict.fromkeys(("max", "amax"), (_extreme_of(np.maximum), None)),
    **dict.fromkeys(("min", "amin"), (_extreme_of(np.minimum), None)),
    "any": (_reduce_of(np.logical_or), None),
    "all": (_reduce_of(np.logical_and), None),
    "argmax": (np.argmax, None),
    "argmin": (np.argmin, None),
    "dot": (_dot, dot_fits),
    "outer": (np.outer, outer_fits),
    "roll": (_roll, None),
    "unique": (_unique, None),
    "where": (np.where, where_fits),
    "zeros_like": (_like(np.zeros_like), None),
    "ones_like": (_like(np.ones_like), None),
    "empty_like": (_like(np.empty_like), None),
}
"""Functions that are NumPy's own on small tensors, and which arguments have a small result.

What they are made of besides is arrays of theirs (no views), and the same bits as ours.
"""
FOLDED: dict[Any, tuple[int, Any]] = {
    sum_of: (0, np.add.reduce),
    mean_of: (1, None),
    var_of: (2, None),
    std_of: (3, None),
    NUMPYS_OWN["max"][0]: (4, np.maximum.reduce),
    NUMPYS_OWN["min"][0]: (5, np.minimum.reduce),
    NUMPYS_OWN["prod"][0]: (6, np.multiply.reduce),
    NUMPYS_OWN["any"][0]: (7, np.logical_or.reduce),
    NUMPYS_OWN["all"][0]: (8, np.logical_and.reduce),
    np.argmax: (9, None),
    np.argmin: (10, None),
    _count_nonzero: (11, None),
}
"""Which of them are reductions that C does (`small_folds.h`): its number of them, and what NumPy's
own loops do."""
CREATIONS = {name: getattr(np, name) for name in ("zeros", "ones", "empty")}
"""Functions of a shape and a dtype."""
JOINS: dict[str, Callable[..., Any]] = {
    "concatenate": np.concatenate,
    "concat": np.concatenate,
    "stack": np.stack,
}
"""Functions of several tensors and an axis."""


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
