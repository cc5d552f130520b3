"""`out`, `where` and `initial` for the functions that have them in NumPy, where NumPy has them.

Which functions those are, and at which place `out` may be given by position, NumPy's own
signatures say. Ufuncs take their options themselves.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitensor.api import assign
from infinitensor.api.assign import call_op, named
from infinitensor.api.tensor import Tensor, session_of
from infinitensor.api.ufunc import mask_of, single_target, stored
from infinitensor.ops.fold import REDUCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

REDUCING = {reduction: ufunc for ufunc, reduction in REDUCTIONS.items()}
REDUCING |= {"amax": "maximum", "amin": "minimum"}
"""Reductions that a ufunc's `reduce` is, with `initial` and `where`."""

MOMENTS = ("mean", "var", "std")
"""Reductions that take `where`, and no `initial`."""

CASTING = {
    **dict.fromkeys((*REDUCING, *MOMENTS, "cumsum", "cumprod", "trace", "take"), "unsafe"),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod", "compress", "choose"), "unsafe"),
    **dict.fromkeys(("argmin", "argmax", "einsum"), "safe"),
    "dot": "no",
}
"""How a result may be cast into `out`; "same_kind" where nothing is said."""


def numpys(name: str) -> Any:
    """NumPy's function of a public name, or None."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def with_options(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the options that NumPy's function of this name has besides."""
    try:
        theirs = inspect.signature(numpys(name)).parameters
    except (TypeError, ValueError):  # no such function, or one that does not say
        return function
    ours = inspect.signature(function)
    masks = name in REDUCING or name in MOMENTS
    added = [
        option
        for option in ("out", *(("initial", "where") if masks else ()))
        if option in theirs and option not in ours.parameters
    ]
    if not added:
        return function
    public = _extended(ours, theirs, added)
    names = list(public.parameters)
    n_plain = min(names.index(option) for option in added)
    if public.parameters[names[n_plain]].kind is inspect.Parameter.KEYWORD_ONLY:
        n_plain = len(names) + 64  # after *operands: none comes by position

    def called(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= n_plain and (not kwargs or kwargs.keys().isdisjoint(added)):
            return function(*args, **kwargs)
        try:
            bound = public.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        given = {option: bound.arguments.pop(option, None) for option in added}
        out = single_target(given.pop("out", None))
        with session_of((*args, *kwargs.values())).guard():
            plain = inspect.BoundArguments(ours, bound.arguments)
            if any(value is not None and value is not True for value in given.values()):
                found = _counted(name, plain.arguments, **given)
            else:
                found = function(*plain.args, **plain.kwargs)
            return found if out is None else _into(name, found, out)

    called.__signature__ = public  # type: ignore[attr-defined]
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(called, attribute, getattr(function, attribute))
    return called


def _extended(ours: inspect.Signature, theirs: Any, added: list[str]) -> inspect.Signature:
    """Our signature with NumPy's options, each behind the parameter it follows in NumPy's."""
    parameters = dict(ours.parameters)
    order = list(theirs)
    for option in added:
        before = [name for name in order[: order.index(option)] if name in parameters]
        names = list(parameters)
        at = names.index(before[-1]) + 1 if before else len(names)
        default = True if option == "where" else None
        new = theirs[option].replace(default=default, annotation=inspect.Parameter.empty)
        if before and parameters[before[-1]].kind > new.kind:
            new = new.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        names.insert(at, option)
        parameters = {name: parameters.get(name, new) for name in names}
    ranked = sorted(parameters.values(), key=lambda p: (p.kind, p.default is not p.empty))
    return inspect.Signature(ranked)


def _into(name: str, found: Any, out: Tensor) -> Tensor:
    """Write what a function made into `out`, which must have exactly its shape."""
    casting = CASTING.get(name, "same_kind")
    fits = np.can_cast(found.dtype, out.dtype, casting)  # type: ignore[arg-type]
    if found.shape != out.shape or (casting == "no" and not fits):
        raise ValueError(
            f"{name}: output array is not acceptable: out has shape {out.shape} and dtype "
            f"{out.dtype}, the result {found.shape} and {found.dtype}"
        )
    if not fits:
        raise TypeError(
            f"{name}: Cannot cast output from {found.dtype!r} to {out.dtype!r} "
            f"according to the rule {casting!r}"
        )
    return stored(found, out, None, "unsafe")


def _counted(name: str, given: dict[str, Any], initial: Any = None, where: Any = True) -> Any:
    """A reduction of the values where a mask is True, from a start on."""
    a = given.pop("a")
    if name in REDUCING:
        axis = given.pop("axis", None)
        return named(REDUCING[name]).reduce(a, axis, initial=initial, where=where, **given)
    return _moment(name, call_op("asarray", a), mask_of(where), **given)


def _moment(
    name: str,
    a: Tensor,
    where: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    """Mean, variance or deviation of the values where a mask is True."""
    mask = call_op("broadcast_to", where, a.shape)
    kind = call_op(name, a[(slice(0, 1),) * a.ndim], dtype=dtype).dtype
    n = call_op("count_nonzero", mask, axis=axis, keepdims=True)
    kept = a.astype(kind, copy=False) if kind.kind == "c" or a.dtype.kind != "c" else a
    mean = call_op("divide", _total(kept, mask, axis), n)
    if name == "mean":
        found = mean
    else:
        away = call_op("subtract", kept, mean)
        square = call_op("square", call_op("absolute", away))
        left = call_op("maximum", n - (ddof if correction is None else correction), 0)
        found = call_op("divide", _total(square, mask, axis), left)
    found = call_op("sqrt", found) if name == "std" else found
    found = assign.cast(found, kind, False, "unsafe")
    if keepdims:
        return found
    whole = axis is None
    axes = tuple(range(a.ndim)) if whole else axis
    return found.squeeze(axes) if a.ndim else found


def _total(x: Tensor, mask: Tensor, axis: Any) -> Any:
    return call_op("sum", call_op("_where", mask, x, x.dtype.type(0)), axis=axis, keepdims=True)
