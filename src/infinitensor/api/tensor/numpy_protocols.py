"""NumPy's functions called on tensors: ours of the same name runs, or an error says what to do.

Nothing here copies a tensor to the host behind the user's back.
"""

from __future__ import annotations

import functools
import inspect
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api.record.late import late
from infinitensor.api.session.cell import BaseTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MIXES = (BaseTensor, np.ndarray, np.generic, bool, int, float, complex, list, tuple)
"""Types that may stand beside a tensor in a call."""
EQUALITIES = (np.equal, np.not_equal)
"""Here None may stand beside a tensor too: no number equals it."""
CHANGES = frozenset((np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask))
"""NumPy's functions that change their first argument."""
LOOKS: tuple[Any, ...] = (np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj)
"""NumPy's functions that look at attributes, never at values: they take tensors as they are."""


@functools.cache
def counterparts() -> dict[Any, Callable[..., Any]]:
    """Our function for each of NumPy's, by its name; so the other names of a ufunc are found."""
    found = {}
    for name, function in late.public.items():
        try:
            theirs = operator.attrgetter(name)(np)
        except AttributeError:  # only ours has this name
            continue
        if theirs not in found or name.endswith(theirs.__name__):
            found[theirs] = function
    hidden = operator.attrgetter("_core.umath.clip")(np)  # ndarray.clip with a bound that is ours
    found[hidden] = late.public["clip"]
    return {look: look.__wrapped__ for look in LOOKS} | found


def counterpart(function: Any, name: str) -> Callable[..., Any]:
    """Our function for one of NumPy's; a TypeError that says what to do if there is none."""
    found = counterparts().get(function)
    if found is None:
        raise TypeError(
            f"{name} does not run on tensors, and tensors are not copied to the host behind your "
            f"back. Call it on NumPy arrays ({name}(np.asarray(x), ...)), tile by tile "
            "(it.map_tiles), or write it with the functions of infinitensor"
        )
    return found


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], given: Any) -> Any:
    """`np.add(x, y)`, `np.add.reduce(x)` and so on, where an operand or `out` is a tensor."""
    if not isinstance(ufunc, np.ufunc):
        raise TypeError(f"__array_ufunc__: a ufunc, its method and operands, not {ufunc!r}")
    outs = given.pop("out", ())
    if ufunc not in EQUALITIES and any(value is None for value in inputs):
        return NotImplemented
    if not all(value is None or isinstance(value, MIXES) or np.isscalar(value) for value in inputs):
        return NotImplemented  # the other operand knows us, or nobody does
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:  # else it is SciPy's, or the user's own
        name = f"np.{name}"
    if not all(out is None or isinstance(out, BaseTensor | np.ndarray) for out in outs):
        return NotImplemented
    if outs:
        given["out"] = outs[0] if len(outs) == 1 else outs
    function = counterpart(ufunc, name)
    if method != "__call__":
        bound = getattr(function, method, None)
        if bound is None:
            raise TypeError(
                f"{name}.{method} does not run on tensors; call it on NumPy arrays: "
                f"{name}.{method}(np.asarray(x), ...)"
            )
        function = bound
    if method == "at" and isinstance(inputs[0], np.ndarray):
        return _written_back(function, inputs, given)
    return function(*inputs, **given)


def _written_back(function: Callable[..., Any], args: tuple[Any, ...], given: Any) -> Any:
    """A function that changes its first argument, of an array of NumPy's."""
    changed: Any = counterparts()[np.asarray](args[0])
    found = function(changed, *args[1:], **given)
    changed._session.counts["host_arrays"] += 1
    args[0][...] = changed.numpy()
    return found


def array_function(function: Any, types: Iterable[type], args: Any, given: Any) -> Any:
    """`np.concatenate([x, y])`, `np.linalg.qr(x)` and so on, where an argument is a tensor."""
    if not all(issubclass(kind, BaseTensor | np.ndarray) for kind in types):
        return NotImplemented
    given = dict(given)
    module = getattr(function, "__module__", "numpy").replace("numpy", "np", 1)
    name = f"{module}.{getattr(function, '__name__', function)}"
    ours = counterpart(function, name)
    if given.get("order") in ("C", "A", "K") and "order" not in inspect.signature(ours).parameters:
        del given["order"]  # tensors are in C order: NumPy gives this with every `like=`
    if function in CHANGES and args and isinstance(args[0], np.ndarray):
        return _written_back(ours, args, given)
    return ours(*args, **given)
