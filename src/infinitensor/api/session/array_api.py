"""The names of the Array API standard beside ops: dtypes, shapes and devices."""

from __future__ import annotations

import functools
import inspect
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from infinitensor import dtypes
from infinitensor.api.session.session import current_session

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "2025.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", VERSION)
MAX_AXES = 64


# --- dtypes and shapes ------------------------------------------------------------------------


def _dtype_of(value: Any) -> Any:
    """The dtype of an array; anything else as it is."""
    return value if isinstance(value, type) else getattr(value, "dtype", value)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype that NumPy's promotion gives arrays, dtypes and (weak) Python scalars together.

    >>> import infinitensor as it
    >>> it.result_type(it.ones(3, dtype=it.float32), 1.5, it.int8)
    dtype('float32')
    """
    return dtypes.result_type(*map(_dtype_of, arrays_and_dtypes))


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """The smallest dtype that both can be cast to safely."""
    return dtypes.result_type(np.dtype(type1), np.dtype(type2))


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a cast keeps the casting rule; safe: no value changes.

    >>> import infinitensor as it
    >>> it.can_cast(it.int32, it.float64), it.can_cast(it.int64, it.int32)
    (True, False)
    """
    return dtypes.can_cast(_dtype_of(from_), to, casting)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind ("integral", "real floating" ...), or one of several.

    >>> import infinitensor as it
    >>> it.isdtype(it.uint8, ("unsigned integer", "bool"))
    True
    """
    named = (dtypes.bfloat16, dtypes.bfloat16.type)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if dtype in named:
        families = tuple(one for one in kinds if isinstance(one, str))
        return any(one in named for one in kinds) or np.isdtype(dtypes.float16, families)
    return np.isdtype(dtype, tuple(one for one in kinds if one not in named))


class FloatInfo:
    """NumPy's `finfo` of a dtype, its numbers as Python floats: they promote no tensor."""

    def __init__(self, info: Any) -> None:
        self._info = info

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._info, name)
        return float(value) if isinstance(value, np.floating | dtypes.bfloat16.type) else value

    def __repr__(self) -> str:
        return repr(self._info)


def finfo(dtype: Any) -> FloatInfo:
    """The limits of a floating-point dtype, or of the dtype of an array.

    >>> import infinitensor as it
    >>> it.finfo(it.float32).bits, it.finfo(it.ones(3)).eps
    (32, 2.220446049250313e-16)
    """
    return FloatInfo(dtypes.finfo(np.dtype(_dtype_of(dtype))))


def iinfo(int_type: Any) -> np.iinfo[Any]:
    """The limits of an integer dtype, or of the dtype of an array.

    >>> import infinitensor as it
    >>> it.iinfo(it.uint16).max
    65535
    """
    return np.iinfo(_dtype_of(int_type))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together.

    >>> import infinitensor as it
    >>> it.broadcast_shapes((5, 1), (3,))
    (5, 3)
    """
    return np.broadcast_shapes(*shapes)


def shape(a: Any) -> tuple[int, ...]:
    """The lengths of the axes of an array, a nested list or a scalar."""
    return tuple(a.shape) if hasattr(a, "shape") else np.shape(a)


def ndim(a: Any) -> int:
    """The number of axes of an array, a nested list or a scalar."""
    return len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    """The number of elements, in all or along axes.

    >>> import infinitensor as it
    >>> it.size(it.ones((2, 3))), it.size(it.ones((2, 3)), 1)
    (6, 3)
    """
    lengths = shape(a)
    axes = range(len(lengths)) if axis is None else normalize_axis_tuple(axis, len(lengths))
    return prod(lengths[i] for i in axes)


QUESTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        broadcast_shapes,
        can_cast,
        finfo,
        iinfo,
        isdtype,
        ndim,
        promote_types,
        result_type,
        shape,
        size,
    )
}
"""Functions of dtypes and shapes alone: they read no values and record nothing."""


# --- devices ----------------------------------------------------------------------------------


def default_device() -> str:
    """The kind of device that the current session runs on."""
    return current_session().engine.mesh.kind


def check_device(device: Any) -> None:
    """Refuse a device on which the current session has no tensors; None is any."""
    if device is not None and str(device) != default_device():
        raise ValueError(
            f"device {str(device)!r}: this session runs on {default_device()!r}; open another with "
            f"it.init({str(device)!r})"
        )


def check_like(like: Any) -> None:
    """Refuse a reference that is no array, as NumPy does; what is made is a tensor in any case."""
    if like is not None and not hasattr(like, "__array_function__"):
        raise TypeError(
            "The `like` argument must be an array-like that implements the `__array_function__` "
            "protocol."
        )


def check_copy(copy: Any) -> None:
    """Refuse a text, such as "always", which would be taken for True."""
    if isinstance(copy, str):
        raise ValueError(  # noqa: TRY004  # as NumPy does
            "strings are not allowed for 'copy' keyword. Use True/False/None instead."
        )


MADE_ON_A_DEVICE = (
    "arange",
    "empty",
    "empty_like",
    "eye",
    "fft.fftfreq",
    "fft.rfftfreq",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
)
"""The creation functions of the standard: they take `device=`."""


NAMES = ("__module__", "__name__", "__qualname__", "__doc__")
MADE_LIKE = ("arange", "empty", "eye", "fromfunction", "full", "identity", "ones", "tri", "zeros")
"""The creation functions that have `like=` in NumPy."""


def with_device(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a parameter `device`, which is checked; the session chooses places."""

    @functools.wraps(function)
    def wrapper(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        check_device(device)
        return function(*args, **kwargs)

    def by_position(n: Any, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
        check_device(device)
        return function(n, d, dtype=dtype)

    if not name.startswith("fft."):
        return _with_last(wrapper, function, "device")
    signature = inspect.signature(by_position)
    by_position.__signature__ = signature  # type: ignore[attr-defined]
    return functools.wraps(function, assigned=NAMES, updated=())(by_position)


def with_like(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a parameter `like`, which is checked."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if "like" in kwargs:
            check_like(kwargs.pop("like"))
        return function(*args, **kwargs)

    return _with_last(wrapper, function, "like")


def _with_last(wrapper: Any, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`wrapper` with the signature of a function and one more keyword."""
    signature = inspect.signature(function)
    last = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters = sorted((*signature.parameters.values(), last), key=lambda p: p.kind)
    wrapper.__signature__ = signature.replace(parameters=parameters)
    return wrapper  # type: ignore[no-any-return]


# --- the namespace ----------------------------------------------------------------------------


class NamespaceInfo:
    """The capabilities of this namespace, as the standard asks for them.

    >>> import infinitensor as it
    >>> it.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float64')
    """

    def capabilities(self) -> dict[str, bool | int | None]:
        """The capabilities that the standard leaves open."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MAX_AXES,
        }

    def default_device(self) -> str:
        """The kind of device that the current session runs on."""
        return default_device()

    def devices(self) -> list[str]:
        """The kinds of devices that tensors of the current session can be on."""
        return [default_device()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtype of each kind that is taken when none is given: NumPy's, on every device."""
        check_device(device)
        return {**np.__array_namespace_info__().default_dtypes()}  # type: ignore[dict-item]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes of a kind, or of several, by their names."""
        check_device(device)
        return dict(np.__array_namespace_info__().dtypes(kind=kind))


def __array_namespace_info__() -> NamespaceInfo:
    """The inspection functions of the standard."""
    return NamespaceInfo()


def check_version(api_version: str | None) -> None:
    """Refuse a version of the standard that we do not know."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"Array API {api_version!r}: the versions here are {', '.join(VERSIONS)}")
