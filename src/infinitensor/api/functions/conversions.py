"""Ways into and out of tensors that NumPy has besides `asarray`, and questions about arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.api.access import copies
from infinitensor.api.access.view_strides import tight
from infinitensor.api.functions.ufunc import mask_of, store_result
from infinitensor.api.record.late import call_op, is_tensor
from infinitensor.api.tensor.tensor import Tensor
from infinitensor.dtypes import can_cast, held_as, kind_of, read_as, result_type


def asanyarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    like: Any = None,
) -> Tensor:
    """As `asarray`: tensors have no subclasses."""
    return call_op("asarray", a, dtype, order, device=device, copy=copy, like=like)  # type: ignore[no-any-return]


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """A tensor with at least one axis whose elements are in C order; itself if they are."""
    made: Tensor = call_op("asarray", a, dtype, like=like)
    made = made if made.ndim else made.reshape(1)
    return made if made.flags.c_contiguous else copies.copy_tensor(made)


def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """A tensor with at least one axis; in Fortran order as a view of one in C order."""
    made: Tensor = call_op("asarray", a, dtype, like=like)
    made = made if made.ndim else made.reshape(1)
    return made if made.flags.f_contiguous else copies.copy_tensor(made.T).T


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Tensor:
    """As `asarray`, but a NaN or an infinity is a ValueError; computes the values."""
    made: Tensor = call_op("asarray", a, dtype, order)
    if kind_of(made.dtype) in "fc" and not bool(call_op("isfinite", made).all()):
        raise ValueError("array must not contain infs or NaNs")
    return made


def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Tensor:
    """A tensor with a dtype that is in C order (C), its own (O) or can be written (W), as asked."""
    asked = [requirements] if isinstance(requirements, str) else list(requirements or ())
    if {"C", "F"} <= {str(one).upper()[:1] for one in asked}:
        raise ValueError('Cannot specify both "C" and "F" order')
    made: Tensor = call_op("asarray", a, dtype, like=like)
    for word in (str(one).upper()[:1] for one in asked):
        if word not in "CFAWOE":
            raise KeyError(word)
        wrong = word == "C" and not made.flags.c_contiguous
        wrong |= word == "O" and not made.flags.owndata
        if wrong or (word == "W" and not made.flags.writeable):
            made = copies.copy_tensor(made)
    return asfortranarray(made) if any(str(o).upper()[:1] == "F" for o in asked) else made


def frombuffer(
    buffer: Any, dtype: Any = None, count: int = -1, offset: int = 0, *, like: Any = None
) -> Tensor:
    """A tensor with a copy of the numbers in a buffer.

    >>> import infinitensor as it
    >>> it.frombuffer(bytes([1, 0, 2, 0]), it.int16).tolist()
    [1, 2]
    """
    values = np.frombuffer(buffer, read_as(dtype), count, offset)
    return call_op("asarray", values, like=like)  # type: ignore[no-any-return]


def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Tensor:
    """A tensor of what an iterator gives.

    >>> import infinitensor as it
    >>> it.fromiter((i * i for i in range(3)), int).tolist()
    [0, 1, 4]
    """
    return call_op("asarray", np.fromiter(iter, read_as(dtype), count), like=like)  # type: ignore[no-any-return]


def fromstring(
    string: str, dtype: Any = None, count: int = -1, *, sep: str, like: Any = None
) -> Tensor:
    """A tensor of the numbers in a text.

    >>> import infinitensor as it
    >>> it.fromstring("1 2", sep=" ").tolist()
    [1.0, 2.0]
    """
    values = np.fromstring(string, held_as(dtype), count, sep=sep)
    return call_op("asarray", values, like=like)  # type: ignore[no-any-return]


# --- writes -----------------------------------------------------------------------------------


def fits_into(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether values of a shape broadcast to a target, whose shape stays."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Write values into a tensor, broadcast, where a mask is True.

    >>> import infinitensor as it
    >>> x = it.zeros(3)
    >>> it.copyto(x, [1, 2, 3], where=[True, False, True])
    >>> x.tolist()
    [1.0, 0.0, 3.0]
    """
    if not isinstance(dst, Tensor):
        raise TypeError(f"copyto: the destination must be a Tensor, got {type(dst)}")
    if type(src) in (bool, int, float, complex):
        fits = can_cast(result_type(dst.dtype, src), dst.dtype, casting)
        given = call_op("full", (), src, dtype=dst.dtype) if fits else call_op("asarray", src)
    else:
        given = call_op("asarray", src)
    if not can_cast(given.dtype, dst.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {given.dtype!r} to {dst.dtype!r} "
            f"according to the rule {casting!r}"
        )
    if dst._frozen:
        raise ValueError("assignment destination is read-only")
    mask = mask_of(where)
    more = given.ndim - dst.ndim
    if more > 0 and given.shape[:more] == (1,) * more:  # axes of length one in front say nothing
        given = given.reshape(given.shape[more:])
    for name, one in (("input array", given), ("mask", mask)):
        if one is not None and not fits_into(one.shape, dst.shape):
            raise ValueError(
                f"copyto: could not broadcast {name} from shape {tight(one.shape)} into shape "
                f"{tight(dst.shape)}"
            )
    store_result(given, dst, mask, "unsafe")


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write values on the main diagonal, in place; values repeat where there are fewer.

    >>> import infinitensor as it
    >>> x = it.zeros((2, 2))
    >>> it.fill_diagonal(x, [1, 2])
    >>> x.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if not isinstance(a, Tensor):
        raise TypeError(f"fill_diagonal: a must be a Tensor, got {type(a)}")
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    n_rows, n_columns = a.shape[0], a.shape[-1]
    length = n_rows if a.ndim > 2 else min(n_rows, n_columns)
    along = call_op("arange", length)
    places: list[Any] = [along] * a.ndim
    if wrap and a.ndim == 2 and n_columns < n_rows:  # every n_columns + 1 elements, down the rows
        flat = call_op("arange", 0, n_rows * n_columns, n_columns + 1)
        places = [flat // n_columns, flat % n_columns]
    value = call_op("asarray", val, a.dtype)
    if not value.size:
        return
    n = places[0].shape[0]
    if value.size > 1 or value.ndim:
        repeated = call_op("tile", value.reshape(-1), -(-n // max(value.size, 1)))
        value = repeated[:n]
    a[tuple(places)] = value


# --- questions --------------------------------------------------------------------------------


def isscalar(element: Any) -> bool:
    """Whether something is a number, or what NumPy gives as a scalar; a 0-d array is none."""
    return element._is_value if is_tensor(element) else bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Whether something can be iterated over."""
    return bool(np.iterable(y))


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return bool(np.issubdtype(getattr(x, "dtype", None) or np.asarray(x).dtype, np.complexfloating))


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isfortran(a: Any) -> bool:
    """Whether the elements are in Fortran order, and not in C order."""
    flags = call_op("asarray", a).flags
    return bool(flags.f_contiguous and not flags.c_contiguous)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is one, or of a kind such as `numpy.floating`."""
    return bool(np.issubdtype(arg1, arg2))


def min_scalar_type(a: Any, /) -> np.dtype[Any]:
    """The smallest dtype that holds a number; of a tensor, its dtype."""
    if not isinstance(a, Tensor):
        return np.min_scalar_type(a)
    return a.dtype if a.ndim else np.min_scalar_type(a.numpy()[()])


def common_type(*arrays: Any) -> Any:
    """The floating-point type that can hold all arrays."""
    return np.common_type(*(_ghost(a) for a in arrays))


def mintypecode(typechars: Any, typeset: Any = "GDFgdf", default: str = "d") -> str:
    """The character of the smallest type to which all types of a set can be cast."""
    return str(np.mintypecode(typechars, typeset, default))


def typename(char: Any) -> str:
    """The meaning of a dtype's character."""
    return str(np.typename(char))


def einsum_path(subscripts: Any, *operands: Any, optimize: Any = "greedy") -> Any:
    """In which order `einsum` would best contract, and a text about it; nothing is computed.

    >>> import infinitensor as it
    >>> it.einsum_path("ij,jk,kl", it.ones((2, 9)), it.ones((9, 9)), it.ones((9, 3)))[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    return np.einsum_path(*map(_ghost, (subscripts, *operands)), optimize=optimize)


def may_share_memory(a: Any, b: Any, /, max_work: Any = 0) -> bool:
    """Whether two tensors may be views of the same elements, by their bounds."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or a._cell is not b._cell:
        return False
    return bool(np.may_share_memory(_stand_in(a), _stand_in(b), max_work=max_work))


def shares_memory(a: Any, b: Any, /, max_work: Any = -1) -> bool:
    """Whether two tensors are views that have an element in common.

    >>> import infinitensor as it
    >>> x = it.arange(6)
    >>> it.shares_memory(x[::2], x[1::2]), it.shares_memory(x[::2], x[::3])
    (False, True)
    """
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or a._cell is not b._cell:
        return False
    return bool(np.shares_memory(_stand_in(a), _stand_in(b), max_work=max_work))


def _ghost(a: Any) -> Any:
    """An array of this shape and dtype that holds one element."""
    if not hasattr(a, "shape"):
        return a
    return np.broadcast_to(np.zeros((), a.dtype), a.shape)


def _stand_in(tensor: Tensor) -> np.ndarray:
    """An array that overlaps others as the tensor overlaps those of its cell; never to be read.

    An element is two bytes, so that the real and the imaginary part have one each.
    """
    view = tensor._whole()
    start = 16 + 2 * view.offset + (view.part == "imag")
    interface = {
        "version": 3,
        "typestr": "|u1",
        "data": (start, False),
        "shape": view.shape if view.part else (*view.shape, 2),
        "strides": tuple(2 * s for s in view.strides) + (() if view.part else (1,)),
    }
    return np.asarray(type("Placed", (), {"__array_interface__": interface})())


CONVERSIONS = (
    asanyarray,
    asarray_chkfinite,
    ascontiguousarray,
    asfortranarray,
    frombuffer,
    fromiter,
    fromstring,
    require,
)
QUESTIONS = (
    common_type,
    einsum_path,
    iscomplexobj,
    isfortran,
    isrealobj,
    isscalar,
    issubdtype,
    iterable,
    may_share_memory,
    min_scalar_type,
    mintypecode,
    shares_memory,
    typename,
)
