"""The public functions by name, and what `Tensor` gets of them as operators and methods.

They are made from the op table, but for those that only change views or take values from outside.
"""

from __future__ import annotations

import functools
import inspect
import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.access import (
    getitem,
    inplace,
    memory_order,
    scalars,
)
from infinitensor.api.convert.asarray import array, asarray, astype, copy, from_dlpack
from infinitensor.api.convert.csr import csr
from infinitensor.api.functions.compute import compute
from infinitensor.api.functions.map_tiles import map_tiles
from infinitensor.api.functions.namespace import Namespace, namespace
from infinitensor.api.functions.op_function import public_function
from infinitensor.api.functions.options import numpys, with_options
from infinitensor.api.functions.other_functions import FUNCTIONS
from infinitensor.api.functions.ufunc import ufunc
from infinitensor.api.functions.view_functions import (
    VIEWS,
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    ravel,
    reshape,
)
from infinitensor.api.known.known_calls import fill, recorded
from infinitensor.api.known.ladder import ladder
from infinitensor.api.record.late import late
from infinitensor.api.session.array_api import (
    MADE_LIKE,
    MADE_ON_A_DEVICE,
    QUESTIONS,
    with_device,
    with_like,
)
from infinitensor.api.session.session import current_session
from infinitensor.api.small import (
    host_joins,
    numpy_table,
    small_calls,
    small_einsum,
    small_moves,
    small_transforms,
)
from infinitensor.api.tensor.tensor import Tensor
from infinitensor.dtypes import kind_of
from infinitensor.ops import TABLE
from infinitensor.ops.move import moved_rows

if TYPE_CHECKING:
    from collections.abc import Callable

MEMBERS: dict[str, Any] = {"linalg.LinAlgError": np.linalg.LinAlgError}
"""Names of submodules besides the functions of the table."""

HELPERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        array,
        asarray,
        astype,
        broadcast_arrays,
        broadcast_to,
        compute,
        copy,
        csr,
        expand_dims,
        from_dlpack,
        map_tiles,
        ravel,
        reshape,
    )
}


def fill_namespace() -> dict[str, Callable[..., Any]]:
    """Every function by its full name; the internal ones too are put on `namespace`."""
    found: dict[str, Callable[..., Any]] = {}
    for name, op in TABLE.items():
        found[name] = public_function(op)
    for name, other in FORWARDED.items():
        found[name].quick = found[other].quick  # type: ignore[attr-defined]
    for name in INDEXED:
        found[name] = _index_checked(found[name])
    for name in MADE_ON_A_DEVICE:
        found[name] = with_device(name, found[name])
    for name in (*memory_order.CREATIONS, *memory_order.LIKES):
        found[name] = memory_order.with_order(name, found[name])
    for name in MADE_LIKE:
        found[name] = with_like(found[name])
    found = {
        name: function if isinstance(function, ufunc) else with_options(name, function)
        for name, function in found.items()
    }
    for name, small in small_moves.AT_ONCE.items():
        found[name] = _small_first(found[name], small)
    for name, (like, fits) in numpy_table.NUMPYS_OWN.items():
        if not isinstance(found[name], ufunc):
            function = found[name]
            quick = getattr(function, "quick", None)
            if name in (*scalars.ARRAYS, *scalars.VALUES):  # NumPy's results are so already
                function = _given_as(name, function)
            found[name] = _named_as(function, ladder(like, fits, quick, function))
    for name, like in numpy_table.CREATIONS.items():
        found[name] = _small_first(found[name], _creation_way(like))
    for name, join in numpy_table.JOINS.items():
        function = _small_first(found[name], functools.partial(host_joins.join_now, join))
        in_c = small_calls.join_in_c(moved_rows.join, join is np.stack, function)
        found[name] = _named_as(function, in_c)
    for name, (like, size) in numpy_table.COUNTED.items():
        found[name] = _small_first(found[name], _numbers_way(like, size))
    for name, small in {**small_transforms.AT_ONCE, "einsum": small_einsum.einsum_now}.items():
        found[name] = _small_first(found[name], small)
    found.update(VIEWS)
    found.update(HELPERS)
    found.update(QUESTIONS)
    found.update({n: f for n, f in FUNCTIONS.items() if n not in found})
    for name in (*scalars.ARRAYS, *scalars.VALUES):
        if name not in numpy_table.NUMPYS_OWN:
            found[name] = _given_as(name, found[name])
    for name, function in found.items():
        if not hasattr(Namespace, name):  # `xp.block(n)` is the length of a block, not np.block
            setattr(namespace, name.replace(".", "_"), function)
        head, _, tail = name.partition(".")
        if tail:
            if head not in namespace.__dict__:
                setattr(namespace, head, _Sub())
            setattr(getattr(namespace, head), tail, function)
    return found


FORWARDED = {"where": "_where"}
"""Programs that are one call of an op, of the same arguments, wherever that op knows the call."""
INDEXED = ("take", "take_along_axis", "put")
"""Functions of an array and indices, in this order, whose indices are checked at the call."""


def _index_checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with indices that are known on the host checked at the call."""
    signature = inspect.signature(function)
    name = function.__name__
    fits = numpy_table.FEW_READ.get(name)
    like = numpy_table.NUMPYS_OWN[name][0] if fits else None

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 and type(args[1]) is Tensor:  # looked at where it is read
            few = small_calls.call_numpy(like, fits, args, kwargs) if like else None
            return function(*args, **kwargs) if few is None else few
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)
        given.apply_defaults()
        first, index = list(given.arguments.values())[:2]
        if not isinstance(index, Tensor) and given.arguments.get("mode", "raise") == "raise":
            shape = first.shape if isinstance(first, Tensor) else np.shape(first)
            axis = given.arguments.get("axis")
            along = index if axis is not None or not np.ndim(index) else np.reshape(index, -1)
            if axis is None:
                getitem.check_range(np.asarray(along), prod(shape), 0)
            elif -len(shape) <= axis < len(shape):
                at = axis % len(shape)
                beside = shape[:at] if function.__name__ == "take" else shape[:at] + shape[at + 1 :]
                if 0 not in beside:  # else nothing is taken, and NumPy looks at no index
                    getitem.check_range(np.asarray(along), shape[at], at)
        return function(*args, **kwargs)

    return _named_as(function, wrapper)


def _creation_way(like: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def small(args: Any, options: Any) -> Any:
        return small_calls.create_small(current_session(), like, *args, **options) if args else None

    return small


def _numbers_way(like: Callable[..., Any], size: Callable[..., int]) -> Callable[[Any, Any], Any]:
    return lambda args, options: small_calls.count_small(
        like, size, current_session(), args, options
    )


def _small_first(
    function: Callable[..., Any], small: Callable[[Any, Any], Tensor | None]
) -> Callable[..., Any]:
    """The function; of what is small another that takes its arguments, or answers None."""

    def first(*args: Any, **options: Any) -> Any:
        made = small(args, options)
        return function(*args, **options) if made is None else made

    return _named_as(function, first)


def _given_as(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with values, or arrays, for results without axes."""
    return function if name.startswith("_") else _named_as(function, scalars.giving(function, name))


def _named_as(function: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """Another function under the name of one."""
    other.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(other, name, getattr(function, name))
    return other


class _Sub:
    """A submodule of the namespace."""


PUBLIC = {name: function for name, function in fill_namespace().items() if not name.startswith("_")}
PUBLIC = {n: f for n, f in PUBLIC.items() if not n.rpartition(".")[2].startswith("_")}
PUBLIC |= {name: _given_as(name, PUBLIC[name]) for name in scalars.OUTSIDE}
late.public = PUBLIC


def _describe(name: str, function: Callable[..., Any]) -> None:
    """Let `help` say how NumPy's parameters are taken, and call an array one."""
    if numpys(name) is None or isinstance(function, type):
        return
    signature = inspect.signature(function)
    parameters = [
        p.replace(annotation="ArrayLike") if p.annotation == "Spec" else p
        for p in signature.parameters.values()
    ]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    if isinstance(function, ufunc):
        return
    more = f"Takes what `numpy.{name}` takes, and means the same by it."
    function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{more}"


for _name, _function in PUBLIC.items():
    _describe(_name, _function)


# --- operators and methods --------------------------------------------------------------------

BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "matmul": "matmul",
}
COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "bitwise_not"}


def _equip() -> None:
    """Give Tensor its operators and methods."""
    for short, name in BINARY.items():
        function = getattr(namespace, name)
        setattr(Tensor, f"__{short}__", _operator(function, short))
        setattr(Tensor, f"__r{short}__", _operator(function, short, is_reflected=True))
        setattr(Tensor, f"__i{short}__", _inplace(name, short))
    for short, name in COMPARE.items():
        method = _operator(getattr(namespace, name), short)
        setattr(Tensor, f"__{short}__", _of_no_number(method, short) if short in "eqne" else method)
    for short, name in UNARY.items():
        function = getattr(namespace, name)
        setattr(Tensor, f"__{short}__", lambda self, function=function: function(self))
    power = getattr(namespace, "power")  # noqa: B009 - set by name
    operators: Any = Tensor
    operators.__pow__ = lambda self, other: _power(power, self, other)
    operators.__divmod__ = lambda self, other: (self // other, self % other)
    operators.__rdivmod__ = lambda self, other: (other // self, other % self)
    for name, op in TABLE.items():
        if op.method and name not in Tensor.__dict__:
            setattr(Tensor, name, _method(getattr(namespace, name)))


def _power(power: Callable[..., Any], base: Tensor, exponent: Any) -> Any:
    """As NumPy's operator: a square or a root where the exponent says so."""
    kind, is_inexact = type(exponent), kind_of(base.dtype) in "fc"
    is_truth = base._is_value and base.dtype == np.bool_  # to the power of 2 it is an integer
    if (kind is int or (kind is float and is_inexact)) and exponent == 2 and not is_truth:
        return namespace.square(base)
    if _is_root(base, exponent):
        return namespace.sqrt(base)
    return power(base, exponent) if _is_known(exponent) else NotImplemented


def _is_root(base: Tensor, exponent: Any) -> bool:
    """Whether NumPy takes the root for `base ** exponent`: NaN for -infinity, unlike powers."""
    if type(exponent) is float:
        return exponent == 0.5 and kind_of(base.dtype) in "fc"
    is_one = isinstance(exponent, np.floating | np.ndarray) and exponent.ndim == 0
    return is_one and exponent.dtype == base.dtype and bool(exponent == 0.5)


def _is_repeated(number: Tensor, other: Any) -> bool:
    """Whether `number * other` is other again and again: a list beside a value, as in NumPy."""
    return number._is_value and isinstance(other, list | tuple | str | bytes | bytearray)


def _is_known(other: Any) -> bool:
    return isinstance(
        other, Tensor | np.ndarray | np.generic | bool | int | float | complex | list | tuple
    )


def _operator(function: ufunc, short: str, is_reflected: bool = False) -> Callable[..., Any]:
    """An operator: it asks as its ufunc does, but leaves to others what it does not know."""

    def record(a: Any, b: Any) -> Any:
        number, other = (b, a) if is_reflected else (a, b)
        if not _is_known(other) or (short == "mul" and _is_repeated(number, other)):
            return NotImplemented
        return function._record(a, b)

    call = ladder(*function._numpys_own(), function._quick, record)
    method = (lambda self, other: call(other, self)) if is_reflected else call
    method.__doc__ = function.__doc__
    return method


def _of_no_number(method: Callable[..., Any], short: str) -> Callable[..., Any]:
    """`==` and `!=`; what is no number, and has nothing to say about it, is equal to none."""

    def wrapper(self: Tensor, other: Any) -> Any:
        found = method(self, other)
        if found is NotImplemented and type(other).__eq__ in _PLAIN_EQUALITIES:
            return namespace.full(self.shape, short == "ne")
        return found

    wrapper.__doc__ = method.__doc__
    return wrapper


_PLAIN_EQUALITIES = (object.__eq__, str.__eq__, bytes.__eq__, type(None).__eq__)


def _inplace(name: str, short: str) -> Callable[..., Any]:
    like = None if name == "matmul" else getattr(np, name)
    by = getattr(operator, f"__{short}__")

    def method(self: Tensor, other: Any) -> Any:
        if self._is_value:
            return by(self, other)  # as NumPy's scalars: the name gets a new one
        made = None
        if like is not None and not (short == "pow" and _is_root(self, other)):
            made = small_calls.change_in_place(self, like, other)
        if made is not None:
            return made
        return inplace.in_place(self, name, other) if _is_known(other) else NotImplemented

    return method


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(type(function), "__get__"):
        return function  # it binds by itself

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = function.__name__
    method.__doc__ = function.__doc__
    return method


_equip()

_quicks = [getattr(namespace, BINARY[short])._quick for short in (*small_calls.IN_C, "matmul")]
_quicks += [getattr(namespace, COMPARE[short])._quick for short in small_calls.COMPARED]
small_calls.in_c(Tensor, tuple(_quicks), recorded, fill)
