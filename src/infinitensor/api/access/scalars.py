"""Scalars are values: which results NumPy gives as scalars, and what such tensors can do.

A value is a tensor without axes that nobody can write to: an in-place operator makes a new one, and
it can be looked up, rounded and repeated as a number. It is as lazy as any other tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infinitensor.api.access.copies import copy_tensor
from infinitensor.api.record.late import call_op, is_tensor
from infinitensor.dtypes import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from infinitensor.api.session.cell import AnyTensor, BaseTensor
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
"""Functions whose result is an array even without axes; other results are scalars then."""
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
"""Functions that make an array of a value. Only of the user's: inside a value is as good."""


def gives_values(op: Op) -> bool:
    """Whether results of an op without axes are values, as what NumPy computes is by default."""
    return op.kind != "creation" and op.name not in ARRAYS


def as_value(made: AnyTensor) -> AnyTensor:
    """A tensor that nobody else has, as a value if it has no axes."""
    if not made._shape:
        made._is_value = True
    return made


def become_array(value: BaseTensor) -> None:
    """Let a value be an array from now on, with memory of its own."""
    array = copy_tensor(value)
    value._cell, value._lazy_view = array._cell, None
    value._owner = value._seen = value._seen_of = None
    value._is_value = False


def giving(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function of a name, with what NumPy gives for results without axes."""
    always, is_rank = name in VALUES, name in RANKS

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if is_tensor(made) and made._shape:
            return made
        is_value = always and not (is_rank and kwargs.get("keepdims"))
        if type(made) is tuple:
            return tuple([_own_result(one, is_value, args, kwargs) for one in made])
        return _own_result(made, is_value, args, kwargs)

    return wrapper


def _own_result(made: Any, is_value: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One result; of what was an argument, or is a view of one, a copy. An `out` stays as it is."""
    if not is_tensor(made) or made._shape or made._is_value is is_value:
        return made
    if made is kwargs.get("out"):
        return made
    if any(is_tensor(x) and x._cell is made._cell for x in args):
        frozen, made = made._frozen, copy_tensor(made)
        made._frozen = frozen
    made._is_value = is_value
    return made


class Number:
    """Attributes of NumPy's scalars that arrays lack. Of tensors only values have them."""

    __slots__ = ()

    if TYPE_CHECKING:
        _is_value: bool
        _dtype: Any

        def _scalar(self, what: str) -> Any: ...

    def _check(self, name: str, kinds: str, error: type[Exception] = AttributeError) -> None:
        if not self._is_value or kind_of(self._dtype) not in kinds:
            what = f"has dtype {self._dtype}" if self._is_value else "is an array"
            raise error(f"a Tensor that {what} has no {name}")

    def __round__(self, ndigits: int | None = None) -> Any:
        self._check("__round__", "iuf", TypeError)
        rounded = call_op("round", self, 0 if ndigits is None else ndigits)
        return int(rounded) if ndigits is None else rounded

    def __trunc__(self) -> int:
        self._check("__trunc__", "iuf", TypeError)
        return int(self._scalar("trunc"))

    def is_integer(self) -> bool:
        """Whether a value is a whole number."""
        self._check("is_integer", "iuf")
        return float(self._scalar("float")).is_integer()

    def as_integer_ratio(self) -> tuple[int, int]:
        """Two integers whose ratio a value is."""
        self._check("as_integer_ratio", "f")
        return float(self._scalar("float")).as_integer_ratio()

    def bit_count(self) -> int:
        """The number of ones in the binary form of the absolute value of an integer."""
        self._check("bit_count", "iu")
        return int(self._scalar("int")).bit_count()

    @property
    def numerator(self) -> Any:
        """An integer is its own numerator."""
        self._check("numerator", "iu")
        return self

    @property
    def denominator(self) -> int:
        """The denominator of an integer: 1."""
        self._check("denominator", "iu")
        return 1
