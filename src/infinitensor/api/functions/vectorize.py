"""A user's function of scalars, called for every element on the host, and counted there."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitensor.api.record.late import call_op
from infinitensor.api.tensor.tensor import Tensor, session_of
from infinitensor.dtypes import bfloat16


def _on_host(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's form of a function on the values of tensors; the results are tensors again."""
    session = session_of((*args, *kwargs.values()))
    if any(getattr(a, "dtype", None) == bfloat16 for a in (*args, *kwargs.values())):
        raise TypeError("no Python function of bfloat16 scalars: give x.astype('f4')")
    session.counts["host_fallbacks"] += 1
    plain = [a.numpy() if isinstance(a, Tensor) else a for a in args]
    named = {k: v.numpy() if isinstance(v, Tensor) else v for k, v in kwargs.items()}
    made = function(*plain, **named)
    if isinstance(made, tuple):
        return tuple(_as_tensor(one) for one in made)
    return _as_tensor(made)


def _as_tensor(values: Any) -> Tensor:
    array = np.asarray(values)
    if array.dtype == object:  # `frompyfunc` makes objects; numbers among them are numbers
        array = np.array(array.tolist())
    return call_op("asarray", array)  # type: ignore[no-any-return]


class vectorize:
    """A Python function of numbers as a function of arrays: called for each element, on the host.

    For convenience, not for speed: all values come to the host, counted in
    `stats()["host_fallbacks"]`. A formula over tensors, or `it.map_tiles`, stays on the devices.

    >>> import infinitensor as it
    >>> clipped = it.vectorize(lambda a, b: a if a < b else b)
    >>> clipped(it.asarray([1, 5]), 3).tolist()
    [1, 3]
    """

    def __init__(
        self,
        pyfunc: Any = None,
        otypes: Any = None,
        doc: str | None = None,
        excluded: Any = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self._options = (otypes, doc, excluded, cache, signature)
        self.pyfunc = pyfunc
        if pyfunc is not None:
            self._function = np.vectorize(pyfunc, *self._options)
            self.__doc__ = self._function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function for each element; without a function so far, a decorator."""
        if self.pyfunc is None:
            return vectorize(args[0], *self._options)
        return _on_host(self._function, args, kwargs)


def frompyfunc(func: Any, /, nin: int, nout: int, *, identity: Any = None) -> Any:
    """A Python function of `nin` numbers with `nout` results as a function of arrays.

    Called for each element, on the host, as `vectorize` is; NumPy's gives objects, ours numbers.

    >>> import infinitensor as it
    >>> it.frompyfunc(lambda a: 2 * a, 1, 1)(it.asarray([1, 5])).tolist()
    [2, 10]
    """
    hosted = np.frompyfunc(func, nin, nout, identity=identity)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _on_host(hosted, args, kwargs)

    wrapper.__name__ = wrapper.__qualname__ = getattr(func, "__name__", "called")
    wrapper.__doc__ = getattr(func, "__doc__", None)
    return wrapper
