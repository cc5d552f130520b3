"""Calls on small tensors on the host: NumPy itself does them, under the same version rules.

What counts is the size of what a call touches, not that of its base. Every function here
answers None where the machinery has to do it. The shortest ways are C before these
(`small_calls.c`).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.eager import numpy_loops
from infinitensor.api.eager.changing_places import has_changing_shapes
from infinitensor.api.session import ways
from infinitensor.api.session.cell import Cell
from infinitensor.api.session.extensions import load_beside
from infinitensor.api.session.version import Version
from infinitensor.api.small.errstate import ERRORS, SILENT, quietly, restore, silence
from infinitensor.api.small.host_values import (
    NUMBERS,
    UNKNOWN,
    kernel_input,
    near,
    own,
    small_tensor,
    tensors,
    values_of,
    writeable,
)
from infinitensor.api.small.numpy_table import (
    FEW_READ,
    FOLDED,
    broadcast_fits,
    counts_fit,
    dot_fits,
    find_products,
    outer_fits,
    product_fits,
    where_fits,
)
from infinitensor.config import config
from infinitensor.dtypes import NUMPYS, bfloat16
from infinitensor.ops.forms.folds import fold_addresses
from infinitensor.ops.table.functions import (
    half_cast_addresses,
    own_loops_address,
    with_our_loops,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.cell import AnyTensor, BaseTensor
    from infinitensor.api.session.session import Session

_DTYPES = frozenset((None, bool, int, float, complex, *(dtype.type for dtype in NUMPYS), *NUMPYS))
_ndarray = np.ndarray
WEIGHTS = "weights"
"""The option that is a tensor, and read alone; any other one makes a call none of these."""


# --- new tensors ------------------------------------------------------------------------------


def call_numpy(
    like: Callable[..., Any], fits: Callable[..., bool] | None, args: Any, kwargs: Any
) -> Any:
    """A function of NumPy's of small tensors, numbers and options.

    The first may be large where few of its elements are read. None where it raises, too: ours has
    the better words. Those of ufuncs are NumPy's.
    """
    limit = config.small_elements
    is_elementwise = fits is broadcast_fits
    given: list[Any] = []
    session = None
    for x in args:
        if type(x) is tensors[0]:
            home = x._owner or x._cell.session
            x = values_of(x)
            is_large = x is not None and x.size > limit and (given or fits not in FEW_READ.values())
            if x is None or is_large or (session or home) is not home:
                return None
            session = home
        elif type(x) not in NUMBERS and (is_elementwise or x is not None):
            return None
        given.append(x)
    if session is None or not limit:
        return None
    for name, x in kwargs.items():
        if name == WEIGHTS and type(x) is tensors[0] and (x._owner or x._cell.session) is session:
            kwargs = {**kwargs, name: values_of(x)}
            if kwargs[name] is None or kwargs[name].size > limit:
                return None
        elif type(x) is not int and type(x) is not bool and x is not None:
            return None
    token = silence(SILENT)
    try:
        if fits is not None and not fits(*given):
            return None
        made = like(*given, **kwargs)
    except Exception:
        if is_elementwise:
            raise
        return None
    finally:
        restore(token)
    session.ways["numpy"] += 1
    if type(made) is tuple:
        return tuple(small_tensor(session, one) for one in made)
    return small_tensor(session, made)


def create_small(
    session: Session,
    creation: Callable[..., Any],
    shape: Any,
    dtype: Any = None,
    *args: Any,
    **more: Any,
) -> Any:
    """A small new tensor of a shape."""
    if args or more:
        return None
    try:
        n = shape if type(shape) is int else prod(shape, start=1.0) if type(shape) is tuple else -1
        if not 0 <= n <= config.small_elements or not config.small_elements:
            return None
        if dtype not in _DTYPES:
            return None
        made = own(session, creation(shape) if dtype is None else creation(shape, dtype))
    except Exception:  # ours has the better words
        return None
    session.ways["numpy"] += 1
    return made


def count_small(
    like: Callable[..., Any], size: Callable[..., int], session: Session, args: Any, kwargs: Any
) -> Any:
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
    session.ways["numpy"] += 1
    return own(session, made)


def copy_small(tensor: AnyTensor, dtype: Any = None) -> AnyTensor | None:
    """A small tensor of its own with the same values, or with another dtype's."""
    values = near(tensor) if dtype is None else kernel_input(tensor)
    if values is None or not config.small_elements:
        return None
    session = tensor._owner or tensor._cell.session
    session.ways["numpy"] += 1
    if dtype is None:
        return own(session, values.copy())  # type: ignore[no-any-return]
    return small_tensor(session, quietly(values.astype, dtype, "C"))  # type: ignore[no-any-return]


def reshape_copied(tensor: BaseTensor, shape: Any) -> Any:
    """A small tensor in another shape that takes a copy; None: a view does, or it is not small."""
    values = None if tensor._is_value else near(tensor)
    if values is None or not values.size or not config.small_elements:
        return None
    try:
        made = values.reshape(shape)
    except Exception:  # ours has the better words
        return None
    if np.may_share_memory(made, values):
        return None
    session = tensor._owner or tensor._cell.session
    session.ways["numpy"] += 1
    return own(session, made)


# --- in place ---------------------------------------------------------------------------------


def change_in_place(tensor: AnyTensor, like: np.ufunc, other: Any) -> AnyTensor | None:
    """`tensor op= other`: in place, likewise."""
    limit = config.small_elements
    if not limit:
        return None
    if type(other) is tensors[0]:
        other = values_of(other)
        if other is None:
            return None
    elif type(other) not in NUMBERS:
        return None
    values = writeable(tensor)
    if values is None:
        return None
    if values.size > limit and not has_changing_shapes(tensor._cell.session, values.size):
        return None
    quietly(numpy_loops.compute_into, with_our_loops(like), values, values, other)
    (tensor._owner or tensor._cell.session).ways["in_place"] += 1
    return tensor


def stored_in(like: np.ufunc, args: tuple[Any, ...], out: Any) -> Any:
    """`like(*args, out=out)`: in place, likewise."""
    if type(out) is not tensors[0] or out._is_value:
        return None
    limit = config.small_elements
    values = writeable(out) if limit else None
    if type(values) is not _ndarray:
        return None
    given: list[Any] = []
    for x in args:
        if type(x) is tensors[0]:
            x = values_of(x)
            if x is None:
                return None
        elif type(x) not in NUMBERS:
            return None
        given.append(x)
    session = out._owner or out._cell.session
    if values.size > limit and not has_changing_shapes(session, values.size):
        return None
    try:
        quietly(numpy_loops.compute_into, with_our_loops(like), values, *given)
    except (TypeError, ValueError):  # ours has the better words
        return None
    session.ways["in_place"] += 1
    return out


# --- in C -------------------------------------------------------------------------------------


IN_C = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")
"""The arithmetic operators that are, by their short names; `matmul` follows."""
COMPARED = ("lt", "le", "eq", "ne", "gt", "ge")
"""Then the comparisons."""


_module = None if ERRORS is None else load_beside(__file__)


def begin_in_c(
    like: Callable[..., Any],
    fits: Callable[..., bool] | None,
    rest: Callable[..., Any],
    far: Callable[..., Any],
) -> Callable[..., Any]:
    """A function that asks `like` first, in C where it can, and then `rest`.

    `far` is called instead where an operand is not on the host or not small.
    """
    return rest if _module is None else _module.ladder(like, fits, FOLDED.get(like), rest, far)


def join_in_c(
    join: Callable[..., Any], is_new: bool, rest: Callable[..., Any]
) -> Callable[..., Any]:
    """`rest`, which joins tensors along an axis; C asks `join` of `moved_rows.py` before it."""
    return rest if _module is None else _module.joining(join, is_new, rest)


def transposed(tensor: BaseTensor) -> Any:
    """In C: a small tensor on the host with its axes reversed, a view. None: not such a one."""
    return None


def viewed(tensor: BaseTensor, change: Callable[..., Any], *args: Any) -> Any:
    """In C: what a function makes of the values of a small tensor, if it is a view; else None."""
    return None


def reshaped(tensor: BaseTensor, shape: tuple[Any, ...]) -> Any:
    """In C: a small tensor in C order, in another shape of integers, a view; else None."""
    return None


def own_copy(tensor: BaseTensor, is_flat: bool) -> Any:
    """In C: a small tensor with the same values, in one axis if that is asked; else None."""
    return None


def cast(tensor: BaseTensor, dtype: Any) -> Any:
    """In C: a small tensor in C order with a dtype of NumPy's; else None."""
    return None


def multiply(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """In C: the product of matrices, or stacks, by the library of plans; None: not for it."""
    return None


_UFUNCS = (
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift, np.matmul, np.less, np.less_equal,
    np.equal, np.not_equal, np.greater, np.greater_equal, np.negative, np.absolute, np.invert,
    np.square, np.sqrt,
)  # fmt: skip
"""The ufuncs of the operators, then of the comparisons, then of operators of one operand, and what
some powers are."""


def in_c(
    tensor: type[BaseTensor],
    quicks: tuple[Any, ...],
    recorded: Any,
    fill: Callable[..., bool],
) -> bool:
    """Put the C form of the shortest ways (`small_calls.c`) before the methods of Tensor.

    `quicks` are the known calls of the operators, and `recorded` points to the C function which
    records one of them (None: Python does); `fill` writes a number through a large view, or answers
    False.
    False, and nothing is changed, without a compiler or the headers of Python and NumPy.
    """
    if _module is None:
        return False
    shared = (config, bfloat16, UNKNOWN, NUMBERS, ERRORS, SILENT)
    global transposed, multiply, viewed, reshaped, own_copy, cast
    fits = (broadcast_fits, outer_fits, dot_fits, where_fits, counts_fit)
    products = (product_fits, find_products)
    on_cores = (numpy_loops.compute, numpy_loops.into, numpy_loops.LEAST_SHARED_ELEMENTS, _UFUNCS)
    before = (quicks, recorded, fill)
    more = (own_loops_address(), small_tensor, values_of, fold_addresses(), half_cast_addresses())
    _module.install(
        tensor, Version, Cell, *shared, *fits, *products, *before, *on_cores, ways.IN_C, *more
    )
    transposed, multiply, viewed = _module.transposed, _module.multiply, _module.viewed
    reshaped, own_copy, cast = _module.reshaped, _module.own_copy, _module.cast
    ways.putters.append(_module.put_counts)
    return True
