"""Scalars are values: which results NumPy gives as scalars, and what such tensors can do.

A value is a tensor without axes that nobody can write to: an in-place operator makes a new one, and
it can be looked up, rounded and repeated as a number. It is as lazy as any other tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.api.copying import copied
from infinitensor.api.forward import call_op, is_tensor
from infinitensor.dtypes import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.tensor import Tensor
    from infinitensor.ir.op import Op

ARRAYS = (
    *(
        "_where",
        "_write",
        "block",
        "cross",
        "fft.fft2",
        "fft.fftn",
        "fft.ifft2",
        "fft.ifftn",
        "i0",
        "isin",
    ),
    *("linalg.tensordot", "pad", "polyint", "real_if_close", "tensordot", "tile", "where"),
)
"""What NumPy gives as an array even where it has no axes; other results are scalars then."""
RANKS = ("median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile")
"""Functions of an order: NumPy gives them as scalars, but as arrays with `keepdims`."""
VALUES = (
    *("choose", "count_nonzero", "dot", "einsum", "flip", "lexsort", "linalg.cond"),
    *("linalg.matrix_rank", "nan_to_num", "nanmax", "nanmin", "nanvar", *RANKS),
)
"""Programs over views and arrays whose results NumPy gives as scalars."""
OUTSIDE = (
    *("array", "asanyarray", "asarray", "asarray_chkfinite", "broadcast_arrays", "broadcast_to"),
    *("copy", "expand_dims", "lib.stride_tricks.sliding_window_view", "require"),
)
"""What makes an array of a value. Only of the user's: inside a value is as good."""


def gives_values(op: Op) -> bool:
    """Whether results of an op without axes are values, as what NumPy computes is by default."""
    return op.kind != "creation" and op.name not in ARRAYS


def as_value(made: Tensor) -> Tensor:
    """A tensor that nobody else has, as a value if it has no axes."""
    if not made._shape:
        made._is_value = True
    return made


def giving(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function of a name, with what NumPy gives for results without axes."""
    always, is_rank = name in VALUES, name in RANKS

    def given(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if is_tensor(made) and made._shape:
            return made
        is_value = always and not (is_rank and kwargs.get("keepdims"))
        if type(made) is tuple:
            return tuple([_given(one, is_value, args, kwargs) for one in made])
        return _given(made, is_value, args, kwargs)

    return given


def _given(made: Any, is_value: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One result; of what was an argument, or is a view of one, a copy. An `out` stays as it is."""
    if not is_tensor(made) or made._shape or made._is_value is is_value:
        return made
    if made is kwargs.get("out"):
        return made
    if any(is_tensor(x) and x._cell is made._cell for x in args):
        frozen, made = made._frozen, copied(made)
        made._frozen = frozen
    made._is_value = is_value
    return made


class _OfValues:
    """A method or property that only values of some kinds have: others raise AttributeError."""

    def __init__(self, kinds: str, function: Callable[..., Any], is_property: bool) -> None:
        self._kinds = kinds
        self._function = function
        self._is_property = is_property
        self.__doc__ = function.__doc__

    def __get__(self, number: Any, owner: Any = None) -> Any:
        if number is None:
            return self
        if not number._is_value or kind_of(number._dtype) not in self._kinds:
            raise AttributeError(self._function.__name__)
        return self._function(number) if self._is_property else self._function.__get__(number)


def _of_values(kinds: str, is_property: bool = False) -> Callable[[Callable[..., Any]], Any]:
    return lambda function: _OfValues(kinds, function, is_property)


class Number:
    """What NumPy's scalars have beside what arrays have. Of tensors only values have it."""

    __slots__ = ()

    if TYPE_CHECKING:
        _is_value: bool
        _dtype: Any

        def _scalar(self, what: str) -> Any: ...

    def _check_is_real(self, name: str) -> None:
        if not self._is_value or kind_of(self._dtype) not in "iuf":
            what = "is an array" if not self._is_value else f"has dtype {self._dtype}"
            raise TypeError(f"a Tensor that {what} doesn't define {name} method")

    def __round__(self, ndigits: int | None = None) -> Any:
        self._check_is_real("__round__")
        rounded = call_op("round", self, 0 if ndigits is None else ndigits)
        return int(rounded) if ndigits is None else rounded

    def __trunc__(self) -> int:
        self._check_is_real("__trunc__")
        return int(self._scalar("trunc"))

    @_of_values("iuf")
    def is_integer(self) -> bool:
        """Whether it is a whole number."""
        return bool(float(self._scalar("float")).is_integer())

    @_of_values("f")
    def as_integer_ratio(self) -> tuple[int, int]:
        """Two integers whose ratio it is."""
        return float(self._scalar("float")).as_integer_ratio()

    @_of_values("iu")
    def bit_count(self) -> int:
        """The number of ones in the binary form of its absolute value."""
        return int(self._scalar("int")).bit_count()

    @_of_values("iu", is_property=True)
    def numerator(self) -> Any:
        """An integer is its own numerator."""
        return self

    @_of_values("iu", is_property=True)
    def denominator(self) -> int:
        """Of an integer: 1."""
        return 1
